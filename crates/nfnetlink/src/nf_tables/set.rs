// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*SET`.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::change::{Key, Mode, NewSet};
use penstock_ruleset::model::{MapData, Set, UserData};
use penstock_ruleset::{Blame, Change, Errno, Family, Generation, Table};
use penstock_sets::{Backend, Description, Policy as SetPolicy};

use super::answer::{Dump, Stamp};
use super::batch::{Batch, name_of};
use super::find::{own_table, set_named, table_named};
use super::get::Get;
use crate::expression::{self, Numbered};
use crate::message::{Attribute, Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `nft_set_policy`
pub const POLICY: Policy = &[
    (NFTA_SET_TABLE, Check::String(NAME_MAX)),
    (NFTA_SET_NAME, Check::String(NAME_MAX)),
    (NFTA_SET_FLAGS, Check::U32),
    (NFTA_SET_KEY_TYPE, Check::U32),
    (NFTA_SET_KEY_LEN, Check::U32),
    (NFTA_SET_DATA_TYPE, Check::U32),
    (NFTA_SET_DATA_LEN, Check::U32),
    (NFTA_SET_POLICY, Check::U32),
    (NFTA_SET_DESC, Check::Nested),
    (NFTA_SET_ID, Check::U32),
    (NFTA_SET_TIMEOUT, Check::U64),
    (NFTA_SET_GC_INTERVAL, Check::U32),
    (NFTA_SET_USERDATA, Check::Binary(USERDATA_MAX)),
    (NFTA_SET_OBJ_TYPE, Check::U32),
    (NFTA_SET_HANDLE, Check::U64),
    (NFTA_SET_EXPR, Check::Nested),
    (NFTA_SET_EXPRESSIONS, Check::Nested),
];

/// `nft_set_desc_policy`
const DESC_POLICY: Policy =
    &[(NFTA_SET_DESC_SIZE, Check::U32), (NFTA_SET_DESC_CONCAT, Check::Nested)];
/// `nft_concat_policy`
const FIELD_POLICY: Policy = &[(NFTA_SET_FIELD_LEN, Check::U32)];

/// `NFT_SET_*`
mod set_flags {
    pub const ANONYMOUS: u32 = 1;
    pub const CONSTANT: u32 = 2;
    pub const INTERVAL: u32 = 4;
    pub const MAP: u32 = 8;
    pub const TIMEOUT: u32 = 0x10;
    pub const EVAL: u32 = 0x20;
    pub const OBJECT: u32 = 0x40;
    pub const CONCAT: u32 = 0x80;
    pub const EXPR: u32 = 0x100;
    pub const ALL: u32 = 0x1ff;
}

/// `NFT_DATA_VERDICT`
const DATA_VERDICT: u32 = 0xffff_ff00;
/// `NFT_DATA_RESERVED_MASK`
const DATA_RESERVED: u32 = 0xffff_ff00;
/// Longest key or data in bytes (`NFT_DATA_VALUE_MAXLEN`).
const VALUE_MAX: u32 = 64;
/// `NFT_SET_POL_MEMORY`
const MEMORY: u32 = 1;
/// `NFT_SET_EXPR_MAX`
const STATEMENTS_MAX: usize = 2;
/// Most fields of a concatenation (`NFT_REG32_COUNT`).
const FIELDS_MAX: usize = 16;

fn flags_of(set: &Set) -> u32 {
    use set_flags::*;
    let of = |is, flag| if is { flag } else { 0 };
    let description = &set.description;
    let map = match set.data {
        None => 0,
        Some(MapData::Object(_)) => OBJECT,
        Some(MapData::Value { .. } | MapData::Verdict) => MAP,
    };
    of(set.anonymous, ANONYMOUS)
        | of(description.constant, CONSTANT)
        | of(description.interval, INTERVAL)
        | map
        | of(description.timeout, TIMEOUT)
        | of(description.dynamic, EVAL)
        | of(description.interval && description.fields.len() > 1, CONCAT)
        | of(set.exprs.len() > 1, EXPR)
}

/// The kernel's name of what holds the elements.
fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::HashFast => "nft_set_hash_fast_type",
        Backend::Hash => "nft_set_hash_type",
        Backend::ResizableHash => "nft_set_rhash_type",
        Backend::Bitmap => "nft_set_bitmap_type",
        Backend::Intervals => "nft_set_rbtree_type",
        Backend::ConcatenatedRanges => "nft_set_pipapo_type",
    }
}

fn attributes(to: &mut Writer, number: u8, table: &Table, set: &Set) {
    to.string(NFTA_SET_TABLE, &table.name);
    to.string(NFTA_SET_NAME, &set.name);
    to.be64(NFTA_SET_HANDLE, set.handle);
    if number == NFT_MSG_DELSET {
        return;
    }
    describe(to, set, set.description.fields.len() > 1);
    to.string(NFTA_SET_TYPE, backend_name(set.backend()));
    to.be32(NFTA_SET_COUNT, super::element::count(set));
    write_statements(to, set);
}

/// What a program sends to make a set. `id` is its number in the batch.
pub fn write_new(to: &mut Writer, table: &Table, set: &Set, id: u32) {
    to.string(NFTA_SET_TABLE, &table.name);
    to.string(NFTA_SET_NAME, &set.name);
    to.be32(NFTA_SET_ID, id);
    // Only those of ranges say their fields in requests (`nf_tables_newset()`).
    describe(to, set, flags_of(set) & set_flags::CONCAT != 0);
    write_statements(to, set);
}

/// What a set is, but for its statements.
fn describe(to: &mut Writer, set: &Set, with_fields: bool) {
    let flags = flags_of(set);
    if flags != 0 {
        to.be32(NFTA_SET_FLAGS, flags);
    }
    to.be32(NFTA_SET_KEY_TYPE, set.key_type);
    to.be32(NFTA_SET_KEY_LEN, set.description.key_len as u32);
    match set.data {
        None => {}
        Some(MapData::Value { len }) => {
            to.be32(NFTA_SET_DATA_TYPE, set.data_type);
            to.be32(NFTA_SET_DATA_LEN, len);
        }
        Some(MapData::Verdict) => {
            to.be32(NFTA_SET_DATA_TYPE, DATA_VERDICT);
            // `sizeof(struct nft_verdict)`
            to.be32(NFTA_SET_DATA_LEN, 16);
        }
        Some(MapData::Object(kind)) => to.be32(NFTA_SET_OBJ_TYPE, kind.number()),
    }
    if set.timeout != 0 {
        to.be64(NFTA_SET_TIMEOUT, set.timeout);
    }
    if set.gc_interval != 0 {
        to.be32(NFTA_SET_GC_INTERVAL, set.gc_interval);
    }
    if set.description.policy == SetPolicy::Memory {
        to.be32(NFTA_SET_POLICY, MEMORY);
    }
    if !set.userdata.is_empty() {
        to.attribute(NFTA_SET_USERDATA, &set.userdata);
    }
    to.nest(NFTA_SET_DESC, |to| {
        if let Some(size) = set.description.size.filter(|size| *size != 0) {
            to.be32(NFTA_SET_DESC_SIZE, size);
        }
        if with_fields {
            to.nest(NFTA_SET_DESC_CONCAT, |to| {
                for len in &set.description.fields {
                    to.nest(NFTA_LIST_ELEM, |to| to.be32(NFTA_SET_FIELD_LEN, (*len).into()));
                }
            });
        }
    });
}

fn write_statements(to: &mut Writer, set: &Set) {
    match set.exprs.as_slice() {
        [] => {}
        [expr] => to.nest(NFTA_SET_EXPR, |to| expression::write(expr, to)),
        exprs => to.nest(NFTA_SET_EXPRESSIONS, |to| expression::write_list(exprs, to)),
    }
}

/// `nf_tables_fill_set()`. What is gone has name and handle only.
pub fn fill(to: &mut Writer, stamp: Stamp, (number, flags): (u8, u16), table: &Table, set: &Set) {
    stamp.message(to, number, flags, Some(table.family), |to| attributes(to, number, table, set));
}

/// `NFT_MSG_GETSET` of one.
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let table = table_named(get.generation, message, given.get(NFTA_SET_TABLE))?;
    if message.family() == 0 {
        return Err(Errno::Eafnosupport.into());
    }
    let set = set_named(table, given.get(NFTA_SET_NAME))?;
    let stamp = get.stamp;
    fill(&mut get.answer, stamp, (NFT_MSG_NEWSET, 0), table, set);
    Ok(())
}

/// `NFT_MSG_GETSET` of all, or of a table.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    given: &Attributes<'_>,
    dump: &mut Dump,
) -> Result<(), Failure> {
    let wanted = match given.get(NFTA_SET_TABLE) {
        Some(name) => Some(table_named(generation, message, Some(name))?.handle),
        None => None,
    };
    let tables = super::find::tables(generation, message);
    for table in tables.filter(|table| wanted.is_none_or(|handle| table.handle == handle)) {
        for set in &table.sets {
            dump.message(NFT_MSG_NEWSET, 0, table.family, |to| {
                attributes(to, NFT_MSG_NEWSET, table, set);
            });
        }
    }
    Ok(())
}

/// Size and fields of `NFTA_SET_DESC`.
fn read_description(given: &Attributes<'_>) -> Result<(Option<u32>, Vec<u8>), Failure> {
    let Some(description) = given.get(NFTA_SET_DESC) else { return Ok((None, Vec::new())) };
    let description = description.attributes(DESC_POLICY)?;
    let size = description.be32(NFTA_SET_DESC_SIZE);
    let mut fields = Vec::new();
    for field in description.get(NFTA_SET_DESC_CONCAT).iter().flat_map(|list| list.each()) {
        if field.kind != NFTA_LIST_ELEM {
            return Err(Failure::einval());
        }
        if fields.len() == FIELDS_MAX {
            return Err(Errno::E2big.into());
        }
        let len = field.attributes(FIELD_POLICY)?.need(NFTA_SET_FIELD_LEN)?.be32();
        match u8::try_from(len) {
            Ok(len) if len > 0 && u32::from(len) <= VALUE_MAX => fields.push(len),
            _ if len == 0 => return Err(Failure::einval()),
            _ => return Err(Errno::E2big.into()),
        }
    }
    Ok((size, fields))
}

/// What a map maps to, and the number of its type.
fn read_data(given: &Attributes<'_>, flags: u32) -> Result<(Option<MapData>, u32), Failure> {
    let data = match given.be32(NFTA_SET_DATA_TYPE) {
        Some(_) if flags & set_flags::MAP == 0 => return Err(Failure::einval()),
        Some(DATA_VERDICT) => (Some(MapData::Verdict), DATA_VERDICT),
        Some(kind) if kind & DATA_RESERVED == DATA_RESERVED => return Err(Failure::einval()),
        Some(kind) => {
            let len = given.need(NFTA_SET_DATA_LEN)?.be32();
            if len == 0 || len > VALUE_MAX {
                return Err(Failure::einval());
            }
            (Some(MapData::Value { len }), kind)
        }
        None if flags & set_flags::MAP != 0 => return Err(Failure::einval()),
        None => (None, 0),
    };
    match given.get(NFTA_SET_OBJ_TYPE) {
        Some(_) if flags & set_flags::OBJECT == 0 => Err(Failure::einval()),
        Some(kind) => Ok((Some(MapData::Object(ObjectType::from_number(kind.be32())?)), 0)),
        None if flags & set_flags::OBJECT != 0 => Err(Failure::einval()),
        None => Ok(data),
    }
}

fn read_exprs(
    batch: &Batch<'_>,
    given: &Attributes<'_>,
) -> Result<Vec<penstock_program::expr::Expr>, Failure> {
    if let Some(expr) = given.get(NFTA_SET_EXPR) {
        return Ok(vec![expression::read(expr, &batch.ids)?]);
    }
    match given.get(NFTA_SET_EXPRESSIONS) {
        Some(list) => expression::read_list(list, STATEMENTS_MAX, &batch.ids),
        None => Ok(Vec::new()),
    }
}

fn read(batch: &Batch<'_>, given: &Attributes<'_>) -> Result<NewSet, Failure> {
    let name = given.need(NFTA_SET_NAME)?;
    let key_len = given.need(NFTA_SET_KEY_LEN)?.be32();
    let id = given.need(NFTA_SET_ID)?.be32();
    if key_len == 0 || key_len > VALUE_MAX {
        return Err(Failure::einval());
    }
    let flags = given.be32(NFTA_SET_FLAGS).unwrap_or(0);
    if flags & !set_flags::ALL != 0 {
        return Err(Failure::einval());
    }
    if flags & set_flags::MAP != 0 && flags & set_flags::OBJECT != 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    let (data, data_type) = read_data(given, flags)?;
    let (size, fields) = read_description(given)?;
    let has = |flag| flags & flag != 0;
    let description = Description {
        key_len: key_len as usize,
        fields,
        interval: has(set_flags::INTERVAL),
        map: data.is_some(),
        timeout: has(set_flags::TIMEOUT),
        dynamic: has(set_flags::EVAL),
        constant: has(set_flags::CONSTANT),
        size,
        policy: match given.be32(NFTA_SET_POLICY) {
            Some(MEMORY) => SetPolicy::Memory,
            _ => SetPolicy::Performance,
        },
    };
    let userdata: UserData =
        given.get(NFTA_SET_USERDATA).map(|u| u.payload.into()).unwrap_or_default();
    Ok(NewSet {
        name: name_of(name)?,
        id,
        anonymous: has(set_flags::ANONYMOUS),
        key_type: given.be32(NFTA_SET_KEY_TYPE).unwrap_or(0),
        data_type,
        data,
        description,
        timeout: given.be64(NFTA_SET_TIMEOUT).unwrap_or(0),
        gc_interval: given.be32(NFTA_SET_GC_INTERVAL).unwrap_or(0),
        exprs: read_exprs(batch, given)?,
        userdata,
    })
}

/// `NFT_MSG_NEWSET`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let set = read(batch, given)?;
    let name = given.get(NFTA_SET_NAME);
    let table = own_table(batch, message, given.get(NFTA_SET_TABLE))?;
    // A name such as `__set%d` is none yet.
    let named = !set.name.contains('%');
    let there = named && table.sets.iter().any(|there| there.name == set.name);
    if there && message.header.has(flags::EXCL) {
        let failure = Failure::from(Errno::Eexist);
        return Err(name.map_or(failure.clone(), |name| name.refused(failure)));
    }
    if there && message.header.has(flags::REPLACE) {
        return Err(Errno::Eopnotsupp.into());
    }
    if !there && !message.header.has(flags::CREATE) {
        return Err(Errno::Enoent.into());
    }
    let (family, table_handle, id) = (table.family, table.handle, set.id);
    let set_name = set.name.clone();
    let change = Change::AddSet { family, table: table.name.clone(), mode: Mode::Add, set };
    let applied = batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_SET_TABLE),
        Blame::Set => name,
        _ => None,
    })?;
    batch.ids.sets.insert(id, applied.name.unwrap_or(set_name));
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let set =
            table.and_then(|t| t.sets.iter().rev().find(|s| Some(s.handle) == applied.handle));
        if let (Some(table), Some(set)) = (table, set) {
            let created = message.header.flags & (flags::CREATE | flags::EXCL);
            fill(to, stamp, (NFT_MSG_NEWSET, created), table, set);
        }
    });
    Ok(())
}

/// `NFT_MSG_DELSET`, `NFT_MSG_DESTROYSET`
pub fn delete(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    if message.family() == 0 {
        return Err(Errno::Eafnosupport.into());
    }
    let table = own_table(batch, message, given.get(NFTA_SET_TABLE))?;
    let (name, handle) = (given.get(NFTA_SET_NAME), given.get(NFTA_SET_HANDLE));
    let key = match handle {
        Some(handle) => Key::Handle(handle.be64()),
        None => Key::Name(name_of(given.need(NFTA_SET_NAME)?)?),
    };
    let there: Option<&Arc<Set>> = table.sets.iter().find(|set| match &key {
        Key::Handle(handle) => set.handle == *handle,
        Key::Name(name) => set.name == *name,
    });
    if let Some(set) = there
        && message.header.has(flags::NONREC)
        && !set.elements().is_empty()
    {
        let blamed: Option<Attribute<'_>> = handle.or(name);
        let failure = Failure::from(Errno::Ebusy);
        return Err(blamed.map_or(failure.clone(), |a| a.refused(failure)));
    }
    let gone = there.map(|set| set.handle);
    let (family, table_handle): (Family, u64) = (table.family, table.handle);
    let change = Change::DeleteSet { family, table: table.name.clone(), key, destroy };
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let set = table.and_then(|t| t.sets.iter().find(|s| Some(s.handle) == gone));
        if let (Some(table), Some(set)) = (table, set) {
            fill(to, stamp, (NFT_MSG_DELSET, 0), table, set);
        }
    });
    batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_SET_TABLE),
        Blame::Set => name,
        Blame::Handle => handle,
        _ => None,
    })?;
    Ok(())
}
