// SPDX-License-Identifier: Apache-2.0

//! Token buckets.

use std::sync::atomic::Ordering::Relaxed;

use crate::operand::{Limit, LimitType};
use crate::sync::AtomicU64;

/// Nanoseconds of a second.
const NSECS: u64 = 1_000_000_000;

/// Parameters of a token bucket, counted in nanoseconds (`net/netfilter/nft_limit.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The most tokens that it holds, which is what it starts with.
    tokens_max: u64,
    /// Nanoseconds of the unit.
    nsecs: u64,
    rate: u64,
    /// Packets or bytes, as it was asked for.
    burst: u32,
    /// Cost of one packet, for packet limits.
    packet_cost: u64,
    kind: LimitType,
    over: bool,
}

/// What a packet costs, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Each the same.
    Packets(u64),
    /// `nsecs` for each byte, in `rate`ths.
    Bytes {
        /// Nanoseconds of the unit.
        nsecs: u64,
        /// Bytes in a unit.
        rate: u64,
    },
}

/// Why a limit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLimit {
    /// The rate is zero (`EINVAL`).
    ZeroRate,
    /// A product exceeds 64 bits (`EOVERFLOW`).
    Overflow,
}

impl Bucket {
    /// As `nft_limit_init()`: a packet limit without burst has a burst of 5.
    pub fn new(limit: &Limit) -> Result<Self, BadLimit> {
        if limit.rate == 0 {
            return Err(BadLimit::ZeroRate);
        }
        let nsecs = limit.unit.checked_mul(NSECS).ok_or(BadLimit::Overflow)?;
        let packets = limit.kind == LimitType::Packets;
        let burst = u64::from(if packets && limit.burst == 0 { 5 } else { limit.burst });
        let rate_with_burst = limit.rate.checked_add(burst).ok_or(BadLimit::Overflow)?;
        let packet_cost = nsecs / limit.rate;
        let tokens_max = if packets {
            packet_cost.checked_mul(burst)
        } else {
            nsecs.checked_mul(rate_with_burst).map(|product| product / limit.rate)
        }
        .ok_or(BadLimit::Overflow)?;
        Ok(Bucket {
            tokens_max,
            nsecs,
            rate: limit.rate,
            burst: limit.burst,
            packet_cost,
            kind: limit.kind,
            over: limit.over,
        })
    }

    /// A bucket of packets, each of which takes so many nanoseconds (`net/netfilter/xt_limit.c`).
    pub(crate) fn of_packets(packet_cost: u64, burst: u32) -> Result<Self, BadLimit> {
        if packet_cost == 0 {
            return Err(BadLimit::ZeroRate);
        }
        let tokens_max = packet_cost.checked_mul(burst.into()).ok_or(BadLimit::Overflow)?;
        let kind = LimitType::Packets;
        Ok(Bucket {
            tokens_max,
            nsecs: packet_cost,
            rate: 1,
            burst,
            packet_cost,
            kind,
            over: false,
        })
    }

    /// The limit that it was made of.
    pub(crate) fn limit(&self) -> Limit {
        let Bucket { nsecs, rate, burst, kind, over, .. } = *self;
        Limit { rate, unit: nsecs / NSECS, burst, kind, over }
    }

    /// The most tokens that it holds.
    pub fn tokens_max(&self) -> u64 {
        self.tokens_max
    }

    /// What a packet costs.
    pub fn cost_of(&self) -> Cost {
        match self.kind {
            LimitType::Packets => Cost::Packets(self.packet_cost),
            LimitType::Bytes => Cost::Bytes { nsecs: self.nsecs, rate: self.rate },
        }
    }

    /// Whether it matches beyond the rate.
    pub fn is_over(&self) -> bool {
        self.over
    }

    #[inline]
    fn cost(&self, bytes: u64) -> u64 {
        match self.kind {
            LimitType::Packets => self.packet_cost,
            LimitType::Bytes => self.nsecs.wrapping_mul(bytes) / self.rate,
        }
    }
}

/// Fill of a token bucket: the time at which it would have been empty. What `nft_limit.c` keeps as
/// tokens and a time follows from it, and one word needs no lock.
#[derive(Debug)]
pub struct LimitState {
    empty_at: AtomicU64,
}

/// Never used: full.
pub(crate) const FULL: u64 = 1 << 63;

impl LimitState {
    /// Takes a packet's tokens at time `now` (ns); whether the expression matches, `over`
    /// considered.
    #[inline]
    pub fn take(&self, bucket: &Bucket, bytes: u64, now: u64) -> bool {
        take(&self.empty_at, bucket, bytes, now)
    }
}

/// [`LimitState::take`] on the bare word.
#[inline]
pub(crate) fn take(empty_at: &AtomicU64, bucket: &Bucket, bytes: u64, now: u64) -> bool {
    let cost = bucket.cost(bytes);
    let mut seen = empty_at.load(Relaxed);
    loop {
        let tokens = match now.wrapping_sub(seen) {
            _ if seen == FULL => bucket.tokens_max,
            // The clock went back to before the bucket was empty.
            elapsed if (elapsed as i64) < 0 => 0,
            elapsed => elapsed.min(bucket.tokens_max),
        };
        let left = tokens.wrapping_sub(cost);
        let within = left as i64 >= 0;
        let next = now.wrapping_sub(if within { left } else { tokens });
        match empty_at.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return within != bucket.over,
            Err(other) => seen = other,
        }
    }
}

impl Default for LimitState {
    fn default() -> Self {
        LimitState { empty_at: AtomicU64::new(FULL) }
    }
}
