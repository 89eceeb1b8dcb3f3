// SPDX-License-Identifier: Apache-2.0

//! Results of operations that were done lately.

use super::node::{Edge, Marks};

/// What is done with two or three functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Operation {
    And,
    Xor,
    /// The second where the first holds, the third elsewhere.
    Select,
    /// The first with any value of the variables that the second asks.
    Whatever,
    /// Whether two have nothing in common: all or none.
    Apart,
    Among,
}

/// An operation and its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    operation: Option<Operation>,
    operands: [Edge; 3],
}

impl Asked {
    pub(super) fn new(operation: Operation, operands: [Edge; 3]) -> Self {
        Asked { operation: Some(operation), operands }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    asked: Asked,
    result: Edge,
}

const EMPTY: Entry =
    Entry { asked: Asked { operation: None, operands: [Edge::ALL; 3] }, result: Edge::ALL };

/// One place for each hash; a later result takes the place of an earlier one.
pub(super) struct Known {
    /// A power of two.
    entries: Vec<Entry>,
}

impl Known {
    pub(super) fn new() -> Self {
        Known { entries: vec![EMPTY; 1 << 10] }
    }

    fn place(&self, asked: &Asked) -> usize {
        let [a, b, c] = asked.operands.map(|edge| u64::from(edge.bits()));
        let operation = asked.operation.map_or(0, |operation| operation as u64);
        let hash = (a << 32 | b).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (c << 3 | operation).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (hash >> (64 - self.entries.len().trailing_zeros())) as usize
    }

    pub(super) fn get(&self, asked: &Asked) -> Option<Edge> {
        let entry = &self.entries[self.place(asked)];
        (entry.asked == *asked).then_some(entry.result)
    }

    pub(super) fn put(&mut self, asked: Asked, result: Edge) {
        let place = self.place(&asked);
        self.entries[place] = Entry { asked, result };
    }

    /// Has a place for each second node at least.
    pub(super) fn fit(&mut self, nodes: usize) {
        if self.entries.len() * 2 < nodes {
            let old = std::mem::take(&mut self.entries);
            self.entries = vec![EMPTY; nodes.next_power_of_two() / 2];
            for entry in old.into_iter().filter(|entry| entry.asked.operation.is_some()) {
                self.put(entry.asked, entry.result);
            }
        }
    }

    /// Forgets what is about nodes that are not in use.
    pub(super) fn forget_others(&mut self, marks: &Marks) {
        for entry in &mut self.entries {
            let [a, b, c] = entry.asked.operands;
            if [a, b, c, entry.result].iter().any(|edge| !marks.contains(edge.node())) {
                *entry = EMPTY;
            }
        }
    }
}
