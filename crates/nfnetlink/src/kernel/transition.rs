// SPDX-License-Identifier: Apache-2.0

//! From some tables in the kernel to others, in the smallest steps: what stays is not touched, so
//! that it keeps its counters, the tokens of its limits, and the elements that packets have added.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use penstock_program::expr::Expr;
use penstock_program::reference::Reference;
use penstock_ruleset::model::{BaseChain, Chain, Rule};
use penstock_ruleset::{Family, Flowtable, Set, Table};

use super::batch::{KernelBatch, Part, Subject};
use super::elements::{ElementChange, different};
use super::{MARK, counted, to_send};
use crate::expression::Numbered;
use crate::message::flags;
use crate::nf_tables::{chain, difference, flowtable, object, set};
use crate::uapi::nf_tables::*;

/// `NFT_TABLE_F_OWNER`, `NFT_TABLE_F_PERSIST`
const OWNER: u32 = 2;
const PERSIST: u32 = 4;

/// Handles that the kernel has given rules, by the table's and the rule's handle in the ruleset.
pub type KernelHandles = HashMap<(u64, u64), u64>;

/// How tables are in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTables {
    /// They stay when their owner, the socket that has made them, is closed.
    pub persist: bool,
}

/// Appends what brings the kernel from some tables to others. Elements of sets that packets change
/// are left to the caller where both have the set. `left` are tables of an earlier process, which
/// go first.
pub fn transition(
    batch: &mut KernelBatch,
    (before, after): (&[Arc<Table>], &[Arc<Table>]),
    left: &[(Family, Arc<str>)],
    handles: &KernelHandles,
    tables: KernelTables,
) {
    for (family, name) in left {
        delete_table(batch, *family, name);
    }
    let other = |of: &Table, all: &[Arc<Table>]| -> Option<Arc<Table>> {
        all.iter().find(|table| table.handle == of.handle).cloned()
    };
    for old in before {
        match other(old, after) {
            Some(new) if Arc::ptr_eq(&new, old) => {}
            Some(new) => Step { batch, old, new: &new, handles }.parts_go(),
            None => delete_table(batch, old.family, &old.name),
        }
    }
    let both: Vec<(Arc<Table>, &Arc<Table>)> = after
        .iter()
        .map(|new| (other(new, before).unwrap_or_else(|| Arc::new(without_parts(new))), new))
        .collect();
    for new in after.iter().filter(|new| other(new, before).is_none()) {
        new_table(batch, new, tables);
    }
    // Of those with the same hook and priority, in all tables, the later one comes first.
    let mut chains: Vec<_> = both
        .iter()
        .flat_map(|(old, new)| new.chains.iter().map(move |chain| (old, *new, chain)))
        .filter(|(old, _, chain)| !old.chains.iter().any(|old| is_same_chain(old, chain)))
        .collect();
    chains.sort_by_key(|(.., chain)| chain.base.as_ref().map_or(0, |base| base.registered));
    for (old, new, chain) in chains {
        Step { batch, old, new, handles }.chain_comes(chain);
    }
    for (old, new) in &both {
        Step { batch, old, new, handles }.parts_come();
    }
}

/// A table before there is anything in it.
fn without_parts(table: &Table) -> Table {
    Table {
        chains: Vec::new(),
        sets: Vec::new(),
        objects: Vec::new(),
        flowtables: Vec::new(),
        ..table.clone()
    }
}

fn delete_table(batch: &mut KernelBatch, family: Family, name: &Arc<str>) {
    let subject = Subject { family, table: name.clone(), part: None };
    batch.message((NFT_MSG_DELTABLE, 0), subject, |to| to.string(NFTA_TABLE_NAME, name));
}

fn new_table(batch: &mut KernelBatch, table: &Table, tables: KernelTables) {
    let subject = Subject { family: table.family, table: table.name.clone(), part: None };
    let kind = (NFT_MSG_NEWTABLE, flags::CREATE | flags::EXCL);
    batch.message(kind, subject, |to| {
        to.string(NFTA_TABLE_NAME, &table.name);
        to.be32(NFTA_TABLE_FLAGS, OWNER | if tables.persist { PERSIST } else { 0 });
        to.attribute(NFTA_TABLE_USERDATA, &[&table.userdata, MARK].concat());
    });
}

/// From one generation of a table to another.
struct Step<'a> {
    batch: &'a mut KernelBatch,
    old: &'a Table,
    new: &'a Table,
    handles: &'a KernelHandles,
}

/// Whether a chain is the same one: nothing but policy and devices can be changed in place.
fn is_same_chain(a: &Chain, b: &Chain) -> bool {
    let fixed = |base: &BaseChain| (base.kind, base.hook, base.priority, base.registered);
    a.handle == b.handle
        && a.name == b.name
        && a.base.as_ref().map(fixed) == b.base.as_ref().map(fixed)
        && a.counter == b.counter
}

/// Whether a set has other settings, which the kernel changes in place (`nft_set_update()`).
fn has_other_settings(a: &Set, b: &Set) -> bool {
    let shown = |set: &Set| (set.description.size, set.timeout, set.gc_interval);
    shown(a) != shown(b)
}

/// Whether elements of both are the caller's to compare: packets change them.
fn is_dynamic(a: &Set, b: &Set) -> bool {
    a.dynamic().is_some() && b.dynamic().is_some()
}

fn is_same_rule(a: &Arc<Rule>, b: &Arc<Rule>) -> bool {
    a.handle == b.handle && a.states == b.states && difference::is_same(a, b)
}

fn missing(from: &[Arc<str>], other: &[Arc<str>]) -> Vec<Arc<str>> {
    from.iter().filter(|device| !other.contains(device)).cloned().collect()
}

impl Step<'_> {
    fn subject(&self, part: Part) -> Subject {
        Subject { family: self.new.family, table: self.new.name.clone(), part: Some(part) }
    }

    fn counterpart(&self, chain: &Chain) -> Option<&Arc<Chain>> {
        self.new.chains.iter().find(|new| is_same_chain(new, chain))
    }

    /// The rules that both generations of a chain have, in the same order.
    fn kept(old: &Chain, new: &Chain) -> HashSet<u64> {
        let mut places: HashMap<u64, usize> = HashMap::new();
        places.extend(old.rules.iter().enumerate().map(|(at, rule)| (rule.handle, at)));
        let (mut kept, mut next) = (HashSet::new(), 0);
        for rule in &new.rules {
            let Some(at) = places.get(&rule.handle).copied().filter(|at| *at >= next) else {
                continue;
            };
            if old.rules.get(at).is_some_and(|there| is_same_rule(there, rule)) {
                kept.insert(rule.handle);
                next = at + 1;
            }
        }
        kept
    }

    /// What is not there any more goes: rules first, which refer to all the rest.
    fn parts_go(&mut self) {
        let old = self.old;
        let gone_chain = |step: &Self, chain: &Chain| step.counterpart(chain).is_none();
        for chain in &old.chains {
            let kept = match self.counterpart(chain) {
                Some(new) => Self::kept(chain, new),
                // They go with the rule that jumps to it.
                None if chain.anonymous => continue,
                None => HashSet::new(),
            };
            for rule in chain.rules.iter().filter(|rule| !kept.contains(&rule.handle)) {
                self.rule_goes(chain, rule);
            }
        }
        for set in old.sets.iter().filter(|set| !set.anonymous) {
            match self.new.sets.iter().find(|new| new.handle == set.handle).cloned() {
                Some(new) if Arc::ptr_eq(&new, set) || is_dynamic(&new, set) => {}
                Some(new) => {
                    let (gone, _) = different(set, &new, self.batch.now);
                    let gone: Vec<_> = gone.iter().map(|e| e.view()).collect();
                    self.batch.elements(ElementChange::Delete, (old, set), &gone);
                }
                None => {
                    let subject = self.subject(Part::Set(set.name.clone()));
                    self.batch.message((NFT_MSG_DELSET, 0), subject, |to| {
                        to.string(NFTA_SET_TABLE, &old.name);
                        to.string(NFTA_SET_NAME, &set.name);
                    });
                }
            }
        }
        for gone in &old.flowtables {
            match self.new.flowtables.iter().find(|new| new.handle == gone.handle).cloned() {
                Some(new) => {
                    let devices = missing(&gone.devices, &new.devices);
                    if !devices.is_empty() {
                        self.flowtable((NFT_MSG_DELFLOWTABLE, 0), gone, &devices);
                    }
                }
                None => {
                    let subject = self.subject(Part::Flowtable(gone.name.clone()));
                    self.batch.message((NFT_MSG_DELFLOWTABLE, 0), subject, |to| {
                        to.string(NFTA_FLOWTABLE_TABLE, &old.name);
                        to.string(NFTA_FLOWTABLE_NAME, &gone.name);
                    });
                }
            }
        }
        let left: HashSet<_> = self.new.objects.iter().map(|object| object.handle).collect();
        for gone in old.objects.iter().filter(|object| !left.contains(&object.handle)) {
            let subject = self.subject(Part::Object(gone.name.clone()));
            self.batch.message((NFT_MSG_DELOBJ, 0), subject, |to| {
                to.string(NFTA_OBJ_TABLE, &old.name);
                to.string(NFTA_OBJ_NAME, &gone.name);
                to.be32(NFTA_OBJ_TYPE, gone.value.kind().number());
            });
        }
        for chain in &old.chains {
            let subject = self.subject(Part::Chain(chain.name.clone()));
            if gone_chain(self, chain) {
                if !chain.anonymous {
                    self.batch.message((NFT_MSG_DELCHAIN, 0), subject, |to| {
                        to.string(NFTA_CHAIN_TABLE, &old.name);
                        to.string(NFTA_CHAIN_NAME, &chain.name);
                    });
                }
                continue;
            }
            let devices = |chain: &Chain| {
                chain.base.as_ref().map(|base| base.devices.clone()).unwrap_or_default()
            };
            let now = self.counterpart(chain).map(|new| devices(new)).unwrap_or_default();
            let gone = missing(&devices(chain), &now);
            if !gone.is_empty() {
                self.batch.message((NFT_MSG_DELCHAIN, 0), subject, |to| {
                    chain::write_devices_of(to, old, chain, &gone);
                });
            }
        }
    }

    fn rule_goes(&mut self, chain: &Chain, rule: &Rule) {
        // Each has been looked for right after it was made.
        let handle = self.handles.get(&(self.old.handle, rule.handle)).copied().unwrap_or(0);
        let old = self.old;
        let subject = self.subject(Part::Rule(chain.name.clone(), rule.handle));
        self.batch.message((NFT_MSG_DELRULE, 0), subject, |to| {
            to.string(NFTA_RULE_TABLE, &old.name);
            to.string(NFTA_RULE_CHAIN, &chain.name);
            to.be64(NFTA_RULE_HANDLE, handle);
        });
    }

    /// What is new comes: rules last, which refer to all the rest.
    fn parts_come(&mut self) {
        let new = self.new;
        for chain in &new.chains {
            if let Some(old) = self.old.chains.iter().find(|old| is_same_chain(old, chain)) {
                self.chain_changes(&old.clone(), chain);
            }
        }
        self.values_come();
        for set in &new.sets {
            let there = self.old.sets.iter().find(|old| old.handle == set.handle).cloned();
            if there.as_ref().is_some_and(|old| has_other_settings(old, set)) {
                self.set_comes(set, 0);
            }
            let come = match &there {
                Some(old) if Arc::ptr_eq(old, set) || is_dynamic(old, set) => continue,
                Some(old) => different(old, set, self.batch.now).1,
                None => {
                    self.set_comes(set, flags::CREATE);
                    let elements = set.elements();
                    let alive = elements.iter().filter(|e| e.is_alive(self.batch.now));
                    let mut all: Vec<_> = alive.map(|e| e.to_element()).collect();
                    all.sort_by(|a, b| a.key.cmp(&b.key));
                    all
                }
            };
            let come: Vec<_> = come.iter().map(|e| e.view()).collect();
            self.batch.elements(ElementChange::Add, (new, set), &come);
        }
        let mut done = HashSet::new();
        for chain in new.chains.iter().filter(|chain| !chain.anonymous) {
            self.rules_come(chain, &mut done);
        }
    }

    fn chain_comes(&mut self, chain: &Chain) {
        let new = self.new;
        let subject = self.subject(Part::Chain(chain.name.clone()));
        self.batch.message((NFT_MSG_NEWCHAIN, flags::CREATE), subject, |to| {
            chain::write_new(to, new, chain);
        });
        if let (Some(state), Some(counter)) = (&chain.counter, chain.counted()) {
            self.batch.sends(state, [counter.packets, counter.bytes]);
        }
    }

    fn chain_changes(&mut self, old: &Chain, chain: &Chain) {
        let (Some(before), Some(base)) = (&old.base, &chain.base) else { return };
        let new = self.new;
        let subject = self.subject(Part::Chain(chain.name.clone()));
        if before.policy_accept != base.policy_accept {
            self.batch.message((NFT_MSG_NEWCHAIN, 0), subject.clone(), |to| {
                chain::write_policy(to, new, chain, base.policy_accept);
            });
        }
        let devices = missing(&base.devices, &before.devices);
        if !devices.is_empty() {
            self.batch.message((NFT_MSG_NEWCHAIN, 0), subject, |to| {
                chain::write_devices_of(to, new, chain, &devices);
            });
        }
    }

    fn flowtable(&mut self, kind: (u8, u16), flowtable: &Flowtable, devices: &[Arc<str>]) {
        let new = self.new;
        let subject = self.subject(Part::Flowtable(flowtable.name.clone()));
        self.batch.message(kind, subject, |to| {
            flowtable::write_new(to, new, flowtable, devices);
        });
    }

    /// New objects, those with another configuration, and flowtables.
    fn values_come(&mut self) {
        let (new, now) = (self.new, self.batch.now);
        for object in &new.objects {
            let there = self.old.objects.iter().find(|old| old.handle == object.handle);
            if there.is_some_and(|there| there.value == object.value) {
                continue;
            }
            let flags = if there.is_none() { flags::CREATE | flags::EXCL } else { 0 };
            let is_new = there.is_none();
            let subject = self.subject(Part::Object(object.name.clone()));
            self.batch.message((NFT_MSG_NEWOBJ, flags), subject, |to| {
                object::write_new(to, new, object, now);
            });
            // An update leaves the kernel's state as it is.
            let expr = object.snapshot(now).as_expr().filter(|_| is_new);
            if let (Some(state), Some(words)) = (&object.state, expr.and_then(|e| counted(&e))) {
                self.batch.sends(state, words);
            }
        }
        for flowtable in &new.flowtables {
            let there = self.old.flowtables.iter().find(|old| old.handle == flowtable.handle);
            let devices = missing(&flowtable.devices, there.map_or(&[], |old| &old.devices));
            let is_other = there.is_none_or(|old| old.flags != flowtable.flags);
            if is_other || !devices.is_empty() {
                self.flowtable((NFT_MSG_NEWFLOWTABLE, flags::CREATE), flowtable, &devices);
            }
        }
    }

    fn set_comes(&mut self, set: &Set, flags: u16) {
        let (new, id) = (self.new, self.batch.id());
        let subject = self.subject(Part::Set(set.name.clone()));
        self.batch.message((NFT_MSG_NEWSET, flags), subject, |to| {
            set::write_new(to, new, set, id);
        });
    }

    /// New rules of a chain, where they are to be. Those of chains without a name come before the
    /// rule that jumps there: then the kernel takes no more of them (`nft_chain_is_bound()`).
    fn rules_come(&mut self, chain: &Chain, done: &mut HashSet<u64>) {
        if !done.insert(chain.handle) {
            return;
        }
        let new = self.new;
        let old = self.old.chains.iter().find(|old| is_same_chain(old, chain)).cloned();
        let kept = old.map(|old| Self::kept(&old, chain)).unwrap_or_default();
        let mut before = Place::First;
        for rule in &chain.rules {
            let known = self.handles.get(&(new.handle, rule.handle)).copied();
            if let (true, Some(handle)) = (kept.contains(&rule.handle), known) {
                before = Place::Handle(handle);
                continue;
            }
            self.bound_chains_come(rule, done);
            let now = self.batch.now;
            let exprs = to_send(rule.snapshot(now));
            let stateful = exprs.iter().filter(|expr| expr.is_stateful());
            for (state, expr) in rule.states.iter().zip(stateful) {
                if let Some(words) = counted(expr) {
                    self.batch.sends(state, words);
                }
            }
            let id = self.batch.id();
            let subject = self.subject(Part::Rule(chain.name.clone(), rule.handle));
            let append = if matches!(before, Place::First) { 0 } else { flags::APPEND };
            let kind = (NFT_MSG_NEWRULE, flags::CREATE | append);
            self.batch.message(kind, subject, |to| {
                to.string(NFTA_RULE_TABLE, &new.name);
                to.string(NFTA_RULE_CHAIN, &chain.name);
                to.nest(NFTA_RULE_EXPRESSIONS, |to| super::write_list(&exprs, to));
                match before {
                    Place::First => {}
                    Place::Handle(handle) => to.be64(NFTA_RULE_POSITION, handle),
                    Place::Id(id) => to.be32(NFTA_RULE_POSITION_ID, id),
                }
                if !rule.userdata.is_empty() {
                    to.attribute(NFTA_RULE_USERDATA, &rule.userdata);
                }
                to.be32(NFTA_RULE_ID, id);
            });
            before = Place::Id(id);
        }
    }

    /// The rules of chains without a name that a rule jumps to.
    fn bound_chains_come(&mut self, rule: &Rule, done: &mut HashSet<u64>) {
        let new = self.new;
        let mut bound = Vec::new();
        let mut note = |reference: Reference<'_>| {
            let Reference::Chain(name) = reference else { return };
            let found = new.chains.iter().find(|chain| chain.anonymous && chain.name == *name);
            bound.extend(found.cloned());
        };
        rule.exprs.iter().for_each(|expr: &Expr| expr.references(&mut note));
        for chain in bound {
            self.rules_come(&chain, done);
        }
    }
}

/// After which rule another one comes.
#[derive(Clone, Copy, Debug)]
enum Place {
    First,
    /// By the kernel's handle.
    Handle(u64),
    /// By the number in the batch.
    Id(u32),
}
