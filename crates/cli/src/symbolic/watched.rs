// SPDX-License-Identifier: Apache-2.0

//! Work that may take long shows on a terminal how far it has come.

use std::io::{IsTerminal, Write};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_symbolic::PROGRESS;

/// Nothing is shown of work that takes no longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const PULSE: Duration = Duration::from_millis(250);

/// Does work, and shows meanwhile how far it has come, if standard error is a terminal.
pub fn watched<T>(work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (ended, changed) = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| show(&ended, &changed));
        // Ends the other thread, also where the work panics.
        let _end = End { ended: &ended, changed: &changed };
        work()
    })
}

struct End<'a> {
    ended: &'a Mutex<bool>,
    changed: &'a Condvar,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// Writes a line again and again, and takes it away at the end.
fn show(ended: &Mutex<bool>, changed: &Condvar) {
    let begun = Instant::now();
    let mut shown = false;
    let mut over = ended.lock().unwrap_or_else(PoisonError::into_inner);
    while !*over {
        over = changed.wait_timeout(over, PULSE).unwrap_or_else(PoisonError::into_inner).0;
        if !*over && begun.elapsed() >= PATIENCE {
            let (done, all) = PROGRESS.get();
            let seconds = begun.elapsed().as_secs();
            let _ = write!(std::io::stderr(), "\r\x1b[K{done} of {all} rules, {seconds} s");
            shown = true;
        }
    }
    if shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}
