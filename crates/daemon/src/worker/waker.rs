// SPDX-License-Identifier: Apache-2.0

//! Wakes a sleeping worker after others have left work for it, without locks.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicBool, fence};

/// Whether a worker sleeps.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    asleep: AtomicBool,
}

impl Waker {
    /// Called after work was left for the worker: whether it sleeps and must be woken; only one
    /// caller gets `true`.
    pub(crate) fn is_to_be_woken(&self) -> bool {
        // Either the worker that is about to sleep sees what was left, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        self.asleep.swap(false, Ordering::SeqCst)
    }

    /// The worker is about to sleep. `false` if `nothing` finds that something has come in the
    /// meantime.
    pub(crate) fn fall_asleep(&self, nothing: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let nothing = nothing();
        if !nothing {
            self.awake();
        }
        nothing
    }

    /// The worker is awake again.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Whether the worker sleeps.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }
}
