// SPDX-License-Identifier: Apache-2.0

//! Texts for several watchers, for instance traces. The sender never waits: a watcher that is too
//! slow misses lines, and is told how many.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Texts that wait for a watcher.
const WAITING: usize = 4096;
/// Bytes of them.
const WAITING_BYTES: usize = 256 << 10;

/// Tells all watchers the same.
#[derive(Debug, Default)]
pub(crate) struct Broadcast {
    to: Mutex<Vec<Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    to: SyncSender<Arc<str>>,
    waiting: Arc<AtomicUsize>,
    missed: Arc<AtomicU64>,
}

/// Texts on their way to one watcher, in their order.
#[derive(Debug)]
pub(crate) struct Texts {
    from: Receiver<Arc<str>>,
    waiting: Arc<AtomicUsize>,
}

impl Texts {
    fn taken(&self, text: &str) -> String {
        self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
        text.to_owned()
    }

    /// Waits for the next one.
    ///
    /// # Errors
    /// None comes in that time, or the sender is gone.
    pub(crate) fn recv_timeout(&self, time: Duration) -> Result<String, RecvTimeoutError> {
        self.from.recv_timeout(time).map(|text| self.taken(&text))
    }

    /// The next one, if it is there.
    ///
    /// # Errors
    /// There is none, or the sender is gone.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests do not wait"))]
    pub(crate) fn try_recv(&self) -> Result<String, TryRecvError> {
        self.from.try_recv().map(|text| self.taken(&text))
    }
}

/// The lines for one watcher.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) texts: Texts,
    missed: Arc<AtomicU64>,
}

impl Heard {
    /// Texts that it missed since this was asked for the last time.
    pub(crate) fn take_missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

impl Broadcast {
    /// One more watcher.
    pub(crate) fn subscribe(&self) -> Heard {
        let (to, from) = sync_channel(WAITING);
        let (missed, waiting) = <(Arc<AtomicU64>, Arc<AtomicUsize>)>::default();
        let watcher = Watcher { to, waiting: waiting.clone(), missed: missed.clone() };
        self.to.lock().unwrap_or_else(PoisonError::into_inner).push(watcher);
        Heard { texts: Texts { from, waiting }, missed }
    }

    /// Says something; those who are gone are forgotten.
    pub(crate) fn say(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let text: Arc<str> = text.into();
        self.to.lock().unwrap_or_else(PoisonError::into_inner).retain(
            |Watcher { to, waiting, missed }| {
                let before = waiting.fetch_add(text.len(), Ordering::Relaxed);
                // One text finds room, however long it is.
                let fits = before == 0 || before + text.len() <= WAITING_BYTES;
                let said = if fits {
                    to.try_send(text.clone())
                } else {
                    Err(TrySendError::Full(text.clone()))
                };
                if said.is_err() {
                    waiting.fetch_sub(text.len(), Ordering::Relaxed);
                    missed.fetch_add(1, Ordering::Relaxed);
                }
                !matches!(said, Err(TrySendError::Disconnected(_)))
            },
        );
    }

    /// Whether there is a watcher.
    pub(crate) fn is_heard(&self) -> bool {
        !self.to.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_readers_miss_lines() {
        let all = Broadcast::default();
        let (slow, quick) = (all.subscribe(), all.subscribe());
        for number in 0..WAITING + 7 {
            all.say(&number.to_string());
            assert_eq!(quick.texts.try_recv(), Ok(number.to_string()));
        }
        assert_eq!((slow.take_missed(), slow.take_missed(), quick.take_missed()), (7, 0, 0));
        let long = "x".repeat(WAITING_BYTES / 2);
        (0..5).for_each(|_| all.say(&long));
        let heard = std::iter::from_fn(|| quick.texts.try_recv().ok()).count();
        assert_eq!((heard, quick.take_missed()), (2, 3), "bytes are bounded");
        all.say(&long.repeat(3));
        assert!(quick.texts.try_recv().is_ok(), "one text finds room");
        drop((slow, quick));
        all.say("to nobody");
        assert!(!all.is_heard());
    }
}
