// SPDX-License-Identifier: Apache-2.0

//! Statements of a rule in the making.

use penstock_syntax::ast::Stmt;

/// Statements of a rule in the making; places of removed ones stay empty.
#[derive(Default)]
pub(super) struct Statements {
    pub list: Vec<Option<Stmt>>,
}

impl Statements {
    /// Appends one and tells its place.
    pub fn push(&mut self, stmt: Stmt) -> usize {
        self.list.push(Some(stmt));
        self.list.len() - 1
    }

    /// The statement at a place.
    pub fn get(&self, place: usize) -> Option<&Stmt> {
        self.list.get(place)?.as_ref()
    }

    /// Empties a place.
    pub fn remove(&mut self, place: usize) {
        if let Some(slot) = self.list.get_mut(place) {
            *slot = None;
        }
    }

    /// Where the last one is.
    pub fn last_place(&self) -> Option<usize> {
        self.list.iter().rposition(Option::is_some)
    }
}
