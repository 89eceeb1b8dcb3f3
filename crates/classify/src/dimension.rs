// SPDX-License-Identifier: Apache-2.0

//! From a value of one dimension to its coordinate, a number of 32 bits that orders like it.

use crate::points::Points;
use crate::ranks::Ranks;

/// How a dimension gets its coordinates.
#[derive(Clone, Debug)]
pub(crate) enum Dimension {
    /// Up to 4 bytes: the value is the coordinate.
    Word,
    /// Up to 8 bytes: how many bounds are not above it.
    Doubles(Ranks<u64>),
    /// Up to 8 bytes, where all bounds are single values: the number of the value.
    DoublePoints(Points<u64>),
    /// Up to 16 bytes.
    Quads(Ranks<u128>),
    /// Up to 16 bytes, single values.
    QuadPoints(Points<u128>),
}

impl Dimension {
    /// Of the intervals of a dimension of so many bytes, none of which is the whole dimension. With
    /// it comes the greatest coordinate.
    pub fn new(bytes: u8, intervals: &[(u128, u128)]) -> (Dimension, u32) {
        let max = max_value(bytes);
        if bytes <= 4 {
            return (Dimension::Word, max as u32);
        }
        let points = !intervals.is_empty() && intervals.iter().all(|(from, to)| from == to);
        let mut bounds: Vec<u128> = Vec::with_capacity(intervals.len() * 2);
        if points {
            bounds.extend(intervals.iter().map(|i| i.0));
        } else {
            let after = |to: u128| (to < max).then(|| to + 1);
            let both = intervals.iter().flat_map(|&(from, to)| [Some(from), after(to)]);
            bounds.extend(both.flatten().filter(|b| *b != 0));
        }
        bounds.sort_unstable();
        bounds.dedup();
        let last = bounds.len() as u32;
        let doubles = || bounds.iter().map(|b| *b as u64).collect::<Vec<_>>();
        let dimension = match (bytes, points) {
            (..=8, false) => Dimension::Doubles(Ranks::new(doubles())),
            (..=8, true) => Dimension::DoublePoints(Points::new(&doubles())),
            (_, false) => Dimension::Quads(Ranks::new(bounds)),
            (_, true) => Dimension::QuadPoints(Points::new(&bounds)),
        };
        (dimension, last)
    }

    /// The coordinate of a value.
    #[inline]
    pub fn coordinate(&self, value: u128) -> u32 {
        match self {
            Dimension::Word => value as u32,
            Dimension::Doubles(ranks) => ranks.rank(value as u64) as u32,
            Dimension::DoublePoints(points) => points.rank(value as u64),
            Dimension::Quads(ranks) => ranks.rank(value) as u32,
            Dimension::QuadPoints(points) => points.rank(value),
        }
    }

    /// Has the first cache line loaded that [`Dimension::coordinate`] needs.
    #[inline]
    pub fn prefetch(&self, value: u128) {
        match self {
            Dimension::Word => {}
            Dimension::Doubles(ranks) => ranks.prefetch(value as u64),
            Dimension::DoublePoints(points) => points.prefetch(value as u64),
            Dimension::Quads(ranks) => ranks.prefetch(value),
            Dimension::QuadPoints(points) => points.prefetch(value),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Dimension::Word => 0,
            Dimension::Doubles(r) => r.bytes(),
            Dimension::DoublePoints(p) => p.bytes(),
            Dimension::Quads(r) => r.bytes(),
            Dimension::QuadPoints(p) => p.bytes(),
        }
    }
}

/// The greatest value of a dimension of so many bytes.
pub(crate) fn max_value(bytes: u8) -> u128 {
    match bytes {
        16.. => u128::MAX,
        _ => (1 << (8 * bytes)) - 1,
    }
}
