// SPDX-License-Identifier: Apache-2.0

//! What a chain refers to, and what that refers to, within its table.

use std::collections::BTreeSet;
use std::sync::Arc;

use penstock_program::expr::Expr;
use penstock_program::reference::Reference;
use penstock_ruleset::model::{Chain, ElementData, MapData, Rule};
use penstock_ruleset::{Set, Table};

/// Parts of a table that chains need, by their handles.
#[derive(Clone, Debug, Default)]
pub(in crate::attach) struct Reach {
    pub(super) chains: BTreeSet<u64>,
    pub(super) sets: BTreeSet<u64>,
    pub(super) objects: BTreeSet<u64>,
    pub(in crate::attach) flowtables: BTreeSet<u64>,
    /// Some rule reads the connection.
    pub(in crate::attach) asks_for_connections: bool,
    /// Some rule has an extension of x_tables.
    pub(in crate::attach) has_extensions: bool,
    /// Parts with state that packets change, which can be in one place only.
    pub(in crate::attach) states: BTreeSet<Part>,
}

/// A part of a table with state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::attach) enum Part {
    /// Handles of the table and of the rule, and the name of its chain.
    Rule(u64, u64, Arc<str>),
    /// Handles of the table and of the set, and its name.
    Set(u64, u64, Arc<str>),
    /// Handles of the table and of the object, and its name.
    Object(u64, u64, Arc<str>),
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Part::Rule(_, handle, chain) => write!(f, "chain {chain} handle {handle}"),
            Part::Set(_, _, name) => write!(f, "set {name}"),
            Part::Object(_, _, name) => write!(f, "object {name}"),
        }
    }
}

/// Whether packets change something of a set.
fn has_state(set: &Set) -> bool {
    set.dynamic().is_some()
        || !set.exprs.is_empty()
        || set.elements().iter_unordered().any(|element| !element.value.states().is_empty())
}

impl Reach {
    /// Of a base chain.
    pub(in crate::attach) fn of(table: &Table, chain: &Chain) -> Self {
        let mut reach = Reach::default();
        reach.chain(table, chain);
        reach
    }

    /// Of a rule of a chain.
    pub(in crate::attach) fn of_rule(table: &Table, chain: &Chain, rule: &Rule) -> Self {
        let mut reach = Reach::default();
        reach.rule(table, chain, rule);
        reach
    }

    /// What another chain of the same table needs, too.
    pub(super) fn add(&mut self, other: Reach) {
        self.chains.extend(other.chains);
        self.sets.extend(other.sets);
        self.objects.extend(other.objects);
        self.flowtables.extend(other.flowtables);
    }

    fn chain(&mut self, table: &Table, chain: &Chain) {
        if !self.chains.insert(chain.handle) {
            return;
        }
        for rule in &chain.rules {
            self.rule(table, chain, rule);
        }
    }

    fn rule(&mut self, table: &Table, chain: &Chain, rule: &Rule) {
        if !rule.states.is_empty() {
            self.states.insert(Part::Rule(table.handle, rule.handle, chain.name.clone()));
        }
        for expr in &rule.exprs {
            self.asks_for_connections |= matches!(expr, Expr::Ct(_));
            self.has_extensions |= matches!(expr, Expr::Xt(_));
            let mut named = Vec::new();
            expr.references(&mut |reference| {
                named.push(match reference {
                    Reference::Chain(name) => Named::Chain(name.clone()),
                    Reference::Set(name) => Named::Set(name.clone()),
                    Reference::Object(kind, name) => Named::Object(kind, name.clone()),
                    Reference::Flowtable(name) => Named::Flowtable(name.clone()),
                });
            });
            named.into_iter().for_each(|named| self.named(table, &named));
        }
    }

    fn named(&mut self, table: &Table, named: &Named) {
        match named {
            Named::Chain(name) => {
                if let Some(chain) = table.chains.iter().find(|chain| chain.name == *name) {
                    self.chain(table, chain);
                }
            }
            Named::Set(name) => {
                if let Some(set) = table.sets.iter().find(|set| set.name == *name) {
                    self.set(table, set);
                }
            }
            Named::Object(kind, name) => {
                let is_it = |object: &&Arc<penstock_ruleset::Object>| {
                    object.name == *name && object.value.kind() == *kind
                };
                if let Some(object) = table.objects.iter().find(is_it) {
                    self.objects.insert(object.handle);
                    if object.state.is_some() {
                        let part = Part::Object(table.handle, object.handle, name.clone());
                        self.states.insert(part);
                    }
                }
            }
            Named::Flowtable(name) => {
                let found = table.flowtables.iter().find(|flowtable| flowtable.name == *name);
                self.flowtables.extend(found.map(|flowtable| flowtable.handle));
            }
        }
    }

    fn set(&mut self, table: &Table, set: &Set) {
        if !self.sets.insert(set.handle) {
            return;
        }
        if has_state(set) {
            self.states.insert(Part::Set(table.handle, set.handle, set.name.clone()));
        }
        let Some(MapData::Verdict | MapData::Object(_)) = set.data else { return };
        for element in set.elements().iter_unordered() {
            match (&element.value.data, set.data) {
                (Some(ElementData::Verdict(verdict)), _) => {
                    if let Some(chain) = verdict.chain() {
                        self.named(table, &Named::Chain(chain.clone()));
                    }
                }
                (Some(ElementData::Object(name)), Some(MapData::Object(kind))) => {
                    self.named(table, &Named::Object(kind, name.clone()));
                }
                _ => {}
            }
        }
    }
}

/// A name of a part of a table.
enum Named {
    Chain(Arc<str>),
    Set(Arc<str>),
    Object(penstock_program::expr::ObjectType, Arc<str>),
    Flowtable(Arc<str>),
}
