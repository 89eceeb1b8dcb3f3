// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*FLOWTABLE`.

use penstock_ruleset::change::{Key, Mode, NewFlowtable};
use penstock_ruleset::model::{Flowtable, Hook};
use penstock_ruleset::{Blame, Change, Errno, Family, Generation, Table};

use super::answer::{Dump, Stamp};
use super::batch::{Batch, name_of};
use super::chain::{hook_number, hook_numbered, read_devices, write_devices};
use super::find::{own_table, table_named};
use super::get::Get;
use super::uses::Uses;
use crate::message::{Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `nft_flowtable_policy`
pub const POLICY: Policy = &[
    (NFTA_FLOWTABLE_TABLE, Check::String(NAME_MAX)),
    (NFTA_FLOWTABLE_NAME, Check::String(NAME_MAX)),
    (NFTA_FLOWTABLE_HOOK, Check::Nested),
    (NFTA_FLOWTABLE_HANDLE, Check::U64),
    (NFTA_FLOWTABLE_FLAGS, Check::U32),
];

/// `nft_flowtable_hook_policy`
const HOOK_POLICY: Policy = &[
    (NFTA_FLOWTABLE_HOOK_NUM, Check::U32),
    (NFTA_FLOWTABLE_HOOK_PRIORITY, Check::U32),
    (NFTA_FLOWTABLE_HOOK_DEVS, Check::Nested),
];

fn attributes(to: &mut Writer, number: u8, table: &Table, flowtable: &Flowtable, uses: u32) {
    to.string(NFTA_FLOWTABLE_TABLE, &table.name);
    to.string(NFTA_FLOWTABLE_NAME, &flowtable.name);
    to.be64(NFTA_FLOWTABLE_HANDLE, flowtable.handle);
    if number == NFT_MSG_DELFLOWTABLE {
        return;
    }
    to.be32(NFTA_FLOWTABLE_USE, uses);
    to.be32(NFTA_FLOWTABLE_FLAGS, flowtable.flags);
    to.nest(NFTA_FLOWTABLE_HOOK, |to| {
        // Its hooks are those of devices.
        to.be32(NFTA_FLOWTABLE_HOOK_NUM, hook_number(Family::Netdev, flowtable.hook));
        to.be32(NFTA_FLOWTABLE_HOOK_PRIORITY, flowtable.priority as u32);
        to.nest(NFTA_FLOWTABLE_HOOK_DEVS, |to| write_devices(to, &flowtable.devices));
    });
}

/// What a program sends to make a flowtable, or to add devices to one, or to take them away.
pub fn write_new(
    to: &mut Writer,
    table: &Table,
    flowtable: &Flowtable,
    devices: &[std::sync::Arc<str>],
) {
    to.string(NFTA_FLOWTABLE_TABLE, &table.name);
    to.string(NFTA_FLOWTABLE_NAME, &flowtable.name);
    to.be32(NFTA_FLOWTABLE_FLAGS, flowtable.flags);
    to.nest(NFTA_FLOWTABLE_HOOK, |to| {
        to.be32(NFTA_FLOWTABLE_HOOK_NUM, hook_number(Family::Netdev, flowtable.hook));
        to.be32(NFTA_FLOWTABLE_HOOK_PRIORITY, flowtable.priority as u32);
        to.nest(NFTA_FLOWTABLE_HOOK_DEVS, |to| write_devices(to, devices));
    });
}

/// `nf_tables_fill_flowtable_info()`. What is gone has name and handle only.
pub fn fill(
    to: &mut Writer,
    stamp: Stamp,
    (number, flags): (u8, u16),
    table: &Table,
    flowtable: &Flowtable,
) {
    stamp.message(to, number, flags, Some(table.family), |to| {
        attributes(to, number, table, flowtable, Uses::of(table).flowtable(flowtable));
    });
}

/// `NFT_MSG_GETFLOWTABLE` of one.
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let name = given.need(NFTA_FLOWTABLE_NAME)?;
    let table = table_named(get.generation, message, given.get(NFTA_FLOWTABLE_TABLE))?;
    let text = name.text()?;
    let found = table.flowtables.iter().find(|flowtable| *flowtable.name == *text);
    let flowtable = found.ok_or_else(|| name.refused(Errno::Enoent))?;
    let stamp = get.stamp;
    fill(&mut get.answer, stamp, (NFT_MSG_NEWFLOWTABLE, 0), table, flowtable);
    Ok(())
}

/// `NFT_MSG_GETFLOWTABLE` of all, or of a table.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    given: &Attributes<'_>,
    dump: &mut Dump,
) -> Result<(), Failure> {
    let wanted = given.get(NFTA_FLOWTABLE_TABLE).map(|name| name.text()).transpose()?;
    let tables = super::find::tables(generation, message);
    for table in tables.filter(|table| wanted.is_none_or(|name| *table.name == *name)) {
        let uses = Uses::of(table);
        for flowtable in &table.flowtables {
            dump.message(NFT_MSG_NEWFLOWTABLE, flags::APPEND, table.family, |to| {
                let uses = uses.flowtable(flowtable);
                attributes(to, NFT_MSG_NEWFLOWTABLE, table, flowtable, uses);
            });
        }
    }
    Ok(())
}

/// Hook, priority and devices.
type Where = (Option<(Hook, i32)>, Vec<std::sync::Arc<str>>);

fn read_hook(given: &Attributes<'_>) -> Result<Where, Failure> {
    let Some(hook) = given.get(NFTA_FLOWTABLE_HOOK) else { return Ok((None, Vec::new())) };
    let given = hook.attributes(HOOK_POLICY)?;
    let number = given.be32(NFTA_FLOWTABLE_HOOK_NUM);
    let hook = match (number, given.be32(NFTA_FLOWTABLE_HOOK_PRIORITY)) {
        (Some(number), Some(priority)) => {
            let hook = hook_numbered(Family::Netdev, number).ok_or(Errno::Eopnotsupp)?;
            Some((hook, priority as i32))
        }
        _ => None,
    };
    let devices = given.get(NFTA_FLOWTABLE_HOOK_DEVS).map(read_devices).transpose()?;
    Ok((hook, devices.unwrap_or_default()))
}

/// `NFT_MSG_NEWFLOWTABLE`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let name = given.need(NFTA_FLOWTABLE_NAME)?;
    let table = own_table(batch, message, given.get(NFTA_FLOWTABLE_TABLE))?;
    let text = name.text()?;
    let there = table.flowtables.iter().find(|flowtable| *flowtable.name == *text);
    if there.is_some() && message.header.has(flags::EXCL) {
        return Err(name.refused(Errno::Eexist));
    }
    if there.is_none() && !given.has(NFTA_FLOWTABLE_HOOK) {
        return Err(Failure::einval());
    }
    let (hook, devices) = read_hook(given)?;
    let own = given.be32(NFTA_FLOWTABLE_FLAGS);
    let flowtable = NewFlowtable {
        name: text.into(),
        hook,
        // What the kernel has no word for stays as it is.
        early: there.is_some_and(|flowtable| flowtable.early),
        devices,
        flags: own.or(there.map(|flowtable| flowtable.flags)).unwrap_or(0),
    };
    let table_handle = table.handle;
    let change = Change::AddFlowtable {
        family: table.family,
        table: table.name.clone(),
        mode: Mode::Add,
        flowtable,
    };
    let applied = batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_FLOWTABLE_TABLE),
        Blame::Flowtable => Some(name),
        _ => None,
    })?;
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let made = table
            .and_then(|table| table.flowtables.iter().find(|f| Some(f.handle) == applied.handle));
        if let (Some(table), Some(made)) = (table, made) {
            fill(to, stamp, (NFT_MSG_NEWFLOWTABLE, 0), table, made);
        }
    });
    Ok(())
}

/// `NFT_MSG_DELFLOWTABLE`, `NFT_MSG_DESTROYFLOWTABLE`
pub fn delete(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    let (name, handle) = (given.get(NFTA_FLOWTABLE_NAME), given.get(NFTA_FLOWTABLE_HANDLE));
    let key = match handle {
        Some(handle) => Key::Handle(handle.be64()),
        None => Key::Name(name_of(given.need(NFTA_FLOWTABLE_NAME)?)?),
    };
    let table = own_table(batch, message, given.get(NFTA_FLOWTABLE_TABLE))?;
    let (_, devices) = read_hook(given)?;
    let there = table.flowtables.iter().find(|flowtable| match &key {
        Key::Handle(handle) => flowtable.handle == *handle,
        Key::Name(name) => flowtable.name == *name,
    });
    let gone = there.filter(|_| devices.is_empty()).map(|flowtable| flowtable.handle);
    let table_handle = table.handle;
    let change = Change::DeleteFlowtable {
        family: table.family,
        table: table.name.clone(),
        key,
        devices,
        destroy,
    };
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let going = table.and_then(|t| t.flowtables.iter().find(|f| Some(f.handle) == gone));
        if let (Some(table), Some(going)) = (table, going) {
            fill(to, stamp, (NFT_MSG_DELFLOWTABLE, 0), table, going);
        }
    });
    batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_FLOWTABLE_TABLE),
        Blame::Flowtable => name,
        Blame::Handle => handle,
        _ => None,
    })?;
    Ok(())
}
