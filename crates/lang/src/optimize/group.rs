// SPDX-License-Identifier: Apache-2.0

//! Neighbouring rules that can become one.

use std::collections::HashSet;

use penstock_syntax::ast::stmt::Nat;
use penstock_syntax::budget::Budget;

use super::quiet::QuietChains;
use super::row::{Cell, End, Row};
use crate::selector::{Ranges, overlap};

/// What rules become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Into {
    /// A match with a set, and the end that all rules have.
    Set,
    /// A verdict map with the verdicts of the rules.
    Verdicts,
    /// A verdict map with the elements of those there were.
    JoinedMap,
    /// A NAT statement with a map.
    NatMap,
}

/// Rules that become one.
pub(super) struct Group<'r> {
    pub rows: Vec<&'r Row>,
    pub into: Into,
    /// Columns that make the key, in order.
    pub key: Vec<usize>,
    quiet: QuietChains<'r>,
    values: Values,
    budget: &'r Budget,
}

/// The values that rules of the group are for.
#[derive(Default)]
struct Values {
    points: HashSet<Ranges>,
    ranges: Vec<Ranges>,
    /// A value was named twice.
    repeated: bool,
}

/// How new values relate to the present ones.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Meets {
    Nothing,
    /// Single values that are there already.
    Repeats,
    /// A part of a range, which a set cannot hold next to it.
    Overlaps,
}

impl Values {
    fn meets(&self, new: &Ranges) -> Meets {
        let point = new.iter().all(|r| r.0 == r.1);
        if self.ranges.iter().any(|r| overlap(r, new)) {
            Meets::Overlaps
        } else if point && self.points.contains(new) {
            Meets::Repeats
        } else if !point && self.points.iter().any(|p| overlap(p, new)) {
            Meets::Overlaps
        } else {
            Meets::Nothing
        }
    }

    /// Adds values of one rule if `worst` allows them.
    fn add(&mut self, new: &[Ranges], worst: Meets, budget: &Budget) -> bool {
        let before = (self.ranges.len(), self.repeated);
        let mut added = Vec::new();
        for value in new {
            let meets = self.meets(value);
            if meets > worst || budget.step() {
                self.ranges.truncate(before.0);
                self.repeated = before.1;
                added.iter().for_each(|p| {
                    self.points.remove(p);
                });
                return false;
            }
            self.repeated |= meets != Meets::Nothing;
            if meets == Meets::Repeats {
                continue;
            }
            if value.iter().all(|r| r.0 == r.1) {
                self.points.insert(value.clone());
                added.push(value.clone());
            } else {
                self.ranges.push(value.clone());
            }
        }
        true
    }
}

/// Most elements that a merge may come to: those of concatenations multiply.
const MAX_ELEMENTS: usize = 65536;

/// Columns that make the key: those that a set can hold. Of several, each must be of whole bytes.
fn key_columns(row: &Row) -> Vec<usize> {
    let able = |c: &&Cell| !c.elements.is_empty();
    let columns: Vec<&Cell> = row.cells.iter().filter(able).collect();
    if columns.len() < 2 {
        return columns.iter().map(|c| c.column).collect();
    }
    let joinable = |c: &&&Cell| {
        c.means.whole && !c.means.wildcard && c.means.values().is_some_and(plain_values)
    };
    columns.iter().filter(joinable).map(|c| c.column).collect()
}

fn plain_values(values: &[Ranges]) -> bool {
    values.iter().all(|v| v.len() == 1)
}

/// The values of a rule's key, every combination.
fn key_values(row: &Row, key: &[usize]) -> Option<Vec<Ranges>> {
    let mut out: Vec<Ranges> = vec![Vec::new()];
    for cell in row.cells.iter().filter(|c| key.contains(&c.column)) {
        let values = cell.means.values()?;
        if out.len().saturating_mul(values.len()) > MAX_ELEMENTS {
            return None;
        }
        out = out
            .iter()
            .flat_map(|before| {
                values.iter().map(move |v| before.iter().chain(v).copied().collect())
            })
            .collect();
    }
    Some(out)
}

fn same_nat(a: &Nat, b: &Nat) -> bool {
    a.kind == b.kind
        && a.family == b.family
        && a.flags == b.flags
        && a.port.is_some() == b.port.is_some()
}

impl<'r> Group<'r> {
    /// A group of one; `None` if no rule could join it.
    pub fn start(row: &'r Row, quiet: QuietChains<'r>, budget: &'r Budget) -> Option<Self> {
        let into = match &row.end {
            End::Map { .. } => Into::JoinedMap,
            End::Nat(_) => Into::NatMap,
            End::None | End::Verdict { .. } | End::Stmt(_) => Into::Set,
        };
        let key = if into == Into::JoinedMap { Vec::new() } else { key_columns(row) };
        // What stands before a map sees packets that the map is not for.
        let fits = match into {
            Into::JoinedMap => row.others.is_empty(),
            Into::NatMap => row.others.is_empty() && !key.is_empty(),
            Into::Set | Into::Verdicts => !key.is_empty(),
        };
        if !fits {
            return None;
        }
        let mut group =
            Group { rows: Vec::new(), into, key, quiet, values: Values::default(), budget };
        let values = group.values_of(row)?;
        (group.is_quiet(row) && group.values.add(&values, group.worst(row, into), budget)).then(
            || {
                group.rows.push(row);
                group
            },
        )
    }

    fn values_of(&self, row: &Row) -> Option<Vec<Ranges>> {
        match &row.end {
            End::Map { values, .. } => Some(values.clone()),
            _ => key_values(row, &self.key),
        }
    }

    /// Chains on the way must leave the packet as it is, or it could match another rule of the
    /// merge then.
    fn is_quiet(&self, row: &Row) -> bool {
        row.end.jumps().iter().all(|chain| self.quiet.is_quiet(chain))
    }

    /// Rules that continue, or map, are for different packets. Of others that do the same, the
    /// first one ends it anyway; overlapping ranges are then one range, but not in a concatenation.
    fn worst(&self, row: &Row, into: Into) -> Meets {
        match row.end.is_terminal() && into == Into::Set {
            false => Meets::Nothing,
            true if self.key.len() == 1
                && row.cells.iter().all(|c| c.means.values().is_none_or(plain_values)) =>
            {
                Meets::Overlaps
            }
            true => Meets::Repeats,
        }
    }

    /// Takes the next rule of the chain in, if the merge is still one that no packet can tell.
    pub fn join(&mut self, row: &'r Row) -> bool {
        let first = self.rows[0];
        let same_columns = first.cells.len() == row.cells.len()
            && first.cells.iter().zip(&row.cells).all(|(a, b)| {
                let held = !self.key.contains(&a.column);
                a.column == b.column
                    && a.means.op == b.means.op
                    && if held {
                        a.means.says == b.means.says
                    } else {
                        !b.elements.is_empty()
                            && (self.key.len() < 2
                                || !b.means.wildcard && b.means.values().is_some_and(plain_values))
                    }
            });
        if !same_columns || first.others_text != row.others_text {
            return false;
        }
        let into = match (&first.end, &row.end) {
            (End::None, End::None) => Into::Set,
            (End::Stmt(a), End::Stmt(b)) if a == b => Into::Set,
            (End::Verdict { text: a, .. }, End::Verdict { text: b, .. }) => {
                if a == b {
                    self.into
                } else {
                    Into::Verdicts
                }
            }
            (End::Map { key: a, .. }, End::Map { key: b, .. }) if a == b => Into::JoinedMap,
            (End::Nat(a), End::Nat(b)) if same_nat(a, b) => Into::NatMap,
            _ => return false,
        };
        if into == Into::Verdicts && (self.values.repeated || !row.only_counts()) {
            return false;
        }
        let Some(values) = self.values_of(row) else { return false };
        if self.values.points.len() + self.values.ranges.len() + values.len() > MAX_ELEMENTS {
            return false;
        }
        if !self.is_quiet(row) || !self.values.add(&values, self.worst(row, into), self.budget) {
            return false;
        }
        self.into = into;
        self.rows.push(row);
        true
    }
}
