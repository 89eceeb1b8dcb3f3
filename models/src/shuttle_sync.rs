// SPDX-License-Identifier: Apache-2.0

//! Atomic integers and threads of shuttle.

pub use shuttle::hint::spin_loop;
pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use shuttle::sync::{Arc, Mutex};
pub use shuttle::thread;

/// A word that is read or written: one thread at a time runs.
pub struct Word;

impl Word {
    pub fn new() -> Self {
        Word
    }

    pub fn read(&self) {}

    pub fn write(&self) {}
}
