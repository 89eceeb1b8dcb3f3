// SPDX-License-Identifier: Apache-2.0

//! By how much sequence numbers of connections are shifted (`nf_conntrack_seqadj.c`).

use super::Conntrack;
use super::entry::NONE;
use crate::seqadj::SeqAdjust;
use crate::{Direction, event, status};

impl Conntrack {
    /// By how much sequence numbers of a direction are shifted at `seq` (`nf_ct_seq_offset()`), as
    /// a number to add with wrap-around.
    #[inline]
    pub fn sequence_offset(&self, n: u32, direction: Direction, seq: u32) -> u32 {
        if self.store[n].extra == NONE {
            return 0;
        }
        match self.extra(n).and_then(|x| x.seqadj.as_ref()) {
            Some(pairs) => pairs[direction as usize].at(seq) as u32,
            None => 0,
        }
    }

    /// The shifts of both directions, if there are any.
    pub fn sequence_adjustments(&self, n: u32) -> Option<&[SeqAdjust; 2]> {
        self.extra(n)?.seqadj.as_deref()
    }

    /// Makes room for shifts that do not shift yet, and begins to adjust (`nf_ct_seqadj_init()`).
    pub fn init_sequence(&mut self, n: u32, direction: Direction, shift: i32) {
        let position = 0;
        let pairs = self.extra_mut(n).seqadj.get_or_insert_default();
        pairs[direction as usize] = SeqAdjust { position, before: shift, after: shift };
        self.note(n, event::SEQADJ);
        self.store[n].status |= status::SEQ_ADJUST;
    }

    /// Sets the shift of a direction, 0 for the original one, and begins to adjust.
    pub(crate) fn put_sequence(&mut self, n: u32, direction: usize, shift: SeqAdjust) {
        let pairs = self.extra_mut(n).seqadj.get_or_insert_default();
        if let Some(pair) = pairs.get_mut(direction) {
            *pair = shift;
        }
        self.store[n].status |= status::SEQ_ADJUST;
    }

    /// Notes that from `seq` on, which is before the shift, `shift` more bytes are in the stream of
    /// a direction (`nf_ct_seqadj_set()`). Text further back in the stream is not noted.
    pub fn shift_sequence(&mut self, n: u32, direction: Direction, seq: u32, shift: i32) {
        if shift == 0 {
            return;
        }
        let pairs = self.extra_mut(n).seqadj.get_or_insert_default();
        let this = &mut pairs[direction as usize];
        if this.before == this.after || (this.position.wrapping_sub(seq) as i32) < 0 {
            this.position = seq;
            this.before = this.after;
            this.after = this.after.wrapping_add(shift);
        }
        self.store[n].status |= status::SEQ_ADJUST;
    }
}
