// SPDX-License-Identifier: Apache-2.0

//! Messages about expectations (`ctnetlink_get_expect()`, `ctnetlink_new_expect()`,
//! `ctnetlink_del_expect()`).

use penstock_conntrack::{Direction, Expectation, Flow, Follow, Helpers, Tuple, expect_flag};
use penstock_ruleset::Errno;
use serde::{Deserialize, Serialize};

use super::SUBSYSTEM_EXP;
use super::change;
use super::exchange::{Exchange, Outcome};
use super::expected::{FOLLOW_MASTER, fill};
use super::statistics;
use super::tuple::{self, Reading, Zone};
use crate::connections::{Expected, NewExpected, Wanted};
use crate::message::{Attribute, Attributes, Check, Failure, Message, Policy, flags};
use crate::uapi::ctnetlink::*;

/// `exp_nla_policy`
pub(super) const POLICY: Policy = &[
    (CTA_EXPECT_MASTER, Check::Nested),
    (CTA_EXPECT_TUPLE, Check::Nested),
    (CTA_EXPECT_MASK, Check::Nested),
    (CTA_EXPECT_TIMEOUT, Check::U32),
    (CTA_EXPECT_ID, Check::U32),
    (CTA_EXPECT_HELP_NAME, Check::NulString(15)),
    (CTA_EXPECT_ZONE, Check::U16),
    (CTA_EXPECT_FLAGS, Check::U32),
    (CTA_EXPECT_CLASS, Check::U32),
    (CTA_EXPECT_NAT, Check::Nested),
    (CTA_EXPECT_FN, Check::NulString(255)),
];
/// `exp_nat_nla_policy`
const NAT_POLICY: Policy =
    &[(CTA_EXPECT_NAT_DIR, Check::U32), (CTA_EXPECT_NAT_TUPLE, Check::Nested)];

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Carries out a request.
pub fn run(exchange: &mut Exchange<'_>, message: &Message<'_>) -> Result<Outcome, Failure> {
    let given = message.attributes(POLICY)?;
    let dump = message.header.flags & flags::DUMP != 0;
    let done = match message.number() {
        IPCTNL_MSG_EXP_NEW => new(exchange, message, &given),
        IPCTNL_MSG_EXP_GET if dump => list(exchange, message, &given),
        IPCTNL_MSG_EXP_GET => get(exchange, message, &given),
        IPCTNL_MSG_EXP_DELETE => delete(exchange, message, &given),
        IPCTNL_MSG_EXP_GET_STATS_CPU if dump => statistics::of_expectations(exchange),
        IPCTNL_MSG_EXP_GET_STATS_CPU => Ok(Outcome::Acknowledge),
        _ => Err(Failure::einval()),
    };
    done.map_err(Failure::blaming_nothing)
}

/// A tuple of a message in the zone that the message says.
fn wanted(
    message: &Message<'_>,
    given: &Attributes<'_>,
    tuple: Attribute<'_>,
) -> Result<Wanted, Failure> {
    let reading = Reading::whole(message.family(), Direction::Original);
    let tuple = tuple::read(tuple, reading, None)?;
    Ok(Zone::read(given.get(CTA_EXPECT_ZONE)).wanted(tuple))
}

/// The expectation that a connection with a tuple would meet (`__nf_ct_expect_find()`).
fn find(exchange: &mut Exchange<'_>, wanted: &Wanted) -> Result<Option<Expected>, Failure> {
    let tuple = wanted.in_zone(Direction::Original);
    let mut all = exchange.connections.expectations()?.into_iter();
    Ok(all.find(|expected| is_met(&expected.expectation, &tuple)))
}

/// Whether two expectations are the same one.
pub fn is_same(a: &Expected, b: &Expected) -> bool {
    (a.id, a.master) == (b.id, b.master)
}

fn is_met(e: &Expectation, tuple: &Tuple) -> bool {
    let source = |(a, (b, mask)): (&u8, (&u8, &u8))| (a ^ b) & mask == 0;
    let sources = e.tuple.src.iter().zip(tuple.src.iter().zip(&e.source_mask));
    let without_source = |t: &Tuple| Tuple { src: [0; 16], src_id: 0, ..*t };
    without_source(&e.tuple) == without_source(tuple)
        && sources.into_iter().all(source)
        && (!e.source_port || e.tuple.src_id == tuple.src_id)
}

fn answer(exchange: &mut Exchange<'_>, expected: &Expected) {
    let head = (SUBSYSTEM_EXP, IPCTNL_MSG_EXP_NEW, flags::MULTI);
    exchange.answer(head, (expected.expectation.tuple.l3, 0), |to| fill(to, expected));
}

/// `ctnetlink_get_expect()` of one: it is named by its tuple, or by one under the attribute of its
/// master.
fn get(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let tuple = given.get(CTA_EXPECT_TUPLE).or(given.get(CTA_EXPECT_MASTER));
    let wanted = wanted(message, given, tuple.ok_or(Failure::einval())?)?;
    let found = find(exchange, &wanted)?;
    let expected = found
        .filter(|e| given.be32(CTA_EXPECT_ID).is_none_or(|id| id == e.id))
        .ok_or(Failure::from(Errno::Enoent))?;
    answer(exchange, &expected);
    Ok(Outcome::Acknowledge)
}

/// `ctnetlink_exp_dump_table()`, or `ctnetlink_exp_ct_dump_table()` of one master.
fn list(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let master = match given.get(CTA_EXPECT_MASTER) {
        None => None,
        Some(tuple) => {
            let wanted = wanted(message, given, tuple)?;
            let master = exchange.connections.find(&wanted)?;
            Some(master.ok_or(Failure::from(Errno::Enoent))?.original)
        }
    };
    let family = message.family();
    let all = exchange.connections.expectations()?;
    let (_, listing) = exchange.parts();
    for expected in &all {
        let l3 = expected.expectation.tuple.l3;
        if (family == 0 || l3 == family) && master.is_none_or(|m| m == expected.master) {
            let head = (SUBSYSTEM_EXP, IPCTNL_MSG_EXP_NEW, flags::MULTI);
            listing.message(head, (l3, 0), |to| fill(to, expected));
        }
    }
    Ok(exchange.finish_dump())
}

/// `ctnetlink_new_expect()`
fn new(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let tuple = given.need(CTA_EXPECT_TUPLE)?;
    given.need(CTA_EXPECT_MASK)?;
    given.need(CTA_EXPECT_MASTER)?;
    let wanted = wanted(message, given, tuple)?;
    let Some(there) = find(exchange, &wanted)? else {
        if !message.header.has(flags::CREATE) {
            return Err(Errno::Enoent.into());
        }
        let new = read_new(exchange, message, given, &wanted)?;
        let before = exchange.connections.expectations()?;
        let expected = exchange.connections.expect(&new)?;
        // The oldest may have made room.
        let after = exchange.connections.expectations()?;
        for gone in before.iter().filter(|old| !after.iter().any(|new| is_same(old, new))) {
            exchange.tell_expected(gone, true);
        }
        exchange.tell_expected(&expected, false);
        return Ok(Outcome::Acknowledge);
    };
    if message.header.has(flags::EXCL) {
        return Err(Errno::Eexist.into());
    }
    if let Some(seconds) = given.be32(CTA_EXPECT_TIMEOUT) {
        exchange.connections.prolong(&there, u64::from(seconds) * SECOND)?;
        exchange.changed = true;
    }
    Ok(Outcome::Acknowledge)
}

/// `ctnetlink_create_expect()`
fn read_new(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
    of: &Wanted,
) -> Result<NewExpected, Failure> {
    let mask = wanted(message, given, given.need(CTA_EXPECT_MASK)?)?.tuple;
    let master = wanted(message, given, given.need(CTA_EXPECT_MASTER)?)?;
    let flow = exchange.connections.find(&master)?.ok_or(Failure::from(Errno::Enoent))?;
    let named = given.get(CTA_EXPECT_HELP_NAME).map(|name| name.text()).transpose()?;
    let help = (named, given.be32(CTA_EXPECT_CLASS));
    let (helper, class) = read_help(&exchange.helpers, help, &flow)?;
    let rest = Rest::read(given, &mask, message.family())?;
    Ok(rest.expected(of.tuple, master, helper, class))
}

/// The number of the helper of a connection that is expected, and the class of the expectation, by
/// name and class as they are asked for (`ctnetlink_alloc_expect()`).
pub(super) fn read_help(
    helpers: &Helpers,
    (named, class): (Option<&str>, Option<u32>),
    flow: &Flow,
) -> Result<(u16, u8), Failure> {
    let helper = match named {
        None => 0,
        Some(name) => change::helper(helpers, name, &flow.original)?,
    };
    if flow.helper.is_none() {
        return Err(Errno::Eopnotsupp.into());
    }
    let class = class.filter(|_| named.is_some()).unwrap_or(0);
    Ok((helper, u8::try_from(class).map_err(|_| Failure::einval())?))
}

/// What a message says of an expectation beyond its tuple, master and helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rest {
    source_mask: [u8; 16],
    source_port: bool,
    flags: u8,
    follow: Option<Follow>,
}

impl Rest {
    /// `family` is that of the addresses of [`CTA_EXPECT_NAT`].
    pub(super) fn read(given: &Attributes<'_>, mask: &Tuple, family: u8) -> Result<Self, Failure> {
        let flags = given.be32(CTA_EXPECT_FLAGS).unwrap_or(0) as u8 & !expect_flag::USERSPACE;
        let function = given.get(CTA_EXPECT_FN).map(|name| name.text()).transpose()?;
        if function.is_some_and(|name| name != FOLLOW_MASTER) {
            return Err(Failure::einval());
        }
        let follow = given.get(CTA_EXPECT_NAT).map(|nest| read_nat(nest, family)).transpose()?;
        // A source port counts with all of its bits or not at all.
        let source_port = match mask.src_id {
            0 => false,
            u16::MAX => true,
            _ => return Err(Errno::Eopnotsupp.into()),
        };
        Ok(Rest { source_mask: mask.src, source_port, flags, follow })
    }

    /// The whole of it.
    pub(super) fn expected(
        self,
        tuple: Tuple,
        master: Wanted,
        helper: u16,
        class: u8,
    ) -> NewExpected {
        let Rest { source_mask, source_port, flags, follow } = self;
        NewExpected { tuple, source_mask, source_port, master, helper, class, flags, follow }
    }
}

/// How an expected connection is translated (`ctnetlink_parse_expect_nat()`).
fn read_nat(nest: Attribute<'_>, family: u8) -> Result<Follow, Failure> {
    let given = nest.attributes(NAT_POLICY)?;
    let direction = given.need(CTA_EXPECT_NAT_DIR)?.be32();
    let tuple = given.need(CTA_EXPECT_NAT_TUPLE)?;
    let tuple = tuple::read(tuple, Reading::whole(family, Direction::Original), None)?;
    Ok(Follow {
        direction: if direction == 0 { Direction::Original } else { Direction::Reply },
        address: (tuple.src != [0; 16]).then_some(tuple.src),
        port: tuple.src_id,
    })
}

/// `ctnetlink_del_expect()`
fn delete(
    exchange: &mut Exchange<'_>,
    message: &Message<'_>,
    given: &Attributes<'_>,
) -> Result<Outcome, Failure> {
    let gone = match (given.get(CTA_EXPECT_TUPLE), given.get(CTA_EXPECT_HELP_NAME)) {
        (Some(tuple), _) => {
            let wanted = wanted(message, given, tuple)?;
            let found = find(exchange, &wanted)?;
            let id = given.be32(CTA_EXPECT_ID);
            let found = found.filter(|e| id.is_none_or(|id| id == e.id));
            vec![found.ok_or(Failure::from(Errno::Enoent))?]
        }
        (None, Some(name)) => {
            let name = name.text()?;
            let mut all = exchange.connections.expectations()?;
            all.retain(|e| e.helper.as_deref() == Some(name));
            all
        }
        (None, None) => exchange.connections.expectations()?,
    };
    for expected in &gone {
        if exchange.connections.unexpect(expected)? {
            exchange.tell_expected(expected, true);
        }
    }
    Ok(Outcome::Acknowledge)
}
