// SPDX-License-Identifier: Apache-2.0

//! What a call may cost: time and bytes of one, and the share of the workers that all who may only
//! look have together.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a listing may take of those who may only look, and of root.
const LOOK_TIME: Duration = Duration::from_secs(300);
const ROOT_TIME: Duration = Duration::from_secs(3600);
/// Bytes that a listing may have.
const LOOK_BYTES: u64 = 256 << 20;
const ROOT_BYTES: u64 = 64 << 30;
/// The workers spend a part in so many of their time on listings of those who may only look.
const SHARE: u32 = 50;

/// Why a listing ended before its end. Said to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// It took too long.
    Time,
    /// It is too long.
    Bytes,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exceeded::Time => "the listing is incomplete: it takes longer than is allowed",
            Exceeded::Bytes => "the listing is incomplete: it is longer than is allowed",
        })
    }
}

impl std::error::Error for Exceeded {}

impl Exceeded {
    /// Whether this is why something failed.
    pub(crate) fn of(e: &io::Error) -> Option<Exceeded> {
        e.get_ref()?.downcast_ref().copied()
    }
}

/// What is left of a call's time and bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    end: Instant,
    bytes: Cell<u64>,
}

impl Budget {
    /// The budget of a listing that begins now, for root or for a read-only client.
    pub(crate) fn of_listing(looks: bool) -> Self {
        let (time, bytes) = if looks { (LOOK_TIME, LOOK_BYTES) } else { (ROOT_TIME, ROOT_BYTES) };
        Budget { end: Instant::now() + time, bytes: Cell::new(bytes) }
    }

    /// So many bytes, and all the time that a test takes.
    #[cfg(test)]
    pub(crate) fn for_test(bytes: u64) -> Self {
        Budget { end: Instant::now() + ROOT_TIME, bytes: Cell::new(bytes) }
    }

    /// When it is over.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Takes bytes off.
    ///
    /// # Errors
    /// [`Exceeded`]
    pub(crate) fn spend(&self, bytes: usize) -> io::Result<()> {
        if Instant::now() >= self.end {
            return Err(io::Error::other(Exceeded::Time));
        }
        let left = self.bytes.get().checked_sub(bytes as u64);
        self.bytes.set(left.ok_or_else(|| io::Error::other(Exceeded::Bytes))?);
        Ok(())
    }
}

/// When a read-only client may query a worker next.
#[derive(Debug)]
pub(crate) struct Pace {
    free: Mutex<Instant>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Pace { free: Mutex::new(Instant::now()) }
    }

    /// Waits until a worker may be queried, and takes this turn: the next turn comes after at least
    /// `least` of a worker's time is made up for.
    ///
    /// # Errors
    /// [`Exceeded::Time`]: the turn would not come before `end`.
    pub(crate) fn wait(&self, end: Instant, least: Duration) -> io::Result<()> {
        loop {
            let now = Instant::now();
            let free = {
                let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
                if *free <= now {
                    *free = now + least * SHARE;
                    return Ok(());
                }
                *free
            };
            if free >= end {
                return Err(io::Error::other(Exceeded::Time));
            }
            std::thread::sleep(free - now);
        }
    }

    /// What was asked took a worker so long.
    pub(crate) fn took(&self, time: Duration) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = (*free).max(Instant::now() + time * SHARE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_when_it_is_spent() {
        let budget = Budget::of_listing(true);
        budget.spend(LOOK_BYTES as usize - 1).expect("it is enough");
        let error = budget.spend(2).expect_err("there is one left");
        assert_eq!(Exceeded::of(&error), Some(Exceeded::Bytes));
        assert_eq!(Exceeded::of(&io::ErrorKind::TimedOut.into()), None);
        let late = Budget { end: Instant::now(), bytes: Cell::new(9) };
        assert_eq!(late.spend(1).err().and_then(|e| Exceeded::of(&e)), Some(Exceeded::Time));
    }

    #[test]
    fn concurrent_readers_query_no_more_often_than_one() {
        let pace = Pace::new();
        let begun = Instant::now();
        let end = begun + Duration::from_secs(60);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        pace.wait(end, Duration::ZERO).expect("there is time");
                        pace.took(Duration::from_micros(100));
                    }
                });
            }
        });
        // Twenty times a tenth of a millisecond of work; those who came at the same time may have
        // been let in together.
        assert!(begun.elapsed() >= Duration::from_micros(100) * SHARE * 4, "{:?}", begun.elapsed());
        pace.took(Duration::from_secs(10));
        let soon = Instant::now() + Duration::from_millis(1);
        let error = pace.wait(soon, Duration::ZERO).expect_err("it is too long");
        assert_eq!(Exceeded::of(&error), Some(Exceeded::Time));
    }
}
