// SPDX-License-Identifier: Apache-2.0

//! A barrier: all workers reach it before one continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A barrier that all workers reach before one continues, or that ends after a second.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    there: Arc<AtomicUsize>,
    workers: usize,
}

impl Barrier {
    pub(crate) fn of(workers: usize) -> Self {
        Barrier { there: Arc::default(), workers }
    }

    /// Waits for all others, and calls `meanwhile` during that time.
    pub(crate) fn wait(&self, mut meanwhile: impl FnMut()) {
        const LONGEST: Duration = Duration::from_secs(1);
        const PAUSE: Duration = Duration::from_micros(50);
        self.there.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + LONGEST;
        while self.there.load(Ordering::SeqCst) < self.workers && Instant::now() < until {
            meanwhile();
            std::thread::sleep(PAUSE);
        }
        meanwhile();
    }
}
