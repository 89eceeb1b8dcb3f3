// SPDX-License-Identifier: Apache-2.0

//! Seconds since the command began, and the time until something is tried again.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use penstock_random::Random;

/// Seconds of a clock that only goes forward.
pub fn now() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    // Not zero at first: times before it must be possible.
    1 + BEGUN.get_or_init(Instant::now).elapsed().as_secs()
}

/// Longer and longer pauses, so that many who wait for one server do not ask at once.
pub struct Backoff {
    next: Duration,
    random: Random,
}

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

impl Backoff {
    /// Begins with the shortest pause.
    pub fn new() -> Backoff {
        Backoff { next: SHORTEST, random: Random::unknown() }
    }

    /// What was tried went well.
    pub fn reset(&mut self) {
        self.next = SHORTEST;
    }

    /// The pause after a failure: twice the last one, half to one and a half times that.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(LONGEST);
        pause / 2 + pause.mul_f64(f64::from(self.random.u16()) / 65536.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_longer_and_are_bounded() {
        let mut backoff = Backoff::new();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let (pause, middle) = (backoff.pause(), Duration::from_secs(seconds));
            assert!(pause >= middle / 2 && pause <= middle * 3 / 2, "{pause:?} {middle:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_millis(1500));
    }
}
