// SPDX-License-Identifier: Apache-2.0

//! The subsystem nfnetlink_hook (`net/netfilter/nfnetlink_hook.c`): what is at the hooks. Base
//! chains are listed; other functions of the kernel, such as those of connection tracking, have no
//! names here.

use penstock_program::Hook;
use penstock_ruleset::{Chain, Errno, Family, Generation, Table};

use crate::message::{Check, Failure, Message, NESTED, Pages, Policy, Writer, flags};

/// `NFNL_SUBSYS_HOOK`
pub const SUBSYSTEM: u8 = 12;
/// `NFNL_MSG_HOOK_GET`
const GET: u8 = 0;
const NFNLA_HOOK_HOOKNUM: u16 = 1;
const NFNLA_HOOK_PRIORITY: u16 = 2;
const NFNLA_HOOK_DEV: u16 = 3;
const NFNLA_HOOK_FUNCTION_NAME: u16 = 4;
const NFNLA_HOOK_MODULE_NAME: u16 = 5;
const NFNLA_HOOK_CHAIN_INFO: u16 = 6;
const NFNLA_HOOK_INFO_DESC: u16 = 1;
const NFNLA_HOOK_INFO_TYPE: u16 = 2;
const NFNLA_CHAIN_TABLE: u16 = 1;
const NFNLA_CHAIN_FAMILY: u16 = 2;
const NFNLA_CHAIN_NAME: u16 = 3;
/// `NFNL_HOOK_TYPE_NFTABLES`
const NFTABLES: u32 = 1;
/// `IFNAMSIZ`
const NAME_MAX: usize = 16;
/// Protocol not supported.
const EPROTONOSUPPORT: i32 = 93;

/// `hook_nla_policy`
const POLICY: Policy = &[
    (NFNLA_HOOK_HOOKNUM, Check::U32),
    (NFNLA_HOOK_PRIORITY, Check::U32),
    (NFNLA_HOOK_DEV, Check::String(NAME_MAX)),
    (NFNLA_HOOK_FUNCTION_NAME, Check::NulString(128)),
    (NFNLA_HOOK_MODULE_NAME, Check::NulString(56)),
    (NFNLA_HOOK_CHAIN_INFO, Check::Nested),
];

/// Hooks of a family in the order of their numbers, and the function that runs its chains.
fn of_family(family: u8) -> Option<(Family, &'static [Hook], &'static str)> {
    use Hook::{Egress, Forward, Ingress, Input, Output, Postrouting, Prerouting};
    const IP: &[Hook] = &[Prerouting, Input, Forward, Output, Postrouting];
    let families = [
        (Family::Ip, IP, "nft_do_chain_ipv4"),
        (Family::Ip6, IP, "nft_do_chain_ipv6"),
        (Family::Bridge, IP, "nft_do_chain_bridge"),
        (Family::Arp, &[Input, Output, Forward], "nft_do_chain_arp"),
        (Family::Netdev, &[Ingress, Egress], "nft_do_chain_netdev"),
    ];
    families.into_iter().find(|(of, _, _)| *of as u8 == family)
}

/// Lists what is at a hook.
///
/// # Errors
/// `EINVAL` without a hook, or for one that is none; `EOPNOTSUPP` for what is no dump;
/// `EPROTONOSUPPORT` for a family without hooks; `ENODEV` without a device where the hook is one of
/// devices.
pub fn dump(
    message: &Message<'_>,
    generation: &Generation,
    port: u32,
    limit: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    if message.number() != GET {
        return Err(Failure::einval());
    }
    let given = message.attributes(POLICY)?;
    let number = given.be32(NFNLA_HOOK_HOOKNUM).ok_or(Failure::einval())?;
    if message.header.flags & flags::DUMP == 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    let (family, hooks, function) = of_family(message.family()).ok_or(Failure {
        errno: EPROTONOSUPPORT,
        at: None,
        text: None,
    })?;
    let at_devices = family == Family::Netdev;
    let refused = if at_devices { Errno::Eopnotsupp } else { Errno::Einval };
    let hook = *hooks.get(number as usize).ok_or(Failure::from(refused))?;
    let device = match given.get(NFNLA_HOOK_DEV) {
        Some(name) if at_devices => Some(name.text()?),
        None if at_devices => return Err(Errno::Enodev.into()),
        _ => None,
    };
    let mut pages = Pages::new(limit);
    for (table, chain, priority) in chains(generation, family, hook, device) {
        pages.add(|to| {
            let kind = u16::from(SUBSYSTEM) << 8 | u16::from(GET);
            let start = to.begin(kind, flags::MULTI, message.header.sequence, port);
            to.raw(&[message.family(), 0, 0, 0]);
            to.string(NFNLA_HOOK_MODULE_NAME, "nf_tables");
            let inet = table.family == Family::Inet;
            let function = if inet { "nft_do_chain_inet" } else { function };
            to.string(NFNLA_HOOK_FUNCTION_NAME, function);
            to.be32(NFNLA_HOOK_HOOKNUM, number);
            to.be32(NFNLA_HOOK_PRIORITY, priority as u32);
            write_chain(to, table, chain);
            to.end(start);
        });
    }
    Ok(pages.finish(message.header.sequence, port))
}

/// `nfnl_hook_put_nft_chain_info()`
fn write_chain(to: &mut Writer, table: &Table, chain: &Chain) {
    to.nest(NFNLA_HOOK_CHAIN_INFO | NESTED, |to| {
        to.be32(NFNLA_HOOK_INFO_TYPE, NFTABLES);
        to.nest(NFNLA_HOOK_INFO_DESC | NESTED, |to| {
            to.string(NFNLA_CHAIN_TABLE, &table.name);
            to.string(NFNLA_CHAIN_NAME, &chain.name);
            to.u8(NFNLA_CHAIN_FAMILY, table.family as u8);
        });
    });
}

/// The base chains at a hook, in the order in which they run, with their priorities.
fn chains<'g>(
    generation: &'g Generation,
    family: Family,
    hook: Hook,
    device: Option<&str>,
) -> Vec<(&'g Table, &'g Chain, i32)> {
    let both = matches!(family, Family::Ip | Family::Ip6);
    let mut found = Vec::new();
    for table in generation.tables.iter().filter(|table| !table.dormant) {
        // Chains of inet at ingress are those of devices.
        let inet = table.family == Family::Inet && (both || hook == Hook::Ingress);
        if table.family != family && !inet {
            continue;
        }
        for chain in &table.chains {
            let Some(base) = chain.base.as_ref().filter(|base| base.hook == hook) else { continue };
            if device.is_none_or(|device| base.devices.iter().any(|own| &**own == device)) {
                found.push((base.priority, std::cmp::Reverse(base.registered), &**table, &**chain));
            }
        }
    }
    // The one that came last runs first.
    found.sort_by_key(|(priority, registered, _, _)| (*priority, *registered));
    found.into_iter().map(|(priority, _, table, chain)| (table, chain, priority)).collect()
}
