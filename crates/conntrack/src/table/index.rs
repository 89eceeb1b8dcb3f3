// SPDX-License-Identifier: Apache-2.0

//! The hash table over both directions of all connections.
//!
//! A place of a [`bucket`] holds 32 bits of the hash and the number of the entry with its
//! direction, so an entry is read only when it is very likely the right one. A search continues in
//! the next bucket only if an entry went past this one, and at most [`PROBE`] buckets far.
//!
//! The table grows with what is in it, so that few connections need little of the cache, and no
//! packet waits for it to be rebuilt: it doubles bucket by bucket (linear hashing), two with each
//! tuple that is entered. A bucket is divided by the hashes in it, without a look at the entries.
//! Memory for the most connections is reserved from the beginning, and taken as it is used.

use penstock_wire::bucket::{self, Bucket, PLACES, WORDS};
use penstock_wire::cache::prefetch;

use crate::Direction;

/// Buckets that a search looks at: at most 77 tuples are compared, the kernel's bound is between 50
/// and 130.
pub(crate) const PROBE: usize = 11;
/// Buckets of an empty table, if it may grow.
const FEWEST: u32 = 1024;
/// Tuples for each bucket when the table begins to grow.
const FULL: usize = 3;

/// No place was free near by (`chaintoolong`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainTooLong;

#[derive(Debug)]
pub(crate) struct Index {
    words: Vec<u32>,
    /// Where the first bucket begins, so that buckets are cache lines.
    start: usize,
    /// Buckets at most.
    most: u32,
    /// Buckets where searches begin. Those after them take what goes past the last ones.
    size: u32,
    /// Buckets until the table has grown.
    goal: u32,
    /// The largest power of two that is less than `size`.
    half: u32,
    used: usize,
}

/// Buckets of a table that is to have so many: a power of two, so that all are as likely.
fn at_least(buckets: u32) -> u64 {
    u64::from(buckets).max(PROBE as u64 + 1).next_power_of_two()
}

/// Buckets with those that take what goes past the last one of so many.
fn with_last(buckets: u32) -> usize {
    at_least(buckets) as usize + PROBE - 1
}

/// Words of a table of so many buckets.
pub(crate) fn words_for(buckets: u32) -> usize {
    bucket::words_for(with_last(buckets))
}

#[inline(always)]
const fn value(entry: u32, direction: Direction) -> u32 {
    ((entry << 1) | direction as u32) + 1
}

#[inline(always)]
const fn unpack(value: u32) -> (u32, Direction) {
    let n = value.wrapping_sub(1);
    (n >> 1, if n & 1 == 0 { Direction::Original } else { Direction::Reply })
}

/// The part of a hash that is kept, and says where a search begins.
#[inline(always)]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    pub fn new(buckets: u32) -> Self {
        let (words, start) = bucket::empty(with_last(buckets));
        let most = at_least(buckets).min(1 << 31) as u32;
        let size = most.min(FEWEST);
        let half = size / 2;
        Self { words, start, most, size, goal: size, half, used: 0 }
    }

    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        let n = tag & (2 * self.half - 1);
        (if n < self.size { n } else { n - self.half }) as usize
    }

    #[inline(always)]
    fn bucket(&self, n: usize) -> &Bucket {
        let at = self.start + n * WORDS;
        self.words[at..at + WORDS].first_chunk().expect("a slice of this length")
    }

    #[inline(always)]
    fn bucket_mut(&mut self, n: usize) -> &mut Bucket {
        let at = self.start + n * WORDS;
        self.words[at..at + WORDS].first_chunk_mut().expect("a slice of this length")
    }

    /// Asks the processor to fetch the bucket that a search for `hash` begins with.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.words[self.start + self.home(tag(hash)) * WORDS]);
    }

    /// The first tuple with this hash for which `is` returns `true`.
    #[inline(always)]
    pub fn find(
        &self,
        hash: u64,
        mut is: impl FnMut(u32, Direction) -> bool,
    ) -> Option<(u32, Direction)> {
        let tag = tag(hash);
        let home = self.home(tag);
        for n in home..home + PROBE {
            let bucket = self.bucket(n);
            let found = bucket::find(bucket, tag, |value| {
                let (entry, direction) = unpack(value);
                is(entry, direction)
            });
            if let Some(value) = found {
                return Some(unpack(value));
            }
            if bucket::passed(bucket) == 0 {
                return None;
            }
        }
        None
    }

    /// The entry that a search for `hash` is likely to meet, for prefetching.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Option<(u32, Direction)> {
        let tag = tag(hash);
        let bucket = self.bucket(self.home(tag));
        let matches = bucket::matches(bucket, tag);
        let value = bucket::value(bucket, matches.trailing_zeros() as usize);
        (matches != 0 && value != 0).then(|| unpack(value))
    }

    /// Enters a tuple.
    pub fn insert(
        &mut self,
        hash: u64,
        entry: u32,
        direction: Direction,
    ) -> Result<(), ChainTooLong> {
        let tag = tag(hash);
        self.put(self.home(tag), tag, value(entry, direction))?;
        self.used += 1;
        if self.size < self.goal || self.used > self.goal as usize * FULL {
            self.grow();
        }
        Ok(())
    }

    /// Removes a tuple; `false` if it was not there.
    pub fn remove(&mut self, hash: u64, entry: u32, direction: Direction) -> bool {
        let removed = self.take(self.home(tag(hash)), value(entry, direction));
        self.used -= usize::from(removed);
        removed
    }

    /// Puts a tuple into the first free place from a bucket on.
    #[inline(always)]
    fn put(&mut self, home: usize, tag: u32, value: u32) -> Result<(), ChainTooLong> {
        for n in home..home + PROBE {
            let bucket = self.bucket_mut(n);
            if let Some(free) = bucket::free(bucket) {
                bucket::put(bucket, free, tag, value);
                (home..n).for_each(|n| *bucket::passed_mut(self.bucket_mut(n)) += 1);
                return Ok(());
            }
        }
        Err(ChainTooLong)
    }

    /// Takes out a tuple that was put in from a bucket on; `false` if it is not there.
    #[inline(always)]
    fn take(&mut self, home: usize, value: u32) -> bool {
        for n in home..home + PROBE {
            let bucket = self.bucket_mut(n);
            if let Some(place) = bucket::position(bucket, value) {
                bucket::put(bucket, place, 0, 0);
                (home..n).for_each(|n| *bucket::passed_mut(self.bucket_mut(n)) -= 1);
                return true;
            }
        }
        false
    }

    /// Goes on growing, or begins to.
    #[inline(never)]
    fn grow(&mut self) {
        // A table that may hardly grow has its size from the beginning.
        if self.size == self.goal && self.size >= FEWEST {
            self.goal = self.goal.saturating_mul(2).min(self.most);
        }
        for _ in 0..2 {
            if self.size < self.goal && self.divide().is_err() {
                // As good as it is, for now.
                self.goal = self.size;
            }
        }
    }

    /// Divides a bucket: what belongs into the new one, by one more bit of its hash, moves there.
    /// Nothing happens if that has no room, which is hardly possible: it has only what went past
    /// those before it.
    fn divide(&mut self) -> Result<(), ChainTooLong> {
        let new = self.size;
        let half = if new == 2 * self.half { new } else { self.half };
        let old = (new - half) as usize;
        let mut moves = [(0, 0); PLACES * PROBE];
        let mut len = 0;
        for n in old..old + PROBE {
            let bucket = self.bucket(n);
            for (tag, value) in bucket::iter(bucket).filter(|(t, _)| t & (2 * half - 1) == new) {
                moves[len] = (tag, value);
                len += 1;
            }
            if bucket::passed(bucket) == 0 {
                break;
            }
        }
        let moves = &moves[..len];
        for (done, &(tag, value)) in moves.iter().enumerate() {
            if let Err(too_long) = self.put(new as usize, tag, value) {
                for &(_, value) in &moves[..done] {
                    self.take(new as usize, value);
                }
                return Err(too_long);
            }
        }
        for &(_, value) in moves {
            self.take(old, value);
        }
        (self.size, self.half) = (new + 1, half);
        Ok(())
    }

    /// The tuples in the bucket `nth` places after the one where a search for `hash` begins.
    pub fn neighbours(&self, hash: u64, nth: usize) -> [Option<(u32, Direction)>; PLACES] {
        let bucket = self.bucket((self.home(tag(hash)) + nth) % self.size as usize);
        std::array::from_fn(|place| {
            let value = bucket::value(bucket, place);
            (value != 0).then(|| unpack(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Enters and removes so many times tuples of so many entries, with hashes by chance.
    fn churn(
        mut index: Index,
        rounds: u32,
        entries: u32,
        hash: impl Fn(&mut fastrand::Rng) -> u32,
    ) -> (u32, u32) {
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        let mut map: HashMap<u32, (u64, Direction)> = HashMap::new();
        let mut refused = 0;
        for _ in 0..rounds {
            let entry = rng.u32(..entries);
            match map.remove(&entry) {
                Some((hash, dir)) => assert!(index.remove(hash, entry, dir)),
                None => {
                    let hash = u64::from(hash(&mut rng)) << 32;
                    let dir = if rng.bool() { Direction::Original } else { Direction::Reply };
                    match index.insert(hash, entry, dir) {
                        Ok(()) => drop(map.insert(entry, (hash, dir))),
                        Err(ChainTooLong) => refused += 1,
                    }
                }
            }
            for (&entry, &(hash, dir)) in map.iter().take(3) {
                assert_eq!(index.find(hash, |e, d| (e, d) == (entry, dir)), Some((entry, dir)));
            }
        }
        assert_eq!(index.used, map.len());
        let size = index.size;
        for (entry, (hash, dir)) in map.drain() {
            assert_eq!(index.find(hash, |e, d| (e, d) == (entry, dir)), Some((entry, dir)));
            assert!(index.remove(hash, entry, dir));
            assert!(!index.remove(hash, entry, dir));
        }
        assert!(index.words.iter().all(|w| *w == 0), "empty again, counts too");
        (refused, size)
    }

    #[test]
    fn index_agrees_with_a_hash_map_where_buckets_run_over() {
        let (refused, size) =
            churn(Index::new(20), 20_000, 300, |rng| rng.u32(..) << 5 | rng.u32(..3));
        assert!(refused > 0, "the bound was met");
        assert_eq!(size, 32);
    }

    #[test]
    fn no_tuple_is_refused_while_the_table_can_grow() {
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        let mut index = Index::new(1 << 18);
        for n in 0..600_000 {
            assert_eq!(index.insert(rng.u64(..), n, Direction::Original), Ok(()), "{n}");
        }
    }

    #[test]
    fn index_agrees_with_a_hash_map_while_it_grows() {
        for (most, grown) in [(8192, 8192), (1 << 20, 8192)] {
            let (refused, size) = churn(Index::new(most), 100_000, 40_000, |rng| rng.u32(..));
            assert_eq!((refused, size), (0, grown));
        }
        // Few homes, which more bits divide.
        let (_, size) = churn(Index::new(1 << 16), 60_000, 9000, |rng| rng.u32(..) & 0xff00_fc01);
        assert!(size >= 1024);
    }
}
