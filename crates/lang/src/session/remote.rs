// SPDX-License-Identifier: Apache-2.0

//! Rulesets that are somewhere else: a session evaluates a text on a copy, and another process
//! applies the changes.
//!
//! The copy may be without what packets change: counters, elements that they added or that have
//! expired. And the session need not apply the changes to it, if another process does and reports
//! their errors. A run that cannot answer something reports that by
//! [`Outcome::again`](super::Outcome::again).

use std::sync::Arc;

use penstock_ruleset::model::{Generation, Table};
use penstock_ruleset::{Change, reset};
use penstock_syntax::ast::CmdKind;
use penstock_syntax::ast::cmd::{ObjKind, Target};

use super::reset::reset_of;
use super::step::Step;

/// How much of a ruleset a session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copy {
    /// All of it: the ruleset itself, or as it was a moment ago.
    #[default]
    Whole,
    /// All but what packets change.
    WithoutState,
    /// All but what packets change. Changes are only noted, and checked by the receiver.
    Unchecked,
}

impl Copy {
    /// Whether changes are only noted.
    pub(super) fn is_checked_elsewhere(self) -> bool {
        self == Copy::Unchecked
    }
}

/// What a text needs that was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The ruleset as its changes make it: [`Copy::WithoutState`].
    Applied,
    /// The ruleset with what packets change: [`Copy::Whole`].
    Whole,
}

/// Takes the changes of a session's runs.
pub trait Changes {
    /// A run begins on a generation, at a time in nanoseconds since the epoch: earlier notes are
    /// void.
    fn begin(&self, generation: &Generation, now: u64);
    /// A change of the run. It counts only if the gate is passed.
    fn note(&self, change: &Change);
}

/// Whether a command asks for what packets change, and there is any.
pub(super) fn asks_for_state(step: &Step, generation: &Generation) -> bool {
    match &step.cmd.kind {
        CmdKind::List { object, .. } => lists_state(*object, &step.cmd.target, generation),
        CmdKind::Get { .. } | CmdKind::Reset { .. } => true,
        _ => false,
    }
}

fn lists_state(object: ObjKind, target: &Target, generation: &Generation) -> bool {
    let meant =
        |table: &&Arc<Table>| target.table.as_ref().is_none_or(|name| name.text == table.name);
    let any =
        |has: fn(&Table) -> bool| generation.tables.iter().filter(meant).any(|table| has(table));
    match object {
        ObjKind::Tables
        | ObjKind::Chains
        | ObjKind::Flowtables
        | ObjKind::Flowtable
        | ObjKind::Hooks => false,
        ObjKind::Ruleset | ObjKind::Table => any(rules_have) || any(sets_have) || any(objects_have),
        // Sets without a name stand in their rules.
        ObjKind::Chain | ObjKind::Rules | ObjKind::Rule => any(rules_have) || any(sets_have),
        ObjKind::Sets
        | ObjKind::Set
        | ObjKind::Maps
        | ObjKind::Map
        | ObjKind::Meters
        | ObjKind::Meter
        | ObjKind::Elements => any(sets_have),
        ObjKind::Objects(_) | ObjKind::Object(_) => any(objects_have),
    }
}

fn rules_have(table: &Table) -> bool {
    table.chains.iter().flat_map(|chain| &chain.rules).any(|rule| !rule.states.is_empty())
}

fn sets_have(table: &Table) -> bool {
    table.sets.iter().any(|set| {
        let of_elements = || set.elements().iter().any(|element| !element.value.exprs().is_empty());
        set.dynamic().is_some() || set.description.timeout || !set.exprs.is_empty() || of_elements()
    })
}

fn objects_have(table: &Table) -> bool {
    table.objects.iter().any(|object| object.state.is_some())
}

/// What a command sets to zero, if it does.
pub(super) fn reset_by(step: &Step) -> Option<reset::Reset> {
    match &step.cmd.kind {
        CmdKind::Reset { object, .. } => reset_of(*object, &step.cmd.target, &step.elements),
        _ => None,
    }
}
