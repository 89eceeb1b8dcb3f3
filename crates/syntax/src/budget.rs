// SPDX-License-Identifier: Apache-2.0

//! What one run may take: time, and what definitions, included files and answers may come to.
//!
//! A text of a few lines can ask for any amount of work: a definition that names another one twice
//! doubles it, a file may be included by many others, a listing may be asked for again and again.
//! Each phase of a run charges the same [`Budget`], and stops where it is spent.

use std::cell::Cell;
use std::time::Instant;

/// What is said of a text that took too long, in place of all other messages.
pub const LATE: &str = "evaluation takes longer than is allowed; nothing is changed";

/// How many steps go by between two looks at the clock.
const STEPS: u32 = 256;

/// Bounds of one run, beyond what is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Expressions that all uses of definitions may come to, whatever the length of the text.
    pub expanded: u64,
    /// Expressions that each byte of text adds to [`Self::expanded`].
    pub expanded_per_byte: u64,
    /// Expressions that all uses of definitions may come to, however long the text is.
    pub expanded_at_most: u64,
    /// Files that may be included, each counted as often as it is.
    pub files: usize,
    /// Bytes of all texts: the first one, and the files that are included.
    pub bytes: u64,
    /// Bytes that the answers of all commands may come to.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            expanded: 1 << 20,
            expanded_per_byte: 8,
            expanded_at_most: 1 << 23,
            files: 10_000,
            bytes: 1 << 30,
            output: 1 << 30,
        }
    }
}

/// What is left of the bounds of one run.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    deadline: Option<Instant>,
    late: Cell<bool>,
    steps: Cell<u32>,
    expanded: Cell<u64>,
    files: Cell<usize>,
    bytes: Cell<u64>,
    output: Cell<u64>,
}

impl Budget {
    /// All of it, to be spent until `deadline`.
    pub fn new(limits: Limits, deadline: Option<Instant>) -> Self {
        Budget { limits, deadline, ..Budget::default() }
    }

    /// Whether the time is over. The clock is asked.
    pub fn is_late(&self) -> bool {
        if !self.late.get() && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.late.set(true);
        }
        self.late.get()
    }

    /// Whether the time is over, for loops: the clock is asked at some of the calls only.
    pub fn step(&self) -> bool {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS) { self.is_late() } else { self.late.get() }
    }

    /// A definition of so many expressions is used. `false` if that is more than is left.
    pub fn expand(&self, expressions: u64) -> bool {
        let Limits { expanded, expanded_per_byte, expanded_at_most, .. } = self.limits;
        let most = expanded_per_byte.saturating_mul(self.bytes.get()).saturating_add(expanded);
        let spent = self.expanded.get().saturating_add(expressions);
        let fits = spent <= most.min(expanded_at_most);
        if fits {
            self.expanded.set(spent);
        }
        fits
    }

    /// A text of so many bytes is read. `false` if that is more than is left.
    pub fn read(&self, bytes: usize) -> bool {
        let spent = self.bytes.get().saturating_add(bytes as u64);
        self.bytes.set(spent);
        // Places are offsets of 32 bits.
        spent <= self.limits.bytes.min(u64::from(u32::MAX) - 1)
    }

    /// A file is included. `false` if there were as many as may be.
    pub fn include(&self) -> bool {
        self.files.set(self.files.get() + 1);
        self.files.get() <= self.limits.files
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// An answer of so many bytes is given. `false` if that is more than is left.
    pub fn answer(&self, bytes: usize) -> bool {
        let spent = self.output.get().saturating_add(bytes as u64);
        self.output.set(spent);
        spent <= self.limits.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spending_reduces_the_budget() {
        let limits = Limits {
            expanded: 10,
            expanded_per_byte: 1,
            expanded_at_most: 15,
            files: 1,
            bytes: 100,
            output: 5,
        };
        let budget = Budget::new(limits, Some(Instant::now()));
        assert!(budget.expand(10) && !budget.expand(1));
        // Longer texts may have more, up to a point.
        assert!(budget.read(3) && budget.expand(3) && !budget.expand(1));
        assert!(budget.read(97) && budget.expand(2) && !budget.expand(1));
        assert!(!budget.read(1));
        assert!(budget.include() && !budget.include());
        assert!(budget.answer(5) && !budget.answer(1));
        assert!((0..=STEPS).any(|_| budget.step()), "late");
        assert!(budget.step());
        assert!(!Budget::default().is_late());
    }
}
