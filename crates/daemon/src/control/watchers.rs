//! Who is told of changes and traces. Nobody waits for a watcher: one that is too slow misses lines, and is told so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Texts that wait for a watcher.
const WAITING: usize = 4096;

/// Tells all watchers the same.
#[derive(Debug, Default)]
pub(crate) struct Broadcast {
    to: Mutex<Vec<(SyncSender<String>, Arc<AtomicU64>)>>,
}

/// What one watcher is told.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) texts: Receiver<String>,
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
        let (sender, texts) = sync_channel(WAITING);
        let missed = Arc::new(AtomicU64::new(0));
        self.to.lock().unwrap_or_else(PoisonError::into_inner).push((sender, missed.clone()));
        Heard { texts, missed }
    }

    /// Says something; those who are gone are forgotten.
    pub(crate) fn say(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.to.lock().unwrap_or_else(PoisonError::into_inner).retain(|(to, missed)| {
            match to.try_send(text.to_owned()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    missed.fetch_add(1, Ordering::Relaxed);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_too_slow_misses_lines_and_nobody_else_does() {
        let all = Broadcast::default();
        let (slow, quick) = (all.subscribe(), all.subscribe());
        for number in 0..WAITING + 7 {
            all.say(&number.to_string());
            assert_eq!(quick.texts.try_recv(), Ok(number.to_string()));
        }
        assert_eq!((slow.take_missed(), slow.take_missed(), quick.take_missed()), (7, 0, 0));
        drop((slow, quick));
        all.say("to nobody");
        assert!(!all.is_heard());
    }
}
