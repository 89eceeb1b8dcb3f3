// SPDX-License-Identifier: Apache-2.0

//! Deletes tables, chains and rules, with notifications: the parts of an object first, as in the
//! kernel. A notification is built before the deletion; if the change is then refused, the batch
//! ends without notifications.

use penstock_ruleset::change::Key;
use penstock_ruleset::model::Chain;
use penstock_ruleset::{Blame, Change, Errno, Generation, Table};

use super::answer::Stamp;
use super::batch::{Batch, name_of};
use super::find::{chain_named, family_of, own_table};
use super::uses::Uses;
use super::{chain, flowtable, object, rule, set, table};
use crate::message::{Attribute, Attributes, Failure, Message, Writer, flags};
use crate::uapi::nf_tables::*;

/// `NFT_MSG_DELTABLE`, `NFT_MSG_DESTROYTABLE`
pub fn table(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    let (name, handle) = (given.get(NFTA_TABLE_NAME), given.get(NFTA_TABLE_HANDLE));
    let family = family_of(message);
    let key = match (name, handle) {
        (_, Some(handle)) => Some(Key::Handle(handle.be64())),
        (Some(name), None) => Some(Key::Name(name.text()?.into())),
        (None, None) => None,
    };
    let all = message.family() == 0 || key.is_none();
    if !all && family.is_none() {
        // No table has such a family.
        let blamed = handle.or(name).filter(|_| !destroy);
        return blamed.map_or(Ok(()), |attribute| Err(attribute.refused(Errno::Enoent)));
    }
    let goes = |table: &Table| {
        family.is_none_or(|f| f == table.family)
            && (all
                || match &key {
                    Some(Key::Name(name)) => *name == table.name,
                    Some(Key::Handle(handle)) => *handle == table.handle,
                    None => true,
                })
    };
    let named = batch.working().tables.iter().filter(|t| goes(t));
    let (gone, others): (Vec<_>, Vec<_>) = named.cloned().partition(|t| batch.may_change(t));
    if let (Some(blamed), false, false) = (handle.or(name), all, others.is_empty()) {
        return Err(blamed.refused(Errno::Eperm));
    }
    if let [table] = gone.as_slice()
        && !all
        && message.header.has(flags::NONREC)
        && Uses::table(table) > 0
    {
        return Err(Errno::Ebusy.into());
    }
    for table in &gone {
        batch.tell(message, |to, stamp, _| table_goes(to, stamp, table));
    }
    drop(gone);
    let change = Change::DeleteTable { family, key: key.filter(|_| !all), destroy };
    batch.apply(change, |blame| match blame {
        Blame::Table => name,
        Blame::Handle => handle,
        _ => None,
    })?;
    Ok(())
}

/// `NFT_MSG_DELCHAIN`, `NFT_MSG_DESTROYCHAIN`
pub fn chain(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    let table = own_table(batch, message, given.get(NFTA_CHAIN_TABLE))?;
    let (name, handle) = (given.get(NFTA_CHAIN_NAME), given.get(NFTA_CHAIN_HANDLE));
    let key = match handle {
        Some(handle) => Key::Handle(handle.be64()),
        None => Key::Name(name_of(given.need(NFTA_CHAIN_NAME)?)?),
    };
    let there = table.chains.iter().find(|chain| match &key {
        Key::Handle(handle) => chain.handle == *handle,
        Key::Name(name) => chain.name == *name,
    });
    let mut devices = Vec::new();
    if let Some(hook) = given.get(NFTA_CHAIN_HOOK)
        && let Some(chain) = there
    {
        let base = chain::read_base(table.family, hook, None, name, chain.base.as_ref())?;
        devices = base.devices;
    }
    if let Some(chain) = there
        && message.header.has(flags::NONREC)
        && !chain.rules.is_empty()
    {
        return Err(Errno::Ebusy.into());
    }
    let (family, table_handle) = (table.family, table.handle);
    let gone = there.filter(|_| devices.is_empty()).map(|chain| chain.handle);
    let change = Change::DeleteChain { family, table: table.name.clone(), key, devices, destroy };
    if let Some(chain) = gone {
        chain_goes(batch, message, table_handle, chain);
    }
    batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_CHAIN_TABLE),
        Blame::Chain => name,
        Blame::Handle => handle,
        _ => None,
    })?;
    Ok(())
}

/// `NFT_MSG_DELRULE`, `NFT_MSG_DESTROYRULE`
pub fn rule(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    let table = own_table(batch, message, given.get(NFTA_RULE_TABLE))?;
    let named = given.get(NFTA_RULE_CHAIN);
    let chain = match named.map(|name| chain_named(table, Some(name))).transpose() {
        Ok(chain) => chain,
        Err(e) if destroy && e.errno == Errno::Enoent as i32 => return Ok(()),
        Err(e) => return Err(e),
    };
    let handle: Option<Attribute<'_>> = given.get(NFTA_RULE_HANDLE);
    let by_id = given.get(NFTA_RULE_ID).filter(|_| handle.is_none() && chain.is_some());
    let number = match (handle, by_id) {
        (Some(handle), _) => Some(handle.be64()),
        (None, Some(id)) => {
            let found = batch.rules.get(&id.be32()).copied();
            Some(found.ok_or_else(|| id.refused(Errno::Enoent))?)
        }
        (None, None) => None,
    };
    let number = number.filter(|_| chain.is_some());
    let change = Change::DeleteRule {
        family: table.family,
        table: table.name.clone(),
        chain: chain.map(|chain| chain.name.clone()),
        handle: number,
        destroy,
    };
    let chains: Vec<u64> = match chain {
        Some(chain) => vec![chain.handle],
        None => table.chains.iter().filter(|c| !c.anonymous).map(|c| c.handle).collect(),
    };
    let table = table.handle;
    for chain in chains {
        rules_gone(batch, message, table, chain, number);
    }
    batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_RULE_TABLE),
        Blame::Chain => named,
        Blame::Handle => handle.or(by_id),
        _ => None,
    })?;
    Ok(())
}

/// All rules of a chain.
pub fn rules_go(to: &mut Writer, stamp: Stamp, table: &Table, chain: &Chain) {
    for at in 0..chain.rules.len() {
        rule::goes(to, stamp, table, chain, at);
    }
}

/// A table with all that is in it.
pub fn table_goes(to: &mut Writer, stamp: Stamp, gone: &Table) {
    for chain in &gone.chains {
        rules_go(to, stamp, gone, chain);
    }
    for flowtable in &gone.flowtables {
        flowtable::fill(to, stamp, (NFT_MSG_DELFLOWTABLE, 0), gone, flowtable);
    }
    for set in gone.sets.iter().filter(|set| !set.anonymous) {
        set::fill(to, stamp, (NFT_MSG_DELSET, 0), gone, set);
    }
    for object in &gone.objects {
        object::fill(to, stamp, (NFT_MSG_DELOBJ, 0), gone, (object, 0));
    }
    for chain in &gone.chains {
        chain::fill(to, stamp, (NFT_MSG_DELCHAIN, 0), gone, (chain, 0));
    }
    table::fill(to, stamp, NFT_MSG_DELTABLE, 0, gone);
}

fn find(generation: &Generation, table: u64, chain: u64) -> Option<(&Table, &Chain)> {
    let table = generation.tables.iter().find(|t| t.handle == table)?;
    let chain = table.chains.iter().find(|c| c.handle == chain)?;
    Some((table, chain))
}

/// A chain with its rules. All are named by handles.
fn chain_goes(batch: &mut Batch<'_>, message: &Message<'_>, table: u64, chain: u64) {
    batch.tell(message, |to, stamp, working| {
        if let Some((table, gone)) = find(working, table, chain) {
            rules_go(to, stamp, table, gone);
            chain::fill(to, stamp, (NFT_MSG_DELCHAIN, 0), table, (gone, 0));
        }
    });
}

/// Rules of a chain, or the one with a handle.
fn rules_gone(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    table: u64,
    chain: u64,
    handle: Option<u64>,
) {
    batch.tell(message, |to, stamp, working| {
        let Some((table, chain)) = find(working, table, chain) else { return };
        let Some(handle) = handle else { return rules_go(to, stamp, table, chain) };
        if let Some(at) = chain.rules.iter().position(|rule| rule.handle == handle) {
            rule::goes(to, stamp, table, chain, at);
        }
    });
}
