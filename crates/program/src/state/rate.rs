// SPDX-License-Identifier: Apache-2.0

//! Estimated rates (`net/core/gen_estimator.c`, as `net/netfilter/xt_RATEEST.c` uses it).
//!
//! The kernel samples its counters by a timer. Here a sample is taken when it is next asked for or
//! counted, as if it had been taken at its time: nothing was counted in between.

use std::hint::spin_loop;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::sync::AtomicU64;

/// A quarter of a second in nanoseconds: the shortest interval.
const QUARTER: u64 = 250_000_000;

/// How a rate is estimated (`struct gnet_estimator`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateParameters {
    /// Binary logarithm of the seconds between samples, from -2 to 3.
    pub interval: i8,
    /// Binary logarithm of a sample's part of the average, from 1 to 30.
    pub ewma_log: u8,
}

impl RateParameters {
    /// Whether `gen_new_estimator()` takes them.
    pub(crate) fn are_valid(self) -> bool {
        (-2..=3).contains(&self.interval) && (1..31).contains(&self.ewma_log)
    }

    /// In one number, which is never 0.
    fn pack(self) -> u32 {
        u32::from(self.interval as u8) << 8 | u32::from(self.ewma_log)
    }

    fn unpack(packed: u32) -> Option<Self> {
        let [_, _, interval, ewma_log] = packed.to_be_bytes();
        (packed != 0).then_some(RateParameters { interval: interval as i8, ewma_log })
    }

    /// Binary logarithm of the interval in quarters of a second.
    fn quarters_log(self) -> u32 {
        (i32::from(self.interval) + 2).clamp(0, 5) as u32
    }
}

/// A rate as it is estimated (`struct gnet_stats_rate_est64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EstimatedRate {
    /// Bytes in a second.
    pub bytes: u64,
    /// Packets in a second.
    pub packets: u64,
}

/// Bytes or packets: what is counted, and what was of it at the last sample.
#[derive(Debug, Default)]
struct Part {
    count: AtomicU64,
    sampled: AtomicU64,
    /// In parts of 256.
    average: AtomicU64,
}

/// An estimator: the packets of the rules that name it.
#[derive(Debug, Default)]
pub struct Rate {
    /// 0 until there is a rule that counts.
    parameters: AtomicU32,
    sampling: AtomicBool,
    /// When the next sample is due (ns).
    next: AtomicU64,
    bytes: Part,
    packets: Part,
}

impl Rate {
    /// One that begins at time `now` (ns); its first sample is due an interval later.
    pub(crate) fn new(parameters: RateParameters, now: u64) -> Self {
        let rate = Rate::default();
        rate.begin(parameters, now);
        rate
    }

    /// Begins, unless it has begun.
    pub(crate) fn begin(&self, parameters: RateParameters, now: u64) {
        self.alone(|| {
            if self.parameters.load(Relaxed) == 0 {
                self.next.store(now.saturating_add(QUARTER << parameters.quarters_log()), Relaxed);
                self.parameters.store(parameters.pack(), Relaxed);
            }
        });
    }

    /// How it estimates; `None` before a rule counts.
    pub fn parameters(&self) -> Option<RateParameters> {
        RateParameters::unpack(self.parameters.load(Relaxed))
    }

    /// Counts a packet at time `now` (ns).
    pub(crate) fn count(&self, bytes: u64, now: u64) {
        self.sample_until(now);
        self.bytes.count.fetch_add(bytes, Relaxed);
        self.packets.count.fetch_add(1, Relaxed);
    }

    /// The rate at time `now` (ns).
    pub(crate) fn read(&self, now: u64) -> EstimatedRate {
        self.sample_until(now);
        let of = |part: &Part| part.average.load(Relaxed) >> 8;
        EstimatedRate { bytes: of(&self.bytes), packets: of(&self.packets) }
    }

    fn alone<R>(&self, act: impl FnOnce() -> R) -> R {
        while self.sampling.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        let result = act();
        self.sampling.store(false, Release);
        result
    }

    /// Takes the samples that are due (`est_timer()`).
    fn sample_until(&self, now: u64) {
        let Some(parameters) = self.parameters() else { return };
        if now < self.next.load(Relaxed) {
            return;
        }
        self.alone(|| {
            let (next, interval) = (self.next.load(Relaxed), QUARTER << parameters.quarters_log());
            let Some(late) = now.checked_sub(next) else { return };
            let further = late / interval;
            self.next.store(next.saturating_add((further + 1).saturating_mul(interval)), Relaxed);
            for part in [&self.bytes, &self.packets] {
                part.sample(parameters);
                part.decay(parameters.ewma_log, further);
            }
        });
    }
}

impl Part {
    /// One sample.
    fn sample(&self, parameters: RateParameters) {
        let count = self.count.load(Relaxed);
        let new = count.wrapping_sub(self.sampled.swap(count, Relaxed));
        let rate = new << (10 - parameters.quarters_log());
        let average = self.average.load(Relaxed);
        let change = (rate >> parameters.ewma_log).wrapping_sub(average >> parameters.ewma_log);
        self.average.store(average.wrapping_add(change), Relaxed);
    }

    /// Samples in which nothing is counted. Those that take the same off the average are taken at
    /// once, so that a long silence takes no longer than the average has different parts.
    fn decay(&self, ewma_log: u8, mut samples: u64) {
        let mut average = self.average.load(Relaxed);
        while samples > 0 {
            let part = average >> ewma_log;
            if part == 0 {
                break;
            }
            let alike = ((average - (part << ewma_log)) / part + 1).min(samples);
            average -= alike * part;
            samples -= alike;
        }
        self.average.store(average, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// `est_timer()` with its numbers as they are.
    #[derive(Default)]
    struct Timer {
        count: u64,
        last: u64,
        average: u64,
    }

    impl Timer {
        fn tick(&mut self, interval: i8, ewma_log: u8) {
            let rate = (self.count - self.last) << (10 - (interval + 2));
            let rate = (rate >> ewma_log).wrapping_sub(self.average >> ewma_log);
            self.average = self.average.wrapping_add(rate);
            self.last = self.count;
        }
    }

    #[test]
    fn samples_that_are_late_give_what_a_timer_gives() {
        let mut random = fastrand::Rng::with_seed(1);
        for (interval, ewma_log) in [(-2, 1), (-2, 8), (-1, 3), (0, 2), (1, 5), (3, 30)] {
            let parameters = RateParameters { interval, ewma_log };
            let tick = QUARTER << (interval + 2);
            let mut now = random.u64(..SECOND);
            let rate = Rate::new(parameters, now);
            let (mut bytes, mut packets, mut due) =
                (Timer::default(), Timer::default(), now + tick);
            for _ in 0..2000 {
                now += match random.u8(..10) {
                    0 => random.u64(..500 * SECOND),
                    1..=3 => random.u64(..SECOND),
                    _ => random.u64(..SECOND / 1000),
                };
                while due <= now {
                    bytes.tick(interval, ewma_log);
                    packets.tick(interval, ewma_log);
                    due += tick;
                }
                let len = random.u64(40..1500);
                rate.count(len, now);
                bytes.count += len;
                packets.count += 1;
                let expected =
                    EstimatedRate { bytes: bytes.average >> 8, packets: packets.average >> 8 };
                assert_eq!(rate.read(now), expected, "{parameters:?} at {now}");
            }
        }
    }

    #[test]
    fn a_steady_stream_has_its_rate() {
        let rate = Rate::new(RateParameters { interval: -2, ewma_log: 2 }, 0);
        for packet in 0..100_000 {
            rate.count(100, packet * SECOND / 1000);
        }
        let read = rate.read(100 * SECOND);
        assert!((985..=1000).contains(&read.packets), "{read:?}");
        assert!((98_500..=100_000).contains(&read.bytes), "{read:?}");
        // After years the average is what no sample takes anything off.
        let later = rate.read(u64::MAX / 2);
        assert_eq!(later, EstimatedRate::default());
    }

    #[test]
    fn an_estimator_begins_with_its_first_rule() {
        let rate = Rate::default();
        rate.count(100, 0);
        assert_eq!((rate.parameters(), rate.read(SECOND)), (None, EstimatedRate::default()));
        let (first, second) = (-2, 1);
        rate.begin(RateParameters { interval: first, ewma_log: 1 }, SECOND);
        rate.begin(RateParameters { interval: second, ewma_log: 3 }, SECOND);
        assert_eq!(rate.parameters(), Some(RateParameters { interval: first, ewma_log: 1 }));
    }
}
