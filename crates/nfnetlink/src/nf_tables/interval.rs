// SPDX-License-Identifier: Apache-2.0

//! Intervals of which messages have the two ends as elements of their own.

use std::sync::Arc;

use penstock_ruleset::model::{ElementValue, MapData, Set};
use penstock_ruleset::{Family, Table};
use penstock_sets::Element;

/// Whether messages have intervals as two elements.
pub fn has_ends(set: &Set) -> bool {
    set.description.interval && set.description.fields.len() <= 1
}

/// What a message needs to know of its set.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Family of its table.
    pub family: Family,
    /// Its table.
    pub table: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Bytes of a key.
    pub key_len: usize,
    /// What a map leads to.
    pub data: Option<MapData>,
    /// Messages have intervals as two elements.
    pub ends: bool,
    /// Elements may have timeouts.
    pub timeouts: bool,
    /// The timeout of an element that has none of its own, in nanoseconds.
    pub timeout: u64,
}

impl Shape {
    /// Of a set in a table.
    pub fn of(table: &Table, set: &Set) -> Self {
        Shape {
            family: table.family,
            table: table.name.clone(),
            name: set.name.clone(),
            key_len: set.description.key_len,
            data: set.data,
            ends: has_ends(set),
            timeouts: set.description.timeout,
            timeout: set.timeout,
        }
    }

    /// Whether both are the same set.
    pub fn is(&self, other: &Shape) -> bool {
        (self.family, &self.table, &self.name) == (other.family, &other.table, &other.name)
    }
}

/// The start of an interval without its end yet.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its set.
    pub shape: Shape,
    /// The element, without its end.
    pub element: Element<ElementValue>,
    /// Offset of the element in its message.
    pub at: usize,
    /// The interval is deleted.
    pub delete: bool,
}
