// SPDX-License-Identifier: Apache-2.0

//! What is found out about packets before their turn, so that memory is fetched in time.

use crate::dissect::{self, Layers};
use crate::table::{Conntrack, Translation};
use crate::tuple::{IPV4, IPV6, PortTuple4};
use crate::{Direction, Tuple};

/// The tuple of a packet.
#[derive(Clone, Copy, Debug)]
enum Sought {
    Ports4(PortTuple4),
    Other(Tuple),
}

/// The tuple by which a packet will be looked up, and its hash, found out before its turn.
#[derive(Clone, Copy, Debug)]
pub struct TupleLookup {
    sought: Sought,
    pub(super) hash: u64,
    /// Offset of the transport header from the network header.
    offset: u16,
    /// The connection that it is likely to find, when its place in the hash table has come.
    likely: Option<(u32, Direction)>,
    /// The hash of the tuple of its answers, if it is likely to begin one.
    pub(super) reply_hash: Option<u64>,
    /// What that is likely to be translated to.
    translation: Option<Translation>,
}

impl Default for TupleLookup {
    fn default() -> Self {
        TupleLookup {
            sought: Sought::Other(Tuple::ZERO),
            hash: 0,
            offset: 0,
            likely: None,
            reply_hash: None,
            translation: None,
        }
    }
}

impl TupleLookup {
    /// The tuple.
    #[inline(always)]
    pub(super) fn tuple(&self) -> Tuple {
        match self.sought {
            Sought::Ports4(tuple) => tuple.into(),
            Sought::Other(tuple) => tuple,
        }
    }

    /// Where the headers of the packet are.
    #[inline(always)]
    pub(super) fn layers(&self) -> Layers {
        let (l3, protocol) = match &self.sought {
            Sought::Ports4(tuple) => (IPV4, tuple.protocol()),
            Sought::Other(tuple) => (tuple.l3, tuple.protocol),
        };
        Layers { l3, protocol, offset: usize::from(self.offset) }
    }
}

impl Conntrack {
    /// The tuple of a packet in a zone.
    #[inline(always)]
    pub(super) fn tuple_at(&self, network: &[u8], at: &Layers, zone: u16) -> Option<Tuple> {
        dissect::tuple(network, at, zone, |t| self.source_key(t))
    }

    /// Finds out where to look up a packet in zone 0, by its bytes from the network header on;
    /// `false` where connection tracking finds no tuple (fragments but the first, cut headers). The
    /// place in the hash table is fetched into the cache.
    #[inline]
    pub fn seek(&self, network: &[u8], lookup: &mut TupleLookup) -> bool {
        let Some(at) = dissect::layers(network) else { return false };
        let Some(tuple) = self.tuple_at(network, &at, 0) else { return false };
        self.place(lookup, Sought::Other(tuple), self.hash(&tuple), at.offset as u16);
        true
    }

    /// Finds out where to look up an IPv4 packet of TCP or UDP, as [`Conntrack::seek`]: the header
    /// without options and the ports are given.
    #[inline(always)]
    pub fn seek_ports4(&self, header: &[u8; 24], lookup: &mut TupleLookup) {
        const LEN: u16 = 20;
        let tuple = PortTuple4::of(header);
        self.place(lookup, Sought::Ports4(tuple), self.hash_ports4(&tuple), LEN);
    }

    /// Finds out where to look up an IPv6 packet of TCP or UDP, as [`Conntrack::seek`]: the header
    /// and the ports are given, without extension headers between them.
    #[inline(always)]
    pub fn seek_ports6(&self, header: &[u8; 44], lookup: &mut TupleLookup) {
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
        self.place(lookup, Sought::Other(tuple), self.hash(&tuple), LEN as u16);
    }

    /// Another packet is sought: the place in the hash table is fetched.
    #[inline(always)]
    fn place(&self, lookup: &mut TupleLookup, sought: Sought, hash: u64, offset: u16) {
        self.prefetch_bucket(hash);
        // Field by field: it is not put together elsewhere first.
        lookup.sought = sought;
        lookup.hash = hash;
        lookup.offset = offset;
        lookup.likely = None;
        lookup.reply_hash = None;
    }

    /// Fetches the entry that a packet is likely to lead to, when its place in the hash table has
    /// come, or what is asked if it begins a connection. `false` if that is likely to be
    /// translated: then [`Conntrack::prefetch_translated`] has more to fetch.
    #[inline]
    pub fn prefetch_sought(&self, lookup: &mut TupleLookup) -> bool {
        lookup.likely = self.prefetch_candidate(lookup.hash);
        lookup.likely.is_some() || self.seek_beginning(lookup)
    }

    #[inline(never)]
    fn seek_beginning(&self, lookup: &mut TupleLookup) -> bool {
        let original = lookup.tuple();
        lookup.reply_hash = original.invert().map(|reply| self.hash(&reply));
        lookup.reply_hash.into_iter().for_each(|hash| self.prefetch_bucket(hash));
        lookup.translation = self.seek_translation(&original);
        lookup.translation.is_none()
    }

    /// Fetches what is asked about the translation of a packet that is likely to begin a
    /// connection, when the places that were sought have come. If another connection is likely to
    /// have its port, `draw` gives its reply tuple another one, and the result is `true`.
    #[inline]
    pub fn prefetch_translated(&self, lookup: &TupleLookup, draw: impl FnOnce(&mut Tuple)) -> bool {
        lookup.translation.as_ref().is_some_and(|to| self.prefetch_translation(to, draw))
    }

    /// What a lookup finds now.
    #[inline(always)]
    pub(super) fn find_sought(&self, lookup: &TupleLookup) -> Option<(u32, Direction)> {
        let is_found = |&(n, direction): &(u32, Direction)| match &lookup.sought {
            Sought::Ports4(tuple) => {
                !tuple.is_to_itself() && self.is_found(n, direction, |found| tuple.is(found))
            }
            Sought::Other(tuple) => {
                tuple.src != tuple.dst && self.is_found(n, direction, |found| found == tuple)
            }
        };
        match lookup.likely.filter(is_found) {
            Some(found) => Some(found),
            None => self.find_sought_anew(lookup),
        }
    }

    #[inline(never)]
    fn find_sought_anew(&self, lookup: &TupleLookup) -> Option<(u32, Direction)> {
        self.find_hashed(lookup.hash, &lookup.tuple())
    }
}
