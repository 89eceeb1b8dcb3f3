// SPDX-License-Identifier: Apache-2.0

//! The subsystem cttimeout (`net/netfilter/nfnetlink_cttimeout.c`): timeout policies by name, which
//! rules of x_tables give to new connections.

use penstock_conntrack::Tracker;
use penstock_ruleset::globals::{GlobalChange, NAME_MAX, Named, NewTimeout};
use penstock_ruleset::{Errno, Generation};

use crate::ctnetlink::Outcome;
use crate::globals::{Answered, Request, change, change_all, name_of};
use crate::message::{
    Attribute, Attributes, Check, Failure, Message, NESTED, Pages, Policy, Writer, flags,
};
use crate::process::Process;
use crate::{Backend, Connections};

/// `NFNL_SUBSYS_CTNETLINK_TIMEOUT`
pub const SUBSYSTEM: u8 = 8;
const NEW: u8 = 0;
const GET: u8 = 1;
const DELETE: u8 = 2;
const DEFAULT_SET: u8 = 3;
const DEFAULT_GET: u8 = 4;

const CTA_TIMEOUT_NAME: u16 = 1;
const CTA_TIMEOUT_L3PROTO: u16 = 2;
const CTA_TIMEOUT_L4PROTO: u16 = 3;
const CTA_TIMEOUT_DATA: u16 = 4;
const CTA_TIMEOUT_USE: u16 = 5;

/// `cttimeout_nla_policy`
const POLICY: Policy = &[
    (CTA_TIMEOUT_NAME, Check::NulString(NAME_MAX)),
    (CTA_TIMEOUT_L3PROTO, Check::U16),
    (CTA_TIMEOUT_L4PROTO, Check::U8),
    (CTA_TIMEOUT_DATA, Check::Nested),
];

/// Most states of a protocol, and those of all: seconds.
const SECONDS: Policy = &[
    (1, Check::U32),
    (2, Check::U32),
    (3, Check::U32),
    (4, Check::U32),
    (5, Check::U32),
    (6, Check::U32),
    (7, Check::U32),
    (8, Check::U32),
    (9, Check::U32),
    (10, Check::U32),
    (11, Check::U32),
];

/// States of a protocol.
struct States {
    tracker: Tracker,
    /// What is added to the number of a state for that of its attribute.
    shift: u8,
    /// Attributes, from 1.
    attributes: u8,
}

impl States {
    /// Those of a protocol; 255 are all without a tracker of their own.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is one of the latter, or DCCP, which Linux gave up tracking.
    fn of(l4proto: u8) -> Result<Self, Failure> {
        const ANY: u8 = 255;
        let tracker = Tracker::of(l4proto);
        let states = tracker.timeouts();
        let shift = u8::from(states.first().is_some_and(|state| state.index == 0));
        let attributes = match tracker {
            Tracker::Dccp => return Err(Errno::Eopnotsupp.into()),
            Tracker::Generic if l4proto != ANY => return Err(Errno::Eopnotsupp.into()),
            // `CTA_TIMEOUT_SCTP_HEARTBEAT_ACKED` is of no state any more.
            Tracker::Sctp => 9,
            _ => states.len() as u8,
        };
        Ok(States { tracker, shift, attributes })
    }

    /// Seconds of states that attributes give (`nlattr_to_obj`).
    fn read(&self, data: Attribute<'_>) -> Result<Vec<(u8, u32)>, Failure> {
        let known = &SECONDS[..usize::from(self.attributes).min(SECONDS.len())];
        let given = data.attributes(known).map_err(Failure::blaming_nothing)?;
        let value = |kind: u8| Some((kind - self.shift, given.be32(kind.into())?));
        Ok((1..=self.attributes).filter_map(value).collect())
    }

    /// Appends all states; those that a policy says nothing of with the kernel's default
    /// (`obj_to_nlattr`).
    fn write(&self, to: &mut Writer, values: &[(u8, u32)]) {
        for kind in 1..=self.attributes {
            let state = kind - self.shift;
            let own = values.iter().find(|(number, _)| *number == state).map(|(_, own)| *own);
            let usual = || {
                let usual = self.tracker.timeouts().iter().find(|t| t.index == usize::from(state));
                usual.map_or(0, |usual| usual.default)
            };
            to.be32(kind.into(), own.unwrap_or_else(usual));
        }
    }
}

/// Whether a message changes timeout policies.
pub fn is_change(subsystem: u8, number: u8) -> bool {
    subsystem == SUBSYSTEM && !matches!(number, GET | DEFAULT_GET)
}

/// Carries out a request, and gives its answers.
///
/// # Errors
/// The kernel's; `EPERM` if the sender may change nothing; `EOPNOTSUPP` for the timeouts of
/// connections without a policy, where no packets meet the ruleset.
pub fn run(request: &Request<'_>, from: &Process, backend: &mut dyn Backend) -> Answered {
    let message = &request.message;
    if is_change(SUBSYSTEM, message.number()) && !from.may_change {
        return Err(Errno::Eperm.into());
    }
    let given = message.attributes(POLICY)?;
    let done = (Outcome::Acknowledge, Vec::new());
    match message.number() {
        NEW => new(message, &given, from, backend).map(|()| done),
        GET => get(request, &given, &backend.generation()),
        DELETE => delete(&given, from, backend).map(|()| done),
        DEFAULT_SET => default_set(&given, backend).map(|()| done),
        DEFAULT_GET => default_get(request, &given, backend),
        _ => Err(Failure::einval()),
    }
}

/// `cttimeout_new_timeout()`
fn new(
    message: &Message<'_>,
    given: &Attributes<'_>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    let name = given.need(CTA_TIMEOUT_NAME)?;
    let l3proto = given.need(CTA_TIMEOUT_L3PROTO)?.be16();
    let l4proto = given.need(CTA_TIMEOUT_L4PROTO)?.u8();
    let data = given.need(CTA_TIMEOUT_DATA)?;
    let name = name_of(name)?;
    let generation = backend.generation();
    let there = generation.globals.timeout(&name).map(|timeout| &timeout.config);
    if let Some(there) = there {
        if message.header.has(flags::EXCL) {
            return Err(Errno::Eexist.into());
        }
        if !message.header.has(flags::REPLACE) {
            return Err(Errno::Ebusy.into());
        }
        if (there.l3proto, there.l4proto) != (l3proto, l4proto) {
            return Err(Failure::einval());
        }
    }
    let values = States::of(l4proto)?.read(data)?;
    let timeout = NewTimeout { name, l3proto, l4proto, values };
    change(GlobalChange::SetTimeout(timeout), from, backend)
}

/// `cttimeout_get_timeout()`, `ctnl_timeout_dump()`
fn get(request: &Request<'_>, given: &Attributes<'_>, generation: &Generation) -> Answered {
    let Request { message, port, limit } = request;
    let mut shown = Pages::new(*limit);
    if message.header.flags & flags::DUMP != 0 {
        for timeout in &generation.globals.timeouts {
            shown.add(|to| fill(to, request, generation, &timeout.config));
        }
        return Ok((Outcome::Dumped, shown.finish(message.header.sequence, *port)));
    }
    let name = name_of(given.need(CTA_TIMEOUT_NAME)?)?;
    let timeout = generation.globals.timeout(&name).ok_or(Failure::from(Errno::Enoent))?;
    shown.add(|to| fill(to, request, generation, &timeout.config));
    Ok((Outcome::Acknowledge, shown.finish_without_end()))
}

/// `ctnl_timeout_fill_info()`
fn fill(to: &mut Writer, request: &Request<'_>, generation: &Generation, timeout: &NewTimeout) {
    let kind = u16::from(SUBSYSTEM) << 8 | u16::from(NEW);
    let start = to.begin(kind, flags::MULTI, request.message.header.sequence, request.port);
    to.raw(&[0; 4]);
    to.string(CTA_TIMEOUT_NAME, &timeout.name);
    to.be16(CTA_TIMEOUT_L3PROTO, timeout.l3proto);
    to.u8(CTA_TIMEOUT_L4PROTO, timeout.l4proto);
    // The kernel counts the list of all policies as a use.
    to.be32(CTA_TIMEOUT_USE, generation.uses_of(Named::Timeout(&timeout.name)) as u32 + 1);
    if let Ok(states) = States::of(timeout.l4proto) {
        to.nest(CTA_TIMEOUT_DATA | NESTED, |to| states.write(to, &timeout.values));
    }
    to.end(start);
}

/// `cttimeout_del_timeout()`
fn delete(
    given: &Attributes<'_>,
    from: &Process,
    backend: &mut dyn Backend,
) -> Result<(), Failure> {
    if let Some(name) = given.get(CTA_TIMEOUT_NAME) {
        return change(GlobalChange::DeleteTimeout(name_of(name)?), from, backend);
    }
    let generation = backend.generation();
    let names = generation.globals.timeouts.iter().map(|timeout| &timeout.config.name);
    // Those that rules use stay.
    let unused = names.filter(|name| generation.uses_of(Named::Timeout(name)) == 0);
    change_all(unused.cloned().map(GlobalChange::DeleteTimeout), from, backend)
}

/// The connections that have usual timeouts.
fn connections(backend: &mut dyn Backend) -> Result<&mut dyn Connections, Failure> {
    backend.connections().ok_or(Errno::Eopnotsupp.into())
}

/// `cttimeout_default_set()`. Timeouts are the same for all families: it may be missing.
fn default_set(given: &Attributes<'_>, backend: &mut dyn Backend) -> Result<(), Failure> {
    let l4proto = given.need(CTA_TIMEOUT_L4PROTO)?.u8();
    let data = given.need(CTA_TIMEOUT_DATA)?;
    let values = States::of(l4proto)?.read(data)?;
    Ok(connections(backend)?.set_usual_timeouts(l4proto, &values)?)
}

/// `cttimeout_default_get()`, `cttimeout_default_fill_info()`
fn default_get(
    request: &Request<'_>,
    given: &Attributes<'_>,
    backend: &mut dyn Backend,
) -> Answered {
    let Request { message, port, limit } = request;
    let l3proto = given.need(CTA_TIMEOUT_L3PROTO)?.be16();
    let l4proto = given.need(CTA_TIMEOUT_L4PROTO)?.u8();
    let states = States::of(l4proto)?;
    let values = connections(backend)?.usual_timeouts(l4proto)?;
    let mut shown = Pages::new(*limit);
    shown.add(|to| {
        let kind = u16::from(SUBSYSTEM) << 8 | u16::from(DEFAULT_SET);
        let start = to.begin(kind, flags::MULTI, message.header.sequence, *port);
        to.raw(&[0; 4]);
        to.be16(CTA_TIMEOUT_L3PROTO, l3proto);
        to.u8(CTA_TIMEOUT_L4PROTO, l4proto);
        to.nest(CTA_TIMEOUT_DATA | NESTED, |to| states.write(to, &values));
        to.end(start);
    });
    Ok((Outcome::Acknowledge, shown.finish_without_end()))
}
