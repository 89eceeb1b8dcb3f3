// SPDX-License-Identifier: Apache-2.0

//! What a program learns of the world apart from its context and maps.

/// The world of a program. Time and randomness come from here, so that runs can be repeated.
pub trait Host {
    /// Nanoseconds since the machine began (`CLOCK_MONOTONIC`).
    fn now(&mut self) -> u64;

    /// A random number.
    fn random(&mut self) -> u32;

    /// A line of `bpf_trace_printk()`, without the newline at its end.
    fn trace(&mut self, line: &str) {
        let _ = line;
    }
}

/// A host where no time passes and nothing is random, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Still;

impl Host for Still {
    fn now(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u32 {
        0
    }
}
