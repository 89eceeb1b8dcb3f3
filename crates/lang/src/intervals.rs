// SPDX-License-Identifier: Apache-2.0

//! Intervals that a set with plain keys holds, as numbers.

use std::ops::Deref;
use std::sync::OnceLock;

use penstock_ruleset::model::{ElementValue, Set};

/// First and last key of each, ascending and without repetition. They are sorted when they are
/// first asked for, which most texts never do.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    given: Given,
    sorted: OnceLock<Vec<(u128, u128)>>,
}

#[derive(Clone, Debug)]
enum Given {
    List(Vec<(u128, u128)>),
    Elements(Box<penstock_sets::Set<ElementValue>>),
}

impl Default for Given {
    fn default() -> Self {
        Given::List(Vec::new())
    }
}

impl Intervals {
    /// Those of a set.
    pub fn of(set: &Set) -> Self {
        let elements = Box::new(set.elements().into_owned());
        Intervals { given: Given::Elements(elements), sorted: OnceLock::new() }
    }

    /// In any order.
    pub fn unsorted(list: Vec<(u128, u128)>) -> Self {
        Intervals { given: Given::List(list), sorted: OnceLock::new() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match &self.given {
            Given::List(list) if self.sorted.get().is_none() => list.is_empty(),
            _ => self.deref().is_empty(),
        }
    }

    /// The intervals, to change them: they must stay ascending and without repetition.
    pub fn to_mut(&mut self) -> &mut Vec<(u128, u128)> {
        let sorted = match self.sorted.take() {
            Some(sorted) => sorted,
            None => self.given.sorted(),
        };
        self.given = Given::default();
        self.sorted = OnceLock::from(sorted);
        self.sorted.get_mut().unwrap_or_else(|| unreachable!("it was set above"))
    }
}

impl Given {
    fn sorted(&self) -> Vec<(u128, u128)> {
        let mut sorted = match self {
            Given::List(list) => list.clone(),
            Given::Elements(elements) => {
                let ends = |e: penstock_sets::ElementRef<'_, _>| {
                    let from = number(e.key)?;
                    Some((from, e.key_end.and_then(number).unwrap_or(from)))
                };
                elements.iter().filter_map(ends).collect()
            }
        };
        sorted.sort_unstable();
        sorted.dedup();
        sorted
    }
}

impl Deref for Intervals {
    type Target = Vec<(u128, u128)>;

    fn deref(&self) -> &Self::Target {
        self.sorted.get_or_init(|| self.given.sorted())
    }
}

impl PartialEq for Intervals {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// A key of at most 16 bytes as a number, first byte highest; `None` for the catch-all and longer
/// ones.
pub(crate) fn number(key: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    let start = bytes.len().checked_sub(key.len()).filter(|start| *start < 16)?;
    bytes.get_mut(start..)?.copy_from_slice(key);
    Some(u128::from_be_bytes(bytes))
}
