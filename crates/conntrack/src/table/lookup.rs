// SPDX-License-Identifier: Apache-2.0

//! Finding connections by tuple, and by the number that a packet holds.

use super::Conntrack;
use crate::reference::Ref;
use crate::tuple::PortTuple4;
use crate::{Direction, Tuple, status};
use penstock_packet::Ct;

/// The directions of other connections that the tuples of a connection may clash with: where its
/// zones differ, each with its own.
pub(crate) fn sides(original: &Tuple, reply: &Tuple) -> [Option<Direction>; 2] {
    match original.zone == reply.zone {
        true => [None; 2],
        false => [Some(Direction::Original), Some(Direction::Reply)],
    }
}

/// What a connection that begins is likely to be translated to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    reply: Tuple,
    hash: u64,
    /// The list of its source.
    source: usize,
}

impl Conntrack {
    /// The keyed hash of a tuple.
    #[inline(always)]
    pub(crate) fn hash(&self, tuple: &Tuple) -> u64 {
        self.hasher.tuple(tuple)
    }

    /// [`Conntrack::hash`] of a tuple with ports of IPv4.
    #[inline(always)]
    pub(crate) fn hash_ports4(&self, tuple: &PortTuple4) -> u64 {
        self.hasher.ports4(tuple)
    }

    /// Fetches what a search for this hash looks at first.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Fetches the entry that a search for this hash is likely to find, when what it looks at first
    /// has come, and says which that is.
    #[inline]
    pub(crate) fn prefetch_candidate(&self, hash: u64) -> Option<(u32, Direction)> {
        let candidate = self.index.candidate(hash);
        if let Some((n, direction)) = candidate {
            // What is translated leaves as the other direction says.
            let both = direction == Direction::Reply || !self.sources.is_empty();
            self.store.prefetch(n, both);
            self.prefetch_memo(n);
        }
        candidate
    }

    /// Whether a search for a tuple, which `is` compares with one, would find this direction of
    /// this entry: it is in the table by both of its tuples, which no other entry then has. Not to
    /// be asked where source and destination are the same address.
    #[inline(always)]
    pub(crate) fn is_found(
        &self,
        n: u32,
        direction: Direction,
        is: impl FnOnce(&Tuple) -> bool,
    ) -> bool {
        const STATE: u32 = status::CONFIRMED | status::DYING | status::NAT_CLASH;
        let e = &self.store[n];
        e.status & STATE == status::CONFIRMED && is(e.tuple(direction))
    }

    /// Where to look whether a connection that begins with this tuple can be translated as the last
    /// one was: the places are fetched. `None` if nothing was translated yet.
    #[inline]
    pub(crate) fn seek_translation(&self, original: &Tuple) -> Option<Translation> {
        let reply = self.sources.likely_reply(original)?;
        let translation = Translation {
            reply,
            hash: self.hash(&reply),
            source: self.sources.prefetch(&self.hasher, original),
        };
        self.prefetch_bucket(translation.hash);
        Some(translation)
    }

    /// Fetches what is asked then, when the places have come. If another connection is likely to
    /// have the tuple, `draw` gives it another port, and the result is `true`.
    #[inline(never)]
    pub(crate) fn prefetch_translation(
        &self,
        translation: &Translation,
        draw: impl FnOnce(&mut Tuple),
    ) -> bool {
        if let Some(latest) = self.sources.latest(translation.source) {
            self.store.prefetch(latest, true);
        }
        let Some((other, _)) = self.index.candidate(translation.hash) else { return false };
        self.store.prefetch(other, true);
        let mut reply = translation.reply;
        draw(&mut reply);
        self.prefetch_bucket(self.hash(&reply));
        true
    }

    /// Fetches what entering these tuples into the directory of all workers looks at.
    #[inline]
    pub(crate) fn prefetch_directory(&self, tuples: [&Tuple; 2]) {
        if let Some(member) = &self.member {
            member.prefetch(tuples);
        }
    }

    /// Finds a confirmed connection that has not ended by one of its tuples.
    #[inline]
    pub fn find(&self, tuple: &Tuple) -> Option<(Ref, Direction)> {
        let (n, dir) = self.find_hashed(self.hasher.tuple(tuple), tuple)?;
        let e = &self.store[n];
        (e.expires > self.now).then_some((Ref { entry: n, serial: e.serial }, dir))
    }

    #[inline(always)]
    pub(crate) fn find_hashed(&self, hash: u64, tuple: &Tuple) -> Option<(u32, Direction)> {
        let store = &self.store;
        let (n, dir) = self.index.find(hash, |n, dir| store[n].tuple(dir) == tuple)?;
        // Both directions of a host's flow to itself may look alike: the kernel finds the one that
        // was entered last, which is that of replies.
        let alike = tuple.src == tuple.dst && store[n].reply == *tuple;
        Some((n, if alike { Direction::Reply } else { dir }))
    }

    /// Whether some other connection than `except` has this tuple in either direction
    /// (`nf_conntrack_tuple_taken()`). One with the same original tuple as `except` does not count:
    /// it is the same flow, and the clash of the two is resolved when `except` is confirmed.
    pub fn is_taken(&self, tuple: &Tuple, except: u32) -> bool {
        let hash = self.hasher.tuple(tuple);
        let store = &self.store;
        let me = store.get_live(except);
        if self.member.as_ref().is_some_and(|member| member.is_anothers(tuple)) {
            return true;
        }
        self.index
            .find(hash, |n, dir| {
                let e = &store[n];
                if n == except || e.tuple(dir) != tuple || e.expires <= self.now {
                    return false;
                }
                !me.is_some_and(|me| e.original == me.original)
            })
            .is_some()
    }

    /// Finds the entry for a tuple with a zone that may differ by direction, and ends expired
    /// entries that it meets.
    #[inline(always)]
    pub(crate) fn find_in_zones(
        &mut self,
        tuple: &mut Tuple,
        zones: [u16; 2],
    ) -> (Option<(u32, Direction)>, u64) {
        tuple.zone = zones[0];
        let hash = self.hasher.tuple(tuple);
        if zones[0] == zones[1] {
            return (self.find_alive(hash, tuple), hash);
        }
        let found = self.find_alive_side(hash, tuple, Direction::Original);
        if found.is_some() {
            return (found, hash);
        }
        tuple.zone = zones[1];
        let found = self.find_alive_side(self.hasher.tuple(tuple), tuple, Direction::Reply);
        tuple.zone = zones[0];
        (found, hash)
    }

    #[cold]
    fn find_alive_side(
        &mut self,
        hash: u64,
        tuple: &Tuple,
        side: Direction,
    ) -> Option<(u32, Direction)> {
        loop {
            let (n, dir) = self.find_side(hash, tuple, Some(side))?;
            if self.store[n].expires > self.now {
                return Some((n, dir));
            }
            self.destroy(n);
        }
    }

    /// Finds the entry that has a tuple in a direction, or in either where `side` says none. What
    /// is looked for in a zone of one direction matches that direction alone: the kernel compares
    /// the zones of the direction that it finds (`nf_ct_zone_equal()`).
    pub(crate) fn find_side(
        &self,
        hash: u64,
        tuple: &Tuple,
        side: Option<Direction>,
    ) -> Option<(u32, Direction)> {
        let Some(side) = side else { return self.find_hashed(hash, tuple) };
        let store = &self.store;
        self.index.find(hash, |n, dir| dir == side && store[n].tuple(dir) == tuple)
    }

    #[inline(always)]
    fn find_alive(&mut self, hash: u64, tuple: &Tuple) -> Option<(u32, Direction)> {
        let (n, dir) = self.find_hashed(hash, tuple)?;
        if self.store[n].expires <= self.now {
            return self.find_after_expiry(n, hash, tuple);
        }
        Some((n, dir))
    }

    #[cold]
    fn find_after_expiry(&mut self, n: u32, hash: u64, tuple: &Tuple) -> Option<(u32, Direction)> {
        self.destroy(n);
        self.find_alive(hash, tuple)
    }

    /// The number of the connection that a packet holds, if it is still that one.
    #[inline(always)]
    pub fn resolve(&self, ct: &Ct) -> Option<u32> {
        self.store.get(ct.entry, ct.serial).map(|_| ct.entry)
    }

    /// The number of the connection that a reference names, if it is still that one.
    #[inline]
    pub fn resolve_ref(&self, r: Ref) -> Option<u32> {
        self.store.get(r.entry, r.serial).map(|_| r.entry)
    }

    /// The reference to an entry.
    pub fn reference(&self, n: u32) -> Ref {
        Ref { entry: n, serial: self.store[n].serial }
    }
}
