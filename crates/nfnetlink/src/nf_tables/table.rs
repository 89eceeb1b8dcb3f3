// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*TABLE`.

use penstock_ruleset::change::Mode;
use penstock_ruleset::model::UserData;
use penstock_ruleset::{Blame, Change, Errno, Family, Generation, Table};

use super::answer::{Dump, Stamp};
use super::batch::Batch;
use super::find::table_named;
use super::get::Get;
use super::uses::Uses;
use crate::message::{Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `NFT_TABLE_F_DORMANT`
const DORMANT: u32 = 1;

/// `nft_table_policy`
pub const POLICY: Policy = &[
    (NFTA_TABLE_NAME, Check::String(NAME_MAX)),
    (NFTA_TABLE_FLAGS, Check::U32),
    (NFTA_TABLE_HANDLE, Check::U64),
    (NFTA_TABLE_USERDATA, Check::Binary(USERDATA_MAX)),
];

/// `nf_tables_fill_table_info()`. What is gone has name and handle only.
pub fn fill(to: &mut Writer, stamp: Stamp, number: u8, flags: u16, table: &Table) {
    stamp.message(to, number, flags, Some(table.family), |to| attributes(to, number, table));
}

fn attributes(to: &mut Writer, number: u8, table: &Table) {
    to.string(NFTA_TABLE_NAME, &table.name);
    to.be32(NFTA_TABLE_USE, Uses::table(table));
    to.be64(NFTA_TABLE_HANDLE, table.handle);
    if number == NFT_MSG_DELTABLE {
        return;
    }
    to.be32(NFTA_TABLE_FLAGS, table.flags | if table.dormant { DORMANT } else { 0 });
    if table.owner != 0 {
        to.be32(NFTA_TABLE_OWNER, table.owner);
    }
    if !table.userdata.is_empty() {
        to.attribute(NFTA_TABLE_USERDATA, &table.userdata);
    }
}

/// `NFT_MSG_GETTABLE` of one.
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let name = given.get(NFTA_TABLE_NAME);
    let table = table_named(get.generation, message, name)?;
    let stamp = get.stamp;
    fill(&mut get.answer, stamp, NFT_MSG_NEWTABLE, 0, table);
    Ok(())
}

/// `NFT_MSG_GETTABLE` of all.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    _: &Attributes<'_>,
    dump: &mut Dump,
) -> Result<(), Failure> {
    for table in super::find::tables(generation, message) {
        dump.message(NFT_MSG_NEWTABLE, 0, table.family, |to| {
            attributes(to, NFT_MSG_NEWTABLE, table);
        });
    }
    Ok(())
}

/// `NFT_MSG_NEWTABLE`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let name = given.need(NFTA_TABLE_NAME)?;
    let family = Family::from_number(message.family()).ok_or(Errno::Eopnotsupp)?;
    let there = table_named(batch.working(), message, Some(name)).ok();
    if there.is_some_and(|table| !batch.may_change(table)) {
        return Err(Errno::Eperm.into());
    }
    let there = there.map(|table| table.flags | u32::from(table.dormant));
    if there.is_some() && message.header.has(flags::EXCL) {
        return Err(name.refused(Errno::Eexist));
    }
    if there.is_some() && message.header.has(flags::REPLACE) {
        return Err(Errno::Eopnotsupp.into());
    }
    let userdata: UserData =
        given.get(NFTA_TABLE_USERDATA).map(|u| u.payload.into()).unwrap_or_default();
    let new = given.be32(NFTA_TABLE_FLAGS).or(there).unwrap_or(0);
    let change = Change::AddTable {
        family,
        name: name.text()?.into(),
        mode: Mode::Add,
        flags: new,
        userdata,
    };
    let applied = batch.apply(change, |blame| match blame {
        Blame::Table => Some(name),
        _ => None,
    })?;
    // Of a table that stays as it is nobody is told.
    if there == Some(new) {
        return Ok(());
    }
    batch.tell(message, |to, stamp, working| {
        if let Some(table) = working.tables.iter().find(|t| Some(t.handle) == applied.handle) {
            fill(to, stamp, NFT_MSG_NEWTABLE, 0, table);
        }
    });
    Ok(())
}
