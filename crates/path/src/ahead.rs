//! Looking ahead in a burst: while one frame is worked on, the memory that the look-up of later ones will need is fetched.

use penstock_wire::{ethernet, vlan};

use crate::sink::Frame;
use crate::worker::State;

/// Frames that wait to be worked on, with the hashes of their connections.
#[derive(Default)]
pub(crate) struct Ahead<'f> {
    ring: [Option<(Frame<'f>, Option<u64>)>; Ahead::DEPTH],
    /// Frames taken in and given out so far.
    taken: usize,
    given: usize,
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

impl<'f> Ahead<'f> {
    /// Frames between the look into the hash table and the look at the entry, and between that and the frame's turn.
    pub(crate) const STEP: usize = 3;
    const DEPTH: usize = 2 * Self::STEP;

    /// Takes a frame in, and gives the one whose turn it is.
    #[inline]
    pub(crate) fn push(&mut self, frame: Frame<'f>, state: &State) -> Option<Frame<'f>> {
        let conntrack = &state.conntrack;
        let tuple = conntrack.tuple_of(network(frame.bytes), 0);
        let hash = tuple.map(|t| conntrack.hash_of(&t));
        if let Some(hash) = hash {
            conntrack.prefetch(hash);
        }
        let turn = if self.taken - self.given == Self::DEPTH { self.pop() } else { None };
        self.ring[self.taken % Self::DEPTH] = Some((frame, hash));
        self.taken += 1;
        if let Some(before) = self.taken.checked_sub(Self::STEP + 1)
            && let Some((_, Some(hash))) = self.ring[before % Self::DEPTH]
        {
            conntrack.prefetch_entry(hash);
        }
        turn
    }

    /// Gives the next frame.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Frame<'f>> {
        let place = &mut self.ring[self.given % Self::DEPTH];
        let (frame, _) = place.take()?;
        self.given += 1;
        Some(frame)
    }
}
