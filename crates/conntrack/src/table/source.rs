// SPDX-License-Identifier: Apache-2.0

//! Connections by the source of their original direction, for NAT: a client that has a mapping gets
//! it again.

use penstock_wire::cache::prefetch;

use super::Conntrack;
use super::entry::{NONE, flag};
use super::hash::Hasher;
use super::store::Store;
use crate::Tuple;
use crate::tuple::IPV6;

/// Connections of one source that are looked at: one source can open any number of them.
const CHAIN: usize = 64;

/// Hash table of lists that link the entries. Made when the first entry comes.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    heads: Vec<u32>,
    /// What the source of the last one of IPv4 and of IPv6 was translated to.
    translated: [Option<[u8; 16]>; 2],
}

impl Sources {
    /// No entry has come yet.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    fn bucket(&self, hasher: &Hasher, tuple: &Tuple) -> usize {
        (hasher.source(tuple) >> 32) as usize & (self.heads.len() - 1)
    }

    /// The number of a tuple's list, the head of which the processor is asked to fetch.
    #[inline]
    pub(crate) fn prefetch(&self, hasher: &Hasher, tuple: &Tuple) -> usize {
        if self.is_empty() {
            return 0;
        }
        let list = self.bucket(hasher, tuple);
        prefetch(&self.heads[list]);
        list
    }

    /// The head of a list.
    pub(crate) fn latest(&self, list: usize) -> Option<u32> {
        self.heads.get(list).copied().filter(|n| *n != NONE)
    }

    /// The reply tuple of a connection that is translated to the address that the last one was, and
    /// keeps its port.
    pub(crate) fn likely_reply(&self, original: &Tuple) -> Option<Tuple> {
        let dst = self.translated[usize::from(original.l3 == IPV6)]?;
        Some(Tuple { dst, ..original.invert()? })
    }

    fn insert(&mut self, store: &mut Store, hasher: &Hasher, n: u32, room: usize) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; room.next_power_of_two().clamp(1 << 10, 1 << 22)];
        }
        let (original, reply) = (&store[n].original, &store[n].reply);
        if reply.dst != original.src {
            self.translated[usize::from(original.l3 == IPV6)] = Some(reply.dst);
        }
        let bucket = self.bucket(hasher, original);
        let head = std::mem::replace(&mut self.heads[bucket], n);
        let e = &mut store[n];
        e.source_next = head;
        e.source_prev = NONE;
        e.flags |= flag::BY_SOURCE;
        if head != NONE {
            store[head].source_prev = n;
        }
    }

    pub(crate) fn remove(&mut self, store: &mut Store, hasher: &Hasher, n: u32) {
        let e = &mut store[n];
        e.flags &= !flag::BY_SOURCE;
        let (next, prev) = (e.source_next, e.source_prev);
        e.source_next = NONE;
        e.source_prev = NONE;
        if prev == NONE {
            let bucket = self.bucket(hasher, &store[n].original);
            self.heads[bucket] = next;
        } else {
            store[prev].source_next = next;
        }
        if next != NONE {
            store[next].source_prev = prev;
        }
    }
}

impl Conntrack {
    /// Makes a connection findable by its source (`nf_nat_setup_info()` does it when source
    /// translation is decided). It stays so until it ends. Of several workers the first one that
    /// has a connection of a source is given what begins there from then on, since only its own can
    /// be found.
    pub fn link_source(&mut self, n: u32) {
        if self.store[n].flags & flag::BY_SOURCE == 0 {
            if let Some(member) = &self.member
                && member.claim_source(&self.store[n].original)
            {
                self.store[n].flags |= flag::SOURCE_CLAIMED;
            }
            let room = self.settings.max() as usize;
            self.sources.insert(&mut self.store, &self.hasher, n, room);
        }
    }

    /// The linked connections with an original direction that has the source (address, identifier,
    /// zone) and protocol of `tuple`, the latest first; no more than the latest 64 with near hashes
    /// are looked at.
    pub fn by_source<'a>(&'a self, tuple: &'a Tuple) -> impl Iterator<Item = u32> + 'a {
        let mut at = match self.sources.heads.is_empty() {
            true => NONE,
            false => self.sources.heads[self.sources.bucket(&self.hasher, tuple)],
        };
        std::iter::from_fn(move || {
            if at == NONE {
                return None;
            }
            let n = at;
            at = self.store[n].source_next;
            Some(n)
        })
        .take(CHAIN)
        .filter(|&n| {
            let o = &self.store[n].original;
            (o.src, o.src_id, o.zone, o.protocol, o.l3)
                == (tuple.src, tuple.src_id, tuple.zone, tuple.protocol, tuple.l3)
        })
    }
}
