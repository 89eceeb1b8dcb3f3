// SPDX-License-Identifier: Apache-2.0

//! Times of sets, and the same times for programs.

/// An element that does not expire.
pub(super) const NEVER: u64 = u64::MAX;

/// Two clocks at the same moment, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    pub(super) set: u64,
    pub(super) kernel: u64,
}

impl Clocks {
    pub(super) fn to_kernel(self, time: Option<u64>) -> u64 {
        match time {
            Some(time) => self.kernel.saturating_add(time).saturating_sub(self.set),
            None => NEVER,
        }
    }

    pub(super) fn to_set(self, time: u64) -> Option<u64> {
        (time != NEVER).then(|| self.set.saturating_add(time).saturating_sub(self.kernel))
    }
}
