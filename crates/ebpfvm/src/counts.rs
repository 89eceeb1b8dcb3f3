// SPDX-License-Identifier: Apache-2.0

//! What became of the packets that a program saw at a hook.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What became of the packets that a program saw.
#[derive(Debug, Default)]
pub struct Counts {
    /// They continued.
    pub passed: AtomicU64,
    /// They were dropped.
    pub dropped: AtomicU64,
    /// They went back to the wire that they came from (`XDP_TX`).
    pub transmitted: AtomicU64,
    /// They were redirected to a device.
    pub redirected: AtomicU64,
    /// `XDP_ABORTED`, and verdicts that there are not.
    pub aborted: AtomicU64,
    /// They were redirected to a device that is not there.
    pub nowhere: AtomicU64,
    /// The rules of its chain would have decided otherwise, where that was looked at.
    pub differed: AtomicU64,
    /// The program was ended.
    pub faults: AtomicU64,
}

impl Counts {
    /// Counts a packet; how many there were before.
    pub fn count(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Relaxed)
    }

    /// The counts with their names in JSON.
    pub fn keyed(&self) -> [(&'static str, u64); 7] {
        const KEYS: [&str; 7] = [
            "passed",
            "dropped",
            "sent_back",
            "redirected",
            "aborted",
            "redirected_to_no_device",
            "faults",
        ];
        let parts = self.parts();
        std::array::from_fn(|at| (KEYS[at], parts[at].1))
    }

    /// The counts with their names, in the same order.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("passed", self.passed.load(Relaxed)),
            ("dropped", self.dropped.load(Relaxed)),
            ("sent back", self.transmitted.load(Relaxed)),
            ("redirected", self.redirected.load(Relaxed)),
            ("aborted", self.aborted.load(Relaxed)),
            ("redirected to no device", self.nowhere.load(Relaxed)),
            ("dropped, as the program went wrong", self.faults.load(Relaxed)),
        ]
    }
}
