// SPDX-License-Identifier: Apache-2.0

//! Rates of many groups of packets (`net/netfilter/xt_hashlimit.c`).

use std::sync::atomic::Ordering::Relaxed;

use penstock_sets::Dynamic;

use super::Bucket;
use super::limit::{FULL, take};
use crate::sync::AtomicU64;

/// Bytes of a group's key: destination, source, two ports.
pub(crate) const KEY_LEN: usize = 36;
const NSECS: u64 = 1_000_000_000;
/// A second in the unit that costs of bytes are counted in.
const SECOND: u64 = 1 << 32;
/// In the second word of a group's state, the window before this one was over its rate.
const WAS_OVER: u64 = 1 << 63;

/// What is limited, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRate {
    /// Packets, by a token bucket.
    Packets(Bucket),
    /// Bytes, in pieces of 16, by a bucket that holds those of a second.
    Bytes {
        /// What a piece costs, in seconds by 2^32.
        cost: u32,
        /// How often a group's empty bucket is filled at once.
        bursts: u64,
    },
    /// What comes in a window, and whether the window before was over the rate.
    Window {
        /// Bytes are counted, not packets.
        bytes: bool,
        /// The most of a window.
        burst: u64,
        /// Per second.
        rate: u64,
        /// Seconds of a window.
        interval: u32,
    },
}

impl GroupRate {
    fn initial(&self, now: u64) -> [u64; 2] {
        match self {
            GroupRate::Packets(_) => [FULL, 0],
            GroupRate::Bytes { bursts, .. } => [fraction(now).wrapping_sub(SECOND), *bursts],
            GroupRate::Window { .. } => [now, 0],
        }
    }

    /// Counts a packet of so many bytes; whether the group is within its rate.
    fn count(&self, words: &[AtomicU64; 2], len: u64, now: u64) -> bool {
        match *self {
            GroupRate::Packets(bucket) => take(&words[0], &bucket, len, now),
            GroupRate::Bytes { cost, .. } => {
                let cost = ((len >> 4) + 1).saturating_mul(cost.into()).min(SECOND);
                take_bytes(words, cost, fraction(now))
            }
            GroupRate::Window { bytes, burst, rate, interval } => {
                let window = u64::from(interval).saturating_mul(NSECS);
                begin_window(words, rate, window, now);
                let cost = if bytes { len } else { 1 };
                let seen = words[1].fetch_add(cost, Relaxed).wrapping_add(cost);
                seen & WAS_OVER == 0 && seen <= burst
            }
        }
    }
}

/// Seconds by 2^32.
fn fraction(now: u64) -> u64 {
    ((u128::from(now) << 32) / u128::from(NSECS)) as u64
}

/// `hashlimit_byte_cost()`, and what takes the cost.
fn take_bytes(words: &[AtomicU64; 2], cost: u64, now: u64) -> bool {
    let mut filled = false;
    let mut seen = words[0].load(Relaxed);
    loop {
        let elapsed = now.wrapping_sub(seen);
        let mut tokens = if (elapsed as i64) < 0 { 0 } else { elapsed.min(SECOND) };
        if tokens < cost && !filled {
            let one_less = |bursts: u64| bursts.checked_sub(1);
            filled = words[1].fetch_update(Relaxed, Relaxed, one_less).is_ok();
        }
        if filled {
            tokens = SECOND;
        }
        let left = tokens.checked_sub(cost);
        let next = now.wrapping_sub(left.unwrap_or(tokens));
        match words[0].compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return left.is_some(),
            Err(other) => seen = other,
        }
    }
}

/// `rateinfo_recalc()`: once per window one of the workers closes the last one.
fn begin_window(words: &[AtomicU64; 2], rate: u64, window: u64, now: u64) {
    let began = words[0].load(Relaxed);
    let lasted = now.saturating_sub(began);
    if lasted == 0 || lasted < window {
        return;
    }
    if words[0].compare_exchange(began, now, Relaxed, Relaxed).is_ok() {
        let over = |word: u64| {
            let came = u128::from(word & !WAS_OVER) * u128::from(window);
            let allowed = u128::from(lasted) * u128::from(rate);
            Some(if came > allowed { WAS_OVER } else { 0 })
        };
        // The closure always has a value.
        let _ = words[1].fetch_update(Relaxed, Relaxed, over);
    }
}

/// A table of groups.
#[derive(Debug)]
pub struct Hashlimit {
    rate: GroupRate,
    /// Nanoseconds that a group is remembered without packets.
    lifetime: u64,
    groups: Dynamic,
}

impl Hashlimit {
    /// A table for so many groups, or for what there is memory for, each remembered for so many
    /// milliseconds without packets.
    pub(crate) fn new(rate: GroupRate, lifetime: u32, groups: u32) -> Self {
        let fits = |groups: &u32| Dynamic::has_room(KEY_LEN, 2, *groups);
        let groups = std::iter::successors(Some(groups), |n| (*n > 1).then_some(n / 2)).find(fits);
        Hashlimit {
            rate,
            lifetime: u64::from(lifetime) * 1_000_000,
            groups: Dynamic::new(KEY_LEN, 2, groups.unwrap_or(1)),
        }
    }

    /// Counts a packet of a group; whether the group is within its rate. `None` if the table is
    /// full.
    pub(crate) fn count(&self, key: &[u8; KEY_LEN], len: u64, now: u64) -> Option<bool> {
        let expires = now.saturating_add(self.lifetime);
        let slot = self.groups.renew(key, now, |_| Some(expires)).or_else(|| {
            let fill = |words: &[AtomicU64]| {
                for (word, value) in words.iter().zip(self.rate.initial(now)) {
                    word.store(value, Relaxed);
                }
            };
            self.groups.insert(key, now, expires, fill).map(|(slot, _)| slot)
        })?;
        let words = self.groups.value(slot).first_chunk()?;
        Some(self.rate.count(words, len, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_LEN] = [1; KEY_LEN];

    fn counted(rate: GroupRate, packets: &[(u64, u64)]) -> Vec<bool> {
        let table = Hashlimit::new(rate, 60_000, 8);
        let one = |&(ms, len): &(u64, u64)| {
            table.count(&KEY, len, NSECS + ms * 1_000_000).unwrap_or_default()
        };
        packets.iter().map(one).collect()
    }

    #[test]
    fn groups_are_within_their_rate_or_not() {
        let packets = GroupRate::Packets(Bucket::of_packets(NSECS, 2).unwrap());
        let times = [(0, 9), (0, 9), (0, 9), (999, 9), (1000, 9), (1001, 9)];
        assert_eq!(counted(packets, &times), [true, true, false, false, true, false]);
        // 16 pieces a second.
        let bytes = GroupRate::Bytes { cost: 1 << 28, bursts: 1 };
        let times = [(0, 127), (0, 127), (0, 127), (0, 127), (0, 1), (0, 1), (62, 1), (63, 1)];
        let expected = [true, true, true, true, false, false, false, true];
        assert_eq!(counted(bytes, &times), expected);
        let window = GroupRate::Window { bytes: false, burst: 3, rate: 1, interval: 2 };
        let times = [(0, 1), (1, 1), (2, 1), (3, 1), (2000, 1), (4000, 1), (6000, 1)];
        let expected = [true, true, true, false, false, true, true];
        assert_eq!(counted(window, &times), expected);
    }

    #[test]
    fn groups_without_packets_are_forgotten() {
        let rate = GroupRate::Packets(Bucket::of_packets(100 * NSECS, 1).unwrap());
        let table = Hashlimit::new(rate, 1000, 1);
        assert_eq!(table.count(&KEY, 1, 0), Some(true));
        assert_eq!(table.count(&KEY, 1, 900_000_000), Some(false));
        assert_eq!(table.count(&[2; KEY_LEN], 1, 1_000_000_000), None, "it is full");
        assert_eq!(table.count(&[2; KEY_LEN], 1, 1_900_000_001), Some(true));
    }
}
