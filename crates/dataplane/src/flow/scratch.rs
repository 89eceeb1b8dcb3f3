// SPDX-License-Identifier: Apache-2.0

//! What early ingress knows of the frames of a burst: their flows, and chains of frames of one
//! flow.

use penstock_flowtable::{HalfId, Key};
use penstock_packet::Meta;
use penstock_wire::ethernet;

use crate::flow::burst_packet::{BurstPacket, Hosts};
use crate::flow::flow_packet::{FlowPacket, tcp_flag};
use crate::pending_frames::{BURST, PendingFrames};

/// Pairs of hosts kept apart; with more, all that follows takes the normal way.
const APART: usize = 8;

/// No further frame of a chain.
pub(crate) const END: u8 = u8::MAX;

/// What is known of the frames of a burst.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) packets: [BurstPacket; BURST],
    /// Addresses of those over IPv6.
    hosts: [Hosts; BURST],
    pub(crate) hashes: [u64; BURST],
    /// The flows that they are likely to be of.
    pub(crate) likely: [HalfId; BURST],
    /// The frame that follows in its chain.
    pub(crate) next: [u8; BURST],
    /// Last frame of the chain that a frame begins.
    pub(crate) last: [u8; BURST],
    /// Frames that begin chains.
    pub(crate) first: [u8; BURST],
    pub(crate) chains: usize,
    /// The latest chain by hash, as the number of its first frame. It means nothing unless that
    /// is among `begun`.
    recent: [u8; BURST],
    /// Frames that begin chains, as a set.
    begun: PendingFrames,
    apart: [Hosts; APART],
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
            packets: [BurstPacket::default(); BURST],
            hosts: [Hosts::default(); BURST],
            hashes: [0; BURST],
            likely: [HalfId::NONE; BURST],
            next: [END; BURST],
            last: [0; BURST],
            first: [0; BURST],
            chains: 0,
            recent: [0; BURST],
            begun: PendingFrames::NONE,
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
    #[inline]
    pub(crate) fn seen(&self, at: usize) -> FlowPacket {
        self.packets[at].packet(&self.hosts[at])
    }

    /// The key of what a frame carries.
    pub(crate) fn key(&self, at: usize) -> Key {
        self.packets[at].key(&self.hosts[at])
    }

    /// The frame after another one in its chain.
    pub(crate) fn following(&self, at: usize) -> Option<usize> {
        let next = self.next[at];
        (next != END).then_some(usize::from(next))
    }

    pub(crate) fn begin(&mut self) {
        self.chains = 0;
        self.syns = PendingFrames::NONE;
        self.begun = PendingFrames::NONE;
    }

    #[inline(always)]
    pub(crate) fn is_apart(&self, key: impl FnOnce() -> Key) -> bool {
        self.kept_apart != 0 && self.are_apart(&key())
    }

    #[cold]
    fn are_apart(&self, key: &Key) -> bool {
        let pairs = self.apart.get(..self.kept_apart);
        pairs.is_none_or(|pairs| pairs.contains(&[key.src, key.dst]))
    }

    /// What follows between two hosts takes the normal way.
    #[cold]
    pub(crate) fn keep_apart(&mut self, src: [u64; 2], dst: [u64; 2]) {
        if let Some(place) = self.apart.get_mut(self.kept_apart) {
            *place = [src, dst];
        }
        // One more than there is room for means all.
        self.kept_apart = (self.kept_apart + 1).min(APART + 1);
    }

    /// What follows a frame that falls back takes the normal way, too.
    #[cold]
    pub(crate) fn keep_after(&mut self, at: usize) {
        let key = self.key(at);
        self.keep_apart(key.src, key.dst);
    }

    /// All that follows takes the normal way.
    #[cold]
    pub(crate) fn keep_all_apart(&mut self) {
        self.kept_apart = APART + 1;
    }

    /// Appends a packet of any kind to its chain, or begins one; see [`Scratch::chain`].
    pub(crate) fn chain_any(
        &mut self,
        at: usize,
        packet: &FlowPacket,
        hash: impl FnOnce() -> u64,
        chained: bool,
    ) -> Option<u64> {
        self.hosts[at] = [packet.key.src, packet.key.dst];
        self.chain(at, BurstPacket::any(packet), hash, chained)
    }

    /// Appends a packet to its chain, or begins one; the hash of that one.
    #[inline(always)]
    pub(crate) fn chain(
        &mut self,
        at: usize,
        packet: BurstPacket,
        hash: impl FnOnce() -> u64,
        chained: bool,
    ) -> Option<u64> {
        let at = at % BURST;
        self.packets[at] = packet;
        self.next[at] = END;
        self.syns = self.syns.with_if(at, packet.flags & tcp_flag::SYN != 0);
        if chained && let Some(latest) = self.chains.checked_sub(1) {
            let first = usize::from(self.first[latest % BURST]) % BURST;
            if self.is_same(first, at, &packet) {
                self.append(first, at);
                return None;
            }
        }
        let hash = hash();
        if chained {
            let recent = hash as usize % BURST;
            let first = usize::from(self.recent[recent]) % BURST;
            // Of packets of different flows both are seldom true, in no order that a processor
            // could learn.
            if self.begun.has(first) & self.packets[first].is_like(&packet)
                && self.is_same(first, at, &packet)
            {
                self.append(first, at);
                return None;
            }
            self.recent[recent] = at as u8;
            self.begun = self.begun.with(at);
        }
        self.hashes[at] = hash;
        self.last[at] = at as u8;
        self.first[self.chains % BURST] = at as u8;
        self.chains += 1;
        Some(hash)
    }

    /// Whether the packet in a frame has the key of that in another.
    #[inline(always)]
    fn is_same(&self, first: usize, at: usize, packet: &BurstPacket) -> bool {
        self.packets[first].is_like(packet)
            && (!packet.is_v6() || self.hosts[first] == self.hosts[at])
    }

    #[inline(always)]
    fn append(&mut self, first: usize, at: usize) {
        let last = usize::from(std::mem::replace(&mut self.last[first], at as u8));
        self.next[last % BURST] = at as u8;
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
