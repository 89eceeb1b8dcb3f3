// SPDX-License-Identifier: Apache-2.0

//! The ports that there are: the thread that takes and returns devices writes it, others read it at
//! any time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::devices::takeover::Taken;

/// The taken devices.
#[derive(Debug, Default)]
pub(crate) struct TakenPorts(Mutex<Vec<Taken>>);

impl TakenPorts {
    fn lock(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are taken, and no others.
    pub(crate) fn set(&self, taken: Vec<Taken>) {
        *self.lock() = taken;
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Taken> {
        self.lock().clone()
    }

    /// Indexes and names of their TAPs.
    pub(crate) fn links(&self) -> Vec<(u32, String)> {
        self.lock().iter().map(|taken| (taken.tap, taken.name.clone())).collect()
    }

    /// What the host calls them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().iter().map(|taken| taken.name.clone()).collect()
    }
}
