// SPDX-License-Identifier: Apache-2.0

//! The subsystem nfacct (`net/netfilter/nfnetlink_acct.c`): counters by name, which rules of
//! x_tables count in.

use std::sync::Arc;

use penstock_program::state::{AccountQuota, Counted};
use penstock_ruleset::globals::{Account, GlobalChange, Named, NewAccount};
use penstock_ruleset::reset::{Reset, What};
use penstock_ruleset::{Errno, Generation};

use crate::Backend;
use crate::ctnetlink::Outcome;
use crate::globals::{Answered, Request, change, change_all, name_of};
use crate::message::{Attributes, Check, Failure, Message, Pages, Policy, Writer, flags};
use crate::process::Process;

/// `NFNL_SUBSYS_ACCT`
pub const SUBSYSTEM: u8 = 7;
const NEW: u8 = 0;
const GET: u8 = 1;
const GET_CTRZERO: u8 = 2;
const DEL: u8 = 3;

const NFACCT_NAME: u16 = 1;
const NFACCT_PKTS: u16 = 2;
const NFACCT_BYTES: u16 = 3;
const NFACCT_USE: u16 = 4;
const NFACCT_FLAGS: u16 = 5;
const NFACCT_QUOTA: u16 = 6;
const NFACCT_FILTER: u16 = 7;
const NFACCT_FILTER_MASK: u16 = 1;
const NFACCT_FILTER_VALUE: u16 = 2;

/// `NFACCT_F_QUOTA_PKTS`, `NFACCT_F_QUOTA_BYTES`, and both
const PACKETS: u32 = 1;
const BYTES: u32 = 2;
const QUOTA: u32 = PACKETS | BYTES;
/// `NFACCT_F_OVERQUOTA`
const OVER: u32 = 4;

/// `nfnl_acct_policy`
const POLICY: Policy = &[
    (NFACCT_NAME, Check::NulString(penstock_ruleset::globals::NAME_MAX)),
    (NFACCT_BYTES, Check::U64),
    (NFACCT_PKTS, Check::U64),
    (NFACCT_FLAGS, Check::U32),
    (NFACCT_QUOTA, Check::U64),
    (NFACCT_FILTER, Check::Nested),
];

/// `filter_policy`
const FILTER_POLICY: Policy =
    &[(NFACCT_FILTER_MASK, Check::U32), (NFACCT_FILTER_VALUE, Check::U32)];

/// Whether a message changes accounts, or sets them to zero.
pub fn is_change(subsystem: u8, number: u8) -> bool {
    subsystem == SUBSYSTEM && number != GET
}

/// Carries out a request, and gives its answers.
///
/// # Errors
/// The kernel's; `EPERM` if the sender may change nothing.
pub fn run(request: &Request<'_>, from: &Process, backend: &mut dyn Backend) -> Answered {
    let message = &request.message;
    if is_change(SUBSYSTEM, message.number()) && !from.may_change {
        return Err(Errno::Eperm.into());
    }
    let given = message.attributes(POLICY)?;
    let done = (Outcome::Acknowledge, Vec::new());
    match message.number() {
        NEW => new(message, &given, from, backend).map(|()| done),
        GET | GET_CTRZERO => get(request, &given, backend),
        DEL => delete(&given, from, backend).map(|()| done),
        _ => Err(Failure::einval()),
    }
}

/// What is named of accounts, for a backend.
fn named(name: Option<Arc<str>>) -> Reset {
    Reset { family: None, table: None, what: What::Accounts(name) }
}

/// `nfnl_acct_new()`
fn new(
    message: &Message<'_>,
    given: &Attributes<'_>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    let name = name_of(given.need(NFACCT_NAME)?)?;
    if name.is_empty() {
        return Err(Failure::einval());
    }
    if backend.generation().globals.account(&name).is_some() {
        if message.header.has(flags::EXCL) {
            return Err(Errno::Eexist.into());
        }
        if !message.header.has(flags::REPLACE) {
            return Err(Errno::Ebusy.into());
        }
        let reset = vec![named(Some(name))];
        let observed = backend.observe(&reset.clone(), &mut |_| reset.clone());
        return observed.map_err(|error| Failure::from(error.errno));
    }
    let counted = Counted {
        packets: given.be64(NFACCT_PKTS).unwrap_or(0),
        bytes: given.be64(NFACCT_BYTES).unwrap_or(0),
        over: false,
    };
    let account = NewAccount { name, counted, quota: quota(given)? };
    change(GlobalChange::AddAccount(account), from, backend)
}

/// The quota of a new account.
///
/// # Errors
/// `EOPNOTSUPP` for flags that are not of quotas; `EINVAL` for both kinds at once, or none of a
/// number.
fn quota(given: &Attributes<'_>) -> Result<Option<AccountQuota>, Failure> {
    let Some(flags) = given.be32(NFACCT_FLAGS) else { return Ok(None) };
    if flags & !QUOTA != 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    match (flags, given.be64(NFACCT_QUOTA)) {
        (0, _) => Ok(None),
        (QUOTA, _) | (_, None) => Err(Failure::einval()),
        (_, Some(most)) => Ok(Some(AccountQuota { packets: flags == PACKETS, most })),
    }
}

/// `NFACCT_FLAGS` of an account with a quota.
fn flags_of(account: &NewAccount) -> u32 {
    let Some(quota) = account.quota else { return 0 };
    let kind = if quota.packets { PACKETS } else { BYTES };
    kind | if account.counted.over { OVER } else { 0 }
}

/// Which accounts are shown.
enum Wanted {
    One(Arc<str>),
    /// Those whose flags are, with the mask, the value.
    All {
        mask: u32,
        value: u32,
    },
}

impl Wanted {
    fn has(&self, account: &NewAccount) -> bool {
        match self {
            Wanted::One(name) => account.name == *name,
            Wanted::All { mask, value } => flags_of(account) & mask == *value,
        }
    }
}

/// `nfnl_acct_get()`, `nfnl_acct_dump()`
fn get(request: &Request<'_>, given: &Attributes<'_>, backend: &mut dyn Backend) -> Answered {
    let Request { message, limit, .. } = request;
    let dump = message.header.flags & flags::DUMP != 0;
    let wanted = match dump {
        true => filter(given)?,
        false => Wanted::One(name_of(given.need(NFACCT_NAME)?)?),
    };
    let reset = message.number() == GET_CTRZERO;
    let mut shown = Pages::new(*limit);
    let mut found = false;
    let name = match &wanted {
        Wanted::One(name) => Some(name.clone()),
        Wanted::All { .. } => None,
    };
    let observed = backend.observe(&[named(name)], &mut |generation| {
        shown = Pages::new(*limit);
        let accounts = generation.globals.accounts.iter();
        let all = accounts.map(|account| (account, account.snapshot()));
        let mut resets = Vec::new();
        for (account, now) in all.filter(|(_, now)| wanted.has(now)) {
            found = true;
            let sender = (request.message.header.sequence, request.port);
            shown.add(|to| fill(to, sender, generation, account, &now));
            if reset {
                resets.push(named(Some(account.name.clone())));
            }
        }
        resets
    });
    observed.map_err(|error| Failure::from(error.errno))?;
    match (dump, found) {
        (true, _) => Ok((Outcome::Dumped, shown.finish(message.header.sequence, request.port))),
        (false, false) => Err(Errno::Enoent.into()),
        (false, true) => Ok((Outcome::Acknowledge, shown.finish_without_end())),
    }
}

/// `nfnl_acct_start()`
fn filter(given: &Attributes<'_>) -> Result<Wanted, Failure> {
    let Some(filter) = given.get(NFACCT_FILTER) else {
        return Ok(Wanted::All { mask: 0, value: 0 });
    };
    let filter = filter.attributes(FILTER_POLICY).map_err(Failure::blaming_nothing)?;
    let number = |kind| filter.be32(kind).ok_or(Failure::einval());
    Ok(Wanted::All { mask: number(NFACCT_FILTER_MASK)?, value: number(NFACCT_FILTER_VALUE)? })
}

/// `nfnl_acct_fill_info()`
fn fill(
    to: &mut Writer,
    (sequence, port): (u32, u32),
    generation: &Generation,
    account: &Account,
    now: &NewAccount,
) {
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(NEW);
    let flags = if port == 0 { 0 } else { flags::MULTI };
    let start = to.begin(kind, flags, sequence, port);
    to.raw(&[0; 4]);
    to.string(NFACCT_NAME, &account.name);
    to.be64(NFACCT_PKTS, now.counted.packets);
    to.be64(NFACCT_BYTES, now.counted.bytes);
    // The kernel counts the list of all accounts as a use.
    to.be32(NFACCT_USE, generation.uses_of(Named::Account(&account.name)) as u32 + 1);
    if let Some(quota) = now.quota {
        to.be32(NFACCT_FLAGS, flags_of(now));
        to.be64(NFACCT_QUOTA, quota.most);
    }
    to.end(start);
}

/// Tells that an account has reached its quota (`nfnl_overquota_report()`).
pub fn tell_used_up(to: &mut Writer, generation: &Generation, account: &Account) {
    fill(to, (0, 0), generation, account, &account.snapshot());
}

/// `nfnl_acct_del()`
fn delete(
    given: &Attributes<'_>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    if let Some(name) = given.get(NFACCT_NAME) {
        return change(GlobalChange::DeleteAccount(name_of(name)?), from, backend);
    }
    let generation = backend.generation();
    let accounts = generation.globals.accounts.iter();
    // Those that rules use stay.
    let unused = accounts.filter(|account| generation.uses_of(Named::Account(&account.name)) == 0);
    let gone = unused.map(|account| GlobalChange::DeleteAccount(account.name.clone()));
    change_all(gone, from, backend)
}
