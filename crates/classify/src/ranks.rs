// SPDX-License-Identifier: Apache-2.0

//! How many of many sorted bounds lie at or below a key.
//!
//! A node splits the span of its bounds into equal cells, about one for two bounds. A cell holds
//! few bounds, which are compared one by one, or is a node again where bounds cluster: two or three
//! cache lines for most keys, memory in proportion to the bounds.

/// A number that bounds are made of.
pub trait Key: Copy + Ord + std::fmt::Debug {
    /// `(self - min) >> shift`, for `self >= min`; cut to what fits.
    fn part(self, min: Self, shift: u32) -> usize;
    /// Bits of `self - min` without leading zeros.
    fn bits_above(self, min: Self) -> u32;
}

macro_rules! key {
    ($type:ty) => {
        impl Key for $type {
            #[inline]
            fn part(self, min: Self, shift: u32) -> usize {
                (self.wrapping_sub(min) >> shift) as usize
            }

            fn bits_above(self, min: Self) -> u32 {
                <$type>::BITS - self.wrapping_sub(min).leading_zeros()
            }
        }
    };
}
key!(u16);
key!(u32);
key!(u64);
key!(u128);

/// Longer than any number: such keys are bisected.
impl Key for [u8; 64] {
    fn part(self, _min: Self, _shift: u32) -> usize {
        0
    }

    fn bits_above(self, _min: Self) -> u32 {
        0
    }
}

/// Up to so many bounds are all compared, without a branch.
const LINEAR: usize = 16;
/// A cell with more bounds becomes a node.
const FEW: usize = 8;
/// Nodes below nodes, at most. Deeper cells are bisected.
const DEPTH: u32 = 6;
/// In a cell: what follows is the number of a node.
const NODE: u64 = 1 << 63;

#[derive(Clone, Debug)]
struct Node<K> {
    min: K,
    shift: u32,
    /// Bounds before its first one.
    start: u32,
    /// Bounds up to its last one.
    end: u32,
    /// Its cells.
    first: u32,
    cells: u32,
}

/// The outermost cells, for generated code: a key that is not below `min` lies in cell
/// `(key - min) >> shift`, or after the last one, and so after all bounds.
#[derive(Clone, Copy, Debug)]
pub struct Root<'a, K> {
    /// The first bound.
    pub min: K,
    /// See above.
    pub shift: u32,
    /// The number of bounds before the cell, and above it from bit 32 on how many lie in it; with
    /// bit 63 set it is cut further.
    pub cells: &'a [u64],
}

/// Sorted bounds, made to be searched.
#[derive(Clone, Debug)]
pub struct Ranks<K> {
    bounds: Vec<K>,
    nodes: Vec<Node<K>>,
    /// Number of bounds before the cell, and above it how many it has; or a node.
    cells: Vec<u64>,
}

impl<K: Key> Ranks<K> {
    /// Of bounds in ascending order.
    pub fn new(bounds: Vec<K>) -> Self {
        let mut ranks = Ranks { bounds, nodes: Vec::new(), cells: Vec::new() };
        let len = ranks.bounds.len();
        if len > LINEAR {
            ranks.add_node(0, len, DEPTH);
        }
        ranks
    }

    /// The bounds.
    pub fn bounds(&self) -> &[K] {
        &self.bounds
    }

    /// The outermost cells; none for few bounds.
    pub fn root(&self) -> Option<Root<'_, K>> {
        let node = self.nodes.first()?;
        let cells = self.cells.get(node.first as usize..(node.first + node.cells) as usize)?;
        Some(Root { min: node.min, shift: node.shift, cells })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bounds.len() * size_of::<K>()
            + self.nodes.len() * size_of::<Node<K>>()
            + self.cells.len() * 8
    }

    fn add_node(&mut self, start: usize, end: usize, depth: u32) -> u64 {
        let number = self.nodes.len();
        let (min, max) = (self.bounds[start], self.bounds[end - 1]);
        let shift = max.bits_above(min).saturating_sub((end - start).ilog2());
        let cells = max.part(min, shift) + 1;
        let first = self.cells.len();
        self.nodes.push(Node {
            min,
            shift,
            start: start as u32,
            end: end as u32,
            first: first as u32,
            cells: cells as u32,
        });
        self.cells.resize(first + cells, 0);
        let mut at = start;
        for cell in 0..cells {
            let from = at;
            while at < end && self.bounds[at].part(min, shift) == cell {
                at += 1;
            }
            self.cells[first + cell] = if at - from > FEW && depth > 0 && shift > 0 {
                self.add_node(from, at, depth - 1)
            } else {
                ((at - from) as u64) << 32 | from as u64
            };
        }
        NODE | number as u64
    }

    /// How many bounds are not above the key.
    #[inline]
    pub fn rank(&self, key: K) -> usize {
        let Some(mut node) = self.nodes.first() else {
            let mut rank = 0;
            for bound in &self.bounds {
                rank += usize::from(*bound <= key);
            }
            return rank;
        };
        loop {
            if key < node.min {
                return node.start as usize;
            }
            let part = key.part(node.min, node.shift);
            if part >= node.cells as usize {
                return node.end as usize;
            }
            let cell = self.cells[node.first as usize + part];
            if cell & NODE != 0 {
                node = &self.nodes[(cell & !NODE) as usize];
                continue;
            }
            let (start, len) = (cell as u32 as usize, (cell >> 32) as usize);
            let bounds = &self.bounds[start..start + len];
            if len > FEW {
                return start + bounds.partition_point(|b| *b <= key);
            }
            let mut rank = start;
            for bound in bounds {
                rank += usize::from(*bound <= key);
            }
            return rank;
        }
    }

    /// Has the cache line loaded that [`Ranks::rank`] of this key needs after the root.
    #[inline]
    pub fn prefetch(&self, key: K) {
        let Some(node) = self.nodes.first() else { return };
        if key >= node.min {
            crate::prefetch(&self.cells, node.first as usize + key.part(node.min, node.shift));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Key>(mut bounds: Vec<K>, keys: &[K]) {
        bounds.sort_unstable();
        bounds.dedup();
        let ranks = Ranks::new(bounds.clone());
        for key in keys.iter().chain(&bounds) {
            assert_eq!(ranks.rank(*key), bounds.partition_point(|b| b <= key), "{key:?}");
        }
    }

    #[test]
    fn ranks_equal_those_of_bisection() {
        let mut rng = fastrand::Rng::with_seed(7);
        for len in [0, 1, 2, 16, 17, 40, 300, 5000] {
            for spread in [1u32, 7, 24] {
                let near = |rng: &mut fastrand::Rng| (rng.u32(..4) << 28) + (rng.u32(..) >> spread);
                let bounds: Vec<u32> = (0..len).map(|_| near(&mut rng)).collect();
                let keys: Vec<u32> =
                    (0..2000).map(|_| near(&mut rng)).chain([0, u32::MAX]).collect();
                check(bounds.clone(), &keys);
                let long = |v: u32| u128::from(v >> 20) << 100 | u128::from(v);
                check(
                    bounds.into_iter().map(long).collect(),
                    &keys.into_iter().map(long).collect::<Vec<_>>(),
                );
            }
        }
        check((0..=u16::MAX).collect(), &[5]);
        check(vec![0u64, u64::MAX], &[1, u64::MAX - 1]);
        let dense: Vec<u128> = (0..100).chain(u128::MAX - 99..=u128::MAX).collect();
        check(dense, &[100, u128::MAX / 2]);
    }
}
