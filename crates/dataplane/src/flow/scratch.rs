// SPDX-License-Identifier: Apache-2.0

//! What early ingress knows of the frames of a burst: their flows, and chains of frames of one
//! flow.

use penstock_flowtable::At;
use penstock_packet::Meta;
use penstock_wire::ethernet;

use crate::flow::flow_packet::{self, FlowPacket};
use crate::pending_frames::{BURST, PendingFrames};
use crate::plain_frame::PlainFrame;

/// Pairs of hosts kept apart; with more, all that follows takes the normal way.
const APART: usize = 8;

/// No further frame of a chain.
pub(crate) const END: u8 = u8::MAX;

/// What is known of the frames of a burst.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) seen: [FlowPacket; BURST],
    pub(crate) hashes: [u64; BURST],
    /// The flows that they are likely to be of.
    pub(crate) likely: [Option<At>; BURST],
    /// The frame that follows in its chain.
    pub(crate) next: [u8; BURST],
    /// Last frame of the chain that a frame begins.
    pub(crate) last: [u8; BURST],
    /// Frames that begin chains.
    pub(crate) first: [u8; BURST],
    pub(crate) chains: usize,
    /// The latest chain by hash, as the number of its first frame and one.
    pub(crate) recent: [u8; BURST],
    pub(crate) apart: [([u64; 2], [u64; 2]); APART],
    pub(crate) kept_apart: usize,
    /// Frames that are SYNs.
    pub(crate) syns: PendingFrames,
    /// The frame that leaves.
    pub(crate) out: Vec<u8>,
    /// Its metadata.
    pub(crate) meta: Meta,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            seen: [FlowPacket::default(); BURST],
            hashes: [0; BURST],
            likely: [None; BURST],
            next: [END; BURST],
            last: [0; BURST],
            first: [0; BURST],
            chains: 0,
            recent: [0; BURST],
            apart: Default::default(),
            kept_apart: 0,
            syns: PendingFrames::NONE,
            out: vec![0; ethernet::LEN + 2048],
            meta: Meta::default(),
        }
    }
}

impl Scratch {
    /// What a frame carries.
    pub(crate) fn seen(&self, at: usize) -> &FlowPacket {
        &self.seen[at]
    }

    /// The frame after another one in its chain.
    pub(crate) fn following(&self, at: usize) -> Option<usize> {
        let next = self.next[at];
        (next != END).then_some(usize::from(next))
    }

    pub(crate) fn begin(&mut self) {
        self.chains = 0;
        self.syns = PendingFrames::NONE;
        self.recent = [0; BURST];
    }

    #[inline(always)]
    pub(crate) fn is_apart(&self, seen: &FlowPacket) -> bool {
        if self.kept_apart == 0 {
            return false;
        }
        let pairs = self.apart.get(..self.kept_apart);
        pairs.is_none_or(|pairs| pairs.contains(&(seen.key.src, seen.key.dst)))
    }

    /// What follows between two hosts takes the normal way.
    #[cold]
    pub(crate) fn keep_apart(&mut self, src: [u64; 2], dst: [u64; 2]) {
        if let Some(place) = self.apart.get_mut(self.kept_apart) {
            *place = (src, dst);
        }
        // One more than there is room for means all.
        self.kept_apart = (self.kept_apart + 1).min(APART + 1);
    }

    /// What follows a frame that falls back takes the normal way, too.
    #[cold]
    pub(crate) fn keep_after(&mut self, at: usize) {
        let key = self.seen[at].key;
        self.keep_apart(key.src, key.dst);
    }

    /// All that follows takes the normal way.
    #[cold]
    pub(crate) fn keep_all_apart(&mut self) {
        self.kept_apart = APART + 1;
    }

    /// Appends a frame to its chain, or begins one; whether it did.
    #[inline(always)]
    pub(crate) fn chain(
        &mut self,
        at: usize,
        seen: FlowPacket,
        hash: impl FnOnce(&FlowPacket) -> u64,
        chained: bool,
    ) -> bool {
        self.seen[at] = seen;
        self.next[at] = END;
        if seen.flags & flow_packet::tcp_flag::SYN != 0 {
            self.syns = self.syns.with(at);
        }
        if chained && let Some(latest) = self.chains.checked_sub(1) {
            let first = usize::from(self.first[latest]);
            if self.seen[first].key.is_same(&seen.key) {
                self.append(first, at);
                return false;
            }
        }
        let hash = hash(&seen);
        if chained {
            let recent = usize::from(self.recent[hash as usize % BURST]);
            if let Some(first) = recent.checked_sub(1)
                && self.seen[first].key.is_same(&seen.key)
            {
                self.append(first, at);
                return false;
            }
            self.recent[hash as usize % BURST] = at as u8 + 1;
        }
        self.hashes[at] = hash;
        self.last[at] = at as u8;
        self.first[self.chains] = at as u8;
        self.chains += 1;
        true
    }

    /// Appends a frame to the latest chain, which has frames like it.
    #[inline(always)]
    pub(crate) fn follow(&mut self, at: usize, start: &PlainFrame) {
        let first = usize::from(self.first[self.chains.saturating_sub(1)]);
        self.seen[at] =
            FlowPacket { len: u32::from(start.len), flags: start.flags, ..self.seen[first] };
        self.next[at] = END;
        self.append(first, at);
    }

    #[inline(always)]
    pub(crate) fn append(&mut self, first: usize, at: usize) {
        let last = usize::from(std::mem::replace(&mut self.last[first], at as u8));
        self.next[last] = at as u8;
    }
}

/// Makes room for a frame of this length that is to leave.
#[inline(always)]
pub(crate) fn make_room(out: &mut Vec<u8>, len: usize) {
    if out.len() < len {
        out.resize(len, 0);
    }
}

/// Copies bytes into as many; the short ones, which are most, in two pieces that may overlap.
#[inline(always)]
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    const HALF: usize = 32;
    match (from.first_chunk::<HALF>(), from.last_chunk::<HALF>()) {
        (Some(first), Some(last)) if from.len() <= 2 * HALF && to.len() == from.len() => {
            if let Some(place) = to.first_chunk_mut() {
                *place = *first;
            }
            if let Some(place) = to.last_chunk_mut() {
                *place = *last;
            }
        }
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    pub(crate) fn bytes_of_every_length_are_copied() {
        for len in 0..200 {
            let from: Vec<u8> = (0..len).collect();
            let mut to = vec![0; from.len()];
            copy(&from, &mut to);
            assert_eq!(from, to);
        }
    }
}
