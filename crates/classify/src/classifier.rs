//! The finished structure and the search in it.

use crate::dimension::Dimension;

/// Most dimensions that a classifier can have.
pub const MAX_DIMENSIONS: usize = 16;

/// Where a packet lies in all dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Coordinates, with the sign bit flipped: so they compare as signed numbers, which vectors can do.
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

/// A row of a leaf's block: four numbers, or eight.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(crate) struct Row(pub [u8; 16]);

impl Row {
    pub fn words(words: [i32; 4]) -> Row {
        let mut row = [0; 16];
        for (bytes, word) in row.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        Row(row)
    }

    pub fn halves(first: [u16; 4], last: [u16; 4]) -> Row {
        let mut row = [0; 16];
        for (bytes, half) in row.as_chunks_mut().0.iter_mut().zip(first.into_iter().chain(last)) {
            *bytes = half.to_ne_bytes();
        }
        Row(row)
    }

    #[inline(always)]
    fn word(&self, i: usize) -> i32 {
        i32::from_ne_bytes([self.0[4 * i], self.0[4 * i + 1], self.0[4 * i + 2], self.0[4 * i + 3]])
    }

    #[inline(always)]
    fn half(&self, i: usize) -> i32 {
        u16::from_ne_bytes([self.0[2 * i], self.0[2 * i + 1]]).into()
    }
}

/// What a cell of a node leads to: a node or a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// First of a node's cells, or of a leaf's rows.
    pub first: u32,
    /// A node's cells but for the first, less one, or a leaf's blocks.
    pub len: u32,
    /// Where a node's second cell begins, signed. Smaller coordinates lie in the first.
    pub min: i32,
    /// Node: dimension (4 bits), shift (5 bits). Leaf: dimensions that are compared.
    pub what: u16,
    pub is_node: bool,
}

impl Cell {
    /// A leaf without rules.
    pub const EMPTY: Cell = Cell { first: 0, len: 0, min: 0, what: 0, is_node: false };

    pub fn leaf(first: u32, blocks: u32, mask: u16) -> Cell {
        Cell { first, len: blocks, min: 0, what: mask, is_node: false }
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
        let cell = if at < self.min { 0 } else { part.min(self.len) + 1 };
        self.first as usize + cell as usize
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
    /// Blocks of leaves: four rule numbers, then for each dimension that is compared four first and four last
    /// coordinates: one row if it has up to two bytes, else two.
    pub(crate) rows: Vec<Row>,
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

/// Packets whose searches run at the same time.
const LANES: usize = 16;

impl Classifier {
    /// How large it is.
    pub fn size(&self) -> Size {
        let dimensions: usize = self.dimensions.iter().map(Dimension::bytes).sum();
        let bytes = dimensions + self.cells.len() * size_of::<Cell>() + self.rows.len() * size_of::<Row>();
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
        if let (Some(d), Some(at)) = (self.dimensions.get(dimension), location.coordinates.get_mut(dimension))
        {
            *at = signed(d.coordinate(value));
        }
    }

    /// As [`Classifier::place`], for a dimension of up to four bytes.
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

    /// The first rule from `from` on whose intervals all hold.
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

    /// As [`Classifier::next`], where most steps wait for memory: the trees are searched side by side.
    fn next_in_large(&self, location: &Location, from: u32) -> Option<u32> {
        let mut cells = [&Cell::EMPTY; MOST_TREES];
        for (cell, tree) in cells.iter_mut().zip(&self.trees) {
            if tree.last >= from && tree.guards_hold(location) {
                *cell = &tree.root;
                self.prefetch_below(cell, location);
            }
        }
        let mut nodes = true;
        while nodes {
            nodes = false;
            for cell in cells[..self.trees.len().min(MOST_TREES)].iter_mut().filter(|c| c.is_node) {
                *cell = self.cells.get(cell.below(location)).unwrap_or(&Cell::EMPTY);
                self.prefetch_below(cell, location);
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

    /// Has loaded what the step after a cell needs.
    #[inline(always)]
    fn prefetch_below(&self, cell: &Cell, location: &Location) {
        if cell.is_node {
            crate::prefetch(&self.cells, cell.below(location));
        } else if cell.len > 0 {
            let stride = stride(cell.what, self.halves);
            let rows = cell.len.min(2) as usize * stride;
            for row in (0..rows).step_by(4) {
                crate::prefetch(&self.rows, cell.first as usize + row);
            }
        }
    }

    /// As [`Classifier::next`], for several packets at a time: while the memory of one is on its way, the others go on.
    /// What is found comes in the order of the packets; `u32::MAX` for nothing.
    pub fn next_batch(&self, locations: &[Location], from: u32, found: &mut [u32]) {
        for (locations, found) in locations.chunks(LANES).zip(found.chunks_mut(LANES)) {
            found.fill(u32::MAX);
            for tree in self.trees.iter().filter(|t| t.last >= from) {
                let mut cells = [&Cell::EMPTY; LANES];
                let mut depth = false;
                for ((cell, location), best) in cells.iter_mut().zip(locations).zip(&*found) {
                    if tree.first < *best && tree.guards_hold(location) {
                        *cell = &tree.root;
                        depth |= cell.is_node;
                    }
                }
                while depth {
                    depth = false;
                    for (cell, location) in cells.iter().zip(locations).filter(|(cell, _)| cell.is_node) {
                        self.prefetch_below(cell, location);
                    }
                    for (cell, location) in cells.iter_mut().zip(locations) {
                        if cell.is_node {
                            *cell = self.cells.get(cell.below(location)).unwrap_or(&Cell::EMPTY);
                            depth |= cell.is_node;
                            if !cell.is_node {
                                self.prefetch_below(cell, location);
                            }
                        }
                    }
                }
                for ((cell, location), best) in cells.iter().zip(locations).zip(found.iter_mut()) {
                    *best = self.scan(cell, location, from, *best);
                }
            }
        }
    }

    #[inline]
    fn scan(&self, leaf: &Cell, location: &Location, from: u32, best: u32) -> u32 {
        let mask = leaf.what;
        let stride = stride(mask, self.halves);
        let first = leaf.first as usize;
        let Some(rows) = self.rows.get(first..first + leaf.len as usize * stride) else { return best };
        for block in rows.chunks_exact(stride) {
            let Some((rules, bounds)) = block.split_first() else { break };
            if rules.word(0) as u32 >= best {
                break;
            }
            if let Some(found) = self.first_match(rules, bounds, mask, location, from) {
                return found.min(best);
            }
        }
        best
    }

    /// The first of four rules that is not before `from` and whose bounds hold.
    #[inline(always)]
    fn first_match(
        &self,
        rules: &Row,
        bounds: &[Row],
        mask: u16,
        location: &Location,
        from: u32,
    ) -> Option<u32> {
        let mut misses = [0i32; 4];
        for (i, miss) in misses.iter_mut().enumerate() {
            *miss = -i32::from(rules.word(i) < from as i32);
        }
        let mut rest = mask;
        let mut rows = bounds.iter();
        while rest != 0 {
            let dimension = rest.trailing_zeros() as usize % MAX_DIMENSIONS;
            let at = location.coordinates[dimension];
            let Some(first) = rows.next() else { break };
            if self.halves >> dimension & 1 != 0 {
                let at = at ^ i32::MIN;
                for (i, miss) in misses.iter_mut().enumerate() {
                    *miss |= -i32::from(first.half(i) > at) | -i32::from(at > first.half(i + 4));
                }
            } else {
                let Some(last) = rows.next() else { break };
                for (i, miss) in misses.iter_mut().enumerate() {
                    *miss |= -i32::from(first.word(i) > at) | -i32::from(at > last.word(i));
                }
            }
            rest &= rest - 1;
        }
        let hits = (0..4).map(|i| u32::from(misses[i] == 0) << i).sum::<u32>();
        if hits == 0 {
            return None;
        }
        Some(rules.word(hits.trailing_zeros() as usize & 3) as u32)
    }
}

/// Rows of a block.
pub(crate) fn stride(mask: u16, halves: u16) -> usize {
    1 + mask.count_ones() as usize + (mask & !halves).count_ones() as usize
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
