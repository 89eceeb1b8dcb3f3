// SPDX-License-Identifier: Apache-2.0

//! What happens when the table is full.

use super::Conntrack;
use crate::status;

/// Buckets that are looked at for room (`NF_CT_EVICTION_RANGE`).
const EVICTION_RANGE: usize = 8;
/// Entries that one call looks at when it makes room in the background.
const SWEEP: u32 = 256;

/// The background's part of making room.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// A packet was dropped because the table was full.
    pub wanted: bool,
    /// The number that is looked at next.
    at: u32,
}

impl Conntrack {
    /// Makes room near a hash (`early_drop()`): in eight buckets one after the other, ends what has
    /// lived out and what is not assured; the first bucket where that helped is the last. Returns
    /// whether it helped.
    pub(crate) fn early_drop(&mut self, hash: u64) -> bool {
        for nth in 0..EVICTION_RANGE {
            let mut dropped = false;
            for (n, _) in self.index.neighbours(hash, nth).into_iter().flatten() {
                // Ending one of a bucket may have ended another by its other tuple.
                let Some(e) = self.store.get_live(n).filter(|e| e.is_listed()) else {
                    continue;
                };
                if e.expires <= self.now {
                    self.destroy(n);
                    dropped = true;
                } else if !e.has(status::ASSURED | status::OFFLOAD) {
                    self.kill(n);
                    self.statistics.early_drop += 1;
                    dropped = true;
                }
            }
            if dropped {
                return true;
            }
        }
        false
    }

    /// After packets were dropped because the table was full, and while more than 95 of 100 slots
    /// are taken: ends some connections with every call that are not assured, or that their
    /// protocol is closing (`gc_worker()`).
    pub(crate) fn relieve(&mut self) {
        if !self.pressure.wanted {
            return;
        }
        let enough = (u64::from(self.settings.max()) * 95 / 100) as u32;
        for _ in 0..SWEEP {
            if self.count_of_all() <= enough {
                self.pressure.wanted = false;
                return;
            }
            let n = self.pressure.at;
            self.pressure.at = if n + 1 >= self.store.end() { 0 } else { n + 1 };
            let Some(e) = self.store.get_live(n).filter(|e| e.is_listed()) else { continue };
            if e.has(status::OFFLOAD) {
                continue;
            }
            if !e.has(status::ASSURED) || e.proto.may_drop_early() {
                self.kill(n);
                self.statistics.early_drop += 1;
            }
        }
    }
}
