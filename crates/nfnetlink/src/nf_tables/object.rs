// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*OBJ`.

use penstock_program::expr::{Connlimit, Counter, Limit, ObjectType, Quota, Synproxy};
use penstock_ruleset::change::{Key, Mode};
use penstock_ruleset::model::{Family, Object, ObjectValue, UserData};
use penstock_ruleset::reset::{Reset, What};
use penstock_ruleset::{Blame, Change, Errno, Generation, Table};

use super::answer::{Dump, Stamp};
use super::batch::{Batch, name_of};
use super::find::{own_table, table_named};
use super::get::Get;
use super::uses::Uses;
use super::{connection_object, tunnel};
use crate::expression::{Codec, Ids, Numbered};
use crate::message::{Attribute, Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `nft_obj_policy`
pub const POLICY: Policy = &[
    (NFTA_OBJ_TABLE, Check::String(NAME_MAX)),
    (NFTA_OBJ_NAME, Check::String(NAME_MAX)),
    (NFTA_OBJ_TYPE, Check::U32),
    (NFTA_OBJ_DATA, Check::Nested),
    (NFTA_OBJ_HANDLE, Check::U64),
    (NFTA_OBJ_USERDATA, Check::Binary(USERDATA_MAX)),
];

const SECMARK_POLICY: Policy = &[(NFTA_SECMARK_CTX, Check::String(256))];

fn write_value(to: &mut Writer, value: &ObjectValue) {
    match value {
        ObjectValue::Counter(counter) => counter.write(to),
        ObjectValue::Quota(quota) => quota.write(to),
        ObjectValue::Limit(limit) => limit.write(to),
        ObjectValue::Connlimit(limit) => limit.write(to),
        ObjectValue::Synproxy(synproxy) => synproxy.write(to),
        ObjectValue::SecMark(context) => to.string(NFTA_SECMARK_CTX, context),
        ObjectValue::Tunnel(tunnel) => tunnel::write(to, tunnel),
        ObjectValue::CtHelper { .. }
        | ObjectValue::CtTimeout { .. }
        | ObjectValue::CtExpect { .. } => connection_object::write(to, value),
    }
}

fn read_value(
    kind: ObjectType,
    data: Attribute<'_>,
    family: Family,
) -> Result<ObjectValue, Failure> {
    fn stateful<T: Codec>(data: Attribute<'_>) -> Result<T, Failure> {
        T::read(&data.attributes(T::POLICY)?, &Ids::default())
    }
    Ok(match kind {
        ObjectType::Counter => ObjectValue::Counter(stateful::<Counter>(data)?),
        ObjectType::Quota => ObjectValue::Quota(stateful::<Quota>(data)?),
        ObjectType::Limit => ObjectValue::Limit(stateful::<Limit>(data)?),
        ObjectType::Synproxy => ObjectValue::Synproxy(stateful::<Synproxy>(data)?),
        ObjectType::SecMark => {
            let context = data.attributes(SECMARK_POLICY)?.need(NFTA_SECMARK_CTX)?;
            ObjectValue::SecMark(name_of(context)?)
        }
        ObjectType::Tunnel => ObjectValue::Tunnel(Box::new(tunnel::read(data)?)),
        ObjectType::CtHelper => connection_object::read_helper(data, family)?,
        ObjectType::CtTimeout => connection_object::read_timeout(data, family)?,
        ObjectType::CtExpect => connection_object::read_expectation(data, family)?,
        ObjectType::Connlimit => ObjectValue::Connlimit(stateful::<Connlimit>(data)?),
    })
}

fn attributes(to: &mut Writer, number: u8, table: &Table, object: &Object, seen: (u32, u64)) {
    let (uses, now) = seen;
    to.string(NFTA_OBJ_TABLE, &table.name);
    to.string(NFTA_OBJ_NAME, &object.name);
    to.be32(NFTA_OBJ_TYPE, object.value.kind().number());
    to.be64(NFTA_OBJ_HANDLE, object.handle);
    if number == NFT_MSG_DELOBJ {
        return;
    }
    to.be32(NFTA_OBJ_USE, uses);
    to.nest(NFTA_OBJ_DATA, |to| write_value(to, &object.snapshot(now)));
    if !object.userdata.is_empty() {
        to.attribute(NFTA_OBJ_USERDATA, &object.userdata);
    }
}

/// What a program sends to make an object with its values at a time in nanoseconds.
pub fn write_new(to: &mut Writer, table: &Table, object: &Object, now: u64) {
    to.string(NFTA_OBJ_TABLE, &table.name);
    to.string(NFTA_OBJ_NAME, &object.name);
    to.be32(NFTA_OBJ_TYPE, object.value.kind().number());
    let mut value = object.snapshot(now);
    if let ObjectValue::Quota(quota) = &mut value {
        // The kernel finds that out itself, and takes it from nobody.
        quota.depleted = false;
    }
    to.nest(NFTA_OBJ_DATA, |to| write_value(to, &value));
    if !object.userdata.is_empty() {
        to.attribute(NFTA_OBJ_USERDATA, &object.userdata);
    }
}

/// `nf_tables_fill_obj_info()`. What is gone has name, type and handle only.
pub fn fill(
    to: &mut Writer,
    stamp: Stamp,
    (number, flags): (u8, u16),
    table: &Table,
    (object, uses): (&Object, u32),
) {
    stamp.message(to, number, flags, Some(table.family), |to| {
        attributes(to, number, table, object, (uses, 0));
    });
}

/// Tells that a quota is used up, at a time in nanoseconds (`nft_quota_obj_eval()`).
pub fn tell_used_up(
    to: &mut Writer,
    generation: &Generation,
    (table, object): (&Table, &Object),
    now: u64,
) {
    let stamp = Stamp { sequence: 0, port: 0, generation: generation.id };
    let seen = (Uses::of(table).object(object), now);
    stamp.message(to, NFT_MSG_NEWOBJ, 0, Some(table.family), |to| {
        attributes(to, NFT_MSG_NEWOBJ, table, object, seen);
    });
}

/// `NFT_MSG_GETOBJ` of one. `reset` sets its state to zero afterwards (`NFT_MSG_GETOBJ_RESET`).
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    reset: bool,
) -> Result<(), Failure> {
    let name = given.need(NFTA_OBJ_NAME)?;
    let kind = given.need(NFTA_OBJ_TYPE)?.be32();
    let table = table_named(get.generation, message, given.get(NFTA_OBJ_TABLE))?;
    let text = name.text()?;
    let found = table
        .objects
        .iter()
        .find(|object| object.value.kind().number() == kind && *object.name == *text);
    let object = found.ok_or_else(|| name.refused(Errno::Enoent))?;
    let seen = (Uses::of(table).object(object), get.now);
    get.stamp.message(&mut get.answer, NFT_MSG_NEWOBJ, 0, Some(table.family), |to| {
        attributes(to, NFT_MSG_NEWOBJ, table, object, seen);
    });
    if reset {
        get.resets.push(Reset {
            family: Some(table.family),
            table: Some(table.name.clone()),
            what: What::Objects(object.value.kind(), Some(object.name.clone())),
        });
    }
    Ok(())
}

/// `NFT_MSG_GETOBJ` of all, of a table, or of a type.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    given: &Attributes<'_>,
    dump: &mut Dump,
    now: u64,
) -> Result<(), Failure> {
    let wanted = given.get(NFTA_OBJ_TABLE).map(|name| name.text()).transpose()?;
    let kind = given.be32(NFTA_OBJ_TYPE).filter(|kind| *kind != 0);
    let tables = super::find::tables(generation, message);
    for table in tables.filter(|table| wanted.is_none_or(|name| *table.name == *name)) {
        if table.objects.is_empty() {
            continue;
        }
        let uses = Uses::of(table);
        let wanted = |object: &Object| kind.is_none_or(|k| k == object.value.kind().number());
        for object in table.objects.iter().filter(|object| wanted(object)) {
            dump.message(NFT_MSG_NEWOBJ, flags::APPEND, table.family, |to| {
                attributes(to, NFT_MSG_NEWOBJ, table, object, (uses.object(object), now));
            });
        }
    }
    Ok(())
}

/// What a dump with `NFT_MSG_GETOBJ_RESET` sets to zero.
///
/// # Errors
/// `EINVAL` for a name that is no UTF-8.
pub fn resets(message: &Message<'_>, given: &Attributes<'_>) -> Result<Vec<Reset>, Failure> {
    let table = given.get(NFTA_OBJ_TABLE).map(name_of).transpose()?;
    let kind = given.be32(NFTA_OBJ_TYPE).filter(|kind| *kind != 0);
    let kinds = [ObjectType::Counter, ObjectType::Quota];
    let kinds = kinds.into_iter().filter(|k| kind.is_none_or(|kind| kind == k.number()));
    let family = super::find::family_of(message);
    let reset = |kind| Reset { family, table: table.clone(), what: What::Objects(kind, None) };
    Ok(kinds.map(reset).collect())
}

/// Whether those who listen are told of an object: of one that is there already if its kind can be
/// updated (`nft_object_ops::update`), and of a limit that gets another rate.
pub fn is_told(there: Option<&ObjectValue>, new: &ObjectValue) -> bool {
    match (there, new) {
        (None, _) | (_, ObjectValue::Quota(_) | ObjectValue::Synproxy(_)) => true,
        (Some(there), ObjectValue::Limit(_)) => there != new,
        _ => false,
    }
}

/// `NFT_MSG_NEWOBJ`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let (kind, name) = (given.need(NFTA_OBJ_TYPE)?, given.need(NFTA_OBJ_NAME)?);
    let data = given.need(NFTA_OBJ_DATA)?;
    let table = own_table(batch, message, given.get(NFTA_OBJ_TABLE))?;
    let is_it = |object: &Object| {
        object.value.kind().number() == kind.be32() && Ok(&*object.name) == name.text()
    };
    let there = table.objects.iter().find(|object| is_it(object));
    let is_new = there.is_none();
    if !is_new {
        if message.header.has(flags::EXCL) {
            return Err(name.refused(Errno::Eexist));
        }
        if message.header.has(flags::REPLACE) {
            return Err(Errno::Eopnotsupp.into());
        }
    }
    let userdata: UserData =
        given.get(NFTA_OBJ_USERDATA).map(|u| u.payload.into()).unwrap_or_default();
    let (family, table_handle) = (table.family, table.handle);
    let value = read_value(ObjectType::from_number(kind.be32())?, data, family)?;
    let is_told = is_told(there.map(|object| &object.value), &value);
    let change = Change::AddObject {
        family,
        table: table.name.clone(),
        mode: Mode::Add,
        name: name_of(name)?,
        value,
        userdata,
    };
    let applied = batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_OBJ_TABLE),
        Blame::Object => Some(name),
        _ => None,
    })?;
    if !is_told {
        return Ok(());
    }
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let object =
            table.and_then(|t| t.objects.iter().find(|o| Some(o.handle) == applied.handle));
        if let (Some(table), Some(object)) = (table, object) {
            let created = message.header.flags & (flags::CREATE | flags::EXCL);
            // Nothing refers to an object that was not there.
            let uses = if is_new { 0 } else { Uses::of(table).object(object) };
            fill(to, stamp, (NFT_MSG_NEWOBJ, created), table, (object, uses));
        }
    });
    Ok(())
}

/// `NFT_MSG_DELOBJ`, `NFT_MSG_DESTROYOBJ`
pub fn delete(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    destroy: bool,
) -> Result<(), Failure> {
    let kind = given.need(NFTA_OBJ_TYPE)?;
    let (name, handle) = (given.get(NFTA_OBJ_NAME), given.get(NFTA_OBJ_HANDLE));
    let key = match handle {
        Some(handle) => Key::Handle(handle.be64()),
        None => Key::Name(name_of(given.need(NFTA_OBJ_NAME)?)?),
    };
    let table = own_table(batch, message, given.get(NFTA_OBJ_TABLE))?;
    let Ok(kind) = ObjectType::from_number(kind.be32()) else {
        // There is none of a kind that does not exist.
        let missing = Failure::from(Errno::Enoent);
        let blamed = handle.or(name);
        return match destroy {
            true => Ok(()),
            false => Err(blamed.map_or(missing.clone(), |blamed| blamed.refused(missing))),
        };
    };
    let there = table.objects.iter().find(|object| match &key {
        Key::Handle(handle) => object.handle == *handle,
        Key::Name(name) => object.name == *name && object.value.kind() == kind,
    });
    let (gone, table_handle) = (there.map(|object| object.handle), table.handle);
    let change = Change::DeleteObject {
        family: table.family,
        table: table.name.clone(),
        kind,
        key,
        destroy,
    };
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let object = table.and_then(|t| t.objects.iter().find(|o| Some(o.handle) == gone));
        if let (Some(table), Some(object)) = (table, object) {
            fill(to, stamp, (NFT_MSG_DELOBJ, 0), table, (object, 0));
        }
    });
    batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_OBJ_TABLE),
        Blame::Object => name,
        Blame::Handle => handle,
        _ => None,
    })?;
    Ok(())
}
