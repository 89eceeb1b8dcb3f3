//! The hash table over both directions of all flows.
//!
//! A bucket is a cache line: seven places and the number of flows that went past it because it was full. A place holds 32
//! bits of the hash and the flow with its direction, so a flow is read only when it is very likely the right one. There are
//! 256 parts, each of which grows on its own: no insertion moves more than a small share of the whole.

use crate::flow::{At, Direction};

const PLACES: usize = 7;
const PARTS: usize = 256;
/// Of eight: a part grows when more places are used.
const FULL: usize = 6;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    places: [u64; PLACES],
    passed: u64,
}

#[derive(Debug)]
struct Part {
    /// A power of two of them.
    buckets: Box<[Bucket]>,
    used: usize,
}

#[derive(Debug)]
pub(crate) struct Index {
    parts: Box<[Part]>,
}

#[inline(always)]
const fn value(tag: u32, at: At) -> u64 {
    ((tag as u64) << 32) | ((((at.flow as u64) << 1) | at.direction as u64) + 1)
}

#[inline(always)]
const fn unpack(place: u64) -> At {
    let n = (place as u32).wrapping_sub(1);
    At { flow: n >> 1, direction: if n & 1 == 0 { Direction::Original } else { Direction::Reply } }
}

const fn tag(hash: u64) -> u32 {
    hash as u32
}

const fn tag_of(place: u64) -> u32 {
    (place >> 32) as u32
}

impl Part {
    fn new(buckets: usize) -> Self {
        Part { buckets: vec![Bucket::default(); buckets].into(), used: 0 }
    }

    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        tag as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    fn insert(&mut self, place: u64) {
        if self.used >= self.buckets.len() * PLACES * FULL / 8 {
            let larger = Part::new(self.buckets.len() * 2);
            let old = std::mem::replace(self, larger);
            old.buckets.iter().flat_map(|b| b.places).filter(|p| *p != 0).for_each(|p| self.put(p));
        }
        self.put(place);
    }

    /// There is a free place.
    fn put(&mut self, place: u64) {
        let mut n = self.home(tag_of(place));
        loop {
            let bucket = &mut self.buckets[n];
            if let Some(free) = bucket.places.iter_mut().find(|p| **p == 0) {
                *free = place;
                break;
            }
            bucket.passed += 1;
            n = self.next(n);
        }
        self.used += 1;
    }

    fn remove(&mut self, place: u64) -> bool {
        let home = self.home(tag_of(place));
        let mut n = home;
        loop {
            let bucket = &mut self.buckets[n];
            if let Some(there) = bucket.places.iter_mut().find(|p| **p == place) {
                *there = 0;
                break;
            }
            n = if bucket.passed == 0 { home } else { self.next(n) };
            if n == home {
                return false;
            }
        }
        self.used -= 1;
        let mut passed = home;
        while passed != n {
            self.buckets[passed].passed -= 1;
            passed = self.next(passed);
        }
        self.shrink();
        true
    }

    /// Gives memory back when little is used (`automatic_shrinking`).
    fn shrink(&mut self) {
        let buckets = self.buckets.len();
        if buckets > 1 && self.used < buckets * PLACES / 8 {
            let old = std::mem::replace(self, Part::new(buckets / 2));
            old.buckets.iter().flat_map(|b| b.places).filter(|p| *p != 0).for_each(|p| self.put(p));
        }
    }
}

impl Index {
    pub fn new() -> Self {
        Index { parts: (0..PARTS).map(|_| Part::new(1)).collect() }
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
        prefetch(&part.buckets[part.home(tag(hash))]);
    }

    /// The first flow with this hash for which `is` says so.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is: impl FnMut(At) -> bool) -> Option<At> {
        let part = self.part(hash);
        let tag = tag(hash);
        let home = part.home(tag);
        let mut n = home;
        loop {
            let bucket = &part.buckets[n];
            for &place in &bucket.places {
                if tag_of(place) == tag && place as u32 != 0 {
                    let at = unpack(place);
                    if is(at) {
                        return Some(at);
                    }
                }
            }
            n = part.next(n);
            if bucket.passed == 0 || n == home {
                return None;
            }
        }
    }

    /// What a search for `hash` is likely to meet in its first bucket.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Option<At> {
        let part = self.part(hash);
        let tag = tag(hash);
        let bucket = &part.buckets[part.home(tag)];
        bucket.places.iter().find(|p| tag_of(**p) == tag && **p as u32 != 0).map(|p| unpack(*p))
    }

    /// Enters a flow.
    pub fn insert(&mut self, hash: u64, at: At) {
        self.part_mut(hash).insert(value(tag(hash), at));
    }

    /// Removes a flow; `false` if it was not there.
    pub fn remove(&mut self, hash: u64, at: At) -> bool {
        self.part_mut(hash).remove(value(tag(hash), at))
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        let buckets: usize = self.parts.iter().map(|p| p.buckets.len()).sum();
        buckets * size_of::<Bucket>() + PARTS * size_of::<Part>()
    }
}

/// Asks the processor to fetch the cache line of `what`; costs nothing where there is no such instruction.
#[inline(always)]
pub(crate) fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and never faults; the pointer comes from a reference.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
            std::ptr::from_ref(what).cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_holds_what_a_map_holds() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
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
                assert_eq!(index.find(hash, |found| found == at), Some(at));
            }
        }
        for (flow, (hash, at)) in map {
            assert!(index.remove(hash, at), "{flow}");
            assert!(!index.remove(hash, at));
        }
        let empty = Index::new().memory();
        assert_eq!(index.memory(), empty, "empty again");
        assert!(index.parts.iter().all(|p| p.used == 0 && p.buckets.iter().all(|b| b.passed == 0)));
    }
}
