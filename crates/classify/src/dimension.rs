//! From a value of one dimension to its rank.

use crate::points::Points;
use crate::ranks::Ranks;

/// The ranks of one dimension, in the form that suits its width and bounds.
#[derive(Clone, Debug)]
pub(crate) enum Dimension {
    /// A rank for each value of up to 16 bits.
    Table(Box<[u16]>),
    Words(Ranks<u32>),
    WordPoints(Points<u32>),
    Doubles(Ranks<u64>),
    DoublePoints(Points<u64>),
    Quads(Ranks<u128>),
    QuadPoints(Points<u128>),
}

/// Fewer bounds than this are compared one by one rather than looked up in a table.
const TABLE: usize = 8;

impl Dimension {
    /// Of the intervals of a dimension of so many bytes, none of which is the whole dimension. With it comes how many
    /// ranks there are.
    pub fn new(bytes: u8, intervals: &[(u128, u128)]) -> (Dimension, u32) {
        let points = !intervals.is_empty() && intervals.iter().all(|(from, to)| from == to);
        let max = max_value(bytes);
        let mut bounds: Vec<u128> = if points && bytes > 2 {
            intervals.iter().map(|i| i.0).collect()
        } else {
            let after = |to: u128| (to < max).then(|| to + 1);
            intervals
                .iter()
                .flat_map(|&(from, to)| [Some(from), after(to)])
                .flatten()
                .filter(|b| *b != 0)
                .collect()
        };
        bounds.sort_unstable();
        bounds.dedup();
        let ranks = bounds.len() as u32 + 1;
        let words = || bounds.iter().map(|b| *b as u32).collect::<Vec<_>>();
        let doubles = || bounds.iter().map(|b| *b as u64).collect::<Vec<_>>();
        let dimension = match (bytes, points) {
            (0..=2, _) if bounds.len() >= TABLE => {
                let mut table = Vec::with_capacity(max as usize + 1);
                let mut next = bounds.iter().peekable();
                let mut rank = 0u16;
                for value in 0..=max {
                    if next.next_if(|b| **b == value).is_some() {
                        rank += 1;
                    }
                    table.push(rank);
                }
                Dimension::Table(table.into())
            }
            (0..=2, _) | (3..=4, false) => Dimension::Words(Ranks::new(words())),
            (3..=4, true) => Dimension::WordPoints(Points::new(&words())),
            (5..=8, false) => Dimension::Doubles(Ranks::new(doubles())),
            (5..=8, true) => Dimension::DoublePoints(Points::new(&doubles())),
            (_, false) => Dimension::Quads(Ranks::new(bounds)),
            (_, true) => Dimension::QuadPoints(Points::new(&bounds)),
        };
        (dimension, ranks)
    }

    /// The rank of a value of a dimension of up to 4 bytes.
    #[inline]
    pub fn rank_word(&self, value: u32) -> u32 {
        match self {
            Dimension::Table(table) => table.get(value as usize).map_or(0, |r| u32::from(*r)),
            Dimension::Words(ranks) => ranks.rank(value) as u32,
            Dimension::WordPoints(points) => points.rank(value),
            Dimension::Doubles(_)
            | Dimension::DoublePoints(_)
            | Dimension::Quads(_)
            | Dimension::QuadPoints(_) => self.rank(value.into()),
        }
    }

    /// The rank of a value.
    #[inline]
    pub fn rank(&self, value: u128) -> u32 {
        match self {
            Dimension::Table(_) | Dimension::Words(_) | Dimension::WordPoints(_) => {
                self.rank_word(value as u32)
            }
            Dimension::Doubles(ranks) => ranks.rank(value as u64) as u32,
            Dimension::DoublePoints(points) => points.rank(value as u64),
            Dimension::Quads(ranks) => ranks.rank(value) as u32,
            Dimension::QuadPoints(points) => points.rank(value),
        }
    }

    /// Has the first cache line loaded that [`Dimension::rank`] needs.
    #[inline]
    pub fn prefetch(&self, value: u128) {
        match self {
            Dimension::Table(table) => crate::prefetch(table, value as usize),
            Dimension::Words(ranks) => ranks.prefetch(value as u32),
            Dimension::WordPoints(points) => points.prefetch(value as u32),
            Dimension::Doubles(ranks) => ranks.prefetch(value as u64),
            Dimension::DoublePoints(points) => points.prefetch(value as u64),
            Dimension::Quads(ranks) => ranks.prefetch(value),
            Dimension::QuadPoints(points) => points.prefetch(value),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Dimension::Table(table) => table.len() * 2,
            Dimension::Words(r) => r.bytes(),
            Dimension::WordPoints(p) => p.bytes(),
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
