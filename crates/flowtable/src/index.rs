// SPDX-License-Identifier: Apache-2.0

//! The hash table over both directions of all flows.
//!
//! A place of a [`bucket`] holds 32 bits of the hash and the flow with its direction, so a flow is
//! read only when it is very likely the right one. There are 256 parts, each of which grows on its
//! own: no insertion moves more than a small share of the whole.
//!
//! The buckets of all parts lie in one piece of memory, by turns: all first ones, then all second
//! ones, and so on. It has room for as many flows as there may be; the system allocates what is
//! used of it, in large pages if it is big.

use penstock_wire::bucket::{self, Bucket, PLACES, WORDS};
use penstock_wire::cache::prefetch;

use crate::flow::{At, HalfId};
use crate::memory;

const PARTS: usize = 256;
/// Of eight: a part grows when more places are used.
const FULL: usize = 6;
/// Buckets that a part has room for at first at most: a limit may be far above what comes.
const FIRST: u32 = 1 << 15;

#[derive(Clone, Copy, Debug)]
struct Part {
    /// How many buckets it has, a power of two.
    buckets: u32,
    used: u32,
}

#[derive(Debug)]
pub(crate) struct Index {
    parts: Box<[Part; PARTS]>,
    /// The buckets. Those that a part does not have are zero.
    words: Vec<u32>,
    /// Where they begin: a bucket is a cache line.
    start: usize,
    /// Buckets that a part has room for, a power of two.
    most: u32,
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

/// The part of a hash.
#[inline(always)]
const fn part(hash: u64) -> usize {
    (hash >> 56) as usize % PARTS
}

/// Buckets that a part needs if there are so many entries in all parts: parts differ.
fn buckets_for(entries: usize) -> u32 {
    let mean = entries / PARTS;
    let places = mean + 6 * mean.isqrt() + 4 * PLACES;
    ((places * 8).div_ceil(PLACES * FULL)).next_power_of_two() as u32
}

/// Zeros for so many buckets of each part, and where the first cache line in them begins. Nothing
/// is written.
fn room(buckets: u32) -> (Vec<u32>, usize) {
    let (words, start) = bucket::empty(buckets as usize * PARTS);
    memory::in_large_pages(&words);
    (words, start)
}

impl Part {
    #[inline(always)]
    fn home(self, tag: u32) -> u32 {
        tag & (self.buckets - 1)
    }

    #[inline(always)]
    fn next(self, bucket: u32) -> u32 {
        (bucket + 1) & (self.buckets - 1)
    }
}

impl Index {
    /// For so many entries at most, or more, which then cost more when they come.
    pub fn new(entries: usize) -> Self {
        let most = buckets_for(entries).min(FIRST);
        let (words, start) = room(most);
        Index { parts: Box::new([Part { buckets: 1, used: 0 }; PARTS]), words, start, most }
    }

    /// Where a bucket of a part is.
    #[inline(always)]
    const fn place(&self, part: usize, bucket: u32) -> usize {
        self.start + (bucket as usize * PARTS + part) * WORDS
    }

    /// The bucket of a part that is at home for a tag, or comes `after` that many.
    #[inline(always)]
    fn bucket(&self, number: usize, tag: u32, after: u32) -> &Bucket {
        let part = self.parts[number % PARTS];
        let bucket = tag.wrapping_add(after) & (part.buckets - 1);
        let place = self.place(number % PARTS, bucket);
        debug_assert!(bucket < self.most && place + WORDS <= self.words.len());
        // SAFETY: a part never has more than `most` buckets, of which there is at least one, so
        // that the mask leaves one of them. `words` has `most` buckets of each part from `start`
        // on: both are only ever set together, in `new` and `make_room`.
        unsafe { &*self.words.as_ptr().add(place).cast::<Bucket>() }
    }

    fn bucket_mut(&mut self, part: usize, bucket: u32) -> &mut Bucket {
        let place = self.place(part, bucket);
        self.words[place..].first_chunk_mut().expect("room for the buckets of all parts")
    }

    /// Asks the processor to fetch the bucket that a search for `hash` begins with.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.bucket(part(hash), tag(hash), 0));
    }

    /// The first flow with this hash for which `is` says so.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is: impl FnMut(HalfId) -> bool) -> Option<HalfId> {
        let (number, tag) = (part(hash), tag(hash));
        let mut after = 0;
        loop {
            let bucket = self.bucket(number, tag, after);
            if let Some(value) = bucket::find(bucket, tag, |value| is(unpack(value))) {
                return Some(unpack(value));
            }
            after += 1;
            if bucket::passed(bucket) == 0 || after == self.parts[number].buckets {
                return None;
            }
        }
    }

    /// What a search for `hash` is likely to meet in its first bucket.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> HalfId {
        let tag = tag(hash);
        let bucket = self.bucket(part(hash), tag, 0);
        // Without a match it is the first place: who takes it looks whether it is the right one.
        unpack(bucket::value(bucket, bucket::matches(bucket, tag).trailing_zeros() as usize))
    }

    /// Enters a flow.
    pub fn insert(&mut self, hash: u64, at: At) {
        let number = part(hash);
        let Part { buckets, used } = self.parts[number];
        let places = buckets as usize * PLACES;
        if used as usize >= places * FULL / 8 {
            // With no room for more, a part may get full to the last place.
            if buckets < self.most || used as usize == places {
                self.rebuild(number, buckets * 2);
            }
        }
        self.put(number, tag(hash), value(at));
    }

    /// Gives a part another number of buckets.
    fn rebuild(&mut self, number: usize, buckets: u32) {
        if buckets > self.most {
            self.make_room(buckets);
        }
        let mut entries = Vec::new();
        for n in 0..self.parts[number].buckets {
            let bucket = std::mem::take(self.bucket_mut(number, n));
            entries.extend(bucket::iter(&bucket));
        }
        self.parts[number] = Part { buckets, used: 0 };
        entries.into_iter().for_each(|(tag, value)| self.put(number, tag, value));
    }

    /// Makes room for so many buckets of each part.
    #[cold]
    fn make_room(&mut self, buckets: u32) {
        let all = self.start..self.start + self.most as usize * PARTS * WORDS;
        let (mut words, start) = room(buckets);
        words[start..start + all.len()].copy_from_slice(&self.words[all]);
        (self.words, self.start, self.most) = (words, start, buckets);
    }

    /// There is a free place.
    fn put(&mut self, number: usize, tag: u32, value: u32) {
        let part = self.parts[number];
        let mut n = part.home(tag);
        loop {
            let bucket = self.bucket_mut(number, n);
            if let Some(free) = bucket::free(bucket) {
                bucket::put(bucket, free, tag, value);
                break;
            }
            *bucket::passed_mut(bucket) += 1;
            n = part.next(n);
        }
        self.parts[number].used += 1;
    }

    /// Removes a flow; `false` if it was not there.
    pub fn remove(&mut self, hash: u64, at: At) -> bool {
        let (number, tag) = (part(hash), tag(hash));
        let part = self.parts[number];
        let home = part.home(tag);
        let mut n = home;
        loop {
            let bucket = self.bucket_mut(number, n);
            if let Some(there) = bucket::position(bucket, value(at)) {
                bucket::put(bucket, there, 0, 0);
                break;
            }
            n = if bucket::passed(bucket) == 0 { home } else { part.next(n) };
            if n == home {
                return false;
            }
        }
        self.parts[number].used -= 1;
        let mut passed = home;
        while passed != n {
            *bucket::passed_mut(self.bucket_mut(number, passed)) -= 1;
            passed = part.next(passed);
        }
        // Fewer buckets stay in the cache (automatic_shrinking).
        let buckets = part.buckets;
        if buckets > 1 && ((part.used - 1) as usize) < buckets as usize * PLACES / 8 {
            self.rebuild(number, buckets / 2);
        }
        true
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        let buckets: usize = self.parts.iter().map(|part| part.buckets as usize).sum();
        buckets * size_of::<Bucket>() + PARTS * size_of::<Part>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::flow::Direction;

    #[test]
    fn index_agrees_with_a_hash_map_under_random_operations() {
        const ROUNDS: u32 = if cfg!(miri) { 400 } else { 40_000 };
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        // Room for few: it has to be made.
        let mut index = Index::new(100);
        let few = index.most;
        let mut map: HashMap<u32, (u64, At)> = HashMap::new();
        for round in 0..ROUNDS {
            // First it grows, then it shrinks.
            let flow = rng.u32(..if round < ROUNDS / 4 * 3 { 3000 } else { 100 });
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
        assert!(index.most > few, "room was made");
        assert_eq!(index.memory(), Index::new(100).memory(), "empty again");
        assert!(index.parts.iter().all(|part| part.used == 0));
        assert!(index.words.iter().all(|word| *word == 0));
    }
}
