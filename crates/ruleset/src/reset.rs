// SPDX-License-Identifier: Apache-2.0

//! What `reset` sets to zero, named so that another process can ask for it.

use std::sync::Arc;

use penstock_program::State;
use penstock_program::expr::{Expr, ObjectType};
use penstock_sets::ElementRef;
use serde::{Deserialize, Serialize};

use crate::globals::Account;
use crate::model::{Chain, ElementValue, Family, Generation, Object, Rule, Set, Table};

/// First and last key of an element; an empty one is the catch-all's.
pub type ElementKey = (Box<[u8]>, Option<Box<[u8]>>);

/// What one `reset` command names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// Tables of this family; `None` for all.
    pub family: Option<Family>,
    /// The table of this name; `None` for all.
    pub table: Option<Arc<str>>,
    /// What in them.
    pub what: What,
}

/// What in a table is set to zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Counters or quotas, or the one of a name.
    Objects(ObjectType, Option<Arc<str>>),
    /// Rules of a chain, or of all chains; or the one with a handle.
    Rules(Option<Arc<str>>, Option<u64>),
    /// Elements of a set, or those with these keys.
    Elements(Arc<str>, Option<Vec<ElementKey>>),
    /// Counters of policies of base chains.
    Policies,
    /// The account of a name, or all; family and table do not matter.
    Accounts(Option<Arc<str>>),
}

/// Whether a program changes what it is asked of: such state is what `reset` zeroes.
fn has_state(ops: &[Expr]) -> bool {
    ops.iter().any(|op| matches!(op, Expr::Counter(_) | Expr::Quota(_)))
}

impl Reset {
    /// Whether it names something in the table.
    pub(crate) fn names(&self, table: &Table) -> bool {
        self.family.is_none_or(|family| family == table.family)
            && self.table.as_ref().is_none_or(|name| *name == table.name)
    }

    /// Whether it names the object.
    pub(crate) fn names_object(&self, table: &Table, object: &Object) -> bool {
        let What::Objects(kind, name) = &self.what else { return false };
        self.names(table)
            && object.value.kind() == *kind
            && name.as_ref().is_none_or(|name| *name == object.name)
    }

    /// Whether it names the rule.
    pub(crate) fn names_rule(&self, table: &Table, chain: &Chain, rule: &Rule) -> bool {
        let What::Rules(of, handle) = &self.what else { return false };
        self.names(table)
            && of.as_ref().is_none_or(|name| *name == chain.name)
            && handle.is_none_or(|handle| handle == rule.handle)
            && has_state(&rule.exprs)
    }

    /// Whether it names the account.
    pub(crate) fn names_account(&self, account: &Account) -> bool {
        let What::Accounts(of) = &self.what else { return false };
        of.as_ref().is_none_or(|name| *name == account.name)
    }

    /// Whether it names the counters of policies of a table.
    pub(crate) fn names_policies(&self, table: &Table) -> bool {
        self.what == What::Policies && self.names(table)
    }

    /// Whether it names the element.
    pub(crate) fn names_element(
        &self,
        table: &Table,
        set: &Set,
        element: ElementRef<'_, ElementValue>,
    ) -> bool {
        let What::Elements(of, keys) = &self.what else { return false };
        let holds = |(key, end): &ElementKey| {
            let last = element.key_end.unwrap_or(element.key);
            let end = end.as_deref().unwrap_or(key);
            **key == *element.key || !key.is_empty() && *element.key <= **key && *end <= *last
        };
        self.names(table)
            && *of == set.name
            && keys.as_ref().is_none_or(|keys| keys.iter().any(holds))
    }
}

impl Generation {
    /// Whether packets change anything of what is named: values of stateful expressions and
    /// objects, and elements of sets that rules change. All else is the same in each copy of the
    /// generation.
    pub fn is_live(&self, what: &Reset) -> bool {
        if let What::Accounts(_) = what.what {
            return !self.globals.accounts.is_empty();
        }
        self.tables.iter().filter(|table| what.names(table)).any(|table| match &what.what {
            What::Objects(..) => {
                table.objects.iter().any(|o| what.names_object(table, o) && o.state.is_some())
            }
            What::Rules(of, _) => {
                let named = |chain: &&Arc<Chain>| of.as_ref().is_none_or(|n| *n == chain.name);
                let mut rules = table.chains.iter().filter(named).flat_map(|chain| &chain.rules);
                rules.any(|rule| !rule.states.is_empty())
            }
            What::Elements(of, _) => {
                table.sets.iter().find(|set| set.name == *of).is_some_and(|set| {
                    set.dynamic().is_some()
                        || set.elements().iter_unordered().any(|e| !e.value.exprs().is_empty())
                })
            }
            What::Policies => table.chains.iter().any(|chain| chain.counter.is_some()),
            What::Accounts(_) => false,
        })
    }

    /// Sets to zero what is named, at time `now` (ns).
    pub fn reset(&self, what: &Reset, now: u64) {
        for account in self.globals.accounts.iter().filter(|a| what.names_account(a)) {
            account.reset();
        }
        for table in &self.tables {
            for object in table.objects.iter().filter(|o| what.names_object(table, o)) {
                object.reset(now);
            }
            for chain in &table.chains {
                if what.names_policies(table)
                    && let Some(State::Counter(counter)) = chain.counter.as_deref()
                {
                    counter.reset();
                }
                for rule in chain.rules.iter().filter(|rule| what.names_rule(table, chain, rule)) {
                    rule.reset(now);
                }
            }
            if let What::Elements(name, _) = &what.what
                && let Some(set) = table.sets.iter().find(|set| set.name == *name)
            {
                let elements = set.elements();
                let named =
                    elements.iter_unordered().filter(|e| what.names_element(table, set, *e));
                named.for_each(|e| drop(e.value.reset(now)));
            }
        }
    }
    /// Whether a counter or quota is above zero, at time `now` (ns).
    pub fn has_counted(&self, now: u64) -> bool {
        self.tables.iter().any(|table| {
            let mut rules = table.chains.iter().flat_map(|chain| &chain.rules);
            table.objects.iter().filter_map(|o| o.snapshot(now).as_expr()).any(|e| counts(&e))
                || rules.any(|rule| rule.snapshot(now).iter().any(counts))
                || table.chains.iter().filter_map(|c| c.counted()).any(|c| c.packets | c.bytes != 0)
                || table.sets.iter().any(|set| {
                    let elements = set.elements();
                    elements.iter_unordered().any(|e| e.value.snapshot(now).iter().any(counts))
                })
        })
    }

    /// Sets all counters and quotas to zero, at time `now` (ns).
    pub fn zero(&self, now: u64) {
        let all = |what| self.reset(&Reset { family: None, table: None, what }, now);
        all(What::Objects(ObjectType::Counter, None));
        all(What::Objects(ObjectType::Quota, None));
        all(What::Rules(None, None));
        all(What::Policies);
        for table in &self.tables {
            for set in &table.sets {
                let what = What::Elements(set.name.clone(), None);
                let (family, table) = (Some(table.family), Some(table.name.clone()));
                self.reset(&Reset { family, table, what }, now);
            }
        }
    }
}

/// Whether it is a counter or quota above zero.
fn counts(expr: &Expr) -> bool {
    matches!(expr, Expr::Counter(c) if c.packets | c.bytes != 0)
        || matches!(expr, Expr::Quota(q) if q.consumed != 0)
}
