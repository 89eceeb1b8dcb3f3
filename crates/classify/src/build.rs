// SPDX-License-Identifier: Apache-2.0

//! From rules to trees.

use std::collections::HashMap;

use crate::classifier::{Cell, Classifier, MAX_DIMENSIONS, MOST_TREES, Tree, signed, stride};
use crate::dimension::{Dimension, max_value};
use crate::lanes::{Line, Row};

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

/// A rule that covers less than one of so many parts of a dimension is narrow there; parts are
/// measured by the number of bounds in them.
const NARROW: usize = 16;
/// Leaves have so many rules at most, unless cutting does not help.
const LEAF: usize = 8;
/// Rules in a leaf that cutting could not make smaller.
const LONGEST_LEAF: usize = 1 << 16;
/// Places in leaves and nodes for each rule, at most, as a mean; then cutting ends.
const COPIES: usize = 24;
/// What cutting one node may multiply its rules by.
const GROWTH: usize = 3;
/// What cutting one node may multiply its rules by in trees of less than one of [`SMALL`] rules.
/// They have the rules that are narrow nowhere, so cutting copies many of them, but there are few.
const SMALL_GROWTH: usize = 16;
const SMALL: usize = 32;
/// A dimension gets its own tree if at least one of so many rules is narrow in it.
const SHARE: usize = 64;

impl Builder {
    /// Of dimensions of so many bytes each, 1 to 16; at most [`MAX_DIMENSIONS`].
    pub fn new(widths: &[u8]) -> Self {
        Builder { widths: widths.to_vec(), rules: Vec::new(), intervals: Vec::new() }
    }

    /// Adds a rule. Numbers must not descend and be less than 2^31; a number again is an
    /// alternative of the same rule. A dimension that is not named may have any value; one that is
    /// named twice must lie in both intervals.
    pub fn add(&mut self, rule: u32, intervals: &[Interval]) {
        self.intervals.extend_from_slice(intervals);
        self.rules.push((rule, self.intervals.len() as u32));
    }

    /// The structure; `None` if too many rules cannot be separated, or there are too many
    /// dimensions.
    pub fn build(self) -> Option<Classifier> {
        let widths = self.widths.clone();
        let ascending = self.rules.is_sorted_by_key(|r| r.0);
        if widths.len() > MAX_DIMENSIONS
            || !ascending
            || self.rules.last().is_some_and(|r| r.0 > i32::MAX as u32)
        {
            return None;
        }
        let mut boxes = Boxes::new(self);
        let halves = widths.iter().enumerate().filter(|(_, w)| **w <= 2).map(|(d, _)| 1 << d).sum();
        let order = (0..boxes.rules.len() as u32).collect();
        let mut trees = Trees {
            growth: GROWTH,
            budget: boxes.rules.len() * COPIES + 4096,
            cells: Vec::new(),
            rows: Vec::new(),
            leaves: HashMap::new(),
            copies: 0,
            halves,
            limited: 0,
            boxes: &boxes,
        };
        let mut roots = Vec::new();
        for group in split(&boxes, order) {
            let is_small = group.len() * SMALL < boxes.rules.len();
            trees.growth = if is_small { SMALL_GROWTH } else { GROWTH };
            roots.push(trees.tree(group)?);
        }
        roots.sort_by_key(|t: &Tree| t.first);
        let Trees { cells, rows, copies, .. } = trees;
        let dimensions = std::mem::take(&mut boxes.dimensions);
        let lines = Line::of(&rows);
        Some(
            Classifier { dimensions, halves, trees: roots, cells, lines, copies, is_large: false }
                .weighed(),
        )
    }
}

/// Rules in coordinates.
struct Boxes {
    dimensions: Vec<Dimension>,
    /// Greatest coordinate of each dimension.
    max: Vec<u32>,
    rules: Vec<u32>,
    /// First and last coordinate, for each rule and dimension.
    bounds: Vec<(u32, u32)>,
    /// Dimensions in which each rule is narrow.
    narrow: Vec<u16>,
    /// Different bounds of each dimension.
    different: Vec<usize>,
}

impl Boxes {
    fn new(builder: Builder) -> Self {
        let count = builder.widths.len();
        let mut by_dimension: Vec<Vec<(u128, u128)>> = vec![Vec::new(); count];
        // All rules, with several intervals of a dimension intersected.
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
        let (dimensions, max): (Vec<_>, Vec<_>) = builder
            .widths
            .iter()
            .zip(&by_dimension)
            .map(|(width, list)| Dimension::new(*width, list))
            .unzip();
        drop(by_dimension);
        let bounds: Vec<(u32, u32)> = spans
            .iter()
            .enumerate()
            .map(|(i, span)| match span {
                None => (0, max[i % count]),
                Some((from, to)) => {
                    let dimension: &Dimension = &dimensions[i % count];
                    (dimension.coordinate(*from), dimension.coordinate(*to))
                }
            })
            .collect();
        let mut narrow = vec![0; rules.len()];
        let mut different = Vec::new();
        for (d, &max) in max.iter().enumerate() {
            let of_rules = || bounds.iter().skip(d).step_by(count);
            let mut starts: Vec<u32> = of_rules().map(|b| b.0).collect();
            starts.extend(of_rules().filter(|b| b.1 < max).map(|b| b.1 + 1));
            starts.sort_unstable();
            starts.dedup();
            let rank = |coordinate: u32| starts.partition_point(|s| *s <= coordinate);
            for (mask, &(first, last)) in narrow.iter_mut().zip(of_rules()) {
                let covers = if first == last { 1 } else { rank(last) - rank(first) + 1 };
                *mask |= u16::from(covers * NARROW <= starts.len()) << d;
            }
            different.push(starts.len());
        }
        Boxes { dimensions, max, rules, bounds, narrow, different }
    }

    fn bounds(&self, at: u32) -> &[(u32, u32)] {
        let count = self.max.len();
        &self.bounds[at as usize * count..(at as usize + 1) * count]
    }
}

/// Groups of rules, each narrow in one dimension if there are enough of them.
fn split(boxes: &Boxes, mut rest: Vec<u32>) -> Vec<Vec<u32>> {
    let mut groups = Vec::new();
    let all = rest.len();
    while groups.len() + 1 < MOST_TREES && rest.len() > LEAF {
        let is_narrow = |at: u32, d: usize| boxes.narrow[at as usize] >> d & 1 != 0;
        let count = |d: usize| rest.iter().filter(|&&at| is_narrow(at, d)).count();
        let best = (0..boxes.max.len()).map(|d| (count(d), boxes.different[d], d)).max();
        let Some((count, _, dimension)) = best else { break };
        if count * SHARE < all || count == 0 {
            break;
        }
        let (group, others) = rest.into_iter().partition(|&at| is_narrow(at, dimension));
        groups.push(group);
        rest = others;
    }
    if !rest.is_empty() {
        groups.push(rest);
    }
    groups
}

/// Part of each dimension: first and last coordinate.
type Region = Vec<(u32, u32)>;

struct Trees<'a> {
    boxes: &'a Boxes,
    /// Cells and places in leaves that may still be made.
    budget: usize,
    /// What cutting one node may multiply its rules by.
    growth: usize,
    cells: Vec<Cell>,
    rows: Vec<Row>,
    /// Leaves that are there, by mask and rules.
    leaves: HashMap<(u16, Vec<u32>), Cell>,
    copies: usize,
    halves: u16,
    /// Dimensions in which some rule of the tree is limited.
    limited: u16,
}

/// A way to cut a node: the first part is what lies before `min`, the others are of equal size but
/// for the last.
#[derive(Clone, Copy)]
struct Cut {
    dimension: usize,
    min: u32,
    shift: u32,
    /// Parts but for the first, less one.
    last: u32,
}

impl Cut {
    fn part(&self, coordinate: u32) -> usize {
        match coordinate.checked_sub(self.min) {
            None => 0,
            Some(above) => (above >> self.shift).min(self.last) as usize + 1,
        }
    }

    /// The coordinates of a part of a region.
    fn region(&self, part: usize, (first, last): (u32, u32)) -> (u32, u32) {
        let start = |part: usize| self.min + ((part as u32 - 1) << self.shift);
        match part {
            0 => (first, self.min - 1),
            _ if part as u32 == self.last + 1 => (start(part), last),
            _ => (start(part), start(part + 1) - 1),
        }
    }
}

impl Trees<'_> {
    fn tree(&mut self, rules: Vec<u32>) -> Option<Tree> {
        let boxes = self.boxes;
        let region: Region = boxes.max.iter().map(|&max| (0, max)).collect();
        let (first, last) =
            (boxes.rules[*rules.first()? as usize], boxes.rules[*rules.last()? as usize]);
        let guards = (0..boxes.max.len()).filter_map(|d| {
            let from = rules.iter().map(|&at| boxes.bounds(at)[d].0).min()?;
            let to = rules.iter().map(|&at| boxes.bounds(at)[d].1).max()?;
            (from != 0 || to != boxes.max[d]).then_some((d as u8, signed(from), signed(to)))
        });
        let guards = guards.collect();
        self.limited = 0;
        for d in 0..boxes.max.len() {
            let is_limited = |at: &u32| boxes.bounds(*at)[d] != (0, boxes.max[d]);
            self.limited |= u16::from(rules.iter().any(is_limited)) << d;
        }
        let root = self.node(rules, &region)?;
        Some(Tree { root, first, last, guards })
    }

    fn node(&mut self, rules: Vec<u32>, region: &Region) -> Option<Cell> {
        if rules.len() <= LEAF {
            return self.leaf(rules, region);
        }
        let Some((cut, total)) = self.best_cut(&rules, region) else {
            return self.leaf(rules, region);
        };
        let cells = cut.last as usize + 2;
        let more = total - rules.len() + cells;
        if more > self.budget {
            return self.leaf(rules, region);
        }
        self.budget -= more;
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); cells];
        let cut_region = region[cut.dimension];
        for &at in &rules {
            let (first, last) = self.boxes.bounds(at)[cut.dimension];
            let (from, to) = (cut.part(first.max(cut_region.0)), cut.part(last.min(cut_region.1)));
            lists[from..=to].iter_mut().for_each(|list| list.push(at));
        }
        drop(rules);
        let first = self.cells.len();
        self.cells.resize(first + cells, Cell::EMPTY);
        let mut below = region.clone();
        let mut part = 0;
        while part < cells {
            let list = std::mem::take(&mut lists[part]);
            // Neighbours with the same rules are one leaf.
            let same = if list.len() <= LEAF {
                lists[part + 1..].iter().take_while(|l| **l == list).count()
            } else {
                0
            };
            if !list.is_empty() {
                let (from, to) =
                    (cut.region(part, cut_region).0, cut.region(part + same, cut_region).1);
                below[cut.dimension] = (from, to);
                let cell = self.node(list, &below)?;
                self.cells[first + part..=first + part + same].fill(cell);
            }
            part += 1 + same;
        }
        Some(Cell::node(u32::try_from(first).ok()?, cut.last, cut.min, cut.dimension, cut.shift))
    }

    /// The cut that leaves the shortest lists, and how many places they have.
    fn best_cut(&self, rules: &[u32], region: &Region) -> Option<(Cut, usize)> {
        let mut best: Option<(u64, usize, Cut)> = None;
        for (dimension, &(start, end)) in region.iter().enumerate() {
            let bounds = || rules.iter().map(|&at| self.boxes.bounds(at)[dimension]);
            // Where something begins or ends inside of the region.
            let (mut min, mut max) = (u32::MAX, 0);
            for (first, last) in bounds() {
                if first > start {
                    (min, max) = (min.min(first), max.max(first));
                }
                if last < end {
                    (min, max) = (min.min(last + 1), max.max(last + 1));
                }
            }
            if min > max {
                continue;
            }
            let bits = u32::BITS - (max - min).leading_zeros();
            for parts in (0..=bits.min(rules.len().ilog2())).rev() {
                let shift = (bits - parts).min(31);
                let cut = Cut { dimension, min, shift, last: (max - min) >> shift };
                let mut steps = vec![0i32; cut.last as usize + 3];
                let mut total = 0;
                for (first, last) in bounds() {
                    let (from, to) = (cut.part(first.max(start)), cut.part(last.min(end)));
                    steps[from] += 1;
                    steps[to + 1] -= 1;
                    total += to - from + 1;
                }
                if total > rules.len() * self.growth {
                    continue;
                }
                let mut now = 0i64;
                let square = |step: &i32| {
                    now += i64::from(*step);
                    now * now
                };
                // Mean length of the list that contains a rule, times 16.
                let cost = steps.iter().map(square).sum::<i64>() as u64 * 16 / total.max(1) as u64;
                if cost < rules.len() as u64 * 14
                    && best.as_ref().is_none_or(|b| (cost, total) < (b.0, b.1))
                {
                    best = Some((cost, total, cut));
                }
                // Coarser cuts of the same dimension leave longer lists.
                break;
            }
        }
        best.map(|(_, total, cut)| (cut, total))
    }

    /// The dimensions that a leaf needs, and others as far as they take no room of their own: then
    /// most leaves of a tree compare equal dimensions, and branches are predictable.
    fn filled(&self, needed: u16) -> u16 {
        let room = stride(needed, self.halves);
        let mut mask = needed;
        for d in (0..self.boxes.max.len()).filter(|d| self.limited >> d & 1 != 0) {
            let more = mask | 1 << d;
            if stride(more, self.halves) == room {
                mask = more;
            }
        }
        mask
    }

    fn leaf(&mut self, mut rules: Vec<u32>, region: &Region) -> Option<Cell> {
        let boxes = self.boxes;
        let mut mask = 0u16;
        for &at in &rules {
            for (d, (&(first, last), &(start, end))) in
                boxes.bounds(at).iter().zip(region).enumerate()
            {
                if first > start || last < end {
                    mask |= 1 << d;
                }
            }
        }
        if mask == 0 {
            rules.dedup_by_key(|at| boxes.rules[*at as usize]);
        } else {
            mask = self.filled(mask);
        }
        if let Some(cell) = self.leaves.get(&(mask, rules.clone())) {
            return Some(*cell);
        }
        if rules.len() > LONGEST_LEAF {
            return None;
        }
        let stride = stride(mask, self.halves);
        self.rows.resize(self.rows.len().next_multiple_of(stride.min(Line::ROWS)), Row::EMPTY);
        let first = u32::try_from(self.rows.len()).ok()?;
        for block in rules.chunks(4) {
            let start = self.rows.len();
            // What no rule takes is before any rule that is asked for.
            let mut numbers = [-1; 4];
            for (number, &at) in numbers.iter_mut().zip(block) {
                *number = boxes.rules[at as usize] as i32;
            }
            self.rows.push(Row::words(numbers));
            for d in (0..boxes.max.len()).filter(|d| mask >> d & 1 != 0) {
                let (mut firsts, mut lasts) = ([0; 4], [0; 4]);
                for (i, &at) in block.iter().enumerate() {
                    (firsts[i], lasts[i]) = boxes.bounds(at)[d];
                }
                if self.halves >> d & 1 != 0 {
                    self.rows.push(Row::halves(firsts.map(|f| f as u16), lasts.map(|l| l as u16)));
                } else {
                    self.rows.push(Row::words(firsts.map(signed)));
                    self.rows.push(Row::words(lasts.map(signed)));
                }
            }
            self.rows.resize(start + stride, Row::EMPTY);
        }
        self.copies += rules.len();
        let cell = Cell::leaf(first, rules.len().div_ceil(4) as u32, mask, stride);
        self.leaves.insert((mask, rules), cell);
        Some(cell)
    }
}
