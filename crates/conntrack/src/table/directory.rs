// SPDX-License-Identifier: Apache-2.0

//! Which worker has a tuple: the tuples of all connections of all workers, while each worker has
//! its own table.
//!
//! A tuple is 56 bits of its hash, in one of sixteen words that the hash names: a word holds them
//! and the worker. There are no locks: after a worker enters a tuple, it checks whether another
//! worker has done the same, and if so removes it, so that no two workers have one tuple. Two
//! tuples with the same bits are one here: then a connection that would be translated gets another
//! port, and others do not begin; with half a million tuples the odds of that are one in 10^5.

use std::sync::atomic::Ordering::SeqCst;

use crate::sync::{AtomicU64, prefetch};

/// Words that a tuple may be in: two cache lines.
const WORDS: usize = 16;
/// The part of a word that holds the worker.
const WORKER: u64 = 0xff;

/// Workers at most.
pub(crate) const MOST: usize = WORKER as usize;

/// Another worker has this tuple, or there is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken;

#[derive(Debug)]
pub(crate) struct Directory {
    words: Box<[AtomicU64]>,
    /// Where the first tuple's words begin, so that they are whole cache lines.
    start: usize,
    buckets: usize,
}

const fn word(hash: u64, worker: usize) -> u64 {
    hash & !WORKER | (worker as u64 + 1)
}

impl Directory {
    /// With room for the tuples of so many connections, and four times that.
    pub fn new(connections: u32) -> Self {
        let buckets = (connections as usize / 2).next_power_of_two().clamp(64, 1 << 22);
        let words: Box<[AtomicU64]> =
            (0..(buckets + 1) * WORDS).map(|_| AtomicU64::new(0)).collect();
        let start = words.as_ptr().align_offset(WORDS * size_of::<u64>()).min(WORDS);
        Directory { words, start, buckets }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &[AtomicU64] {
        let at = self.start + (((hash >> 32) * self.buckets as u64) >> 32) as usize * WORDS;
        self.words.get(at..at + WORDS).unwrap_or_default()
    }

    /// Asks the processor to fetch the words that a tuple may be in.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.bucket(hash).iter().step_by(WORDS / 2).for_each(prefetch);
    }

    /// The worker that has a tuple.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<usize> {
        let found = self.bucket(hash).iter().map(|w| w.load(SeqCst));
        found
            .filter(|w| (w ^ hash) & !WORKER == 0 && w & WORKER != 0)
            .map(|w| (w & WORKER) as usize - 1)
            .next()
    }

    fn is_anothers(&self, hash: u64, worker: usize) -> bool {
        let own = word(hash, worker);
        let alike = |w: u64| (w ^ hash) & !WORKER == 0 && w & WORKER != 0;
        self.bucket(hash).iter().map(|w| w.load(SeqCst)).any(|w| alike(w) && w != own)
    }

    /// Enters a tuple of a worker's, once more if it is there already.
    pub fn claim(&self, hash: u64, worker: usize) -> Result<(), Taken> {
        let own = word(hash, worker);
        if self.is_anothers(hash, worker) {
            return Err(Taken);
        }
        let free = |w: &&AtomicU64| {
            w.load(SeqCst) == 0 && w.compare_exchange(0, own, SeqCst, SeqCst).is_ok()
        };
        let place = self.bucket(hash).iter().find(free).ok_or(Taken)?;
        // Of two that enter at the same time each sees the other, or one of them does.
        if self.is_anothers(hash, worker) {
            place.store(0, SeqCst);
            return Err(Taken);
        }
        Ok(())
    }

    /// Removes a tuple that was entered, once.
    pub fn release(&self, hash: u64, worker: usize) {
        let own = word(hash, worker);
        if let Some(place) = self.bucket(hash).iter().find(|w| w.load(SeqCst) == own) {
            // Only this worker removes its words.
            place.store(0, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_belongs_to_one_worker_until_all_its_entries_are_removed() {
        let directory = Directory::new(1000);
        let hash = 0x1234_5678_9abc_def0;
        assert_eq!(directory.find(hash), None);
        assert_eq!(directory.claim(hash, 2), Ok(()));
        assert_eq!(directory.claim(hash, 2), Ok(()));
        assert_eq!((directory.claim(hash, 0), directory.find(hash)), (Err(Taken), Some(2)));
        directory.release(hash, 2);
        assert_eq!((directory.claim(hash, 0), directory.find(hash)), (Err(Taken), Some(2)));
        directory.release(hash, 2);
        assert_eq!((directory.find(hash), directory.claim(hash, 0)), (None, Ok(())));
        // The low bits do not tell tuples apart.
        assert_eq!(directory.find(hash ^ 3), Some(0));
        assert_eq!(directory.find(hash ^ 0x100), None);
    }

    #[test]
    fn entries_are_refused_when_the_directory_is_full() {
        let directory = Directory::new(0);
        let near = |n: u64| n << 8;
        let entered = (1..=100).take_while(|n| directory.claim(near(*n), 1).is_ok()).count();
        assert_eq!(entered, WORDS);
        directory.release(near(7), 1);
        assert_eq!(directory.claim(near(99), 0), Ok(()));
        assert_eq!(directory.find(near(99)), Some(0));
    }

    #[test]
    fn concurrent_entries_of_a_tuple_have_one_owner_at_most() {
        const ROUNDS: u64 = if cfg!(miri) { 30 } else { 20_000 };
        const HASHES: u64 = 4;
        let directory = Directory::new(0);
        let held: [AtomicU64; HASHES as usize] = std::array::from_fn(|_| AtomicU64::new(0));
        std::thread::scope(|scope| {
            for worker in 0..3usize {
                let (directory, held) = (&directory, &held);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let n = (round * 7 + worker as u64) % HASHES;
                        let hash = (n + 1) << 8;
                        if directory.claim(hash, worker).is_ok() {
                            assert_eq!(held[n as usize].swap(worker as u64 + 1, SeqCst), 0);
                            assert_eq!(held[n as usize].swap(0, SeqCst), worker as u64 + 1);
                            directory.release(hash, worker);
                        }
                    }
                });
            }
        });
        assert!((1..=HASHES).all(|n| directory.find(n << 8).is_none()));
    }
}
