// SPDX-License-Identifier: Apache-2.0

//! A hash from single values to their ranks.

use std::hash::{BuildHasher, RandomState};

/// 64 x 64 to 128 bits, both halves folded to one.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ (wide >> 64) as u64
}

/// An odd constant with well spread bits (the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A value to look up.
pub(crate) trait Point: Copy + Eq + Default {
    /// A hash with well spread upper bits.
    fn hash(self, seed: u64) -> u64;
}

impl Point for u64 {
    #[inline]
    fn hash(self, seed: u64) -> u64 {
        fold(self ^ seed, SPREAD)
    }
}

impl Point for u128 {
    #[inline]
    fn hash(self, seed: u64) -> u64 {
        fold((self as u64).hash(seed) ^ (self >> 64) as u64, SPREAD)
    }
}

/// Numbers of keys from 1 on, 0 for all others. Open addressing, at most half of the cells taken;
/// seeded, since keys come from packets.
#[derive(Clone, Debug)]
pub(crate) struct Points<K> {
    cells: Vec<(K, u32)>,
    /// Hash bits that are dropped.
    shift: u32,
    seed: u64,
}

impl<K: Point> Points<K> {
    /// Of different keys, in the order of their ranks.
    pub fn new(keys: &[K]) -> Self {
        let bits = (keys.len() * 2).next_power_of_two().ilog2().max(1);
        let seed = RandomState::new().hash_one(0u64);
        let mut points =
            Points { cells: vec![(K::default(), 0); 1 << bits], shift: 64 - bits, seed };
        for (number, key) in (1..).zip(keys) {
            let mut at = points.home(*key);
            while points.cells[at].1 != 0 {
                at = (at + 1) & (points.cells.len() - 1);
            }
            points.cells[at] = (*key, number);
        }
        points
    }

    #[inline]
    fn home(&self, key: K) -> usize {
        (key.hash(self.seed) >> self.shift) as usize
    }

    #[inline]
    pub fn rank(&self, key: K) -> u32 {
        let mask = self.cells.len() - 1;
        let mut at = self.home(key) & mask;
        loop {
            let (k, number) = self.cells[at];
            if number == 0 || k == key {
                return number;
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    pub fn prefetch(&self, key: K) {
        crate::prefetch(&self.cells, self.home(key));
    }

    /// The keys, in the order of their ranks.
    pub fn keys(&self) -> Vec<K> {
        let mut cells: Vec<_> = self.cells.iter().filter(|cell| cell.1 != 0).collect();
        cells.sort_unstable_by_key(|cell| cell.1);
        cells.into_iter().map(|cell| cell.0).collect()
    }

    pub fn bytes(&self) -> usize {
        self.cells.len() * size_of::<(K, u32)>()
    }
}
