// SPDX-License-Identifier: Apache-2.0

//! How far long work has come.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rules that were evaluated, of all.
#[derive(Debug)]
pub struct Progress {
    done: AtomicUsize,
    all: AtomicUsize,
}

/// The progress of what this process evaluates; of the latest, if there are several.
pub static PROGRESS: Progress = Progress { done: AtomicUsize::new(0), all: AtomicUsize::new(0) };

impl Progress {
    /// Notes that so many rules of all were evaluated.
    pub(crate) fn note(&self, done: usize, all: usize) {
        self.all.store(all, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }

    /// How many rules were evaluated, of how many; zeroes before the first.
    pub fn get(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }
}
