// SPDX-License-Identifier: Apache-2.0

//! The hash table over both directions of all flows.
//!
//! A place of a [`bucket`] holds 32 bits of the hash and the flow with its direction, so a flow is
//! read only when it is very likely the right one. There are 256 parts, each of which grows on its
//! own: no insertion moves more than a small share of the whole.

use penstock_wire::bucket::{self, Bucket, PLACES};
use penstock_wire::cache::prefetch;

use crate::flow::{At, HalfId};

const PARTS: usize = 256;
/// Of eight: a part grows when more places are used.
const FULL: usize = 6;

/// A bucket that is a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line(Bucket);

#[derive(Debug)]
struct Part {
    /// A power of two of them.
    buckets: Box<[Line]>,
    used: usize,
}

#[derive(Debug)]
pub(crate) struct Index {
    parts: Box<[Part; PARTS]>,
}

#[inline(always)]
const fn value(at: At) -> u32 {
    HalfId::of(at).0 + 1
}

#[inline(always)]
const fn unpack(value: u32) -> HalfId {
    HalfId(value.wrapping_sub(1))
}

const fn tag(hash: u64) -> u32 {
    hash as u32
}

impl Part {
    fn new(buckets: usize) -> Self {
        Part { buckets: vec![Line::default(); buckets].into(), used: 0 }
    }

    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        tag as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    fn insert(&mut self, tag: u32, value: u32) {
        if self.used >= self.buckets.len() * PLACES * FULL / 8 {
            self.rebuild(self.buckets.len() * 2);
        }
        self.put(tag, value);
    }

    fn rebuild(&mut self, buckets: usize) {
        let old = std::mem::replace(self, Part::new(buckets));
        let entries = old.buckets.iter().flat_map(|line| bucket::iter(&line.0));
        entries.for_each(|(tag, value)| self.put(tag, value));
    }

    /// There is a free place.
    fn put(&mut self, tag: u32, value: u32) {
        let mut n = self.home(tag);
        loop {
            let Line(bucket) = &mut self.buckets[n];
            if let Some(free) = bucket::free(bucket) {
                bucket::put(bucket, free, tag, value);
                break;
            }
            *bucket::passed_mut(bucket) += 1;
            n = self.next(n);
        }
        self.used += 1;
    }

    fn remove(&mut self, tag: u32, value: u32) -> bool {
        let home = self.home(tag);
        let mut n = home;
        loop {
            let Line(bucket) = &mut self.buckets[n];
            if let Some(there) = bucket::position(bucket, value) {
                bucket::put(bucket, there, 0, 0);
                break;
            }
            n = if bucket::passed(bucket) == 0 { home } else { self.next(n) };
            if n == home {
                return false;
            }
        }
        self.used -= 1;
        let mut passed = home;
        while passed != n {
            *bucket::passed_mut(&mut self.buckets[passed].0) -= 1;
            passed = self.next(passed);
        }
        // Memory goes back when little is used (automatic_shrinking).
        let buckets = self.buckets.len();
        if buckets > 1 && self.used < buckets * PLACES / 8 {
            self.rebuild(buckets / 2);
        }
        true
    }
}

impl Index {
    pub fn new() -> Self {
        Index { parts: Box::new(std::array::from_fn(|_| Part::new(1))) }
    }

    #[inline(always)]
    fn part(&self, hash: u64) -> &Part {
        &self.parts[(hash >> 56) as usize % PARTS]
    }

    #[inline(always)]
    fn part_mut(&mut self, hash: u64) -> &mut Part {
        &mut self.parts[(hash >> 56) as usize % PARTS]
    }

    /// Asks the processor to fetch the bucket that a search for `hash` begins with.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        let part = self.part(hash);
        part.buckets.get(part.home(tag(hash))).map(prefetch);
    }

    /// The first flow with this hash for which `is` says so.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is: impl FnMut(HalfId) -> bool) -> Option<HalfId> {
        let part = self.part(hash);
        let tag = tag(hash);
        let home = part.home(tag);
        let mut n = home;
        loop {
            let Line(bucket) = &part.buckets[n];
            let mut matches = bucket::matches(bucket, tag);
            while matches != 0 {
                let value = bucket::value(bucket, matches.trailing_zeros() as usize);
                matches &= matches - 1;
                if value != 0 && is(unpack(value)) {
                    return Some(unpack(value));
                }
            }
            n = part.next(n);
            if bucket::passed(bucket) == 0 || n == home {
                return None;
            }
        }
    }

    /// What a search for `hash` is likely to meet in its first bucket.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> HalfId {
        let part = self.part(hash);
        let tag = tag(hash);
        let Some(Line(bucket)) = part.buckets.get(part.home(tag)) else { return HalfId::NONE };
        // Without a match it is the first place: who takes it looks whether it is the right one.
        unpack(bucket::value(bucket, bucket::matches(bucket, tag).trailing_zeros() as usize))
    }

    /// Enters a flow.
    pub fn insert(&mut self, hash: u64, at: At) {
        self.part_mut(hash).insert(tag(hash), value(at));
    }

    /// Removes a flow; `false` if it was not there.
    pub fn remove(&mut self, hash: u64, at: At) -> bool {
        self.part_mut(hash).remove(tag(hash), value(at))
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        let buckets: usize = self.parts.iter().map(|p| p.buckets.len()).sum();
        buckets * size_of::<Line>() + PARTS * size_of::<Part>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::flow::Direction;

    #[test]
    fn index_agrees_with_a_hash_map_under_random_operations() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut index = Index::new();
        let mut map: HashMap<u32, (u64, At)> = HashMap::new();
        for round in 0..40_000 {
            // First it grows, then it shrinks.
            let flow = rng.u32(..if round < 30_000 { 3000 } else { 100 });
            match map.remove(&flow) {
                Some((hash, at)) => assert!(index.remove(hash, at)),
                None => {
                    // Few parts and few values of the low half make buckets run over.
                    let hash = rng.u64(..2) << 56 | u64::from(rng.u32(..40));
                    let direction = if rng.bool() { Direction::Original } else { Direction::Reply };
                    let at = At { flow, direction };
                    index.insert(hash, at);
                    map.insert(flow, (hash, at));
                }
            }
            for &(hash, at) in map.values().take(5) {
                assert_eq!(index.find(hash, |found| found.at() == at).map(HalfId::at), Some(at));
            }
        }
        for (flow, (hash, at)) in map {
            assert!(index.remove(hash, at), "{flow}");
            assert!(!index.remove(hash, at));
        }
        let empty = Index::new().memory();
        assert_eq!(index.memory(), empty, "empty again");
        assert!(
            index
                .parts
                .iter()
                .all(|p| p.used == 0 && p.buckets.iter().all(|b| bucket::passed(&b.0) == 0))
        );
    }
}
