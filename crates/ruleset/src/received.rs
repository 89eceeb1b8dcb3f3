// SPDX-License-Identifier: Apache-2.0

//! Changes as bytes: written by the process that evaluates rule text, read by the one that applies
//! them.
//!
//! The input is untrusted. [`receive`] returns changes with sizes and names within the limits of
//! the language; the rest is what a [`Transaction`](crate::Transaction) checks of every change, no
//! matter who made it.

use std::fmt;

use penstock_program::osf::MESSAGE_LEN;
use penstock_sets::Element;

use crate::globals::{GlobalChange, NewAccount};
use crate::model::{ChainProgram, ElementData, ElementValue};
use crate::{Change, Errno};

/// Longest name of anything, in bytes (`NFT_NAME_MAXLEN`).
const NAME_MAX: usize = 256;
/// Longest path (`PATH_MAX`).
const PATH_MAX: usize = 4096;
/// Largest object of BPF programs.
const OBJECT_MAX: usize = 16 << 20;
/// Most bytes of what the language keeps with an object.
const USERDATA_MAX: usize = 64 << 10;
/// Longest constant in registers, in bytes (`NFT_DATA_VALUE_MAXLEN`).
const VALUE_MAX: usize = 64;
/// Most fields of a concatenation (`NFT_REG32_COUNT`).
const FIELDS_MAX: usize = 16;
/// Most devices of one change (`NFT_NETDEVICE_MAX`).
const DEVICES_MAX: usize = 256;
/// Most timeouts of a policy, of which no protocol has so many.
const TIMEOUTS_MAX: usize = 32;
/// Most expressions of a rule (`NFT_RULE_MAXEXPRS`).
const EXPRS_MAX: usize = 128;

/// Bytes that are no changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoChange {
    /// Number of the change, from 0.
    pub change: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for NoChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "change {}: {}", self.change, self.what)
    }
}

impl std::error::Error for NoChange {}

/// Appends a change to bytes that [`receive`] reads.
///
/// ```
/// use std::sync::Arc;
///
/// use penstock_ruleset::{Change, Family, received};
///
/// let mut bytes = Vec::new();
/// received::send(&Change::DeleteTable { family: Some(Family::Ip), key: None, destroy: false }, &mut bytes);
/// assert_eq!(received::receive(&bytes).map(|all| all.len()), Ok(1));
/// assert!(received::receive(&bytes[..1]).is_err());
/// ```
pub fn send(change: &Change, to: &mut Vec<u8>) {
    let before = to.len();
    // Writing into memory fails for nothing that is in a change.
    match postcard::to_extend(change, std::mem::take(to)) {
        Ok(bytes) => *to = bytes,
        Err(_) => to.truncate(before),
    }
}

/// The changes that such bytes hold.
///
/// # Errors
/// The bytes are no changes, or changes with sizes or names that none has.
pub fn receive(bytes: &[u8]) -> Result<Vec<Change>, NoChange> {
    let mut all = Vec::new();
    each(bytes, |change| {
        all.push(change);
        true
    })?;
    Ok(all)
}

/// Receives changes one after the other, until `take` returns `false`.
///
/// # Errors
/// Those of [`receive`]. Changes before the wrong one were taken.
pub fn each(mut bytes: &[u8], mut take: impl FnMut(Change) -> bool) -> Result<(), NoChange> {
    let mut number = 0;
    while !bytes.is_empty() {
        let wrong = |what| NoChange { change: number, what };
        let (change, rest) = postcard::take_from_bytes::<Change>(bytes)
            .map_err(|_| wrong("no such value can stand here"))?;
        is_sound(&change).map_err(wrong)?;
        bytes = rest;
        number += 1;
        if !take(change) {
            return Ok(());
        }
    }
    Ok(())
}

type Sound = Result<(), &'static str>;

fn must(holds: bool, what: &'static str) -> Sound {
    if holds { Ok(()) } else { Err(what) }
}

fn name(name: &str) -> Sound {
    must(name.len() <= NAME_MAX && !name.contains('\0'), "a name too long, or with a zero in it")
}

fn userdata(bytes: &[u8]) -> Sound {
    must(bytes.len() <= USERDATA_MAX, "too much userdata")
}

fn devices(all: &[std::sync::Arc<str>]) -> Sound {
    must(all.len() <= DEVICES_MAX, "too many devices")?;
    all.iter().try_for_each(|device| name(device))
}

fn key(of: &crate::change::Key) -> Sound {
    match of {
        crate::change::Key::Name(of) => name(of),
        crate::change::Key::Handle(_) => Ok(()),
    }
}

fn value(value: &ElementValue) -> Sound {
    match &value.data {
        Some(ElementData::Value(data)) => must(data.bytes().len() <= VALUE_MAX, "data too long")?,
        Some(ElementData::Object(object)) => name(object)?,
        Some(ElementData::Verdict(verdict)) => {
            verdict.chain().map_or(Ok(()), |chain| name(chain))?
        }
        None => {}
    }
    must(value.exprs().len() <= EXPRS_MAX, "too many statements")?;
    value.userdata().map_or(Ok(()), |bytes| userdata(bytes))
}

fn element(element: &Element<ElementValue>) -> Sound {
    let end = element.key_end.as_deref().unwrap_or_default();
    must(element.key.len() <= VALUE_MAX && end.len() <= VALUE_MAX, "a key too long")?;
    value(&element.value)
}

/// Whether a change has sizes and names that changes have.
fn is_sound(change: &Change) -> Sound {
    match change {
        Change::Sender { .. } | Change::Closed { .. } => Ok(()),
        Change::Global(
            GlobalChange::AddAccount(NewAccount { name: account, .. })
            | GlobalChange::DeleteAccount(account)
            | GlobalChange::DeleteTimeout(account),
        ) => name(account),
        Change::Gap { table, set, .. } => name(table).and_then(|()| name(set)),
        Change::Global(
            GlobalChange::AddFingerprint(finger) | GlobalChange::DeleteFingerprint(finger),
        ) => must(finger.0.len() == MESSAGE_LEN, "no fingerprint"),
        Change::Global(GlobalChange::SetHelper(new)) => must(new.is_sound(), "no helper"),
        Change::Global(GlobalChange::DeleteHelper(old)) => name(&old.name),
        Change::Global(GlobalChange::SetTimeout(new)) => {
            name(&new.name)?;
            must(new.values.len() <= TIMEOUTS_MAX, "too many timeouts")
        }
        Change::AddTable { name: table, userdata: kept, .. } => {
            name(table).and_then(|()| userdata(kept))
        }
        Change::DeleteTable { key: of, .. } => of.as_ref().map_or(Ok(()), key),
        Change::AddChain { table, chain, .. } => {
            name(table)?;
            name(&chain.name)?;
            chain.base.as_ref().map_or(Ok(()), |base| devices(&base.devices))?;
            if let Some(ChainProgram { object, section, bytes, .. }) = &chain.program {
                name(section.as_deref().unwrap_or_default())?;
                must(object.len() <= PATH_MAX && !object.contains('\0'), "a path too long")?;
                must(bytes.len() <= OBJECT_MAX, "an object too large")?;
            }
            userdata(&chain.userdata)
        }
        Change::RenameChain { table, name: chain, .. } => name(table).and_then(|()| name(chain)),
        Change::DeleteChain { table, key: of, devices: some, .. }
        | Change::DeleteFlowtable { table, key: of, devices: some, .. } => {
            name(table)?;
            key(of)?;
            devices(some)
        }
        Change::AddRule { table, chain, rule, .. } => {
            name(table)?;
            name(chain)?;
            userdata(&rule.userdata)
        }
        Change::DeleteRule { table, chain, .. } => {
            name(table)?;
            chain.as_ref().map_or(Ok(()), |chain| name(chain))
        }
        Change::AddSet { table, set, .. } => {
            name(table)?;
            name(&set.name)?;
            must(set.description.key_len <= VALUE_MAX, "a key too long")?;
            must(set.description.fields.len() <= FIELDS_MAX, "too many fields")?;
            must(set.exprs.len() <= EXPRS_MAX, "too many statements")?;
            userdata(&set.userdata)
        }
        Change::DeleteSet { table, key: of, .. } | Change::DeleteObject { table, key: of, .. } => {
            name(table).and_then(|()| key(of))
        }
        Change::AddElements { table, set, elements, .. } => {
            name(table)?;
            name(set)?;
            must(elements.is_sound(), "elements that are none")?;
            elements.values().try_for_each(|(of, _)| value(of))
        }
        Change::DeleteElements { table, set, elements, .. } => {
            name(table)?;
            name(set)?;
            elements.iter().flatten().try_for_each(element)
        }
        Change::AddObject { table, name: object, userdata: kept, .. } => {
            name(table)?;
            name(object)?;
            userdata(kept)
        }
        Change::AddFlowtable { table, flowtable, .. } => {
            name(table)?;
            name(&flowtable.name)?;
            devices(&flowtable.devices)
        }
    }
}

/// What is refused in the end, as nft says it: [`Errno::text`].
impl From<NoChange> for crate::Error {
    fn from(wrong: NoChange) -> Self {
        let detail = Some(wrong.to_string());
        crate::Error { errno: Errno::Einval, blame: crate::Blame::Whole, detail }
    }
}
