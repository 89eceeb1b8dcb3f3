// SPDX-License-Identifier: Apache-2.0

//! What requests name.

use std::sync::Arc;

use penstock_ruleset::model::{Chain, Set};
use penstock_ruleset::{Errno, Family, Generation, Table};

use crate::message::{Attribute, Failure, Message};

/// The family that a request is about; `None` for all, and for those that no table has.
pub fn family_of(message: &Message<'_>) -> Option<Family> {
    Family::from_number(message.family())
}

/// Tables of the family that a dump is about.
pub fn tables<'g>(
    generation: &'g Generation,
    message: &Message<'_>,
) -> impl Iterator<Item = &'g Arc<Table>> + use<'g> {
    let family = message.family();
    generation.tables.iter().filter(move |table| family == 0 || table.family as u8 == family)
}

/// The table of a name, in the family of the request (`nft_table_lookup()`).
///
/// # Errors
/// `EINVAL` without a name; `ENOENT`, which blames the name.
pub fn table_named<'g>(
    generation: &'g Generation,
    message: &Message<'_>,
    name: Option<Attribute<'_>>,
) -> Result<&'g Arc<Table>, Failure> {
    let name = name.ok_or(Failure::einval())?;
    let text = name.text()?;
    tables(generation, message)
        .find(|table| message.family() != 0 && *table.name == *text)
        .ok_or_else(|| name.refused(Errno::Enoent))
}

/// The chain of a name.
///
/// # Errors
/// `EINVAL` without a name; `ENOENT`, which blames the name.
pub fn chain_named<'t>(
    table: &'t Table,
    name: Option<Attribute<'_>>,
) -> Result<&'t Arc<Chain>, Failure> {
    let name = name.ok_or(Failure::einval())?;
    let text = name.text()?;
    table.chains.iter().find(|c| *c.name == *text).ok_or_else(|| name.refused(Errno::Enoent))
}

/// The set of a name.
///
/// # Errors
/// `EINVAL` without a name; `ENOENT`, which blames the name.
pub fn set_named<'t>(
    table: &'t Table,
    name: Option<Attribute<'_>>,
) -> Result<&'t Arc<Set>, Failure> {
    let name = name.ok_or(Failure::einval())?;
    let text = name.text()?;
    table.sets.iter().find(|s| *s.name == *text).ok_or_else(|| name.refused(Errno::Enoent))
}

/// The table of a family by its name.
pub fn table_of<'g>(working: &'g Generation, family: Family, name: &str) -> Option<&'g Arc<Table>> {
    working.tables.iter().find(|table| table.family == family && *table.name == *name)
}

/// A set by its name, with its table.
pub fn set_of<'g>(
    working: &'g Generation,
    family: Family,
    table: &str,
    name: &str,
) -> Option<(&'g Arc<Table>, &'g Arc<Set>)> {
    let table = table_of(working, family, table)?;
    Some((table, table.sets.iter().find(|set| *set.name == *name)?))
}
