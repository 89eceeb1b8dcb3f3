// SPDX-License-Identifier: Apache-2.0

//! Looking ahead in a burst: while some frames are worked on, the headers of later ones are read,
//! and the memory that their look-up will need is fetched.

use penstock_conntrack::{Conntrack, TupleLookup};
use penstock_jit::Head;
use penstock_packet::{Frame, prefetch};
use penstock_wire::{ethernet, vlan};

use crate::pending_frames::BURST;
use crate::straight::{Foresight, Road, Usual};

/// What is known of the frames of a burst, as far as they were looked at; reused.
#[derive(Debug)]
pub(crate) struct Ahead {
    sought: [Option<TupleLookup>; BURST],
    usual: [Option<Usual>; BURST],
    /// Frames whose headers were read.
    read: usize,
    /// Frames whose entries were asked for.
    fetched: usize,
    /// The turn at which there is something to do again.
    due: usize,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead { sought: [None; BURST], usual: [None; BURST], read: 0, fetched: 0, due: 0 }
    }
}

/// What follows the link header of a frame, past one tag.
fn network(bytes: &[u8]) -> &[u8] {
    let kind = |at: usize| bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let (mut at, mut ethertype) = (ethernet::LEN, kind(ethernet::LEN - 2));
    if vlan::is_tag(ethertype) {
        (at, ethertype) = (at + vlan::LEN, kind(at + 2));
    }
    match ethertype {
        ethernet::IPV4 | ethernet::IPV6 => bytes.get(at..).unwrap_or(&[]),
        _ => &[],
    }
}

impl Ahead {
    /// Frames that are looked at together.
    const STEP: usize = 8;

    /// Another burst begins.
    pub(crate) fn begin(&mut self) {
        (self.read, self.fetched, self.due) = (0, 0, 0);
    }

    /// It is the turn of frame number `turn`. `road` is where frames of one device may go straight;
    /// connections are only sought if there is tracking.
    #[inline]
    pub(crate) fn reach(
        &mut self,
        turn: usize,
        frames: &[Frame<'_>],
        road: Option<&Road<'_>>,
        conntrack: Option<&Conntrack>,
    ) {
        if turn >= self.due {
            self.look(turn, frames, road, conntrack);
        }
    }

    fn look(
        &mut self,
        turn: usize,
        frames: &[Frame<'_>],
        road: Option<&Road<'_>>,
        conntrack: Option<&Conntrack>,
    ) {
        let all = frames.len().min(BURST);
        let (near, far) = ((turn + Self::STEP).min(all), (turn + 2 * Self::STEP).min(all));
        let first = if self.read == 0 { turn } else { far };
        for later in frames.iter().take(far + Self::STEP).skip(first) {
            later.bytes.first().map(prefetch);
        }
        const NOTHING: &Head = &[0; size_of::<Head>()];
        let mut heads = [NOTHING; 2 * Self::STEP];
        // Those before this turn are done with.
        let these = self.read.max(turn)..far;
        for (at, head) in these.clone().zip(&mut heads) {
            let Some(frame) = frames.get(at) else { break };
            self.usual[at] = road.and_then(|road| Usual::read(frame, road, head));
            if let Some(table) = conntrack {
                self.sought[at] = match (&self.usual[at], road) {
                    (Some(usual), Some(road)) => usual.seek(frame, road, table),
                    _ => table.seek(network(frame.bytes)),
                };
            } else if self.sought[at].is_some() {
                self.sought[at] = None;
            }
        }
        if let Some(Foresight { code, list, .. }) = road.and_then(|road| road.foresight) {
            let pass = code.foresee(list, &heads[..these.len().min(heads.len())]);
            for (bit, usual) in self.usual[these].iter_mut().enumerate() {
                if let Some(usual) = usual {
                    usual.passes = !usual.six && pass >> bit & 1 != 0;
                }
            }
        }
        self.read = self.read.max(far);
        if let Some(conntrack) = conntrack {
            let these = self.sought.get(self.fetched.max(turn)..near).unwrap_or(&[]);
            these.iter().flatten().for_each(|sought| conntrack.prefetch_sought(sought));
        }
        self.fetched = self.fetched.max(near);
        self.due = turn + Self::STEP;
    }

    /// What is known of a frame that may go straight, and where its connection is to be looked up.
    #[inline]
    pub(crate) fn usual(&self, at: usize) -> Option<(&Usual, Option<&TupleLookup>)> {
        let usual = self.usual.get(at)?.as_ref()?;
        Some((usual, self.sought.get(at)?.as_ref()))
    }
}
