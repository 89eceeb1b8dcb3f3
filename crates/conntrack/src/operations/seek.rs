// SPDX-License-Identifier: Apache-2.0

//! What is found out about packets before their turn, so that memory is fetched in time.

use crate::Tuple;
use crate::dissect::{self, Layers};
use crate::table::Conntrack;
use crate::tuple::{IPV4, IPV6};

/// The tuple by which a packet will be looked up, and its hash, found out before its turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TupleLookup {
    pub(super) tuple: Tuple,
    pub(super) hash: u64,
    /// Offset of the transport header from the network header.
    pub(super) offset: usize,
}

impl Conntrack {
    /// The tuple of a packet in a zone.
    #[inline(always)]
    pub(super) fn tuple_at(&self, network: &[u8], at: &Layers, zone: u16) -> Option<Tuple> {
        dissect::tuple(network, at, zone, |t| self.source_key(t))
    }

    /// Where to look up a packet in zone 0, by its bytes from the network header on; `None` where
    /// connection tracking finds no tuple (fragments but the first, cut headers). The place in the
    /// hash table is fetched into the cache.
    #[inline]
    pub fn seek(&self, network: &[u8]) -> Option<TupleLookup> {
        let at = dissect::layers(network)?;
        let tuple = self.tuple_at(network, &at, 0)?;
        Some(self.lookup_of(tuple, at.offset))
    }

    /// Where to look up an IPv4 packet of TCP or UDP, as [`Conntrack::seek`]: the header without
    /// options and the ports are given.
    #[inline(always)]
    pub fn seek_ports4(&self, header: &[u8; 24]) -> TupleLookup {
        const LEN: usize = 20;
        let word =
            |at: usize| header[at..].first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let tuple = Tuple {
            src: u128::from(word(12)).to_le_bytes(),
            dst: u128::from(word(16)).to_le_bytes(),
            src_id: half(LEN),
            dst_id: half(LEN + 2),
            zone: 0,
            l3: IPV4,
            protocol: header[9],
        };
        self.lookup_of(tuple, LEN)
    }

    /// Where to look up an IPv6 packet of TCP or UDP, as [`Conntrack::seek`]: the header and the
    /// ports are given, without extension headers between them.
    #[inline(always)]
    pub fn seek_ports6(&self, header: &[u8; 44]) -> TupleLookup {
        const LEN: usize = 40;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
        let tuple = Tuple {
            src: address(8),
            dst: address(24),
            src_id: half(LEN),
            dst_id: half(LEN + 2),
            zone: 0,
            l3: IPV6,
            protocol: header[6],
        };
        self.lookup_of(tuple, LEN)
    }

    #[inline(always)]
    fn lookup_of(&self, tuple: Tuple, offset: usize) -> TupleLookup {
        let hash = self.hash(&tuple);
        self.prefetch_bucket(hash);
        TupleLookup { tuple, hash, offset }
    }

    /// Fetches the entry that a packet is likely to lead to, or what is asked if it begins a
    /// connection, when its place in the hash table has come.
    #[inline]
    pub fn prefetch_sought(&self, lookup: &TupleLookup) {
        self.prefetch_candidate(&lookup.tuple, lookup.hash);
    }
}
