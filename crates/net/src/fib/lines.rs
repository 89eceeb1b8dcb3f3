// SPDX-License-Identifier: Apache-2.0

//! The routes of addresses with the same first two bytes, by the third: all that a packet needs to
//! know of them is in one cache line.
//!
//! A line has the last values of some ranges, which are compared with a value all at once, and the
//! numbers of their routes. Where there are more ranges than fit into a line, the values are cut
//! into 2, 4 or up to 32 pieces, each with a line of its own.

use std::sync::Arc;

use super::{Node, ones};
use crate::RouteNumber;
use crate::key::Key;

/// Ranges of a line.
const RANGES: usize = 12;
/// Lines of all 256 values at most: then a line has fewer values than ranges.
const MOST: usize = 32;

/// Ranges of values of a byte, in order.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    /// The last value of each range; 255 for the last range, and where there is none.
    lasts: [u8; 16],
    /// Their routes: none where no prefix is that long, or [`RouteNumber::DEEPER`].
    numbers: [RouteNumber; RANGES],
}

impl Line {
    /// With one range.
    pub(super) const fn all(number: RouteNumber) -> Line {
        Line { lasts: [u8::MAX; 16], numbers: [number; RANGES] }
    }

    /// What is said of a value.
    #[inline(always)]
    pub(super) fn number(&self, value: u8) -> RouteNumber {
        let before: u8 = self.lasts.iter().map(|last| u8::from(*last < value)).sum();
        // There is a range that no value is beyond.
        self.numbers.get(usize::from(before)).copied().unwrap_or(RouteNumber::NO_ROUTE)
    }
}

/// The line of a value among those of all values.
#[inline(always)]
pub(super) fn line_of(lines: &[Line], value: u8) -> &Line {
    &lines[usize::from(value) * lines.len() / 256]
}

/// What a node says of the values of the third byte, as ranges.
struct Ranges {
    count: usize,
    /// The first value of each.
    firsts: [u8; 256],
    numbers: [RouteNumber; 256],
}

impl Ranges {
    /// Of a node that has all that is known of some first two bytes.
    fn of<K: Key>(node: &Node<K>) -> Ranges {
        let (firsts, numbers) = ([0; 256], [RouteNumber::NO_ROUTE; 256]);
        let mut all = Ranges { count: 0, firsts, numbers };
        if node.depth > 2 {
            let only = node.address.byte(2);
            if only > 0 {
                all.add(0, RouteNumber::NO_ROUTE);
            }
            all.add(only, RouteNumber::DEEPER);
            if let Some(next) = only.checked_add(1) {
                all.add(next, RouteNumber::NO_ROUTE);
            }
            return all;
        }
        let mut ranges = node.ranges.iter();
        let mut number = RouteNumber::NO_ROUTE;
        // The value after one with a child says again what is said of those without.
        let mut after = 0;
        let words = node.starts.words.iter().zip(&node.parents.words);
        for (at, (starts, parents)) in words.enumerate() {
            for bit in ones(starts | parents | parents << 1 | after) {
                if starts >> bit & 1 != 0 {
                    number = ranges.next().map_or(number, |range| range.number);
                }
                let deeper = parents >> bit & 1 != 0;
                let number = if deeper { RouteNumber::DEEPER } else { number };
                all.add((64 * at + bit) as u8, number);
            }
            after = parents >> 63;
        }
        all
    }

    /// Adds what begins with a value, unless it is the same as before.
    fn add(&mut self, first: u8, number: RouteNumber) {
        let before = self.count.checked_sub(1).map(|last| self.numbers[last]);
        if before != Some(number) {
            (self.firsts[self.count], self.numbers[self.count]) = (first, number);
            self.count += 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, RouteNumber)> {
        let firsts = self.firsts.iter().map(|first| usize::from(*first));
        firsts.zip(self.numbers.iter().copied()).take(self.count)
    }

    /// Whether there is room for all in so many lines.
    fn fit(&self, lines: usize) -> bool {
        let values = 256 / lines;
        let (mut line, mut ranges) = (0, 0);
        self.iter().all(|(first, _)| {
            if first / values != line {
                line = first / values;
                // One that began in an earlier line goes on.
                ranges = usize::from(first % values != 0);
            }
            ranges += 1;
            ranges <= RANGES
        })
    }

    /// The least number of lines that have room for all.
    fn lines(&self) -> usize {
        let enough = |lines: &usize| self.count <= lines * RANGES && self.fit(*lines);
        [1, 2, 4, 8, 16].into_iter().find(enough).unwrap_or(MOST)
    }

    /// Writes them into lines.
    fn write(&self, lines: &mut [Line]) {
        let values = 256 / lines.len();
        let mut ranges = self.iter().peekable();
        let mut number = RouteNumber::NO_ROUTE;
        for (line, begin) in lines.iter_mut().zip((0..256).step_by(values)) {
            *line = Line::all(number);
            let mut at = 0;
            while let Some(next) = ranges.next_if(|(first, _)| *first < begin + values) {
                if next.0 > begin {
                    line.lasts[at] = (next.0 - 1) as u8;
                    at += 1;
                }
                number = next.1;
                line.numbers[at] = number;
            }
        }
    }
}

/// Lines that many first bytes have in common.
#[derive(Clone, Debug)]
pub(super) struct SharedLines {
    /// There is nothing.
    pub(super) nothing: Arc<[Line]>,
    /// All there is has to be asked of the node.
    deeper: Arc<[Line]>,
}

impl SharedLines {
    pub(super) fn new() -> Self {
        let all = |number| Arc::new([Line::all(number)]);
        SharedLines { nothing: all(RouteNumber::NO_ROUTE), deeper: all(RouteNumber::DEEPER) }
    }

    /// Gives lines what a node says that has all that is known of some first two bytes.
    pub(super) fn learn<K: Key>(&self, lines: &mut Arc<[Line]>, node: &Node<K>) {
        let ranges = Ranges::of(node);
        let count = ranges.lines();
        if ranges.count == 1 && ranges.numbers[0] == RouteNumber::DEEPER {
            return lines.clone_from(&self.deeper);
        }
        if let Some(lines) = Arc::get_mut(lines).filter(|lines| lines.len() == count) {
            return ranges.write(lines);
        }
        *lines = std::iter::repeat_n(Line::all(RouteNumber::NO_ROUTE), count).collect();
        if let Some(lines) = Arc::get_mut(lines) {
            ranges.write(lines);
        }
    }
}
