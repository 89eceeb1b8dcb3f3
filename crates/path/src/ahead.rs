//! Looking ahead in a burst: while one frame is worked on, the memory that the look-up of later ones will need is fetched.

use penstock_wire::{ethernet, vlan};

use crate::burst::BURST;
use crate::sink::Frame;
use crate::worker::State;

/// Hashes of the connections of a burst's frames, as far as they were looked at.
pub(crate) struct Ahead {
    hashes: [Option<u64>; BURST],
    looked_at: usize,
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
    /// Frames between the look into the hash table and the look at the entry, and between that and the frame's turn.
    pub(crate) const STEP: usize = 3;

    pub(crate) fn new() -> Self {
        Ahead { hashes: [None; BURST], looked_at: 0 }
    }

    /// It is the turn of frame number `turn`.
    #[inline]
    pub(crate) fn fetch(&mut self, frames: &[Frame<'_>], turn: usize, state: &State) {
        let conntrack = &state.conntrack;
        while self.looked_at <= turn + 2 * Self::STEP
            && let Some(frame) = frames.get(self.looked_at)
        {
            let tuple = conntrack.tuple_of(network(frame.bytes), 0);
            let hash = tuple.map(|t| conntrack.hash_of(&t));
            if let Some(hash) = hash {
                conntrack.prefetch(hash);
            }
            self.hashes[self.looked_at % BURST] = hash;
            self.looked_at += 1;
        }
        if let Some(Some(hash)) = self.hashes.get(turn + Self::STEP) {
            conntrack.prefetch_entry(*hash);
        }
    }
}
