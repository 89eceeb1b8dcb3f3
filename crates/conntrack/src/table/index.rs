// SPDX-License-Identifier: Apache-2.0

//! The hash table over both directions of all connections.
//!
//! A bucket is a cache line: seven slots and the number of tuples that went past it because it was
//! full. A search continues in the next bucket only if that number is not zero, and at most
//! [`PROBE`] buckets far. A place holds 32 bits of the hash and the number of the entry with its
//! direction, so an entry is read only when it is very likely the right one.
//!
//! The table is as large as the most connections need from the beginning, but memory is only taken
//! where something was stored, so it never has to be rebuilt while packets wait.

use penstock_wire::cache::prefetch;

use crate::Direction;

const PLACES: usize = 7;
const WORDS: usize = 8;
/// Buckets that a search looks at: at most 77 tuples are compared, the kernel's bound is between 50
/// and 130.
pub(crate) const PROBE: usize = 11;

/// No place was free near by (`chaintoolong`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainTooLong;

#[derive(Debug)]
pub(crate) struct Index {
    words: Vec<u64>,
    /// Where the first bucket begins, so that buckets are cache lines.
    start: usize,
    buckets: u32,
}

/// Words of so many buckets.
pub(crate) fn words_for(buckets: u32) -> usize {
    (buckets.max(PROBE as u32 + 1) as usize + 1) * WORDS
}

#[inline(always)]
const fn value(hash: u64, entry: u32, direction: Direction) -> u64 {
    ((hash >> 32) << 32) | ((((entry as u64) << 1) | direction as u64) + 1)
}

#[inline(always)]
const fn unpack(word: u64) -> (u32, Direction) {
    let n = (word as u32).wrapping_sub(1);
    (n >> 1, if n & 1 == 0 { Direction::Original } else { Direction::Reply })
}

impl Index {
    pub fn new(buckets: u32) -> Self {
        let words = vec![0u64; words_for(buckets)];
        let buckets = buckets.max(PROBE as u32 + 1);
        let start = words.as_ptr().align_offset(64).min(WORDS);
        Self { words, start, buckets }
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * u64::from(self.buckets)) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets as usize { 0 } else { bucket + 1 }
    }

    #[inline(always)]
    fn bucket(&self, n: usize) -> &[u64; WORDS] {
        let at = self.start + n * WORDS;
        self.words[at..at + WORDS].first_chunk().expect("a slice of this length")
    }

    #[inline(always)]
    fn bucket_mut(&mut self, n: usize) -> &mut [u64; WORDS] {
        let at = self.start + n * WORDS;
        self.words[at..at + WORDS].first_chunk_mut().expect("a slice of this length")
    }

    /// Asks the processor to fetch the bucket that a search for `hash` begins with.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.words[self.start + self.home(hash) * WORDS]);
    }

    /// The first tuple with this hash for which `is` returns `true`.
    #[inline(always)]
    pub fn find(
        &self,
        hash: u64,
        mut is: impl FnMut(u32, Direction) -> bool,
    ) -> Option<(u32, Direction)> {
        let tag = hash >> 32;
        let mut n = self.home(hash);
        for _ in 0..PROBE {
            let bucket = self.bucket(n);
            for &word in &bucket[..PLACES] {
                if word >> 32 == tag && word as u32 != 0 {
                    let (entry, direction) = unpack(word);
                    if is(entry, direction) {
                        return Some((entry, direction));
                    }
                }
            }
            if bucket[PLACES] == 0 {
                return None;
            }
            n = self.next(n);
        }
        None
    }

    /// The entry that a search for `hash` is likely to meet, for prefetching.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Option<(u32, Direction)> {
        let tag = hash >> 32;
        let bucket = self.bucket(self.home(hash));
        bucket[..PLACES].iter().find(|w| **w >> 32 == tag && **w as u32 != 0).map(|w| unpack(*w))
    }

    /// Enters a tuple.
    pub fn insert(
        &mut self,
        hash: u64,
        entry: u32,
        direction: Direction,
    ) -> Result<(), ChainTooLong> {
        let home = self.home(hash);
        let mut n = home;
        for _ in 0..PROBE {
            if let Some(place) = self.bucket_mut(n)[..PLACES].iter_mut().find(|w| **w == 0) {
                *place = value(hash, entry, direction);
                let mut passed = home;
                while passed != n {
                    self.bucket_mut(passed)[PLACES] += 1;
                    passed = self.next(passed);
                }
                return Ok(());
            }
            n = self.next(n);
        }
        Err(ChainTooLong)
    }

    /// Removes a tuple; `false` if it was not there.
    pub fn remove(&mut self, hash: u64, entry: u32, direction: Direction) -> bool {
        let home = self.home(hash);
        let word = value(hash, entry, direction);
        let mut n = home;
        for _ in 0..PROBE {
            if let Some(place) = self.bucket_mut(n)[..PLACES].iter_mut().find(|w| **w == word) {
                *place = 0;
                let mut passed = home;
                while passed != n {
                    self.bucket_mut(passed)[PLACES] -= 1;
                    passed = self.next(passed);
                }
                return true;
            }
            n = self.next(n);
        }
        false
    }

    /// The tuples in the bucket `nth` places after the one where a search for `hash` begins.
    pub fn neighbours(&self, hash: u64, nth: usize) -> [Option<(u32, Direction)>; PLACES] {
        let n = (self.home(hash) + nth) % self.buckets as usize;
        let bucket = self.bucket(n);
        std::array::from_fn(|i| (bucket[i] != 0).then(|| unpack(bucket[i])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn index_agrees_with_a_hash_map_under_random_operations() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut index = Index::new(20);
        let mut map: HashMap<u32, (u64, Direction)> = HashMap::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            let entry = rng.u32(..300);
            match map.remove(&entry) {
                Some((hash, dir)) => assert!(index.remove(hash, entry, dir)),
                None => {
                    // Few values of the low half make buckets run over.
                    let hash = u64::from(rng.u32(..)) << 32 | u64::from(rng.u32(..3) << 29);
                    let dir = if rng.bool() { Direction::Original } else { Direction::Reply };
                    match index.insert(hash, entry, dir) {
                        Ok(()) => drop(map.insert(entry, (hash, dir))),
                        Err(ChainTooLong) => refused += 1,
                    }
                }
            }
            for (&entry, &(hash, dir)) in map.iter().take(5) {
                assert_eq!(index.find(hash, |e, d| (e, d) == (entry, dir)), Some((entry, dir)));
            }
        }
        for (entry, (hash, dir)) in map.drain() {
            assert_eq!(index.find(hash, |e, d| (e, d) == (entry, dir)), Some((entry, dir)));
            assert!(index.remove(hash, entry, dir));
            assert!(!index.remove(hash, entry, dir));
        }
        assert!(index.words.iter().all(|w| *w == 0), "empty again, overflow counts too");
        assert!(refused > 0, "the bound was met");
    }
}
