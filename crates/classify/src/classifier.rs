//! The finished structure and the search in it.

use crate::dimension::Dimension;

/// Most dimensions that a classifier can have.
pub const MAX_DIMENSIONS: usize = 16;

/// Ranks of a packet: where it lies in all dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    pub(crate) ranks: [u32; MAX_DIMENSIONS],
}

/// Four numbers in a row.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(crate) struct Four(pub [i32; 4]);

/// What a cell of a node leads to.
///
/// | bits | leaf | node |
/// | --- | --- | --- |
/// | 0-1 | 1 | 2 |
/// | 2-15 | blocks of four rules | shift (5), bits (5) |
/// | 16-31 | dimensions that are compared | dimension |
/// | 32-63 | first of its fours | first of its cells |
///
/// Zero is a leaf without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell(pub u64);

pub(crate) const MAX_BLOCKS: usize = (1 << 14) - 1;

impl Cell {
    pub const EMPTY: Cell = Cell(0);

    pub fn leaf(first: usize, blocks: usize, mask: u16) -> Cell {
        Cell((first as u64) << 32 | u64::from(mask) << 16 | (blocks as u64) << 2 | 1)
    }

    pub fn node(first: usize, dimension: usize, shift: u32, bits: u32) -> Cell {
        Cell(
            (first as u64) << 32
                | (dimension as u64) << 16
                | u64::from(bits) << 7
                | u64::from(shift) << 2
                | 2,
        )
    }

    #[inline]
    fn is_node(self) -> bool {
        self.0 & 3 == 2
    }

    #[inline]
    fn first(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// Rules that are searched together.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub root: Cell,
    /// Its first and last rule.
    pub first: u32,
    pub last: u32,
    /// Dimension and ranks outside of which it has no rule.
    pub guards: Vec<(u8, u32, u32)>,
}

/// Rules, made to be searched.
#[derive(Clone, Debug)]
pub struct Classifier {
    pub(crate) dimensions: Vec<Dimension>,
    /// By their first rule.
    pub(crate) trees: Vec<Tree>,
    pub(crate) cells: Vec<Cell>,
    /// Blocks of leaves: four rule numbers, then for each dimension that is compared four first and four last ranks.
    pub(crate) fours: Vec<Four>,
    pub(crate) copies: usize,
}

/// How large a [`Classifier`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of memory.
    pub bytes: usize,
    /// Trees.
    pub trees: usize,
    /// Places in leaves that rules take.
    pub copies: usize,
}

impl Classifier {
    /// How large it is.
    pub fn size(&self) -> Size {
        let dimensions: usize = self.dimensions.iter().map(Dimension::bytes).sum();
        let bytes = dimensions + self.cells.len() * size_of::<Cell>() + self.fours.len() * size_of::<Four>();
        Size { bytes, trees: self.trees.len(), copies: self.copies }
    }

    /// Where the values of all dimensions are.
    pub fn locate(&self, values: &[u128]) -> Location {
        let mut location = Location::default();
        for (dimension, value) in values.iter().enumerate() {
            self.place(&mut location, dimension, *value);
        }
        location
    }

    /// Sets one dimension to a value.
    #[inline]
    pub fn place(&self, location: &mut Location, dimension: usize, value: u128) {
        if let (Some(d), Some(rank)) = (self.dimensions.get(dimension), location.ranks.get_mut(dimension)) {
            *rank = d.rank(value);
        }
    }

    /// As [`Classifier::place`], for a dimension of up to four bytes.
    #[inline]
    pub fn place_word(&self, location: &mut Location, dimension: usize, value: u32) {
        if let (Some(d), Some(rank)) = (self.dimensions.get(dimension), location.ranks.get_mut(dimension)) {
            *rank = d.rank_word(value);
        }
    }

    /// Has the first cache line loaded that [`Classifier::place`] needs.
    #[inline]
    pub fn prefetch(&self, dimension: usize, value: u128) {
        if let Some(d) = self.dimensions.get(dimension) {
            d.prefetch(value);
        }
    }

    /// The first rule from `from` on whose intervals all hold.
    #[inline]
    pub fn next(&self, location: &Location, from: u32) -> Option<u32> {
        let mut best = u32::MAX;
        for tree in &self.trees {
            if tree.first >= best {
                break;
            }
            if tree.last < from || !tree.guards_hold(location) {
                continue;
            }
            best = self.search(tree.root, location, from, best);
        }
        (best != u32::MAX).then_some(best)
    }

    #[inline]
    fn search(&self, mut cell: Cell, location: &Location, from: u32, best: u32) -> u32 {
        while cell.is_node() {
            let dimension = (cell.0 >> 16) as usize % MAX_DIMENSIONS;
            let (shift, bits) = ((cell.0 >> 2) & 31, (cell.0 >> 7) & 31);
            let part = location.ranks[dimension] >> shift & ((1 << bits) - 1);
            cell = match self.cells.get(cell.first() + part as usize) {
                Some(next) => *next,
                None => return best,
            };
        }
        self.scan(cell, location, from, best)
    }

    #[inline]
    fn scan(&self, leaf: Cell, location: &Location, from: u32, best: u32) -> u32 {
        let blocks = (leaf.0 >> 2 & MAX_BLOCKS as u64) as usize;
        let mask = (leaf.0 >> 16) as u16;
        let stride = 1 + 2 * mask.count_ones() as usize;
        let Some(fours) = self.fours.get(leaf.first()..leaf.first() + blocks * stride) else { return best };
        for block in fours.chunks_exact(stride) {
            let Some((Four(rules), bounds)) = block.split_first() else { break };
            if rules[0] as u32 >= best {
                break;
            }
            if let Some(found) = first_match(rules, bounds, mask, location, from) {
                return found.min(best);
            }
        }
        best
    }
}

/// The first of four rules that is not before `from` and whose bounds hold.
#[inline(always)]
fn first_match(rules: &[i32; 4], bounds: &[Four], mask: u16, location: &Location, from: u32) -> Option<u32> {
    let mut misses = [0i32; 4];
    for (miss, rule) in misses.iter_mut().zip(rules) {
        *miss = -i32::from(*rule < from as i32);
    }
    let mut rest = mask;
    for pair in bounds.chunks_exact(2) {
        let [Four(first), Four(last)] = pair else { break };
        let dimension = rest.trailing_zeros() as usize % MAX_DIMENSIONS;
        rest &= rest.wrapping_sub(1);
        let rank = location.ranks[dimension] as i32;
        for i in 0..4 {
            misses[i] |= -i32::from(first[i] > rank) | -i32::from(rank > last[i]);
        }
    }
    let lane = misses.iter().position(|m| *m == 0)?;
    Some(rules[lane] as u32)
}

impl Tree {
    #[inline]
    fn guards_hold(&self, location: &Location) -> bool {
        self.guards.iter().all(|&(dimension, first, last)| {
            let rank = location.ranks[usize::from(dimension) % MAX_DIMENSIONS];
            first <= rank && rank <= last
        })
    }
}
