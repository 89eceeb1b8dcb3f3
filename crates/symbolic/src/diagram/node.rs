// SPDX-License-Identifier: Apache-2.0

//! Nodes of decision diagrams: one for each function, however often it is used.
//!
//! A node asks one variable and has an edge for each of its values. An edge may stand for the
//! complement of what it leads to, so that a set and all other packets share their nodes. Edges
//! for 1 never do: each function has one form, and equal functions have equal edges.

use std::time::Instant;

/// Leads to a node: its number doubled, and 1 more for the complement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Edge(u32);

impl Edge {
    pub(super) const ALL: Edge = Edge(0);
    pub(super) const NONE: Edge = Edge(1);

    /// The number of the node.
    pub(super) fn node(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// The number and the complement together.
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    pub(super) fn is_complement(self) -> bool {
        self.0 & 1 == 1
    }

    pub(super) fn complement(self) -> Self {
        Edge(self.0 ^ 1)
    }

    /// The complement of this edge if the other one is a complement.
    pub(super) fn complement_as(self, other: Edge) -> Self {
        Edge(self.0 ^ (other.0 & 1))
    }

    /// Without its complement.
    pub(super) fn plain(self) -> Self {
        Edge(self.0 & !1)
    }

    pub(super) fn is_constant(self) -> bool {
        self.0 <= 1
    }
}

/// Nodes that one table can have: edges are 32 bits.
pub(super) const MOST_NODES: usize = 1 << 30;
/// What the node has that is reached after all variables.
const LAST: u32 = u32::MAX;
/// What a node has that is not in use.
const UNUSED: u32 = u32::MAX - 1;
/// Nodes that are made before unused ones are looked for, at least.
const LEAST_BETWEEN_COLLECTIONS: usize = 1 << 16;
/// Steps between two looks at the clock.
const STEPS_BETWEEN_CLOCKS: u32 = 1 << 14;

#[derive(Clone, Copy)]
struct Node {
    /// The variable that it asks.
    level: u32,
    /// For the value 0.
    low: Edge,
    /// For the value 1; never a complement.
    high: Edge,
    /// The next node of the bucket or of the list of unused ones; 0 at the end.
    next: u32,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// All nodes are in use.
    Room,
    /// The time is over.
    Time,
}

/// All nodes.
pub(super) struct Nodes {
    /// The first one is reached after all variables.
    nodes: Vec<Node>,
    /// Numbers of nodes by their hash; 0 where there is none. A power of two.
    buckets: Vec<u32>,
    /// The first unused node, or 0.
    unused: u32,
    /// How many nodes are in use.
    used: usize,
    /// How many there may be.
    most: usize,
    /// How many are in use when unused ones are looked for.
    collect_at: usize,
    steps: u32,
    end: Instant,
}

impl Nodes {
    /// A table of at most so many nodes, for work until a point in time.
    pub(super) fn new(most: usize, end: Instant) -> Self {
        let last = Node { level: LAST, low: Edge::ALL, high: Edge::ALL, next: 0 };
        Nodes {
            nodes: vec![last],
            buckets: vec![0; 1 << 10],
            unused: 0,
            used: 1,
            most: most.min(MOST_NODES),
            collect_at: LEAST_BETWEEN_COLLECTIONS,
            steps: 0,
            end,
        }
    }

    /// The first variable that a function asks; larger than all for constants.
    pub(super) fn level(&self, edge: Edge) -> u32 {
        self.nodes[edge.node()].level
    }

    /// What a function is where a variable is 0 and where it is 1. The function asks no variable
    /// before that one.
    pub(super) fn at(&self, edge: Edge, level: u32) -> (Edge, Edge) {
        let node = &self.nodes[edge.node()];
        match node.level == level {
            true => (node.low.complement_as(edge), node.high.complement_as(edge)),
            false => (edge, edge),
        }
    }

    /// The function that is one where a variable is 0, and another where it is 1. Both ask only
    /// variables after it.
    pub(super) fn make(&mut self, level: u32, low: Edge, high: Edge) -> Result<Edge, Stop> {
        if low == high {
            return Ok(low);
        }
        let (low, plain) = (low.complement_as(high), high.plain());
        let mut number = self.buckets[self.bucket(level, low, plain)];
        while number != 0 {
            let node = &self.nodes[number as usize];
            if node.low == low && node.high == plain && node.level == level {
                return Ok(Edge(number << 1).complement_as(high));
            }
            number = node.next;
        }
        let number = self.place()?;
        let bucket = self.bucket(level, low, plain);
        let next = std::mem::replace(&mut self.buckets[bucket], number);
        self.nodes[number as usize] = Node { level, low, high: plain, next };
        Ok(Edge(number << 1).complement_as(high))
    }

    /// A node that is not in use.
    fn place(&mut self) -> Result<u32, Stop> {
        if self.unused != 0 {
            let number = self.unused;
            self.unused = self.nodes[number as usize].next;
            self.used += 1;
            return Ok(number);
        }
        if self.nodes.len() >= self.most {
            return Err(Stop::Room);
        }
        if self.nodes.len() == self.buckets.len() {
            self.buckets = vec![0; 2 * self.buckets.len()];
            self.fill_buckets();
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(Node { level: UNUSED, low: Edge::ALL, high: Edge::ALL, next: 0 });
        self.used += 1;
        Ok(number)
    }

    fn bucket(&self, level: u32, low: Edge, high: Edge) -> usize {
        let edges = u64::from(low.0) << 32 | u64::from(high.0);
        let hash = (edges ^ u64::from(level) << 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - self.buckets.len().trailing_zeros())) as usize
    }

    /// Puts all nodes that are in use into the buckets, which are empty.
    fn fill_buckets(&mut self) {
        for number in 1..self.nodes.len() {
            let Node { level, low, high, .. } = self.nodes[number];
            if level != UNUSED {
                let bucket = self.bucket(level, low, high);
                self.nodes[number].next = self.buckets[bucket];
                self.buckets[bucket] = number as u32;
            }
        }
    }

    /// Says that an operation goes on; now and then that its time is over.
    pub(super) fn step(&mut self) -> Result<(), Stop> {
        self.steps = self.steps.wrapping_add(1);
        match self.steps.is_multiple_of(STEPS_BETWEEN_CLOCKS) && Instant::now() >= self.end {
            true => Err(Stop::Time),
            false => Ok(()),
        }
    }

    /// How many nodes there have ever been at one time.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether so many were made that it is time to look for those that nobody needs.
    pub(super) fn should_collect(&self) -> bool {
        self.used >= self.collect_at
    }

    /// Gives back all nodes that cannot be reached from these; which nodes are left.
    pub(super) fn collect(&mut self, needed: impl Iterator<Item = usize>) -> Marks {
        let mut marks = Marks(vec![0; self.nodes.len().div_ceil(64)]);
        marks.insert(0);
        let mut open: Vec<usize> = Vec::new();
        for number in needed {
            open.push(number);
            while let Some(number) = open.pop() {
                if marks.insert(number) {
                    let node = &self.nodes[number];
                    open.extend([node.low.node(), node.high.node()]);
                }
            }
        }
        self.unused = 0;
        self.used = 1;
        // From the last to the first, so that new nodes lie side by side in the list.
        for number in (1..self.nodes.len()).rev() {
            let node = &mut self.nodes[number];
            if marks.contains(number) {
                self.used += 1;
            } else {
                node.level = UNUSED;
                node.next = std::mem::replace(&mut self.unused, number as u32);
            }
        }
        self.buckets.fill(0);
        self.fill_buckets();
        self.collect_at = (2 * self.used).max(LEAST_BETWEEN_COLLECTIONS);
        marks
    }
}

/// A set of nodes.
pub(super) struct Marks(Vec<u64>);

impl Marks {
    /// Whether it was not in it.
    fn insert(&mut self, number: usize) -> bool {
        let (word, bit) = (&mut self.0[number / 64], 1 << (number % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }
}
