// SPDX-License-Identifier: Apache-2.0

//! What came and went from one generation to another, as messages. It is found by comparing them,
//! so that a change may come from anywhere; what came and went in between is not told. Things that
//! go are told before things that come, and parts of a thing before the thing where it goes, after
//! it where it comes.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_program::expr::Expr;
use penstock_ruleset::model::{Chain, Rule};
use penstock_ruleset::{Flowtable, Generation, Table};

use super::answer::Stamp;
use super::delete::{rules_go, table_goes};
use super::told::Told;
use super::uses::Uses;
use super::{chain, flowtable, object, rule, set, table};
use crate::message::flags;
use crate::uapi::nf_tables::*;

/// All that came and went, a message each, at a time of the packet clock in nanoseconds.
pub fn difference(before: &Generation, after: &Generation, stamp: Stamp, now: u64) -> Vec<Vec<u8>> {
    let mut told = Told::new(stamp, now);
    for old in &before.tables {
        match after.tables.iter().find(|table| table.handle == old.handle) {
            Some(new) if Arc::ptr_eq(new, old) => {}
            Some(new) => told.parts_go(old, new),
            None => told.message(|to, stamp| table_goes(to, stamp, old)),
        }
    }
    for new in &after.tables {
        match before.tables.iter().find(|table| table.handle == new.handle) {
            Some(old) if Arc::ptr_eq(new, old) => {}
            old => told.table_comes(old, new),
        }
    }
    told.finish()
}

/// Whether a list has nothing with this handle.
fn lacks<T>(list: &[T], handle: u64, of: impl Fn(&T) -> u64) -> bool {
    !list.iter().any(|one| of(one) == handle)
}

/// Rules of a chain.
fn by_handle(chain: &Chain) -> HashMap<u64, &Arc<Rule>> {
    chain.rules.iter().map(|rule| (rule.handle, rule)).collect()
}

/// Whether a rule is as it was, but for what packets change: one that takes another one's place has
/// its handle.
pub fn is_same(a: &Arc<Rule>, b: &Arc<Rule>) -> bool {
    // What packets change of a statement is no part of what it does in a set.
    let same = |(a, b): (&Expr, &Expr)| match (a.as_statement(), b.as_statement()) {
        (Some(a), Some(b)) => a.in_set() == b.in_set(),
        _ => a == b,
    };
    Arc::ptr_eq(a, b)
        || a.userdata == b.userdata
            && a.exprs.len() == b.exprs.len()
            && a.exprs.iter().zip(&b.exprs).all(same)
}

impl Told {
    /// Parts of a table that are not there any more.
    fn parts_go(&mut self, old: &Table, new: &Table) {
        let mut gone: Vec<&Chain> = Vec::new();
        for chain in &old.chains {
            match new.chains.iter().find(|c| c.handle == chain.handle) {
                Some(now) if Arc::ptr_eq(now, chain) => {}
                Some(now) => {
                    let left = by_handle(now);
                    for (at, rule) in chain.rules.iter().enumerate() {
                        if left.get(&rule.handle).is_none_or(|left| !is_same(left, rule)) {
                            self.message(|to, stamp| {
                                rule::goes(to, stamp, old, chain, at);
                            });
                        }
                    }
                }
                None => {
                    self.message(|to, stamp| rules_go(to, stamp, old, chain));
                    gone.push(chain);
                }
            }
        }
        for set in old.sets.iter().filter(|set| !set.anonymous) {
            match new.sets.iter().find(|s| s.handle == set.handle) {
                Some(now) if Arc::ptr_eq(now, set) => {}
                Some(now) => self.missing_elements((NFT_MSG_DELSETELEM, 0), old, set, Some(now)),
                None => {
                    self.message(|to, stamp| set::fill(to, stamp, (NFT_MSG_DELSET, 0), old, set))
                }
            }
        }
        for gone in old.flowtables.iter().filter(|f| lacks(&new.flowtables, f.handle, |f| f.handle))
        {
            self.message(|to, stamp| {
                flowtable::fill(to, stamp, (NFT_MSG_DELFLOWTABLE, 0), old, gone)
            });
        }
        for gone in old.objects.iter().filter(|o| lacks(&new.objects, o.handle, |o| o.handle)) {
            self.message(|to, stamp| object::fill(to, stamp, (NFT_MSG_DELOBJ, 0), old, (gone, 0)));
        }
        for chain in gone {
            self.message(|to, stamp| {
                chain::fill(to, stamp, (NFT_MSG_DELCHAIN, 0), old, (chain, 0))
            });
        }
    }

    /// A table that is new, or what is new in it.
    fn table_comes(&mut self, old: Option<&Arc<Table>>, new: &Table) {
        let flags_of = |table: &Table| (table.flags, table.dormant, table.userdata.clone());
        if old.is_none_or(|old| flags_of(old) != flags_of(new)) {
            let created = if old.is_none() { flags::CREATE } else { 0 };
            self.message(|to, stamp| table::fill(to, stamp, NFT_MSG_NEWTABLE, created, new));
        }
        let none = Table {
            chains: Vec::new(),
            sets: Vec::new(),
            objects: Vec::new(),
            flowtables: Vec::new(),
            ..Table::clone(new)
        };
        let old = old.map_or(&none, |old| old);
        for chain in &new.chains {
            let there = old.chains.iter().find(|c| c.handle == chain.handle);
            let shown = |chain: &Chain| (chain.name.clone(), chain.base.clone());
            if there.is_none_or(|there| shown(there) != shown(chain)) {
                let created = if there.is_none() { flags::CREATE } else { 0 };
                let uses = Uses::of(new).chain(chain);
                self.message(|to, stamp| {
                    chain::fill(to, stamp, (NFT_MSG_NEWCHAIN, created), new, (chain, uses));
                });
            }
        }
        for set in &new.sets {
            let there = old.sets.iter().find(|s| s.handle == set.handle);
            if there.is_none() {
                self.message(|to, stamp| {
                    set::fill(to, stamp, (NFT_MSG_NEWSET, flags::CREATE), new, set);
                });
            }
            if there.is_none_or(|there| !Arc::ptr_eq(there, set)) {
                let there = there.map(|set| &**set);
                self.missing_elements((NFT_MSG_NEWSETELEM, flags::CREATE), new, set, there);
            }
        }
        self.values_come(old, new);
        for chain in &new.chains {
            let there = old.chains.iter().find(|c| c.handle == chain.handle);
            let known = there.map(|chain| by_handle(chain)).unwrap_or_default();
            for (at, rule) in chain.rules.iter().enumerate() {
                if known.get(&rule.handle).is_none_or(|known| !is_same(known, rule)) {
                    let created = flags::CREATE | flags::APPEND;
                    self.message(|to, stamp| {
                        rule::fill(to, stamp, (NFT_MSG_NEWRULE, created), new, chain, at);
                    });
                }
            }
        }
    }

    /// New objects, those with another configuration, and new flowtables.
    fn values_come(&mut self, old: &Table, new: &Table) {
        for object in &new.objects {
            let there = old.objects.iter().find(|o| o.handle == object.handle);
            if there.is_none_or(|there| there.value != object.value) {
                let created = if there.is_none() { flags::CREATE } else { 0 };
                let uses = Uses::of(new).object(object);
                self.message(|to, stamp| {
                    object::fill(to, stamp, (NFT_MSG_NEWOBJ, created), new, (object, uses));
                });
            }
        }
        for flowtable in &new.flowtables {
            let there = old.flowtables.iter().find(|f| f.handle == flowtable.handle);
            let shown = |f: &Flowtable| (f.devices.clone(), f.priority, f.flags);
            if there.is_none_or(|there| shown(there) != shown(flowtable)) {
                self.message(|to, stamp| {
                    flowtable::fill(to, stamp, (NFT_MSG_NEWFLOWTABLE, 0), new, flowtable);
                });
            }
        }
    }
}
