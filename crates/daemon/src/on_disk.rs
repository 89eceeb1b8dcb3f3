// SPDX-License-Identifier: Apache-2.0

//! Who waits until the state file has the ruleset, and the thread that writes it.
//!
//! A write is of the ruleset as it is when the write begins. So a wait ends with a write that began
//! after it, and one write ends the waits of all who came before it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A wait is no longer than this: the ruleset is in force in any case.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Write: somebody waits.
    Asked,
    /// Nobody has asked for some time.
    Quiet,
    /// End.
    End,
}

#[derive(Debug, Default)]
struct State {
    /// There is a writer.
    written: bool,
    /// Packets meet a chain of the ruleset that the file has.
    has_rules: bool,
    /// How often somebody has asked.
    asked: u64,
    /// The questions that a write was begun for, and was done or has failed.
    answered: u64,
}

/// The state file, for those who change the ruleset and the one who writes it.
#[derive(Debug, Default)]
pub(crate) struct OnDisk {
    state: Mutex<State>,
    changed: Condvar,
}

impl OnDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the file has the ruleset, if there is a file; or until that has failed, which the
    /// writer logs. Returns whether it waited in vain.
    pub(crate) fn wait(&self) -> bool {
        self.wait_in(self.lock(), PATIENCE)
    }

    /// [`OnDisk::wait`], unless the file has a ruleset that packets meet.
    pub(crate) fn wait_for_first(&self) -> bool {
        let state = self.lock();
        !state.has_rules && self.wait_in(state, PATIENCE)
    }

    fn wait_in(&self, mut state: MutexGuard<'_, State>, patience: Duration) -> bool {
        if !state.written {
            return false;
        }
        state.asked += 1;
        let mine = state.asked;
        self.changed.notify_all();
        let goes_on = |state: &mut State| state.written && state.answered < mine;
        let waited = self.changed.wait_timeout_while(state, patience, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// There is a writer from here on.
    pub(crate) fn begin(&self) {
        self.lock().written = true;
    }

    /// There is no writer any more: nobody waits.
    pub(crate) fn end(&self) {
        self.lock().written = false;
        self.changed.notify_all();
    }

    /// Waits until somebody asks, at most for a time.
    pub(crate) fn turn(&self, time: Duration) -> Turn {
        let end = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let turn = match &*state {
                State { written: false, .. } => Turn::End,
                State { asked, answered, .. } if asked > answered => Turn::Asked,
                _ if left.is_zero() => Turn::Quiet,
                _ => {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            return turn;
        }
    }

    /// Writes by a function, which returns whether packets meet a chain of what the file has now;
    /// `None` if it could not be written.
    pub(crate) fn write(&self, write: impl FnOnce() -> Option<bool>) {
        let asked = self.lock().asked;
        let has_rules = write();
        let mut state = self.lock();
        state.answered = asked;
        state.has_rules = has_rules.unwrap_or(state.has_rules);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    /// A writer that runs until all waits are over; it writes what `value` is when it begins.
    fn writer(disk: &OnDisk, value: &AtomicU32, file: &AtomicU32, writes: &AtomicU32) {
        while disk.turn(Duration::from_secs(60)) == Turn::Asked {
            disk.write(|| {
                let written = value.load(SeqCst);
                std::thread::sleep(Duration::from_millis(20));
                file.store(written, SeqCst);
                writes.fetch_add(1, SeqCst);
                Some(true)
            });
        }
    }

    #[test]
    fn waits_end_with_a_write_that_began_after_them() {
        let (disk, value) = (OnDisk::default(), AtomicU32::new(0));
        let (file, writes) = (AtomicU32::new(0), AtomicU32::new(0));
        disk.begin();
        std::thread::scope(|scope| {
            scope.spawn(|| writer(&disk, &value, &file, &writes));
            let all: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..4 {
                            let mine = value.fetch_add(1, SeqCst) + 1;
                            assert!(!disk.wait());
                            assert!(file.load(SeqCst) >= mine);
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|one| one.join().expect("what is waited for is written"));
            disk.end();
        });
        // One write is for all who wait.
        assert!(writes.load(SeqCst) < 32, "{writes:?}");
    }

    #[test]
    fn only_the_first_ruleset_is_waited_for() {
        let disk = OnDisk::default();
        // Without a file.
        assert!(!disk.wait() && !disk.wait_for_first());
        disk.begin();
        // Nobody writes.
        assert!(disk.wait_in(disk.lock(), Duration::from_millis(1)));
        assert_eq!(disk.turn(Duration::ZERO), Turn::Asked);
        disk.write(|| None);
        assert_eq!(disk.turn(Duration::ZERO), Turn::Quiet);
        assert!(!disk.lock().has_rules);
        disk.write(|| Some(true));
        assert!(!disk.wait_for_first());
        assert_eq!(disk.turn(Duration::ZERO), Turn::Quiet);
        // Those that were written before stay if a later write fails.
        disk.write(|| None);
        assert!(disk.lock().has_rules);
        disk.end();
        assert!(!disk.wait());
        assert_eq!(disk.turn(Duration::ZERO), Turn::End);
    }
}
