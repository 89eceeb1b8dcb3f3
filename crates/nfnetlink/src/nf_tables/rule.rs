// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*RULE`.

use std::sync::Arc;

use penstock_program::expr::{Expr, Xt, XtPlace};
use penstock_program::reference::Reference;
use penstock_ruleset::change::{NewRule, Position};
use penstock_ruleset::model::{Chain, Rule, UserData};
use penstock_ruleset::reset::{Reset, What};
use penstock_ruleset::{Blame, Change, Errno, Family, Generation, Table};

use super::answer::{Dump, Stamp};
use super::batch::Batch;
use super::find::{chain_named, own_table, table_named};
use super::get::Get;
use super::set;
use crate::expression;
use crate::message::{Attribute, Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `nft_rule_policy`
pub const POLICY: Policy = &[
    (NFTA_RULE_TABLE, Check::String(NAME_MAX)),
    (NFTA_RULE_CHAIN, Check::String(NAME_MAX)),
    (NFTA_RULE_HANDLE, Check::U64),
    (NFTA_RULE_EXPRESSIONS, Check::Nested),
    (NFTA_RULE_COMPAT, Check::Nested),
    (NFTA_RULE_POSITION, Check::U64),
    (NFTA_RULE_USERDATA, Check::Binary(USERDATA_MAX)),
    (NFTA_RULE_ID, Check::U32),
    (NFTA_RULE_POSITION_ID, Check::U32),
    (NFTA_RULE_CHAIN_ID, Check::U32),
];

/// `NFT_RULE_MAXEXPRS`
const EXPRS_MAX: usize = 128;

/// The rule before one.
fn before(chain: &Chain, at: usize) -> Option<u64> {
    at.checked_sub(1).and_then(|at| chain.rules.get(at)).map(|rule| rule.handle)
}

fn attributes(
    to: &mut Writer,
    table: &Table,
    chain: &Chain,
    (rule, before): (&Rule, Option<u64>),
    exprs: &[Expr],
) {
    to.string(NFTA_RULE_TABLE, &table.name);
    to.string(NFTA_RULE_CHAIN, &chain.name);
    to.be64(NFTA_RULE_HANDLE, rule.handle);
    if let Some(before) = before {
        to.be64(NFTA_RULE_POSITION, before);
    }
    to.nest(NFTA_RULE_EXPRESSIONS, |to| expression::write_list(exprs, to));
    if !rule.userdata.is_empty() {
        to.attribute(NFTA_RULE_USERDATA, &rule.userdata);
    }
}

/// `nf_tables_fill_rule_info()` of a rule by its place, for those who listen.
pub fn fill(
    to: &mut Writer,
    stamp: Stamp,
    (number, flags): (u8, u16),
    table: &Table,
    chain: &Chain,
    at: usize,
) {
    stamp.message(to, number, flags, Some(table.family), |to| {
        let Some(rule) = chain.rules.get(at) else { return };
        // Told of a new rule in between only (`nf_tables_rule_notify()`).
        let before =
            before(chain, at).filter(|_| number == NFT_MSG_NEWRULE && at + 1 < chain.rules.len());
        attributes(to, table, chain, (rule, before), &rule.snapshot(0));
    });
}

/// A rule by its place, and then the sets without a name that belong to it
/// (`nf_tables_unbind_set()`).
pub fn goes(to: &mut Writer, stamp: Stamp, table: &Table, chain: &Chain, at: usize) {
    fill(to, stamp, (NFT_MSG_DELRULE, 0), table, chain, at);
    let Some(rule) = chain.rules.get(at) else { return };
    let mut own = |reference: Reference<'_>| {
        let Reference::Set(name) = reference else { return };
        let own = table.sets.iter().find(|set| set.anonymous && set.name == *name);
        if let Some(own) = own {
            set::fill(to, stamp, (NFT_MSG_DELSET, 0), table, own);
        }
    };
    rule.exprs.iter().for_each(|expr| expr.references(&mut own));
}

/// `NFT_MSG_GETRULE` of one. `reset` sets its state to zero afterwards (`NFT_MSG_GETRULE_RESET`).
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    reset: bool,
) -> Result<(), Failure> {
    let table = table_named(get.generation, message, given.get(NFTA_RULE_TABLE))?;
    let chain = chain_named(table, given.get(NFTA_RULE_CHAIN))?;
    let handle = given.need(NFTA_RULE_HANDLE)?;
    let number = handle.be64();
    let at = chain.rules.iter().position(|rule| rule.handle == number);
    let at = at.ok_or_else(|| handle.refused(Errno::Enoent))?;
    let Some(rule) = chain.rules.get(at) else { return Err(Errno::Enoent.into()) };
    let exprs = rule.snapshot(get.now);
    let family = Some(table.family);
    get.stamp.message(&mut get.answer, NFT_MSG_NEWRULE, 0, family, |to| {
        attributes(to, table, chain, (rule, before(chain, at)), &exprs);
    });
    if reset {
        get.resets.push(Reset {
            family,
            table: Some(table.name.clone()),
            what: What::Rules(Some(chain.name.clone()), Some(number)),
        });
    }
    Ok(())
}

/// `NFT_MSG_GETRULE` of all, of a table, or of a chain.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    given: &Attributes<'_>,
    dump: &mut Dump,
    now: u64,
) -> Result<(), Failure> {
    let text = |kind| given.get(kind).map(|name| name.text()).transpose();
    let (wanted_table, wanted_chain) = (text(NFTA_RULE_TABLE)?, text(NFTA_RULE_CHAIN)?);
    for table in super::find::tables(generation, message) {
        if wanted_table.is_some_and(|name| *table.name != *name) {
            continue;
        }
        // A chain counts only with its table.
        let wanted_chain = wanted_chain.filter(|_| wanted_table.is_some());
        let chains = table.chains.iter().filter(|c| wanted_chain.is_none_or(|n| *c.name == *n));
        for chain in chains {
            for (at, rule) in chain.rules.iter().enumerate() {
                let exprs;
                let exprs = match rule.states.as_slice() {
                    [] => &rule.exprs,
                    _ => {
                        exprs = rule.snapshot(now);
                        &exprs
                    }
                };
                dump.message(NFT_MSG_NEWRULE, flags::APPEND, table.family, |to| {
                    attributes(to, table, chain, (rule, before(chain, at)), exprs);
                });
            }
        }
    }
    Ok(())
}

/// What a dump with `NFT_MSG_GETRULE_RESET` sets to zero.
///
/// # Errors
/// `EINVAL` for names that are no UTF-8.
pub fn resets(message: &Message<'_>, given: &Attributes<'_>) -> Result<Reset, Failure> {
    let text = |kind| given.get(kind).map(|name| name.text()).transpose();
    let table = text(NFTA_RULE_TABLE)?;
    let chain = text(NFTA_RULE_CHAIN)?.filter(|_| table.is_some());
    Ok(Reset {
        family: super::find::family_of(message),
        table: table.map(Into::into),
        what: What::Rules(chain.map(Into::into), None),
    })
}

/// The chain that a request names, by name or by the batch's number.
fn chain_of<'t>(
    batch: &Batch<'_>,
    table: &'t Table,
    given: &Attributes<'_>,
) -> Result<&'t Arc<Chain>, Failure> {
    if let Some(name) = given.get(NFTA_RULE_CHAIN) {
        return chain_named(table, Some(name));
    }
    let id = given.need(NFTA_RULE_CHAIN_ID)?;
    let name = batch.ids.chains.get(&id.be32());
    let found = name.and_then(|name| table.chains.iter().rev().find(|c| c.name == *name));
    found.ok_or_else(|| id.refused(Errno::Enoent))
}

fn position(
    batch: &Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    chain: &Chain,
) -> Result<Position, Failure> {
    let header = &message.header;
    if let Some(handle) = given.get(NFTA_RULE_HANDLE) {
        let number = handle.be64();
        if !chain.rules.iter().any(|rule| rule.handle == number) {
            return Err(handle.refused(Errno::Enoent));
        }
        if header.has(flags::EXCL) {
            return Err(handle.refused(Errno::Eexist));
        }
        return match header.has(flags::REPLACE) {
            true => Ok(Position::Replace(number)),
            false => Err(Errno::Eopnotsupp.into()),
        };
    }
    if !header.has(flags::CREATE) || header.has(flags::REPLACE) {
        return Err(Failure::einval());
    }
    let next_to = match (given.get(NFTA_RULE_POSITION), given.get(NFTA_RULE_POSITION_ID)) {
        (Some(position), _) => Some(position.be64()),
        (None, Some(id)) => {
            let handle = batch.rules.get(&id.be32()).copied();
            Some(handle.ok_or_else(|| id.refused(Errno::Enoent))?)
        }
        (None, None) => None,
    };
    Ok(match header.has(flags::APPEND) {
        true => Position::After(next_to),
        false => Position::Before(next_to),
    })
}

/// `nft_rule_compat_policy`
const COMPAT_POLICY: Policy =
    &[(NFTA_RULE_COMPAT_PROTO, Check::U32), (NFTA_RULE_COMPAT_FLAGS, Check::U32)];

/// `NFTA_RULE_COMPAT`: the protocol that a rule asks for, and whether that is inverted
/// (`nft_parse_compat()`).
fn protocol(given: &Attributes<'_>, family: Family) -> Result<Option<(u16, bool)>, Failure> {
    const INVERTED: u32 = 1 << 1;
    let Some(compat) = given.get(NFTA_RULE_COMPAT) else { return Ok(None) };
    let compat = compat.attributes(COMPAT_POLICY)?;
    let number = compat.need(NFTA_RULE_COMPAT_PROTO)?.be32();
    let flags = compat.need(NFTA_RULE_COMPAT_FLAGS)?.be32();
    if flags & !INVERTED != 0 {
        return Err(Failure::einval());
    }
    let number = number as u16;
    // The kernel takes that of a bridge for one in network order.
    let number = if family == Family::Bridge { u16::from_be(number) } else { number };
    Ok((number != 0).then_some((number, flags & INVERTED != 0)))
}

/// Checks extensions of x_tables where they are to stand.
fn check_extensions(
    batch: &Batch<'_>,
    exprs: &[Expr],
    (table, chain): (&Table, &Chain),
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let globals = &batch.working().globals;
    for (i, expr) in exprs.iter().enumerate() {
        let Expr::Xt(extension) = expr else { continue };
        let place = XtPlace {
            family: table.family,
            table: &table.name,
            base: chain.base.as_ref().map(|base| (base.kind, base.hook)),
            protocol: protocol(given, table.family)?,
        };
        let l4 = place.protocol.filter(|(_, inverted)| !inverted).map(|(number, _)| number as u8);
        let mut named = extension.named();
        let mut check_named = || named.try_for_each(|one| globals.check(one, table.family, l4));
        let checked = extension.check(&place).and_then(|()| check_named());
        checked.and_then(|()| check_rates(batch, extension)).map_err(|errno| {
            let list = given.get(NFTA_RULE_EXPRESSIONS);
            match list.and_then(|list| list.each().nth(i)) {
                Some(attribute) => attribute.refused(errno),
                None => errno.into(),
            }
        })?;
    }
    Ok(())
}

/// Checks that the rates are estimated which an extension compares, and that an estimator that it
/// counts in is one alike (`xt_rateest_mt_checkentry()`, `xt_rateest_tg_checkentry()`).
fn check_rates(batch: &Batch<'_>, extension: &Xt) -> Result<(), Errno> {
    if extension.compared_rates().any(|name| batch.estimator(name).is_none()) {
        return Err(Errno::Enoent);
    }
    match extension.counted_rate().map(|(name, asked)| (batch.estimator(name).flatten(), asked)) {
        Some((Some(there), asked)) if there != asked => Err(Errno::Einval),
        _ => Ok(()),
    }
}

/// Checks that the sets of ipset are there which extensions name.
fn check_ip_sets(
    batch: &mut Batch<'_>,
    exprs: &[Expr],
    list: Option<Attribute<'_>>,
) -> Result<(), Failure> {
    for (i, expr) in exprs.iter().enumerate() {
        let Expr::Xt(extension) = expr else { continue };
        for index in extension.ip_sets() {
            if !batch.has_ip_set(index)? {
                let at = list.and_then(|list| list.each().nth(i));
                let missing = Failure::from(Errno::Enoent);
                return Err(at.map_or(missing.clone(), |attribute| attribute.refused(missing)));
            }
        }
    }
    Ok(())
}

/// `NFT_MSG_NEWRULE`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let table = own_table(batch, message, given.get(NFTA_RULE_TABLE))?;
    let chain = chain_of(batch, table, given)?;
    let position = position(batch, message, given, chain)?;
    let list = given.get(NFTA_RULE_EXPRESSIONS);
    let exprs = match list {
        Some(list) => expression::read_list(list, EXPRS_MAX, &batch.ids)?,
        None => Vec::new(),
    };
    check_extensions(batch, &exprs, (table, chain), given)?;
    let userdata: UserData =
        given.get(NFTA_RULE_USERDATA).map(|u| u.payload.into()).unwrap_or_default();
    let (family, table_name, chain_name) = (table.family, table.name.clone(), chain.name.clone());
    let (table_handle, chain_handle) = (table.handle, chain.handle);
    check_ip_sets(batch, &exprs, list)?;
    if let Position::Replace(old) = position {
        // The old rule goes first.
        batch.tell(message, |to, stamp, working| {
            let table = working.tables.iter().find(|t| t.handle == table_handle);
            let chain = table.and_then(|t| t.chains.iter().find(|c| c.handle == chain_handle));
            let (Some(table), Some(chain)) = (table, chain) else { return };
            if let Some(at) = chain.rules.iter().position(|rule| rule.handle == old) {
                goes(to, stamp, table, chain, at);
            }
        });
    }
    let change = Change::AddRule {
        family,
        table: table_name,
        chain: chain_name,
        position,
        rule: NewRule { exprs, userdata, origin: None },
    };
    let applied = batch.apply(change, |blame| match blame {
        Blame::Table => given.get(NFTA_RULE_TABLE),
        Blame::Chain => given.get(NFTA_RULE_CHAIN).or(given.get(NFTA_RULE_CHAIN_ID)),
        Blame::Handle => given.get(NFTA_RULE_HANDLE),
        Blame::Position => given.get(NFTA_RULE_POSITION).or(given.get(NFTA_RULE_POSITION_ID)),
        Blame::Expression(n) => list.and_then(|list| list.each().nth(n)),
        _ => None,
    })?;
    if let (Some(id), Some(handle)) = (given.be32(NFTA_RULE_ID), applied.handle) {
        batch.rules.insert(id, handle);
    }
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let chain = table.and_then(|t| t.chains.iter().find(|c| c.handle == chain_handle));
        let (Some(table), Some(chain)) = (table, chain) else { return };
        let at = chain.rules.iter().rposition(|rule| Some(rule.handle) == applied.handle);
        let Some(at) = at else { return };
        // A rule in the place of another one is told as if it were added.
        let mut created = message.header.flags & (flags::CREATE | flags::EXCL);
        if message.header.flags & (flags::APPEND | flags::REPLACE) != 0 {
            created |= flags::APPEND;
        }
        fill(to, stamp, (NFT_MSG_NEWRULE, created), table, chain, at);
    });
    Ok(())
}
