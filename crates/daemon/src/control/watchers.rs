//! Who is told of changes and traces. Nobody waits for a watcher: one that is too slow misses lines, and is told so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Texts that wait for a watcher.
const WAITING: usize = 4096;

/// Tells all watchers the same.
#[derive(Debug, Default)]
pub(crate) struct Broadcast {
    to: Mutex<Vec<SyncSender<String>>>,
    missed: AtomicU64,
}

impl Broadcast {
    /// One more watcher.
    pub(crate) fn subscribe(&self) -> Receiver<String> {
        let (sender, receiver) = sync_channel(WAITING);
        self.to.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// Says something; those who are gone are forgotten.
    pub(crate) fn say(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.to.lock().unwrap_or_else(PoisonError::into_inner).retain(|to| {
            match to.try_send(text.to_owned()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    self.missed.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
    }

    /// Whether somebody listens.
    pub(crate) fn is_heard(&self) -> bool {
        !self.to.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Texts that somebody missed since this was asked for the last time.
    pub(crate) fn take_missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}
