//! From rules to trees.

use std::collections::HashMap;

use crate::classifier::{Cell, Classifier, Four, MAX_BLOCKS, MAX_DIMENSIONS, Tree};
use crate::dimension::{Dimension, max_value};

/// A dimension's value lies between two others, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Number of the dimension.
    pub dimension: u8,
    /// First value.
    pub from: u128,
    /// Last value.
    pub to: u128,
}

/// Takes rules and makes a [`Classifier`] of them.
#[derive(Clone, Debug)]
pub struct Builder {
    widths: Vec<u8>,
    /// Number, and where its intervals end.
    rules: Vec<(u32, u32)>,
    intervals: Vec<Interval>,
}

/// A rule that covers less than one of so many ranks of a dimension is narrow there.
const NARROW: u32 = 16;
/// Leaves have so many rules at most, unless cutting does not help.
const LEAF: usize = 8;
/// Places in leaves and nodes for each rule, at most, as a mean; then cutting ends.
const COPIES: usize = 24;
/// What cutting one node may multiply its rules by.
const GROWTH: usize = 3;
/// Trees.
const TREES: usize = 6;
/// A dimension gets a tree of its own for one of so many rules at least.
const SHARE: usize = 64;

impl Builder {
    /// Of dimensions of so many bytes each, 1 to 16; at most [`MAX_DIMENSIONS`].
    pub fn new(widths: &[u8]) -> Self {
        Builder { widths: widths.to_vec(), rules: Vec::new(), intervals: Vec::new() }
    }

    /// Adds a rule. Numbers must not descend and be less than 2^31; a number again is an alternative of the same rule. A
    /// dimension that is not named may have any value; one that is named twice must lie in both intervals.
    pub fn add(&mut self, rule: u32, intervals: &[Interval]) {
        self.intervals.extend_from_slice(intervals);
        self.rules.push((rule, self.intervals.len() as u32));
    }

    /// The structure; `None` if there are too many rules that cannot be told apart, or too many dimensions.
    pub fn build(self) -> Option<Classifier> {
        let dimensions = self.widths.len();
        let ascending = self.rules.is_sorted_by_key(|r| r.0);
        if dimensions > MAX_DIMENSIONS
            || !ascending
            || self.rules.last().is_some_and(|r| r.0 > i32::MAX as u32)
        {
            return None;
        }
        let mut boxes = Boxes::new(&self);
        drop(self);
        let order = (0..boxes.rules.len() as u32).collect();
        let mut trees = Trees {
            budget: boxes.rules.len() * COPIES + 4096,
            cells: Vec::new(),
            fours: Vec::new(),
            leaves: HashMap::new(),
            copies: 0,
            boxes: &boxes,
        };
        let mut roots = Vec::new();
        for group in split(&boxes, order) {
            roots.push(trees.tree(group)?);
        }
        roots.sort_by_key(|t: &Tree| t.first);
        let Trees { cells, fours, copies, .. } = trees;
        Some(Classifier {
            dimensions: std::mem::take(&mut boxes.dimensions),
            trees: roots,
            cells,
            fours,
            copies,
        })
    }
}

/// Rules in ranks.
struct Boxes {
    dimensions: Vec<Dimension>,
    /// Ranks of each dimension.
    ranks: Vec<u32>,
    rules: Vec<u32>,
    /// First and last rank, for each rule and dimension.
    bounds: Vec<(u32, u32)>,
}

impl Boxes {
    fn new(builder: &Builder) -> Self {
        let count = builder.widths.len();
        let mut by_dimension: Vec<Vec<(u128, u128)>> = vec![Vec::new(); count];
        // All rules with what is left of their intervals where several name a dimension.
        let mut rules = Vec::with_capacity(builder.rules.len());
        let mut spans: Vec<Option<(u128, u128)>> = Vec::with_capacity(builder.rules.len() * count);
        let mut start = 0;
        for &(rule, end) in &builder.rules {
            let at = spans.len();
            spans.resize(at + count, None);
            let row = &mut spans[at..];
            for i in &builder.intervals[start..end as usize] {
                let Some(span) = row.get_mut(usize::from(i.dimension)) else { continue };
                let (from, to) = span.unwrap_or((0, u128::MAX));
                *span = Some((from.max(i.from), to.min(i.to)));
            }
            start = end as usize;
            for (span, width) in row.iter_mut().zip(&builder.widths) {
                let max = max_value(*width);
                *span = span.map(|(from, to)| (from, to.min(max))).filter(|s| *s != (0, max));
            }
            if row.iter().flatten().any(|(from, to)| from > to) {
                spans.truncate(at);
                continue;
            }
            for (list, span) in by_dimension.iter_mut().zip(row.iter()) {
                list.extend(span);
            }
            rules.push(rule);
        }
        let (dimensions, ranks): (Vec<_>, Vec<_>) = builder
            .widths
            .iter()
            .zip(&by_dimension)
            .map(|(width, list)| Dimension::new(*width, list))
            .unzip();
        let bounds = spans
            .iter()
            .enumerate()
            .map(|(i, span)| match span {
                None => (0, ranks[i % count] - 1),
                Some((from, to)) => {
                    let dimension: &Dimension = &dimensions[i % count];
                    (dimension.rank(*from), dimension.rank(*to))
                }
            })
            .collect();
        Boxes { dimensions, ranks, rules, bounds }
    }

    fn bounds(&self, at: u32) -> &[(u32, u32)] {
        let count = self.ranks.len();
        &self.bounds[at as usize * count..(at as usize + 1) * count]
    }

    fn is_narrow(&self, at: u32, dimension: usize) -> bool {
        let (first, last) = self.bounds(at)[dimension];
        (last - first + 1).saturating_mul(NARROW) <= self.ranks[dimension]
    }
}

/// Groups of rules, each narrow in one dimension as far as there are enough of them.
fn split(boxes: &Boxes, mut rest: Vec<u32>) -> Vec<Vec<u32>> {
    let mut groups = Vec::new();
    let all = rest.len();
    while groups.len() + 1 < TREES && rest.len() > LEAF {
        let narrow = |d: usize| rest.iter().filter(|&&at| boxes.is_narrow(at, d)).count();
        let best = (0..boxes.ranks.len()).map(|d| (narrow(d), boxes.ranks[d], d)).max();
        let Some((count, _, dimension)) = best else { break };
        if count * SHARE < all || count == 0 {
            break;
        }
        let (group, others) = rest.into_iter().partition(|&at| boxes.is_narrow(at, dimension));
        groups.push(group);
        rest = others;
    }
    if !rest.is_empty() {
        groups.push(rest);
    }
    groups
}

/// Part of the ranks of each dimension: the first, and how many bits follow.
type Region = Vec<(u32, u32)>;

struct Trees<'a> {
    boxes: &'a Boxes,
    /// Cells and places in leaves that may still be made.
    budget: usize,
    cells: Vec<Cell>,
    fours: Vec<Four>,
    /// Leaves that are there, by mask and rules.
    leaves: HashMap<(u16, Vec<u32>), Cell>,
    copies: usize,
}

/// A way to cut a node.
struct Cut {
    dimension: usize,
    bits: u32,
    /// Mean length of the lists that its rules come to lie in, times 16.
    cost: u64,
    total: usize,
}

impl Trees<'_> {
    fn tree(&mut self, rules: Vec<u32>) -> Option<Tree> {
        let boxes = self.boxes;
        let region: Region = boxes.ranks.iter().map(|&n| (0, n.next_power_of_two().ilog2())).collect();
        let (first, last) = (boxes.rules[*rules.first()? as usize], boxes.rules[*rules.last()? as usize]);
        let guards = (0..boxes.ranks.len()).filter_map(|d| {
            let from = rules.iter().map(|&at| boxes.bounds(at)[d].0).min()?;
            let to = rules.iter().map(|&at| boxes.bounds(at)[d].1).max()?;
            (from != 0 || to != boxes.ranks[d] - 1).then_some((d as u8, from, to))
        });
        let guards = guards.collect();
        let root = self.node(rules, &region)?;
        Some(Tree { root, first, last, guards })
    }

    fn node(&mut self, rules: Vec<u32>, region: &Region) -> Option<Cell> {
        if rules.len() <= LEAF {
            return self.leaf(rules, region);
        }
        let Some(cut) = self.best_cut(&rules, region) else { return self.leaf(rules, region) };
        let cells = 1usize << cut.bits;
        if cut.total + cells > self.budget {
            return self.leaf(rules, region);
        }
        self.budget -= cut.total - rules.len() + cells;
        let (start, bits) = region[cut.dimension];
        let shift = bits - cut.bits;
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); cells];
        for &at in &rules {
            let (from, to) = self.parts(at, cut.dimension, start, bits, shift);
            lists[from..=to].iter_mut().for_each(|list| list.push(at));
        }
        drop(rules);
        let first = self.cells.len();
        self.cells.resize(first + cells, Cell::EMPTY);
        let mut below = region.clone();
        for (i, list) in lists.into_iter().enumerate() {
            if !list.is_empty() {
                below[cut.dimension] = (start + ((i as u32) << shift), shift);
                self.cells[first + i] = self.node(list, &below)?;
            }
        }
        Some(Cell::node(first, cut.dimension, shift, cut.bits))
    }

    /// The first and the last part that a rule lies in.
    fn parts(&self, at: u32, dimension: usize, start: u32, bits: u32, shift: u32) -> (usize, usize) {
        let (first, last) = self.boxes.bounds(at)[dimension];
        let end = start + ((1u32 << bits) - 1);
        (((first.max(start) - start) >> shift) as usize, ((last.min(end) - start) >> shift) as usize)
    }

    fn best_cut(&self, rules: &[u32], region: &Region) -> Option<Cut> {
        let mut best: Option<Cut> = None;
        let limit = rules.len() * GROWTH;
        for (dimension, &(start, bits)) in region.iter().enumerate() {
            let most = bits.min(rules.len().ilog2() + 1);
            if most == 0 {
                continue;
            }
            // Counted once for the finest cut; coarser ones differ in what neighbours have in common.
            for cut in (1..=most).rev() {
                let shift = bits - cut;
                let mut steps = vec![0i32; (1 << cut) + 1];
                let mut total = 0;
                for &at in rules {
                    let (from, to) = self.parts(at, dimension, start, bits, shift);
                    steps[from] += 1;
                    steps[to + 1] -= 1;
                    total += to - from + 1;
                }
                if total > limit {
                    continue;
                }
                let mut now = 0i64;
                let squares: i64 = steps
                    .iter()
                    .map(|step| {
                        now += i64::from(*step);
                        now * now
                    })
                    .sum();
                let cost = squares as u64 * 16 / total.max(1) as u64;
                if cost >= rules.len() as u64 * 14 {
                    continue;
                }
                if best.as_ref().is_none_or(|b| (cost, total) < (b.cost, b.total)) {
                    best = Some(Cut { dimension, bits: cut, cost, total });
                }
                // A coarser cut of the same dimension costs more.
                break;
            }
        }
        best
    }

    fn leaf(&mut self, mut rules: Vec<u32>, region: &Region) -> Option<Cell> {
        let boxes = self.boxes;
        let mut mask = 0u16;
        for &at in &rules {
            for (d, (&(first, last), &(start, bits))) in boxes.bounds(at).iter().zip(region).enumerate() {
                let end = (start + ((1 << bits) - 1)).min(boxes.ranks[d] - 1);
                if first > start || last < end {
                    mask |= 1 << d;
                }
            }
        }
        // What nothing narrows makes all that follow it of the same rule superfluous.
        rules.dedup_by_key(|at| (boxes.rules[*at as usize], if mask == 0 { 0 } else { *at }));
        if let Some(cell) = self.leaves.get(&(mask, rules.clone())) {
            return Some(*cell);
        }
        let blocks = rules.len().div_ceil(4);
        let first = self.fours.len();
        if blocks > MAX_BLOCKS || u32::try_from(first).is_err() {
            return None;
        }
        let dimensions = (0..boxes.ranks.len()).filter(|d| mask >> d & 1 != 0);
        for block in rules.chunks(4) {
            // What no rule takes is before any rule that is asked for.
            let mut numbers = [-1; 4];
            for (number, &at) in numbers.iter_mut().zip(block) {
                *number = boxes.rules[at as usize] as i32;
            }
            self.fours.push(Four(numbers));
            for d in dimensions.clone() {
                let (mut firsts, mut lasts) = ([i32::MAX; 4], [-1; 4]);
                for (i, &at) in block.iter().enumerate() {
                    let (first, last) = boxes.bounds(at)[d];
                    (firsts[i], lasts[i]) = (first as i32, last as i32);
                }
                self.fours.push(Four(firsts));
                self.fours.push(Four(lasts));
            }
        }
        self.copies += rules.len();
        let cell = Cell::leaf(first, blocks, mask);
        self.leaves.insert((mask, rules), cell);
        Some(cell)
    }
}
