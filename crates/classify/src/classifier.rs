// SPDX-License-Identifier: Apache-2.0

//! The finished structure and the search in it.

use crate::dimension::Dimension;
use crate::lanes::{Line, Misses, Row};

/// Most dimensions that a classifier can have.
pub const MAX_DIMENSIONS: usize = 16;

/// Where a packet lies in all dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Coordinates, with the sign bit flipped: so they compare as signed numbers, which vectors can
    /// do.
    coordinates: [i32; MAX_DIMENSIONS],
}

impl Default for Location {
    fn default() -> Self {
        Location { coordinates: [i32::MIN; MAX_DIMENSIONS] }
    }
}

/// A coordinate as [`Location`] has it.
#[inline]
pub(crate) fn signed(coordinate: u32) -> i32 {
    (coordinate ^ 1 << 31) as i32
}

/// What a cell of a node leads to: a node or a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// First of a node's cells, or of a leaf's rows.
    pub first: u32,
    /// A node's cells but for the first, less one, or a leaf's blocks.
    pub len: u32,
    /// Node: where its second cell begins, signed; smaller coordinates lie in the first. Leaf: rows
    /// of a block.
    pub min: i32,
    /// Node: dimension (4 bits), shift (5 bits). Leaf: dimensions that are compared.
    pub what: u16,
    pub is_node: bool,
}

impl Cell {
    /// A leaf without rules.
    pub const EMPTY: Cell = Cell { first: 0, len: 0, min: 0, what: 0, is_node: false };

    pub fn leaf(first: u32, blocks: u32, mask: u16, stride: usize) -> Cell {
        Cell { first, len: blocks, min: stride as i32, what: mask, is_node: false }
    }

    pub fn node(first: u32, last: u32, min: u32, dimension: usize, shift: u32) -> Cell {
        Cell {
            first,
            len: last,
            min: signed(min),
            what: dimension as u16 | (shift as u16) << 4,
            is_node: true,
        }
    }

    /// The cell below that a packet's lies in.
    #[inline(always)]
    fn below(&self, location: &Location) -> usize {
        let at = location.coordinates[usize::from(self.what & 15)];
        let part = (at.wrapping_sub(self.min) as u32) >> (self.what >> 4 & 31);
        // Which of both it is cannot be predicted.
        let is_above = u32::from(at >= self.min).wrapping_neg();
        self.first as usize + ((part.min(self.len) + 1) & is_above) as usize
    }
}

/// Rules that are searched together.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub root: Cell,
    /// Its first and last rule.
    pub first: u32,
    pub last: u32,
    /// Dimension, and coordinates outside of which it has no rule.
    pub guards: Vec<(u8, i32, i32)>,
}

/// Rules, made to be searched.
#[derive(Clone, Debug)]
pub struct Classifier {
    pub(crate) dimensions: Vec<Dimension>,
    /// Dimensions of up to two bytes.
    pub(crate) halves: u16,
    /// By their first rule.
    pub(crate) trees: Vec<Tree>,
    pub(crate) cells: Vec<Cell>,
    /// Blocks of leaves: four rule numbers, then for each dimension that is compared four first and
    /// four last coordinates: one row if it has up to two bytes, else two.
    pub(crate) lines: Vec<Line>,
    pub(crate) copies: usize,
    pub(crate) is_large: bool,
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

/// Most trees that a classifier has.
pub(crate) const MOST_TREES: usize = 6;
/// Bytes from which on a classifier does not stay in a core's own cache.
const LARGE: usize = 256 << 10;

const _: () = assert!(size_of::<Cell>() == size_of::<Row>());

/// Packets that are searched for at the same time.
const LANES: usize = 32;

/// Some of the packets, in order.
#[derive(Clone, Copy)]
struct Lanes {
    lanes: [u8; LANES],
    count: usize,
}

impl Default for Lanes {
    #[inline(always)]
    fn default() -> Self {
        Lanes { lanes: [0; LANES], count: 0 }
    }
}

impl Lanes {
    /// Adds one, without a branch.
    #[inline(always)]
    fn push_if(&mut self, is: bool, lane: usize) {
        self.lanes[self.count % LANES] = lane as u8;
        self.count += usize::from(is);
    }

    #[inline(always)]
    fn all(&self) -> &[u8] {
        self.lanes.get(..self.count).unwrap_or(&[])
    }
}

impl Classifier {
    /// How large it is.
    pub fn size(&self) -> Size {
        let dimensions: usize = self.dimensions.iter().map(Dimension::bytes).sum();
        let bytes = dimensions
            + self.cells.len() * size_of::<Cell>()
            + self.lines.len() * size_of::<Line>();
        Size { bytes, trees: self.trees.len(), copies: self.copies }
    }

    /// Takes note of its size.
    pub(crate) fn weighed(mut self) -> Self {
        self.is_large = self.size().bytes > LARGE;
        self
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
        if let (Some(d), Some(at)) =
            (self.dimensions.get(dimension), location.coordinates.get_mut(dimension))
        {
            *at = signed(d.coordinate(value));
        }
    }

    /// Places a packet in a dimension of up to four bytes.
    #[inline]
    pub fn place_word(&self, location: &mut Location, dimension: usize, value: u32) {
        if let Some(at) = location.coordinates.get_mut(dimension) {
            *at = signed(value);
        }
    }

    /// Has the first cache line loaded that [`Classifier::place`] needs.
    #[inline]
    pub fn prefetch(&self, dimension: usize, value: u128) {
        if let Some(d) = self.dimensions.get(dimension) {
            d.prefetch(value);
        }
    }

    /// The first rule from `from` on of which all intervals hold.
    #[inline]
    pub fn next(&self, location: &Location, from: u32) -> Option<u32> {
        if self.is_large {
            return self.next_in_large(location, from);
        }
        let mut best = u32::MAX;
        for tree in &self.trees {
            if tree.first >= best {
                break;
            }
            if tree.last < from || !tree.guards_hold(location) {
                continue;
            }
            let mut cell = &tree.root;
            while cell.is_node {
                match self.cells.get(cell.below(location)) {
                    Some(below) => cell = below,
                    None => break,
                }
            }
            best = self.scan(cell, location, from, best);
        }
        (best != u32::MAX).then_some(best)
    }

    /// [`Classifier::next`] for large structures, where most steps wait for memory: the trees are
    /// searched in parallel.
    fn next_in_large(&self, location: &Location, from: u32) -> Option<u32> {
        let mut cells = [&Cell::EMPTY; MOST_TREES];
        for (cell, tree) in cells.iter_mut().zip(&self.trees) {
            if tree.last >= from && tree.guards_hold(location) {
                *cell = &tree.root;
                self.prefetch_next(cell, location);
            }
        }
        let mut nodes = true;
        while nodes {
            nodes = false;
            for cell in cells[..self.trees.len().min(MOST_TREES)].iter_mut().filter(|c| c.is_node) {
                *cell = self.cells.get(cell.below(location)).unwrap_or(&Cell::EMPTY);
                self.prefetch_next(cell, location);
                nodes |= cell.is_node;
            }
        }
        let mut best = u32::MAX;
        for (cell, tree) in cells.iter().zip(&self.trees) {
            if tree.first >= best {
                break;
            }
            best = self.scan(cell, location, from, best);
        }
        (best != u32::MAX).then_some(best)
    }

    /// [`Classifier::next`] for several packets at a time: while memory for one is fetched, the
    /// others continue. Results are in the order of the packets; `u32::MAX` for no match.
    pub fn next_batch(&self, locations: &[Location], from: u32, found: &mut [u32]) {
        for (locations, found) in locations.chunks(LANES).zip(found.chunks_mut(LANES)) {
            found.fill(u32::MAX);
            for tree in self.trees.iter().filter(|t| t.last >= from) {
                self.next_in_tree(tree, locations, from, found);
            }
        }
    }

    /// Searches one tree for an earlier rule than the one found. To have few branches that depend
    /// on the packet, lists hold the packets that walk on and those with a leaf to compare.
    fn next_in_tree(&self, tree: &Tree, locations: &[Location], from: u32, found: &mut [u32]) {
        let mut cells = [&tree.root; LANES];
        let mut walking = Lanes::default();
        for (lane, (location, best)) in locations.iter().zip(&*found).enumerate() {
            walking.push_if(tree.first < *best && tree.guards_hold(location), lane);
        }
        let mut leaves = Lanes::default();
        if !tree.root.is_node {
            (leaves, walking) = (walking, leaves);
        } else {
            for &lane in walking.all() {
                self.prefetch_next(&tree.root, &locations[usize::from(lane) % LANES]);
            }
        }
        while walking.count > 0 {
            let mut left = Lanes::default();
            for &lane in walking.all() {
                let lane = usize::from(lane);
                let (Some(cell), Some(location)) = (cells.get_mut(lane), locations.get(lane))
                else {
                    break;
                };
                *cell = self.cells.get(cell.below(location)).unwrap_or(&Cell::EMPTY);
                self.prefetch_next(cell, location);
                left.push_if(cell.is_node, lane);
                leaves.push_if(!cell.is_node && cell.len > 0, lane);
            }
            walking = left;
        }
        // Most leaves that cannot better what was found say so by their first rule.
        let mut better = Lanes::default();
        for &lane in leaves.all() {
            let lane = usize::from(lane);
            let (Some(cell), Some(best)) = (cells.get(lane), found.get(lane)) else { break };
            let Some(numbers) = Line::rows(&self.lines).get(cell.first as usize) else { break };
            better.push_if((numbers.word(0) as u32) < *best, lane);
        }
        for &lane in better.all() {
            let lane = usize::from(lane);
            let (Some(cell), Some(best), Some(location)) =
                (cells.get(lane), found.get_mut(lane), locations.get(lane))
            else {
                break;
            };
            *best = self.scan(cell, location, from, *best);
        }
    }

    /// Has loaded what the step after a cell needs: a cell, or the first two lines of a leaf. Which
    /// of them is no branch.
    #[inline(always)]
    fn prefetch_next(&self, cell: &Cell, location: &Location) {
        let (cells, rows) = (self.cells.as_ptr().cast::<u8>(), self.lines.as_ptr().cast::<u8>());
        let below = cell.below(location);
        let (base, at, second) = if cell.is_node {
            (cells, below, 0)
        } else {
            (rows, cell.first as usize, size_of::<Line>())
        };
        let next = base.wrapping_add(at * size_of::<Row>());
        crate::prefetch_at(next);
        crate::prefetch_at(next.wrapping_add(second));
    }

    /// The first rule of a leaf from `from` on that matches, or what was found before if that is
    /// better.
    #[inline(always)]
    fn scan(&self, leaf: &Cell, location: &Location, from: u32, best: u32) -> u32 {
        let mask = leaf.what;
        let stride = leaf.min as usize;
        let first = leaf.first as usize;
        let Some(rows) = Line::rows(&self.lines).get(first..first + leaf.len as usize * stride)
        else {
            return best;
        };
        for block in rows.chunks_exact(stride.max(1)) {
            let mut rows = block.iter();
            let Some(numbers) = rows.next() else { break };
            if numbers.word(0) as u32 >= best {
                break;
            }
            let mut misses = Misses::before(numbers, from);
            let mut rest = mask;
            while rest != 0 {
                let dimension = rest.trailing_zeros() as usize % MAX_DIMENSIONS;
                let at = location.coordinates[dimension];
                let Some(first) = rows.next() else { break };
                if self.halves >> dimension & 1 != 0 {
                    misses = misses.halves(first, at as u16);
                } else {
                    let Some(last) = rows.next() else { break };
                    misses = misses.words(first, last, at);
                }
                rest &= rest - 1;
            }
            if let Some(hit) = misses.first_hit() {
                return best.min(numbers.word(hit) as u32);
            }
        }
        best
    }
}

/// Rows of a block.
pub(crate) fn stride(mask: u16, halves: u16) -> usize {
    Line::round_up(1 + mask.count_ones() as usize + (mask & !halves).count_ones() as usize)
}

impl Tree {
    #[inline]
    fn guards_hold(&self, location: &Location) -> bool {
        self.guards.iter().all(|&(dimension, first, last)| {
            let at = location.coordinates[usize::from(dimension) % MAX_DIMENSIONS];
            first <= at && at <= last
        })
    }
}
