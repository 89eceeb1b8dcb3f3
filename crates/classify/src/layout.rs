// SPDX-License-Identifier: Apache-2.0

//! The finished structure as plain numbers, for programs elsewhere that search it themselves.

use std::collections::HashMap;

use crate::classifier::{Cell, Classifier, Tree};
use crate::dimension::Dimension;
use crate::lanes::Line;

/// How a value of a dimension becomes its coordinate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coordinate {
    /// Up to four bytes: it is the coordinate.
    Value,
    /// How many of these numbers, which ascend, are not above it.
    Rank(Vec<u128>),
    /// The number of the one of these that it is, from 1 on; 0 for others. They ascend.
    Number(Vec<u128>),
}

/// What a [`Classifier`] consists of.
///
/// To search a tree, begin with its root. In a node, take the coordinate of the node's dimension:
/// below `min`, go on with cell `first`; else with cell `first + 1 + min((coordinate - min) >>
/// shift, last)`. In a leaf, take the first of its boxes that contains the packet. The rule that is
/// sought is the least of those of all trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// For each dimension.
    pub coordinates: Vec<Coordinate>,
    /// In order of their first rules.
    pub trees: Vec<LayoutTree>,
    /// The cells of all nodes.
    pub cells: Vec<LayoutCell>,
    /// The boxes of all leaves, those of a leaf in a row, in order of their rules.
    pub boxes: Vec<LayoutBox>,
}

/// Rules that are searched together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutTree {
    /// Where the search begins.
    pub root: LayoutCell,
    /// Its first rule.
    pub first: u32,
    /// Its last rule.
    pub last: u32,
    /// Dimension, and first and last coordinate: outside of them it has no rule.
    pub guards: Vec<(u8, u32, u32)>,
    /// Which of the boxes are its own.
    pub boxes: std::ops::Range<u32>,
    /// A bit for each dimension that its boxes limit.
    pub limited: u16,
}

/// Where a step of the search leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutCell {
    /// One of several cells.
    Node {
        /// The first of them.
        first: u32,
        /// How many there are, less two.
        last: u32,
        /// Where the second one begins.
        min: u32,
        /// By which dimension.
        dimension: u8,
        /// The size of the others, as a power of two.
        shift: u8,
    },
    /// Boxes that remain.
    Leaf {
        /// The first of them.
        first: u32,
        /// How many there are.
        count: u32,
    },
}

/// A rule's box, as far as the way to its leaf has not told already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutBox {
    /// The rule.
    pub rule: u32,
    /// First and last coordinate for each dimension.
    pub bounds: Vec<(u32, u32)>,
}

fn unsigned(coordinate: i32) -> u32 {
    coordinate as u32 ^ 1 << 31
}

impl Classifier {
    /// The structure in numbers.
    pub fn layout(&self) -> Layout {
        let mut layout = Layout {
            coordinates: self.dimensions.iter().map(coordinate).collect(),
            cells: vec![LayoutCell::Leaf { first: 0, count: 0 }; self.cells.len()],
            ..Layout::default()
        };
        for tree in &self.trees {
            let tree = self.tree(tree, &mut layout);
            layout.trees.push(tree);
        }
        layout
    }

    fn tree(&self, tree: &Tree, layout: &mut Layout) -> LayoutTree {
        let start = layout.boxes.len() as u32;
        let mut limited = 0;
        let mut leaves = HashMap::new();
        let mut cell = |cell: &Cell, layout: &mut Layout| {
            if cell.is_node {
                return LayoutCell::Node {
                    first: cell.first,
                    last: cell.len,
                    min: unsigned(cell.min),
                    dimension: (cell.what & 15) as u8,
                    shift: (cell.what >> 4 & 31) as u8,
                };
            }
            if cell.len == 0 {
                return LayoutCell::Leaf { first: start, count: 0 };
            }
            *leaves.entry((cell.first, cell.what)).or_insert_with(|| {
                limited |= cell.what;
                self.leaf(cell, &mut layout.boxes)
            })
        };
        let root = cell(&tree.root, layout);
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            let LayoutCell::Node { first, last, .. } = node else { continue };
            for at in first as usize..first as usize + last as usize + 2 {
                let below = cell(&self.cells[at], layout);
                layout.cells[at] = below;
                open.push(below);
            }
        }
        LayoutTree {
            root,
            first: tree.first,
            last: tree.last,
            guards: tree.guards.iter().map(|&(d, a, b)| (d, unsigned(a), unsigned(b))).collect(),
            boxes: start..layout.boxes.len() as u32,
            limited,
        }
    }

    fn leaf(&self, leaf: &Cell, boxes: &mut Vec<LayoutBox>) -> LayoutCell {
        let begin = boxes.len();
        let stride = leaf.min as usize;
        let first = leaf.first as usize;
        let rows = &Line::rows(&self.lines)[first..first + leaf.len as usize * stride];
        for block in rows.chunks_exact(stride.max(1)) {
            for i in (0..4).filter(|i| block[0].word(*i) >= 0) {
                let mut rows = block[1..].iter();
                let bounds = (0..self.dimensions.len()).map(|d| match rows.as_slice() {
                    _ if leaf.what >> d & 1 == 0 => (0, u32::MAX),
                    [row, ..] if self.halves >> d & 1 != 0 => {
                        rows.next();
                        (row.half(i).into(), row.half(i + 4).into())
                    }
                    [first, last, ..] => {
                        rows.nth(1);
                        (unsigned(first.word(i)), unsigned(last.word(i)))
                    }
                    _ => (0, u32::MAX),
                });
                let bounds = bounds.collect();
                boxes.push(LayoutBox { rule: block[0].word(i) as u32, bounds });
            }
        }
        LayoutCell::Leaf { first: begin as u32, count: (boxes.len() - begin) as u32 }
    }
}

fn coordinate(dimension: &Dimension) -> Coordinate {
    match dimension {
        Dimension::Word => Coordinate::Value,
        Dimension::Doubles(ranks) => {
            Coordinate::Rank(ranks.bounds().iter().map(|b| u128::from(*b)).collect())
        }
        Dimension::Quads(ranks) => Coordinate::Rank(ranks.bounds().to_vec()),
        Dimension::DoublePoints(points) => {
            Coordinate::Number(points.keys().into_iter().map(u128::from).collect())
        }
        Dimension::QuadPoints(points) => Coordinate::Number(points.keys()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::max_value;
    use crate::{Builder, Interval};

    fn at(coordinate: &Coordinate, value: u128) -> u32 {
        match coordinate {
            Coordinate::Value => value as u32,
            Coordinate::Rank(bounds) => bounds.partition_point(|b| *b <= value) as u32,
            Coordinate::Number(keys) => keys.binary_search(&value).map_or(0, |i| i as u32 + 1),
        }
    }

    fn search(layout: &Layout, values: &[u128]) -> Option<u32> {
        let place: Vec<u32> =
            layout.coordinates.iter().zip(values).map(|(c, v)| at(c, *v)).collect();
        let in_tree = |tree: &LayoutTree| {
            let mut cell = tree.root;
            loop {
                match cell {
                    LayoutCell::Node { first, last, min, dimension, shift } => {
                        let at = place[usize::from(dimension)];
                        let part = at.checked_sub(min).map_or(0, |d| (d >> shift).min(last) + 1);
                        cell = layout.cells[(first + part) as usize];
                    }
                    LayoutCell::Leaf { first, count } => {
                        let boxes = &layout.boxes[first as usize..(first + count) as usize];
                        let holds = |b: &&LayoutBox| {
                            place.iter().zip(&b.bounds).all(|(at, (a, b))| (a..=b).contains(&at))
                        };
                        return boxes.iter().find(holds).map(|b| b.rule);
                    }
                }
            }
        };
        let guards_hold = |tree: &&LayoutTree| {
            tree.guards.iter().all(|(d, a, b)| (a..=b).contains(&&place[usize::from(*d)]))
        };
        layout.trees.iter().filter(guards_hold).filter_map(in_tree).min()
    }

    #[test]
    fn a_search_in_the_numbers_finds_the_same_rules() {
        let mut rng = fastrand::Rng::with_seed(11);
        for round in 0..if cfg!(miri) { 2 } else { 60 } {
            let all = [4, 4, 2, 2, 1, 16, 8, 6];
            let widths: Vec<u8> =
                (0..rng.usize(1..6)).map(|_| *rng.choice(&all).unwrap()).collect();
            let points = rng.bool();
            let value = |rng: &mut fastrand::Rng, width: u8| {
                let few = u128::from(rng.u8(..)) << rng.u32(..8).min(u32::from(width) * 8 - 8);
                (few | few << 64) & max_value(width)
            };
            let mut builder = Builder::new(&widths);
            for rule in 0..rng.u32(1..[20, 400, 3000][round % 3]) {
                let mut intervals = Vec::new();
                for (d, width) in (0..).zip(&widths) {
                    if rng.u8(..4) > 0 {
                        let from = value(&mut rng, *width);
                        let more = if points { 0 } else { value(&mut rng, *width) >> 3 };
                        let to = from.saturating_add(more).min(max_value(*width));
                        intervals.push(Interval { dimension: d, from, to });
                    }
                }
                builder.add(rule, &intervals);
            }
            let classifier = builder.build().unwrap();
            let layout = classifier.layout();
            for _ in 0..300 {
                let values: Vec<u128> = widths.iter().map(|w| value(&mut rng, *w)).collect();
                let wanted = classifier.next(&classifier.locate(&values), 0);
                assert_eq!(search(&layout, &values), wanted, "round {round} {widths:?} {values:?}");
            }
        }
    }
}
