// SPDX-License-Identifier: Apache-2.0

//! Notifications of changes that no message of a program made: each change is told as the kernel
//! tells of the message that asks for it (`nf_tables_commit()`), in the order of the changes.

use std::sync::Arc;

use penstock_ruleset::change::{Key, Mode, Position};
use penstock_ruleset::model::{Chain, ElementValue, Family, Set};
use penstock_ruleset::transaction::Applied;
use penstock_ruleset::{Change, Error, Generation, Table, Transaction};
use penstock_sets::Element;

use super::answer::Stamp;
use super::delete::{rules_go, table_goes};
use super::find::{set_of, table_of};
use super::uses::Uses;
use super::{chain, element, flowtable, object, rule, set, table};
use crate::message::{Writer, flags};
use crate::uapi::nf_tables::*;

/// Notifications, one after the other.
#[derive(Debug)]
pub struct Told {
    stamp: Stamp,
    /// Time of the packet clock in nanoseconds.
    now: u64,
    messages: Vec<Vec<u8>>,
}

impl Told {
    /// Of none yet, at a time of the packet clock in nanoseconds.
    pub fn new(stamp: Stamp, now: u64) -> Self {
        Told { stamp, now, messages: Vec::new() }
    }

    /// The messages.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.messages
    }

    /// Applies a change, and tells of it.
    ///
    /// # Errors
    /// The ruleset's. Nothing is told then.
    pub fn apply(&mut self, to: &mut Transaction, change: Change) -> Result<Applied, Error> {
        let told = self.messages.len();
        let coming = Coming::of(to.working(), &change);
        self.goes(to, &change);
        let applied = to.apply(change).inspect_err(|_| self.messages.truncate(told))?;
        self.comes(to, coming, &applied);
        Ok(applied)
    }

    /// Appends what is written, if anything is.
    pub(super) fn message(&mut self, write: impl FnOnce(&mut Writer, Stamp)) {
        let mut to = Writer::default();
        write(&mut to, self.stamp);
        if !to.is_empty() {
            self.messages.push(to.finish());
        }
    }

    /// Elements of a set that another one has not.
    pub(super) fn missing_elements(
        &mut self,
        kind: (u8, u16),
        table: &Table,
        set: &Set,
        other: Option<&Set>,
    ) {
        let now = self.now;
        self.message(|to, stamp| {
            element::fill_missing(to, (stamp, now), kind, table, (set, other));
        });
    }

    /// What a change takes away.
    fn goes(&mut self, from: &Transaction, change: &Change) {
        let working = from.working();
        match change {
            Change::DeleteTable { family, key, .. } => {
                let named = |table: &Table| {
                    key.as_ref().is_none_or(|key| is(key, table.handle, &table.name))
                };
                let gone = |table: &&Arc<Table>| {
                    family.is_none_or(|family| family == table.family)
                        && named(table)
                        && from.may_change(table)
                };
                for table in working.tables.iter().filter(gone) {
                    self.message(|to, stamp| table_goes(to, stamp, table));
                }
            }
            Change::DeleteChain { family, table, key, devices, .. } if devices.is_empty() => {
                let Some(table) = table_of(working, *family, table) else { return };
                let gone = table.chains.iter().find(|c| is(key, c.handle, &c.name));
                if let Some(gone) = gone {
                    self.message(|to, stamp| {
                        rules_go(to, stamp, table, gone);
                        chain::fill(to, stamp, (NFT_MSG_DELCHAIN, 0), table, (gone, 0));
                    });
                }
            }
            Change::DeleteRule { family, table, chain, handle, .. } => {
                let Some(table) = table_of(working, *family, table) else { return };
                let named = |c: &&Arc<Chain>| match chain {
                    Some(name) => c.name == *name,
                    None => !c.anonymous,
                };
                for chain in table.chains.iter().filter(named) {
                    self.message(|to, stamp| match handle {
                        Some(handle) => rule_goes(to, stamp, table, chain, *handle),
                        None => rules_go(to, stamp, table, chain),
                    });
                }
            }
            Change::AddRule { family, table, chain, position: Position::Replace(old), .. } => {
                let Some(table) = table_of(working, *family, table) else { return };
                if let Some(chain) = table.chains.iter().find(|c| c.name == *chain) {
                    self.message(|to, stamp| rule_goes(to, stamp, table, chain, *old));
                }
            }
            Change::DeleteSet { family, table, key, .. } => {
                let Some(table) = table_of(working, *family, table) else { return };
                if let Some(gone) = table.sets.iter().find(|s| is(key, s.handle, &s.name)) {
                    self.message(|to, stamp| {
                        set::fill(to, stamp, (NFT_MSG_DELSET, 0), table, gone)
                    });
                }
            }
            Change::DeleteElements { family, table, set, elements, .. } => {
                let kind = (NFT_MSG_DELSETELEM, 0);
                let Some((table, set)) = set_of(working, *family, table, set) else { return };
                match elements {
                    Some(elements) => self.elements(kind, table, set, elements),
                    None => {
                        let now = self.now;
                        self.message(|to, stamp| {
                            element::fill_flush(to, (stamp, now), table, set);
                        });
                    }
                }
            }
            Change::DeleteObject { family, table, kind, key, .. } => {
                let Some(table) = table_of(working, *family, table) else { return };
                let named = |o: &&Arc<penstock_ruleset::model::Object>| {
                    o.value.kind() == *kind && is(key, o.handle, &o.name)
                };
                if let Some(gone) = table.objects.iter().find(named) {
                    self.message(|to, stamp| {
                        object::fill(to, stamp, (NFT_MSG_DELOBJ, 0), table, (gone, 0));
                    });
                }
            }
            Change::DeleteFlowtable { family, table, key, .. } => {
                let Some(table) = table_of(working, *family, table) else { return };
                let gone = table.flowtables.iter().find(|f| is(key, f.handle, &f.name));
                if let Some(gone) = gone {
                    self.message(|to, stamp| {
                        flowtable::fill(to, stamp, (NFT_MSG_DELFLOWTABLE, 0), table, gone);
                    });
                }
            }
            Change::DeleteChain { .. }
            | Change::AddTable { .. }
            | Change::AddChain { .. }
            | Change::RenameChain { .. }
            | Change::AddRule { .. }
            | Change::AddSet { .. }
            | Change::AddElements { .. }
            | Change::AddObject { .. }
            | Change::AddFlowtable { .. }
            | Change::Sender { .. }
            | Change::Closed { .. }
            | Change::Global(_)
            | Change::Gap { .. } => {}
        }
    }

    /// What a change has brought, or made another.
    fn comes(&mut self, batch: &Transaction, coming: Coming, applied: &Applied) {
        let Coming { kind, family, table, flags } = coming;
        let is_it = |handle: u64| Some(handle) == applied.handle;
        let Some(table) = table_of(batch.working(), family, &table) else { return };
        match kind {
            Kind::Table => {
                self.message(|to, stamp| table::fill(to, stamp, NFT_MSG_NEWTABLE, 0, table))
            }
            Kind::Chain { is_new, handle } => {
                let handle = handle.or(applied.handle);
                let Some(chain) = table.chains.iter().find(|c| Some(c.handle) == handle) else {
                    return;
                };
                let uses = if is_new { 0 } else { Uses::of(table).chain(chain) };
                self.message(|to, stamp| {
                    chain::fill(to, stamp, (NFT_MSG_NEWCHAIN, flags), table, (chain, uses));
                });
            }
            Kind::Rule(name) => {
                let name = batch.final_name(&name);
                let Some(chain) = table.chains.iter().find(|c| c.name == name) else { return };
                let Some(at) = chain.rules.iter().rposition(|rule| is_it(rule.handle)) else {
                    return;
                };
                self.message(|to, stamp| {
                    rule::fill(to, stamp, (NFT_MSG_NEWRULE, flags), table, chain, at);
                });
            }
            Kind::Set => {
                let made = table.sets.iter().rev().find(|s| is_it(s.handle));
                if let Some(made) = made {
                    self.message(|to, stamp| {
                        set::fill(to, stamp, (NFT_MSG_NEWSET, flags), table, made);
                    });
                }
            }
            Kind::Elements(set, elements) => {
                let set = batch.final_name(&set);
                if let Some(set) = table.sets.iter().find(|s| s.name == set) {
                    self.elements((NFT_MSG_NEWSETELEM, flags), table, set, &elements);
                }
            }
            Kind::Object { is_new } => {
                let Some(made) = table.objects.iter().find(|o| is_it(o.handle)) else { return };
                let uses = if is_new { 0 } else { Uses::of(table).object(made) };
                self.message(|to, stamp| {
                    object::fill(to, stamp, (NFT_MSG_NEWOBJ, flags), table, (made, uses));
                });
            }
            Kind::Flowtable => {
                let Some(made) = table.flowtables.iter().find(|f| is_it(f.handle)) else { return };
                self.message(|to, stamp| {
                    flowtable::fill(to, stamp, (NFT_MSG_NEWFLOWTABLE, 0), table, made);
                });
            }
            Kind::Nothing => {}
        }
    }

    fn elements(
        &mut self,
        kind: (u8, u16),
        table: &Table,
        set: &Set,
        elements: &[Element<ElementValue>],
    ) {
        let now = self.now;
        self.message(|to, stamp| {
            for (at, element) in elements.iter().enumerate() {
                let next = elements.get(at + 1).map(|next| &*next.key);
                let shown = (element.view(), element.value.exprs(), next);
                element::fill(to, (stamp, now), kind, table, set, shown);
            }
        });
    }
}

/// What a change is to bring.
struct Coming {
    kind: Kind,
    family: Family,
    table: Arc<str>,
    /// `NLM_F_*` of the notification.
    flags: u16,
}

enum Kind {
    Table,
    /// With its handle, if it is not the change that gives it one.
    Chain {
        is_new: bool,
        handle: Option<u64>,
    },
    /// In the chain of this name.
    Rule(Arc<str>),
    Set,
    /// New ones in the set of this name.
    Elements(Arc<str>, Vec<Element<ElementValue>>),
    Object {
        is_new: bool,
    },
    Flowtable,
    Nothing,
}

impl Coming {
    fn of(working: &Generation, change: &Change) -> Coming {
        let created = |mode: &Mode| match mode {
            Mode::Add => flags::CREATE,
            Mode::Create => flags::CREATE | flags::EXCL,
        };
        let (kind, family, table, flags) = match change {
            Change::AddTable { family, name, flags, .. } => {
                let there = table_of(working, *family, name);
                let is_same = there.is_some_and(|t| t.flags | u32::from(t.dormant) == *flags);
                (if is_same { Kind::Nothing } else { Kind::Table }, family, name, 0)
            }
            Change::AddChain { family, table, mode, chain } => {
                let there = table_of(working, *family, table)
                    .is_some_and(|t| t.chains.iter().any(|c| c.name == chain.name));
                (Kind::Chain { is_new: !there, handle: None }, family, table, created(mode))
            }
            Change::RenameChain { family, table, handle, .. } => {
                (Kind::Chain { is_new: false, handle: Some(*handle) }, family, table, 0)
            }
            Change::AddRule { family, table, chain, position, .. } => {
                let flags = match position {
                    Position::After(_) | Position::Replace(_) => flags::CREATE | flags::APPEND,
                    Position::Before(_) => flags::CREATE,
                };
                (Kind::Rule(chain.clone()), family, table, flags)
            }
            Change::AddSet { family, table, mode, set } => {
                let there = set_of(working, *family, table, &set.name).is_some();
                let kind = if there { Kind::Nothing } else { Kind::Set };
                (kind, family, table, created(mode))
            }
            Change::AddElements { family, table, set, elements, .. } => {
                let mut elements: Vec<_> = elements.clone().into_elements().collect();
                if let Some((_, set)) = set_of(working, *family, table, set) {
                    let there = set.elements();
                    elements.retain(|new| {
                        let old = there.get(&new.key, 0).filter(|_| !new.key.is_empty());
                        old.is_none_or(|old| {
                            (old.key, old.key_end) != (&*new.key, new.key_end.as_deref())
                        })
                    });
                }
                (Kind::Elements(set.clone(), elements), family, table, flags::CREATE)
            }
            Change::AddObject { family, table, mode, name, value, .. } => {
                let is_it = |o: &Arc<penstock_ruleset::model::Object>| {
                    o.name == *name && o.value.kind() == value.kind()
                };
                let table_there = table_of(working, *family, table);
                let there = table_there.and_then(|t| t.objects.iter().find(|o| is_it(o)));
                let kind = match object::is_told(there.map(|object| &object.value), value) {
                    true => Kind::Object { is_new: there.is_none() },
                    false => Kind::Nothing,
                };
                (kind, family, table, created(mode))
            }
            Change::AddFlowtable { family, table, .. } => (Kind::Flowtable, family, table, 0),
            // The kernel does not tell of tables that go with their owner.
            Change::DeleteTable { .. }
            | Change::Sender { .. }
            | Change::Closed { .. }
            | Change::Global(_)
            | Change::Gap { .. } => {
                return Coming::nothing();
            }
            Change::DeleteChain { family, table, .. }
            | Change::DeleteRule { family, table, .. }
            | Change::DeleteSet { family, table, .. }
            | Change::DeleteElements { family, table, .. }
            | Change::DeleteObject { family, table, .. }
            | Change::DeleteFlowtable { family, table, .. } => (Kind::Nothing, family, table, 0),
        };
        Coming { kind, family: *family, table: table.clone(), flags }
    }

    fn nothing() -> Coming {
        Coming { kind: Kind::Nothing, family: Family::Ip, table: "".into(), flags: 0 }
    }
}

/// Whether a key names something.
fn is(key: &Key, own: u64, own_name: &str) -> bool {
    match key {
        Key::Handle(handle) => *handle == own,
        Key::Name(name) => **name == *own_name,
    }
}

fn rule_goes(to: &mut Writer, stamp: Stamp, table: &Table, chain: &Chain, handle: u64) {
    if let Some(at) = chain.rules.iter().position(|rule| rule.handle == handle) {
        rule::goes(to, stamp, table, chain, at);
    }
}
