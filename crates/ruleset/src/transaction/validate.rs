// SPDX-License-Identifier: Apache-2.0

//! Which changes have left a table wrong as a whole, and whether it still is.
//!
//! Linux validates tables when a batch ends (`nf_tables_validate()`). If one is wrong it runs the
//! batch again, with a look at the table at each new rule and element, and blames those after which
//! the table is wrong (`NFT_VALIDATE_DO`). Here the same looks are taken at once, but only from the
//! first change on that makes a table wrong.

use std::sync::Arc;

use super::Transaction;
use super::reach::Reach;
use crate::model::Family;
use crate::{Change, Errno};

/// A change that is to blame for a table that is wrong at the end of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Number of the change, counted from 0 over those that were applied.
    pub change: usize,
    /// `EMLINK` for jumps that are too deep or loop, `EOPNOTSUPP` for an expression that a hook does
    /// not take, `EINVAL` for such an extension of x_tables.
    pub errno: Errno,
}

/// What the looks of a batch have found.
#[derive(Clone, Debug)]
pub(super) struct Validation {
    /// Handle of the youngest table before the batch.
    youngest: u64,
    /// Changes that were applied.
    applied: usize,
    /// Changes that left a table wrong, with its handle.
    found: Vec<(u64, Wrong)>,
}

impl Validation {
    pub fn after(youngest: u64) -> Self {
        Validation { youngest, applied: 0, found: Vec::new() }
    }
}

/// The table that Linux validates after a change, if it does.
pub(super) fn table_of(change: &Change) -> Option<(Family, Arc<str>)> {
    match change {
        Change::AddRule { family, table, .. } | Change::AddElements { family, table, .. } => {
            Some((*family, table.clone()))
        }
        _ => None,
    }
}

impl Transaction {
    /// Whether all tables are right as the batch leaves them: no way from a base chain has more than
    /// 15 jumps, and each expression on it stands at a hook that takes it.
    ///
    /// # Errors
    /// The changes that Linux blames, in their order; at least one.
    pub fn validate(&self) -> Result<(), Vec<Wrong>> {
        if self.batch.suspects.is_empty() {
            return Ok(());
        }
        let errno_of = |handle| self.wrong(handle).map(|errno| (handle, errno));
        let suspects = &self.batch.suspects;
        let tables = self.working.tables.iter().map(|table| table.handle);
        let wrong = tables.filter(|handle| suspects.contains(handle)).find_map(errno_of);
        let Some((first, errno)) = wrong else { return Ok(()) };
        // Only tables that the batch has made are validated in the second run from its beginning,
        // next to the one that was found to be wrong.
        let Validation { youngest, applied, found } = &self.validation;
        let looked_at = |&&(table, _): &&(u64, Wrong)| table == first || table > *youngest;
        let mut blamed: Vec<Wrong> =
            found.iter().filter(looked_at).map(|(_, wrong)| *wrong).collect();
        if blamed.is_empty() {
            blamed.push(Wrong { change: applied.saturating_sub(1), errno });
        }
        Err(blamed)
    }

    /// Number of changes that were applied.
    pub fn applied(&self) -> usize {
        self.validation.applied
    }

    /// Whether [`Transaction::validate`] may blame the change that was applied last.
    pub fn is_last_doubtful(&self) -> bool {
        self.validation.found.last().is_some_and(|(_, w)| w.change + 1 == self.validation.applied)
    }

    /// A change was applied, after which this table is validated.
    pub(super) fn note_applied(&mut self, validated: Option<(Family, Arc<str>)>) {
        let change = self.validation.applied;
        self.validation.applied += 1;
        if self.batch.suspects.is_empty() {
            return;
        }
        let Some((family, name)) = validated else { return };
        let tables = &self.working.tables;
        let Some(table) = tables.iter().find(|t| t.family == family && t.name == name) else {
            return;
        };
        let handle = table.handle;
        if !self.batch.suspects.contains(&handle) {
            return;
        }
        match self.wrong(handle) {
            Some(errno) => self.validation.found.push((handle, Wrong { change, errno })),
            None => self.batch.suspects.retain(|suspect| *suspect != handle),
        }
    }

    /// What is wrong with a table that the batch has opened.
    fn wrong(&self, handle: u64) -> Option<Errno> {
        let table = self.working.tables.iter().find(|table| table.handle == handle)?;
        Reach::checked(table, self.indexes.get(&handle)?).err()
    }
}
