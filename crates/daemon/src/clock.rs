// SPDX-License-Identifier: Apache-2.0

//! The packet clock, which no change of the machine's clock moves.
//!
//! Timeouts of elements and connections, limits, and the order of packets use it, as the kernel's
//! use jiffies and `ktime_get()`. It starts with the wall clock's time when the process starts, and
//! continues with `CLOCK_MONOTONIC`, which stops while the machine sleeps. What is told to people
//! or kept for another process is of the wall clock: `meta time`, `hour` and `day`, time stamps of
//! captures and of packets for programs, expiries in state files. These follow a change within
//! [`LOOK`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked whether the wall clock was set, in nanoseconds.
pub(crate) const LOOK: u64 = 100_000_000;

/// Differences that are no change: two clocks cannot be read at once (nanoseconds).
const JITTER: u64 = 10_000_000;

/// When the process began, by both clocks. A process that is forked has it from its parent.
static START: OnceLock<Start> = OnceLock::new();

/// By how much the wall clock was ahead of the packet clock at the last look.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Start {
    wall: u64,
    steady: Instant,
}

impl Start {
    /// The packet clock at a moment.
    fn at(&self, steady: Instant) -> u64 {
        let passed = steady.saturating_duration_since(self.steady).as_nanos();
        self.wall.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// By how much a wall clock is ahead of the packet clock; `before` is what was found last.
    fn ahead(&self, wall: u64, steady: Instant, before: i64) -> i64 {
        let ahead = wall.wrapping_sub(self.at(steady)) as i64;
        if ahead.abs_diff(before) <= JITTER { before } else { ahead }
    }
}

fn start() -> &'static Start {
    START.get_or_init(|| Start { wall: wall(), steady: Instant::now() })
}

/// Begins, before the process is forked.
pub(crate) fn begin() {
    start();
}

/// Nanoseconds since the epoch.
fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// The packet clock: nanoseconds since the epoch, unless the wall clock was set since the process
/// began.
pub fn now() -> u64 {
    start().at(Instant::now())
}

/// What the wall clock said at a time of the packet clock, as far as is known.
pub fn wall_time(time: u64) -> u64 {
    time.saturating_add_signed(ahead())
}

/// By how much the wall clock is ahead of the packet clock, as found last.
pub(crate) fn ahead() -> i64 {
    AHEAD.load(Relaxed)
}

/// Looks how far the wall clock is ahead.
pub(crate) fn look() -> i64 {
    let ahead = start().ahead(wall(), Instant::now(), ahead());
    AHEAD.store(ahead, Relaxed);
    ahead
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_packet_clock_ignores_wall_clock_changes() {
        const SECOND: u64 = 1_000_000_000;
        let begun = 1_700_000_000 * SECOND;
        let start = Start { wall: begun, steady: Instant::now() };
        let mut before = 0;
        // Seconds that have passed; how far the wall clock was set, in nanoseconds; what is seen of
        // it.
        for (passed, set, seen) in [
            (0, 0, 0),
            (1, 3_000_000, 0),
            (2, 3600 * SECOND as i64, 3600 * SECOND as i64),
            (3, 3600 * SECOND as i64 - 5_000_000, 3600 * SECOND as i64),
            (4, -86_400 * SECOND as i64, -86_400 * SECOND as i64),
            (5, -(begun as i64), -(begun as i64)),
            (6, 0, 0),
        ] {
            let steady = start.steady + Duration::from_secs(passed);
            let packet = start.at(steady);
            assert_eq!(packet, begun + passed * SECOND);
            before = start.ahead(packet.saturating_add_signed(set), steady, before);
            assert_eq!(before, seen, "after {passed} s");
        }
    }
}
