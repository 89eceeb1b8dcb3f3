// SPDX-License-Identifier: Apache-2.0

//! Rates and token buckets (`psched_ratecfg_precompute()`, `net/sched/sch_tbf.c`,
//! `net/sched/act_police.c`).
//!
//! The kernel multiplies with a rounded reciprocal of the rate; here times are exact, and may
//! differ from its by less than a nanosecond per packet.

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u64);

impl Rate {
    /// Nanoseconds that so many bytes take.
    pub(crate) fn time(self, bytes: u64) -> i64 {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.0.max(1));
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// A bucket of tokens that are nanoseconds, at most as many as the burst takes at its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) rate: Rate,
    /// Most tokens.
    pub(crate) depth: i64,
}

impl Bucket {
    pub(crate) fn new(rate: Rate, burst: u64) -> Self {
        Bucket { rate, depth: rate.time(burst) }
    }

    /// Tokens that are left for `bytes` when `elapsed` nanoseconds have passed since there were
    /// `tokens`; negative if they do not suffice yet.
    pub(crate) fn after(&self, tokens: i64, elapsed: i64, bytes: u64) -> i64 {
        elapsed.saturating_add(tokens).min(self.depth).saturating_sub(self.rate.time(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_burst_pass_and_then_its_rate() {
        let bucket = Bucket::new(Rate(1_000_000), 3000);
        let mut tokens = bucket.depth;
        for _ in 0..2 {
            tokens = bucket.after(tokens, 0, 1500);
        }
        assert_eq!(tokens, 0);
        assert_eq!(bucket.after(tokens, 0, 1500), -1_500_000);
        assert_eq!(bucket.after(tokens, 1_500_000, 1500), 0);
        assert_eq!(
            bucket.after(tokens, i64::MAX, 1500),
            1_500_000,
            "no more than the burst gathers"
        );
    }
}
