// SPDX-License-Identifier: Apache-2.0

//! How long states and policies live (`struct xfrm_lifetime_cfg`, `xfrm_state_check_expire()`,
//! `xfrm_timer_handler()`).

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Limits, as `limit` gives them. A soft one requests a successor, a hard one ends the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes before encryption; `u64::MAX` for no limit.
    pub soft_bytes: u64,
    /// Bytes before encryption; `u64::MAX` for no limit.
    pub hard_bytes: u64,
    /// Packets; `u64::MAX` for no limit.
    pub soft_packets: u64,
    /// Packets; `u64::MAX` for no limit.
    pub hard_packets: u64,
    /// Seconds since it was added; 0 for no limit.
    pub soft_add: u64,
    /// Seconds since it was added; 0 for no limit.
    pub hard_add: u64,
    /// Seconds since it was first used; 0 for no limit.
    pub soft_use: u64,
    /// Seconds since it was first used; 0 for no limit.
    pub hard_use: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let none = u64::MAX;
        Limits {
            soft_bytes: none,
            hard_bytes: none,
            soft_packets: none,
            hard_packets: none,
            soft_add: 0,
            hard_add: 0,
            soft_use: 0,
            hard_use: 0,
        }
    }
}

/// What has been used of it. Times are nanoseconds since the epoch, 0 for never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes before encryption.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// When it was added: with the first packet of all.
    pub added: u64,
    /// First use.
    pub used: u64,
}

fn over(since: u64, seconds: u64, now: u64) -> bool {
    seconds != 0 && since != 0 && now >= since.saturating_add(seconds.saturating_mul(SECOND))
}

impl Limits {
    /// Whether time has run out.
    #[inline]
    pub(crate) fn time_over(&self, usage: &Usage, now: u64) -> bool {
        over(usage.added, self.hard_add, now) || over(usage.used, self.hard_use, now)
    }

    /// Whether bytes or packets are used up.
    #[inline]
    pub(crate) fn used_up(&self, usage: &Usage) -> bool {
        usage.bytes >= self.hard_bytes || usage.packets >= self.hard_packets
    }

    /// Whether a soft limit is reached.
    #[inline]
    pub(crate) fn nearly_over(&self, usage: &Usage, now: u64) -> bool {
        usage.bytes >= self.soft_bytes
            || usage.packets >= self.soft_packets
            || over(usage.added, self.soft_add, now)
            || over(usage.used, self.soft_use, now)
    }
}
