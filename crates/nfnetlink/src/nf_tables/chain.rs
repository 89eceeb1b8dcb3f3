// SPDX-License-Identifier: Apache-2.0

//! `NFT_MSG_*CHAIN`.

use std::sync::Arc;

use penstock_program::expr::Counter;
use penstock_ruleset::change::{Mode, NewBase, NewChain};
use penstock_ruleset::model::{BaseChain, Chain, ChainType, Hook, UserData};
use penstock_ruleset::reset::{Reset, What};
use penstock_ruleset::{Blame, Change, Errno, Family, Generation, Table};

use super::answer::{Dump, Stamp};
use super::batch::{Batch, name_of};
use super::find::{chain_named, own_table, table_named};
use super::get::Get;
use super::uses::Uses;
use crate::message::{Attribute, Attributes, Check, Failure, Message, Policy, Writer, flags};
use crate::uapi::nf_tables::*;

/// `nft_chain_policy`
pub const POLICY: Policy = &[
    (NFTA_CHAIN_TABLE, Check::String(NAME_MAX)),
    (NFTA_CHAIN_HANDLE, Check::U64),
    (NFTA_CHAIN_NAME, Check::String(NAME_MAX)),
    (NFTA_CHAIN_HOOK, Check::Nested),
    (NFTA_CHAIN_POLICY, Check::U32),
    (NFTA_CHAIN_TYPE, Check::NulString(16)),
    (NFTA_CHAIN_COUNTERS, Check::Nested),
    (NFTA_CHAIN_FLAGS, Check::U32),
    (NFTA_CHAIN_ID, Check::U32),
    (NFTA_CHAIN_USERDATA, Check::Binary(USERDATA_MAX)),
];

/// `nft_hook_policy`
const HOOK_POLICY: Policy = &[
    (NFTA_HOOK_HOOKNUM, Check::U32),
    (NFTA_HOOK_PRIORITY, Check::U32),
    (NFTA_HOOK_DEV, Check::String(15)),
    (NFTA_HOOK_DEVS, Check::Nested),
];

/// `nft_counter_policy`
const COUNTER_POLICY: Policy =
    &[(NFTA_COUNTER_PACKETS, Check::U64), (NFTA_COUNTER_BYTES, Check::U64)];

/// `NFT_CHAIN_BASE`
const BASE: u32 = 1;
/// `NFT_CHAIN_HW_OFFLOAD`
const OFFLOAD: u32 = 2;
/// `NFT_CHAIN_BINDING`
const BINDING: u32 = 4;

/// Hooks by number, of IP and of bridges.
const HOOKS: &[Hook] =
    &[Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting, Hook::Ingress];

/// A hook's numbers by family (`NF_INET_*`, `NF_BR_*`, `NF_ARP_*`, `NF_NETDEV_*`).
fn hooks(family: Family) -> &'static [Hook] {
    match family {
        Family::Inet | Family::Ip | Family::Ip6 | Family::Bridge => HOOKS,
        Family::Arp => &[Hook::Input, Hook::Output, Hook::Forward],
        Family::Netdev => &[Hook::Ingress, Hook::Egress],
    }
}

/// The number of a hook in a family.
pub fn hook_number(family: Family, hook: Hook) -> u32 {
    hooks(family).iter().position(|h| *h == hook).unwrap_or(0) as u32
}

/// The hook with a number in a family.
pub fn hook_numbered(family: Family, number: u32) -> Option<Hook> {
    hooks(family).get(usize::try_from(number).ok()?).copied()
}

const TYPES: &[(&str, ChainType)] =
    &[("filter", ChainType::Filter), ("nat", ChainType::Nat), ("route", ChainType::Route)];

/// Appends devices, one attribute each.
pub fn write_devices(to: &mut Writer, devices: &[Arc<str>]) {
    for device in devices {
        match device.strip_suffix('*') {
            Some(prefix) => to.string(NFTA_DEVICE_PREFIX, prefix),
            None => to.string(NFTA_DEVICE_NAME, device),
        }
    }
}

/// Devices in a list of names and of prefixes; those end in `*` here.
///
/// # Errors
/// `EINVAL` for other attributes.
pub fn read_devices(list: Attribute<'_>) -> Result<Vec<Arc<str>>, Failure> {
    let name = |device: Attribute<'_>| match device.kind {
        NFTA_DEVICE_NAME => name_of(device),
        NFTA_DEVICE_PREFIX => Ok(format!("{}*", device.text()?).into()),
        _ => Err(Failure::einval()),
    };
    list.each().map(name).collect()
}

fn write_base(to: &mut Writer, family: Family, base: &BaseChain) {
    to.nest(NFTA_CHAIN_HOOK, |to| {
        to.be32(NFTA_HOOK_HOOKNUM, hook_number(family, base.hook));
        to.be32(NFTA_HOOK_PRIORITY, base.priority as u32);
        if !base.devices.is_empty() {
            to.nest(NFTA_HOOK_DEVS, |to| write_devices(to, &base.devices));
        }
        if let [device] = base.devices.as_slice()
            && !device.ends_with('*')
        {
            to.string(NFTA_HOOK_DEV, device);
        }
    });
    to.be32(NFTA_CHAIN_POLICY, base.policy_accept.into());
    let kind = TYPES.iter().find(|(_, kind)| *kind == base.kind);
    to.string(NFTA_CHAIN_TYPE, kind.map_or("filter", |(name, _)| name));
}

/// `nft_dump_stats()`
fn write_counter(to: &mut Writer, counter: &Counter) {
    to.nest(NFTA_CHAIN_COUNTERS, |to| {
        to.be64(NFTA_COUNTER_PACKETS, counter.packets);
        to.be64(NFTA_COUNTER_BYTES, counter.bytes);
    });
}

/// `nft_stats_alloc()`
///
/// # Errors
/// `EINVAL` unless both numbers are given.
fn read_counter(given: Attribute<'_>) -> Result<Counter, Failure> {
    let given = given.attributes(COUNTER_POLICY).map_err(|_| Failure::einval())?;
    match (given.get(NFTA_COUNTER_PACKETS), given.get(NFTA_COUNTER_BYTES)) {
        (Some(packets), Some(bytes)) => {
            Ok(Counter { packets: packets.be64(), bytes: bytes.be64() })
        }
        _ => Err(Failure::einval()),
    }
}

/// The counters of policies that a request shows, which packets change.
pub fn live(message: &Message<'_>, given: &Attributes<'_>) -> Result<Vec<Reset>, Failure> {
    let table = given.get(NFTA_CHAIN_TABLE).map(name_of).transpose()?;
    let family = super::find::family_of(message);
    Ok(vec![Reset { family, table, what: What::Policies }])
}

fn attributes(to: &mut Writer, number: u8, table: &Table, chain: &Chain, uses: u32) {
    to.string(NFTA_CHAIN_TABLE, &table.name);
    to.string(NFTA_CHAIN_NAME, &chain.name);
    to.be64(NFTA_CHAIN_HANDLE, chain.handle);
    if number == NFT_MSG_DELCHAIN {
        return;
    }
    let mut flags = if chain.anonymous { BINDING } else { 0 };
    if let Some(base) = &chain.base {
        write_base(to, table.family, base);
        if let Some(counter) = chain.counted() {
            write_counter(to, &counter);
        }
        flags |= BASE | if base.offload { OFFLOAD } else { 0 };
    }
    if flags != 0 {
        to.be32(NFTA_CHAIN_FLAGS, flags);
    }
    to.be32(NFTA_CHAIN_USE, uses);
    if !chain.userdata.is_empty() {
        to.attribute(NFTA_CHAIN_USERDATA, &chain.userdata);
    }
}

/// What a program sends to make a chain: all of it but its rules.
pub fn write_new(to: &mut Writer, table: &Table, chain: &Chain) {
    to.string(NFTA_CHAIN_TABLE, &table.name);
    to.string(NFTA_CHAIN_NAME, &chain.name);
    let mut flags = if chain.anonymous { BINDING } else { 0 };
    if let Some(base) = &chain.base {
        write_base(to, table.family, base);
        if let Some(counter) = chain.counted() {
            write_counter(to, &counter);
        }
        flags |= if base.offload { OFFLOAD } else { 0 };
    }
    if flags != 0 {
        to.be32(NFTA_CHAIN_FLAGS, flags);
    }
    if !chain.userdata.is_empty() {
        to.attribute(NFTA_CHAIN_USERDATA, &chain.userdata);
    }
}

/// What a program sends to give a base chain another policy.
pub fn write_policy(to: &mut Writer, table: &Table, chain: &Chain, accept: bool) {
    to.string(NFTA_CHAIN_TABLE, &table.name);
    to.string(NFTA_CHAIN_NAME, &chain.name);
    to.be32(NFTA_CHAIN_POLICY, accept.into());
}

/// What a program sends to add devices to a base chain, or to take them away.
pub fn write_devices_of(to: &mut Writer, table: &Table, chain: &Chain, devices: &[Arc<str>]) {
    to.string(NFTA_CHAIN_TABLE, &table.name);
    to.string(NFTA_CHAIN_NAME, &chain.name);
    let Some(base) = &chain.base else { return };
    to.nest(NFTA_CHAIN_HOOK, |to| {
        to.be32(NFTA_HOOK_HOOKNUM, hook_number(table.family, base.hook));
        to.be32(NFTA_HOOK_PRIORITY, base.priority as u32);
        to.nest(NFTA_HOOK_DEVS, |to| write_devices(to, devices));
    });
}

/// `nf_tables_fill_chain_info()`. What is gone has name and handle only.
pub fn fill(
    to: &mut Writer,
    stamp: Stamp,
    (number, flags): (u8, u16),
    table: &Table,
    (chain, uses): (&Chain, u32),
) {
    stamp.message(to, number, flags, Some(table.family), |to| {
        attributes(to, number, table, chain, uses);
    });
}

/// `NFT_MSG_GETCHAIN` of one.
pub fn get(
    get: &mut Get<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let table = table_named(get.generation, message, given.get(NFTA_CHAIN_TABLE))?;
    let chain = chain_named(table, given.get(NFTA_CHAIN_NAME))?;
    let stamp = get.stamp;
    let uses = Uses::of(table).chain(chain);
    fill(&mut get.answer, stamp, (NFT_MSG_NEWCHAIN, 0), table, (chain, uses));
    Ok(())
}

/// `NFT_MSG_GETCHAIN` of all.
pub fn dump(
    generation: &Generation,
    message: &Message<'_>,
    _: &Attributes<'_>,
    dump: &mut Dump,
) -> Result<(), Failure> {
    for table in super::find::tables(generation, message) {
        let uses = Uses::of(table);
        for chain in &table.chains {
            dump.message(NFT_MSG_NEWCHAIN, 0, table.family, |to| {
                attributes(to, NFT_MSG_NEWCHAIN, table, chain, uses.chain(chain));
            });
        }
    }
    Ok(())
}

/// Hook, priority and devices of `NFTA_CHAIN_HOOK`, and the type.
pub fn read_base(
    family: Family,
    hook: Attribute<'_>,
    kind: Option<Attribute<'_>>,
    name: Option<Attribute<'_>>,
    there: Option<&BaseChain>,
) -> Result<NewBase, Failure> {
    let given = hook.attributes(HOOK_POLICY)?;
    let (number, priority) = (given.be32(NFTA_HOOK_HOOKNUM), given.be32(NFTA_HOOK_PRIORITY));
    let named = |failure: Failure| match name {
        Some(name) => failure.blaming(&name),
        None => failure,
    };
    let kind = match kind {
        None => there.map_or(ChainType::Filter, |base| base.kind),
        Some(given) => {
            let text = given.text()?;
            let known = TYPES.iter().find(|(name, _)| *name == text);
            known.map(|(_, kind)| *kind).ok_or_else(|| given.refused(Errno::Enoent))?
        }
    };
    let (hook, priority) = match (number, priority, there) {
        (Some(number), Some(priority), _) => {
            (hook_numbered(family, number).ok_or(Errno::Eopnotsupp)?, priority as i32)
        }
        // Further devices of a chain that is there.
        (_, _, Some(base)) => (base.hook, base.priority),
        _ => return Err(named(Errno::Enoent.into())),
    };
    let devices = match (given.get(NFTA_HOOK_DEV), given.get(NFTA_HOOK_DEVS)) {
        (Some(device), _) => vec![name_of(device)?],
        (None, Some(list)) => read_devices(list)?,
        (None, None) => Vec::new(),
    };
    Ok(NewBase { kind, hook, priority, devices })
}

/// `NFT_MSG_NEWCHAIN`
pub fn new(
    batch: &mut Batch<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<(), Failure> {
    let table = own_table(batch, message, given.get(NFTA_CHAIN_TABLE))?;
    let (name, handle) = (given.get(NFTA_CHAIN_NAME), given.get(NFTA_CHAIN_HANDLE));
    let there = match (handle, name) {
        (Some(handle), _) => {
            let number = handle.be64();
            let found = table.chains.iter().find(|chain| chain.handle == number);
            Some(found.ok_or_else(|| handle.refused(Errno::Enoent))?)
        }
        (None, Some(name)) => chain_named(table, Some(name)).ok(),
        (None, None) => None,
    };
    let blamed = handle.or(name);
    let given_flags = given.be32(NFTA_CHAIN_FLAGS).unwrap_or(0);
    let policy = given.get(NFTA_CHAIN_POLICY);
    let hook = given.get(NFTA_CHAIN_HOOK);
    if let Some(policy) = policy {
        let is_base = there.map_or(hook.is_some(), |chain| chain.base.is_some());
        if !is_base {
            return Err(policy.refused(Errno::Eopnotsupp));
        }
        // `NF_DROP` and `NF_ACCEPT`
        if policy.be32() > 1 {
            return Err(Failure::einval());
        }
    }
    if given_flags & !(BASE | OFFLOAD | BINDING) != 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    if let Some(chain) = there {
        if chain.anonymous {
            return Err(Failure::einval());
        }
        if message.header.has(flags::EXCL) {
            let failure = Failure::from(Errno::Eexist);
            return Err(blamed.map_or(failure.clone(), |a| a.refused(failure)));
        }
        if message.header.has(flags::REPLACE) {
            return Err(Errno::Eopnotsupp.into());
        }
    }
    let (table_handle, is_new) = (table.handle, there.is_none());
    let parts = Parts { given, blamed };
    let change = parts.change(table, there, given_flags)?;
    let applied = batch.apply(change, |blame| parts.blamed(blame))?;
    if let (Some(id), Some(name)) = (given.be32(NFTA_CHAIN_ID), &applied.name) {
        batch.ids.chains.insert(id, name.clone());
    } else if let (Some(id), Some(name)) = (given.be32(NFTA_CHAIN_ID), name) {
        batch.ids.chains.insert(id, name_of(name)?);
    }
    batch.tell(message, |to, stamp, working| {
        let table = working.tables.iter().find(|t| t.handle == table_handle);
        let chain =
            table.and_then(|t| t.chains.iter().rev().find(|c| Some(c.handle) == applied.handle));
        if let (Some(table), Some(chain)) = (table, chain) {
            let created = message.header.flags & (flags::CREATE | flags::EXCL);
            // Nothing refers to a chain that was not there.
            let uses = if is_new { 0 } else { Uses::of(table).chain(chain) };
            fill(to, stamp, (NFT_MSG_NEWCHAIN, created), table, (chain, uses));
        }
    });
    Ok(())
}

/// What a request for a chain says.
struct Parts<'a, 'r> {
    given: &'r Attributes<'a>,
    /// Handle or name.
    blamed: Option<Attribute<'a>>,
}

impl<'a> Parts<'a, '_> {
    fn change(
        &self,
        table: &Table,
        there: Option<&Arc<Chain>>,
        flags: u32,
    ) -> Result<Change, Failure> {
        let (family, table, given) = (table.family, table.name.clone(), self.given);
        let name = given.get(NFTA_CHAIN_NAME);
        if let (Some(chain), Some(_), Some(new)) = (there, given.get(NFTA_CHAIN_HANDLE), name) {
            let name = name_of(new)?;
            return Ok(Change::RenameChain { family, table, handle: chain.handle, name });
        }
        let anonymous = name.is_none() && there.is_none();
        if anonymous && flags & BINDING == 0 {
            return Err(Failure::einval());
        }
        let base = given
            .get(NFTA_CHAIN_HOOK)
            .map(|hook| {
                let there = there.and_then(|chain| chain.base.as_ref());
                read_base(family, hook, given.get(NFTA_CHAIN_TYPE), name, there)
            })
            .transpose()?;
        let userdata: UserData =
            given.get(NFTA_CHAIN_USERDATA).map(|u| u.payload.into()).unwrap_or_default();
        // The kernel does not look at counters of a new chain without a hook.
        let counter = given.get(NFTA_CHAIN_COUNTERS);
        let counter = counter.filter(|_| there.is_some() || base.is_some());
        let name = match (name, there) {
            (_, Some(chain)) => chain.name.clone(),
            (Some(name), None) => name_of(name)?,
            (None, None) => format!("#{}", given.be32(NFTA_CHAIN_ID).unwrap_or(0)).into(),
        };
        let chain = NewChain {
            name,
            base,
            policy_accept: given.be32(NFTA_CHAIN_POLICY).map(|policy| policy == 1),
            counter: counter.map(read_counter).transpose()?,
            anonymous: there.is_none() && flags & BINDING != 0,
            offload: flags & OFFLOAD != 0,
            program: None,
            userdata,
        };
        Ok(Change::AddChain { family, table, mode: Mode::Add, chain })
    }

    fn blamed(&self, blame: Blame) -> Option<Attribute<'a>> {
        match blame {
            Blame::Table => self.given.get(NFTA_CHAIN_TABLE),
            Blame::Chain | Blame::Handle => self.blamed,
            Blame::Hook => self.given.get(NFTA_CHAIN_HOOK),
            Blame::Type => self.given.get(NFTA_CHAIN_TYPE),
            Blame::Policy => self.given.get(NFTA_CHAIN_POLICY),
            // A new name.
            Blame::Whole if self.given.has(NFTA_CHAIN_HANDLE) => self.given.get(NFTA_CHAIN_NAME),
            _ => None,
        }
    }
}
