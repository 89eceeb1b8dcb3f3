// SPDX-License-Identifier: Apache-2.0

//! The latest changes of the ruleset, for copies that follow it.

use std::collections::VecDeque;

use penstock_ruleset::Ruleset;

use super::update::Update;

/// Bytes of changes that are kept; a longer one until all have it who follow each step.
const MOST: usize = 16 << 20;
/// Changes that are kept.
const LATEST: usize = 256;

/// A step that was kept.
#[derive(Debug)]
struct HistoryStep {
    update: Update,
    leads_to: (u32, u64),
    bytes: usize,
}

/// The latest steps, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    steps: VecDeque<HistoryStep>,
    bytes: usize,
}

impl History {
    /// One more.
    pub(crate) fn push(&mut self, update: Update) {
        let bytes = match &update {
            Update::Whole { .. } => return *self = History::default(),
            Update::Commit(commit) => commit.changes.len(),
            Update::Restore { .. } => 0,
        };
        let leads_to = update.leads_to();
        self.bytes += bytes;
        self.steps.push_back(HistoryStep { update, leads_to, bytes });
        while self.steps.len() > 1 && (self.steps.len() > LATEST || self.bytes > MOST) {
            let Some(gone) = self.steps.pop_front() else { break };
            self.bytes -= gone.bytes;
        }
    }

    /// Forgets what is too long to be kept.
    pub(crate) fn trim(&mut self) {
        if self.bytes > MOST {
            *self = History::default();
        }
    }

    /// The steps from a generation with these marks to the ruleset. `None` if they are no longer
    /// known.
    pub(crate) fn since(
        &self,
        generation: u32,
        marks: u64,
        ruleset: &Ruleset,
    ) -> Option<Vec<Update>> {
        if (generation, marks) == (ruleset.generation().id, ruleset.marks()) {
            return Some(Vec::new());
        }
        let first = self.steps.iter().position(|step| match &step.update {
            Update::Commit(commit) => commit.before == generation,
            Update::Restore { .. } | Update::Whole { .. } => false,
        });
        let after = self.steps.iter().position(|step| step.leads_to == (generation, marks));
        // Before the oldest step there are no marks to compare.
        let first = match (after, first) {
            (Some(after), _) => after + 1,
            (None, Some(0)) => 0,
            _ => return None,
        };
        Some(self.steps.range(first..).map(|step| step.update.clone()).collect())
    }
}
