// SPDX-License-Identifier: Apache-2.0

//! Traced packets of an attached ruleset, until a chain does something with them.

use std::collections::VecDeque;

use penstock_ebpf::rules::Record;

/// Traced packets that have met a base chain, but of which there was nothing to say there yet. They
/// are shown with the first step.
#[derive(Debug, Default)]
pub(super) struct Unshown(VecDeque<Record>);

impl Unshown {
    /// Packets at most; each processor has one.
    const MOST: usize = 1024;

    /// The packet of a trace.
    pub(super) fn take(&mut self, trace: u32) -> Option<Record> {
        let at = self.0.iter().position(|record| record.trace == trace)?;
        self.0.remove(at)
    }

    /// The packet of a trace has come to another chain.
    pub(super) fn put(&mut self, record: Record) {
        drop(self.take(record.trace));
        if self.0.len() == Unshown::MOST {
            self.0.pop_front();
        }
        self.0.push_back(record);
    }
}
