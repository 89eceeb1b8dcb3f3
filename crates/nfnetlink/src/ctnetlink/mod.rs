// SPDX-License-Identifier: Apache-2.0

//! The subsystems ctnetlink and ctnetlink_exp (`net/netfilter/nf_conntrack_netlink.c`):
//! connections and expectations.
//!
//! | file | is |
//! | --- | --- |
//! | `tuple` | tuples and zones, both ways |
//! | `connection` | what is told of a connection: listings, events |
//! | `change` | what a message says of a connection that is to be entered or changed |
//! | `filter` | which connections a dump or a flush is about |
//! | `difference` | events for what another process has changed |
//! | `statistics` | counts |
//! | `told` | what members of groups are told |
//! | `exchange`, `address` | one request and its answers; their headers |
//! | `expectation` | messages about expectations |
//! | `expected` | what is told of an expectation |
//! | `verdict` | what a verdict about a packet of a queue says of its connection |

mod address;
mod change;
mod connection;
mod difference;
mod exchange;
mod expectation;
mod expected;
mod filter;
mod statistics;
mod told;
mod tuple;
mod verdict;

use penstock_conntrack::{Direction, Flow, Helpers, event, status};
use penstock_ruleset::Errno;

pub use change::settable_status;
pub use connection::write_glued;
pub use difference::difference;
pub use exchange::{Exchange, Outcome};
pub use told::notification;
pub use verdict::VerdictChange;

use crate::connections::{NewFlow, Wanted};
use crate::message::{Attributes, Check, Failure, Message, Policy, flags};
use crate::uapi::ctnetlink::*;
use filter::Filter;
use tuple::{Reading, Zone};

/// `NFNL_SUBSYS_CTNETLINK`
pub const SUBSYSTEM: u8 = 1;
/// `NFNL_SUBSYS_CTNETLINK_EXP`
pub const SUBSYSTEM_EXP: u8 = 2;

/// `ct_nla_policy`
const POLICY: Policy = &[
    (CTA_TUPLE_ORIG, Check::Nested),
    (CTA_TUPLE_REPLY, Check::Nested),
    (CTA_STATUS, Check::U32),
    (CTA_PROTOINFO, Check::Nested),
    (CTA_HELP, Check::Nested),
    (CTA_NAT_SRC, Check::Nested),
    (CTA_TIMEOUT, Check::U32),
    (CTA_MARK, Check::U32),
    (CTA_ID, Check::U32),
    (CTA_NAT_DST, Check::Nested),
    (CTA_TUPLE_MASTER, Check::Nested),
    (CTA_SEQ_ADJ_ORIG, Check::Nested),
    (CTA_SEQ_ADJ_REPLY, Check::Nested),
    (CTA_ZONE, Check::U16),
    (CTA_MARK_MASK, Check::U32),
    (CTA_LABELS, Check::Binary(16)),
    (CTA_LABELS_MASK, Check::Binary(16)),
    (CTA_FILTER, Check::Nested),
    (CTA_STATUS_MASK, Check::U32),
    (CTA_TIMESTAMP_EVENT, Check::Reject),
];

/// Whether a message of one of the two subsystems changes connections or expectations.
pub fn is_change(subsystem: u8, number: u8) -> bool {
    match subsystem {
        SUBSYSTEM => {
            matches!(number, IPCTNL_MSG_CT_NEW | IPCTNL_MSG_CT_DELETE | IPCTNL_MSG_CT_GET_CTRZERO)
        }
        SUBSYSTEM_EXP => matches!(number, IPCTNL_MSG_EXP_NEW | IPCTNL_MSG_EXP_DELETE),
        _ => false,
    }
}

/// Carries out a request of one of the two subsystems.
///
/// # Errors
/// The kernel's, with the attribute to blame.
pub fn run(exchange: &mut Exchange<'_>, message: &Message<'_>) -> Result<Outcome, Failure> {
    if message.subsystem() == SUBSYSTEM_EXP {
        return expectation::run(exchange, message);
    }
    let given = message.attributes(POLICY)?;
    let m = message;
    let dump = m.header.flags & flags::DUMP != 0;
    let done = match message.number() {
        IPCTNL_MSG_CT_NEW => new(exchange, m, &given),
        IPCTNL_MSG_CT_GET | IPCTNL_MSG_CT_GET_CTRZERO if dump => dump_all(exchange, m, &given),
        IPCTNL_MSG_CT_GET | IPCTNL_MSG_CT_GET_CTRZERO => get(exchange, m, &given),
        IPCTNL_MSG_CT_DELETE => delete(exchange, m, &given),
        IPCTNL_MSG_CT_GET_STATS_CPU if dump => statistics::of_workers(exchange),
        IPCTNL_MSG_CT_GET_STATS_CPU => Ok(Outcome::Acknowledge),
        IPCTNL_MSG_CT_GET_STATS => statistics::of_table(exchange),
        // None is kept that ends or begins: a dump of them is empty.
        IPCTNL_MSG_CT_GET_DYING | IPCTNL_MSG_CT_GET_UNCONFIRMED if dump => {
            Ok(exchange.finish_dump())
        }
        IPCTNL_MSG_CT_GET_DYING | IPCTNL_MSG_CT_GET_UNCONFIRMED => {
            Err(Failure::from(Errno::Eopnotsupp))
        }
        _ => Err(Failure::einval()),
    };
    done.map_err(Failure::blaming_nothing)
}

/// The direction that a message names, if it does.
fn named(message: &Message<'_>, given: &Attributes<'_>) -> Result<Option<Wanted>, Failure> {
    let mut zone = Zone::read(given.get(CTA_ZONE));
    let both = [(CTA_TUPLE_ORIG, Direction::Original), (CTA_TUPLE_REPLY, Direction::Reply)];
    for (kind, direction) in both {
        if let Some(attribute) = given.get(kind) {
            let reading = Reading::whole(message.family(), direction);
            let tuple = tuple::read(attribute, reading, Some(&mut zone))?;
            return Ok(Some(zone.wanted(tuple)));
        }
    }
    Ok(None)
}

/// `ctnetlink_get_conntrack()` of one.
fn get(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let wanted = named(message, given)?.ok_or(Failure::einval())?;
    let flow = exchange.connections.find(&wanted)?.ok_or(Failure::from(Errno::Enoent))?;
    exchange.answer_flow(&flow);
    if message.number() == IPCTNL_MSG_CT_GET_CTRZERO {
        exchange.connections.zero_counters(std::slice::from_ref(&flow))?;
        exchange.changed = true;
    }
    Ok(Outcome::Acknowledge)
}

/// `ctnetlink_dump_table()`
fn dump_all(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let filter = Filter::read(message.family(), given)?;
    let mut zeroed = Vec::new();
    let zero = message.number() == IPCTNL_MSG_CT_GET_CTRZERO;
    let (connections, dump) = exchange.parts();
    connections.each(&mut |flow| {
        if filter.as_ref().is_none_or(|filter| filter.has(flow)) {
            dump.flow(flow, filter.is_some());
            if zero {
                zeroed.push(flow.clone());
            }
        }
    })?;
    exchange.connections.zero_counters(&zeroed)?;
    exchange.changed |= !zeroed.is_empty();
    Ok(exchange.finish_dump())
}

/// `ctnetlink_new_conntrack()`
fn new(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let mut zone = Zone::read(given.get(CTA_ZONE));
    let mut read = |kind, direction| {
        let reading = Reading::whole(message.family(), direction);
        given.get(kind).map(|tuple| tuple::read(tuple, reading, Some(&mut zone))).transpose()
    };
    let original = read(CTA_TUPLE_ORIG, Direction::Original)?;
    let reply = read(CTA_TUPLE_REPLY, Direction::Reply)?;
    let there = match original.or(reply) {
        Some(tuple) => exchange.connections.find(&zone.wanted(tuple))?,
        None => None,
    };
    if let Some(flow) = there {
        if message.header.has(flags::EXCL) {
            return Err(Errno::Eexist.into());
        }
        let change = change::read_update(&exchange.helpers, given, &flow)?;
        let flow = exchange.connections.change(&flow, &change)?;
        exchange.tell(&flow, connection::BY_PROGRAM | event::LABEL);
        return Ok(Outcome::Acknowledge);
    }
    if !message.header.has(flags::CREATE) {
        return Err(Errno::Enoent.into());
    }
    let (original, reply) = original.zip(reply).ok_or(Failure::einval())?;
    if original.protocol != reply.protocol {
        return Err(Failure::einval());
    }
    let new = read_new(&exchange.helpers, message, given, zone, [original, reply])?;
    let flow = exchange.connections.add(&new)?;
    let begins = if flow.master.is_some() { event::RELATED } else { event::NEW };
    let labelled = if given.has(CTA_LABELS) && flow.labels.is_some() { event::LABEL } else { 0 };
    exchange.tell(&flow, begins | labelled | connection::BY_PROGRAM);
    Ok(Outcome::Acknowledge)
}

fn read_new(
    helpers: &Helpers,
    message: &Message<'_>,
    given: &Attributes<'_>,
    zone: Zone,
    [original, reply]: [penstock_conntrack::Tuple; 2],
) -> Result<NewFlow, Failure> {
    let change = change::read_new(helpers, given, &original)?;
    let nat = [CTA_NAT_DST, CTA_NAT_SRC].map(|kind| given.get(kind));
    let translation = match nat.iter().any(Option::is_some) {
        false => None,
        true => {
            let mut ranges = [None, None];
            for (range, nest) in ranges.iter_mut().zip(nat) {
                *range = nest.map(|nest| change::read_range(nest, original.l3)).transpose()?;
            }
            Some(ranges)
        }
    };
    let master = match given.get(CTA_TUPLE_MASTER) {
        None => None,
        Some(tuple) => {
            let reading = Reading::whole(message.family(), Direction::Original);
            Some(zone.wanted(tuple::read(tuple, reading, None)?))
        }
    };
    let wanted = [zone.wanted(original), zone.wanted(reply)];
    Ok(NewFlow {
        original: wanted[0].in_zone(Direction::Original),
        reply: wanted[1].in_zone(Direction::Reply),
        master,
        translation,
        change,
    })
}

/// `ctnetlink_del_conntrack()`
fn delete(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let wanted = match given.has(CTA_FILTER) {
        true => None,
        false => named(message, given)?,
    };
    let Some(wanted) = wanted else { return flush(exchange, message, given) };
    let flow = exchange.connections.find(&wanted)?.ok_or(Failure::from(Errno::Enoent))?;
    if given.be32(CTA_ID).is_some_and(|id| id != flow.id) {
        return Err(Errno::Enoent.into());
    }
    end(exchange, std::slice::from_ref(&flow))?;
    Ok(Outcome::Acknowledge)
}

/// Ends connections, and tells of that.
fn end(exchange: &mut Exchange<'_>, flows: &[Flow]) -> Result<(), Failure> {
    let removed = exchange.connections.remove(flows)?;
    for (flow, _) in flows.iter().zip(removed).filter(|(_, removed)| *removed) {
        let ended = Flow { status: flow.status | status::DYING, ..flow.clone() };
        exchange.tell(&ended, event::DESTROY);
    }
    Ok(())
}

/// `ctnetlink_flush_conntrack()`. A message of version 0 without a filter is about all families.
fn flush(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let of_family = message.version() != 0 || given.has(CTA_FILTER);
    let family = if of_family { message.family() } else { 0 };
    let filter = Filter::read(family, given)?;
    let mut all = Vec::new();
    exchange.connections.each(&mut |flow| {
        if filter.as_ref().is_none_or(|filter| filter.has(flow)) {
            all.push(flow.clone());
        }
    })?;
    end(exchange, &all)?;
    Ok(Outcome::Acknowledge)
}
