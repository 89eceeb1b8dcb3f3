// SPDX-License-Identifier: Apache-2.0

//! What programs learn of the world in tests.

use penstock_ebpfvm::Host;

/// A world that goes on, and says what it was told.
#[derive(Default)]
pub struct World {
    now: u64,
    pub lines: Vec<String>,
}

impl Host for World {
    fn now(&mut self) -> u64 {
        self.now += 1000;
        self.now
    }

    fn random(&mut self) -> u32 {
        self.now += 7;
        self.now as u32
    }

    fn trace(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
}
