// SPDX-License-Identifier: Apache-2.0

//! Totals of flows, for listings.

use super::{FlowCounts, Flows, NotOffloaded};
use crate::ways::RememberedWays;

/// What happened to flows so far, and how often others were not offloaded.
#[derive(Clone, Debug, Default)]
pub struct FlowSummary {
    /// What happened to flows.
    pub counts: FlowCounts,
    /// How often others were not offloaded, by reason, in the order of the reasons.
    pub refusals: Vec<(NotOffloaded, u64)>,
    /// What connections that are in no flowtable remembered of the ways of their packets.
    pub ways: RememberedWays,
}

impl FlowSummary {
    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &FlowSummary) {
        self.counts = self.counts.plus(&other.counts);
        for (reason, count) in &other.refusals {
            match self.refusals.iter_mut().find(|(r, _)| r == reason) {
                Some((_, all)) => *all += count,
                None => self.refusals.push((*reason, *count)),
            }
        }
        self.refusals.sort_unstable();
        self.ways.add(&other.ways);
    }
}

impl Flows {
    pub(crate) fn summary(&self) -> FlowSummary {
        FlowSummary {
            counts: self.counts(),
            refusals: self.refusals().collect(),
            ways: RememberedWays::default(),
        }
    }
}
