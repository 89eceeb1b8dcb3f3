// SPDX-License-Identifier: Apache-2.0

//! Longest-prefix match, immutable after it is built.
//!
//! The prefixes cut the address space into ranges in which the longest match is the same. A lookup
//! is a binary search among the range starts, narrowed for large tables by an index over the
//! address's upper 16 bits. Every prefix knows the next shorter one that covers it, so a caller can
//! step back where the kernel's trie does.

use std::fmt::Debug;

/// An address as a number.
pub(crate) trait Key: Copy + Ord + Debug {
    fn top16(self) -> usize;
    /// Last address of the prefix.
    fn last(self, len: u8) -> Self;
    /// The next address; `None` after the last.
    fn next(self) -> Option<Self>;
    const ZERO: Self;
}

impl Key for u32 {
    const ZERO: u32 = 0;
    fn top16(self) -> usize {
        (self >> 16) as usize
    }
    fn last(self, len: u8) -> u32 {
        self | u32::MAX.checked_shr(u32::from(len)).unwrap_or(0)
    }
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Key for u128 {
    const ZERO: u128 = 0;
    fn top16(self) -> usize {
        (self >> 112) as usize
    }
    fn last(self, len: u8) -> u128 {
        self | u128::MAX.checked_shr(u32::from(len)).unwrap_or(0)
    }
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

/// No prefix.
const NONE: u32 = u32::MAX;
/// Up to so many ranges, all are compared.
const LINEAR: usize = 48;
/// From so many ranges on, the index over the upper 16 bits pays for its 256 KiB.
const INDEX_FROM: usize = 512;

/// The match structure: prefixes are numbered in the order given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lpm<K> {
    /// First address of each range, ascending; the first is zero.
    starts: Vec<K>,
    /// Longest prefix in each range, or [`NONE`].
    longest: Vec<u32>,
    /// Number of ranges that start below each value of the upper 16 bits; empty for small tables.
    index: Vec<u32>,
    /// Next shorter prefix around each, or [`NONE`].
    around: Vec<u32>,
}

impl<K: Key> Lpm<K> {
    /// From distinct prefixes with zero bits after their length.
    pub(crate) fn new(prefixes: &[(K, u8)]) -> Self {
        let mut order: Vec<u32> = (0..prefixes.len() as u32).collect();
        order.sort_by_key(|&i| prefixes[i as usize]);
        let mut lpm = Lpm {
            starts: vec![K::ZERO],
            longest: vec![NONE],
            index: Vec::new(),
            around: vec![NONE; prefixes.len()],
        };
        // Prefixes that cover the address reached so far, the shortest first.
        let mut open: Vec<(u32, K)> = Vec::new();
        for &i in &order {
            let (start, len) = prefixes[i as usize];
            lpm.close(&mut open, Some(start));
            lpm.around[i as usize] = open.last().map_or(NONE, |o| o.0);
            lpm.range(start, i);
            open.push((i, start.last(len)));
        }
        lpm.close(&mut open, None);
        if lpm.starts.len() >= INDEX_FROM {
            lpm.index = Vec::with_capacity(65537);
            let mut at = 0;
            for top in 0..=65536 {
                while at < lpm.starts.len() && lpm.starts[at].top16() < top {
                    at += 1;
                }
                lpm.index.push(at as u32);
            }
        }
        lpm
    }

    /// Ends the open prefixes that lie wholly before `until`.
    fn close(&mut self, open: &mut Vec<(u32, K)>, until: Option<K>) {
        while let Some(&(_, last)) = open.last() {
            if until.is_some_and(|u| last >= u) {
                break;
            }
            open.pop();
            if let Some(next) = last.next() {
                self.range(next, open.last().map_or(NONE, |o| o.0));
            }
        }
    }

    fn range(&mut self, start: K, longest: u32) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.longest.pop();
        }
        self.starts.push(start);
        self.longest.push(longest);
    }

    /// Number of the longest prefix around the address.
    #[inline]
    pub(crate) fn longest(&self, key: K) -> Option<u32> {
        let (low, high) = if self.index.is_empty() {
            (0, self.starts.len())
        } else {
            let top = key.top16();
            (self.index[top] as usize, self.index[top + 1] as usize)
        };
        // Ranges before `low` start before the key in any case.
        let starts = self.starts.get(low..high)?;
        // A few comparisons side by side cost less than a chain of those that depend on each other.
        let before = match starts.len() {
            ..=LINEAR => starts.iter().map(|&s| usize::from(s <= key)).sum(),
            _ => starts.partition_point(|&s| s <= key),
        };
        let at = low + before;
        self.longest.get(at.wrapping_sub(1)).copied().filter(|&p| p != NONE)
    }

    /// The next shorter prefix around a prefix.
    #[inline]
    pub(crate) fn around(&self, prefix: u32) -> Option<u32> {
        self.around.get(prefix as usize).copied().filter(|&p| p != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_hand(prefixes: &[(u32, u8)], key: u32) -> Vec<u32> {
        let mut hits: Vec<u32> = (0..prefixes.len() as u32)
            .filter(|&i| {
                let (p, len) = prefixes[i as usize];
                (p..=p.last(len)).contains(&key)
            })
            .collect();
        hits.sort_by_key(|&i| std::cmp::Reverse(prefixes[i as usize].1));
        hits
    }

    #[test]
    fn every_lookup_walks_all_covering_prefixes_from_the_longest() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        for count in [0, 1, 2, 10, 100, 3000] {
            let mut prefixes: Vec<(u32, u8)> = (0..count)
                .map(|_| {
                    let len = rng.u8(0..=32);
                    let bits = if rng.bool() { rng.u32(..) } else { rng.u32(..) & 0xf0f0_0303 };
                    (bits & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0), len)
                })
                .collect();
            prefixes.sort();
            prefixes.dedup();
            rng.shuffle(&mut prefixes);
            let lpm = Lpm::new(&prefixes);
            let mut keys: Vec<u32> = (0..2000).map(|_| rng.u32(..)).collect();
            for &(p, len) in &prefixes {
                keys.extend([p, p.last(len), p.wrapping_sub(1), p.last(len).wrapping_add(1)]);
            }
            for key in keys {
                let mut walk = Vec::new();
                let mut at = lpm.longest(key);
                while let Some(p) = at {
                    walk.push(p);
                    at = lpm.around(p);
                }
                assert_eq!(walk, by_hand(&prefixes, key), "{key:#x} in {prefixes:x?}");
            }
        }
    }
}
