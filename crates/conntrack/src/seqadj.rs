// SPDX-License-Identifier: Apache-2.0

//! Sequence numbers that shift where text was rewritten (`nf_conntrack_seqadj.c`).

use crate::conntrack::Conntrack;
use crate::entry::NONE;
use crate::{Direction, status};
use penstock_packet::Packet;
use penstock_wire::checksum;
use penstock_wire::tcp::{self, flag, option};

/// Shift of the sequence numbers of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeqAdjust {
    /// Sequence number from which on [`SeqAdjust::after`] holds.
    pub position: u32,
    /// Shift before it.
    pub before: i32,
    /// Shift from it on.
    pub after: i32,
}

impl SeqAdjust {
    /// The shift that holds at a sequence number.
    pub fn at(&self, seq: u32) -> i32 {
        if (seq.wrapping_sub(self.position) as i32) > 0 { self.after } else { self.before }
    }
}

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
        self.note(n, crate::events::event::SEQADJ);
        self.store[n].status |= status::SEQ_ADJUST;
    }

    /// Shifts sequence and acknowledgement numbers of a segment by what was rewritten in its
    /// connection (`nf_ct_seq_adjust()`). `false` if the header is cut.
    pub(crate) fn adjust_packet(&self, packet: &mut Packet, n: u32, transport: usize) -> bool {
        let direction =
            if packet.meta.ct.info.is_reply() { Direction::Reply } else { Direction::Original };
        let Some(pairs) = self.extra(n).and_then(|x| x.seqadj.as_deref()) else { return true };
        let (this, other) = (pairs[direction as usize], pairs[direction.opposite() as usize]);
        let Some(bytes) = packet.network_mut().get_mut(transport..) else { return false };
        let Some(h) = tcp::Header::new(bytes) else { return false };
        let (seq, ack, header_len) = (h.seq(), h.ack_seq(), h.header_len());
        let mut check = h.checksum();
        let acknowledges = h.flags() & flag::ACK != 0;
        let new_seq = seq.wrapping_add(this.at(seq) as u32);
        let mut words = vec![];
        words.push((4, seq, new_seq));
        if acknowledges {
            // The position is where the text was before it was rewritten; the acknowledgement is of
            // what came out.
            let shift = if (ack.wrapping_sub(other.before as u32).wrapping_sub(other.position)
                as i32)
                > 0
            {
                other.after
            } else {
                other.before
            };
            words.push((8, ack, ack.wrapping_sub(shift as u32)));
            if header_len > bytes.len() {
                return false;
            }
            for o in tcp::options(&bytes[..header_len]) {
                if o.kind != option::SACK || o.len < 10 || o.offset + o.len > header_len {
                    continue;
                }
                for edge in (o.offset + 2..o.offset + o.len - 3).step_by(4) {
                    let Some(old) = bytes.get(edge..edge + 4).and_then(|b| b.first_chunk()) else {
                        continue;
                    };
                    let old = u32::from_be_bytes(*old);
                    let shift = if (old
                        .wrapping_sub(other.before as u32)
                        .wrapping_sub(other.position) as i32)
                        > 0
                    {
                        other.after
                    } else {
                        other.before
                    };
                    words.push((edge, old, old.wrapping_sub(shift as u32)));
                }
            }
        }
        for (at, old, new) in words {
            // An edge at an odd place lies in two words of the sum, bytes swapped.
            let (a, b) =
                if at % 2 == 0 { (old, new) } else { (old.rotate_left(8), new.rotate_left(8)) };
            check = checksum::replace4(check, a, b);
            bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
        }
        if let Some(mut h) = tcp::HeaderMut::new(bytes) {
            h.set_checksum(check);
        }
        true
    }
}
