// SPDX-License-Identifier: Apache-2.0

//! Matches that remember packets (`net/netfilter/xt_limit.c`, `xt_hashlimit.c`, `xt_recent.c`,
//! `xt_connlimit.c`, `xt_rateest.c`, and the target of `xt_RATEEST.c`), and the state that
//! extensions have.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::{Limit, LimitType};
use super::part::{Part, stateful, vm};
use super::{Given, Lowering, Xt};
use crate::c_struct::CStruct;
use crate::op::{ConnectionsOf, Extension, GroupRule, RateRule, RecentRule};
use crate::state::dynamic::{DynamicSet, NewStatement, SetStatement};
use crate::state::{
    Bucket, GroupRate, Hashlimit, LimitState, NumgenState, QuotaState, RECENT_MOST, Rate,
    RateParameters, Recent, RecentAction, kept_for,
};
use crate::{Family, State};

/// Addresses that a rule can count connections of.
const CONNLIMIT_ADDRESSES: u32 = 65_536;
/// Bytes of their keys: an address and a zone.
const CONNLIMIT_KEY: usize = 20;

const TOO_LARGE: &str = "its rate or burst is too large";

/// State that an extension has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Nth,
    Quota,
    Limit,
    Connections,
    Recent,
    Groups,
    Estimator,
    Estimators,
    IpSets,
}

/// Which state an extension has, if it has some.
pub fn kept(xt: &Xt) -> Option<Kept> {
    const NTH: u16 = 1;
    let info = CStruct(&xt.info);
    match (xt.target, &*xt.name) {
        (false, "statistic") if info.u16(0) == NTH => Some(Kept::Nth),
        (false, "quota") => Some(Kept::Quota),
        (false, "limit") => Some(Kept::Limit),
        (false, "connlimit") => Some(Kept::Connections),
        (false, "recent") => Some(Kept::Recent),
        (false, "rateest") => Some(Kept::Estimators),
        (true, "RATEEST") => Some(Kept::Estimator),
        (false, "set") | (true, "SET") => Some(Kept::IpSets),
        (false, "hashlimit") if group_rate(xt.rev, info).is_ok() => Some(Kept::Groups),
        _ => None,
    }
}

/// What it begins with.
pub fn new_state(xt: &Xt, now: u64) -> Option<State> {
    let info = CStruct(&xt.info);
    Some(match kept(xt)? {
        Kept::Nth => State::Numgen(NumgenState::after(info.u32(12))),
        Kept::Quota => State::Quota(QuotaState::new(0)),
        Kept::Limit => State::Limit(LimitState::default()),
        Kept::Connections => {
            let set = DynamicSet::new(CONNLIMIT_KEY, None, CONNLIMIT_ADDRESSES, &[connections()]);
            State::Elements(Arc::new(set))
        }
        Kept::Recent => State::Recent(Box::new(Recent::new(recent_mask(xt.rev, info), hits(info)))),
        Kept::Estimator => State::Rate(Box::new(Rate::new(rate_parameters(info), now))),
        // The ruleset has its own.
        Kept::Estimators => State::Rates(Box::default()),
        Kept::IpSets => State::IpSets(Arc::default()),
        Kept::Groups => {
            let cfg = group_config(xt.rev, info);
            State::Hashlimit(Hashlimit::new(
                group_rate(xt.rev, info).ok()?,
                cfg.expire,
                cfg.groups(),
            ))
        }
    })
}

/// The name by which rules share the state, if they do.
pub fn shared_name(xt: &Xt, family: Family) -> Option<String> {
    let info = CStruct(&xt.info);
    match kept(xt)? {
        Kept::Recent => Some(format!("recent {}", info.text(10, 200)?)),
        Kept::Groups => {
            let len = if xt.rev == 1 { 16 } else { 255 };
            Some(format!("hashlimit {} {}", family.name(), info.text(0, len)?))
        }
        Kept::IpSets => Some("ipset".to_owned()),
        Kept::Estimator => Some(shared_rate(info.text(0, RATE_NAME)?)),
        Kept::Nth | Kept::Quota | Kept::Limit | Kept::Connections | Kept::Estimators => None,
    }
}

/// Takes note of one more rule that shares a state, at time `now` (ns).
pub fn join(xt: &Xt, state: &State, now: u64) {
    match state {
        State::Recent(table) => table.keep(kept_for(hits(CStruct(&xt.info)))),
        State::Rate(rate) => rate.begin(rate_parameters(CStruct(&xt.info)), now),
        _ => {}
    }
}

/// Bytes of the name of an estimator.
const RATE_NAME: usize = 16;

/// The name by which rules share an estimator.
pub fn shared_rate(name: &str) -> String {
    format!("rateest {name}")
}

/// How a target RATEEST estimates.
fn rate_parameters(info: CStruct<'_>) -> RateParameters {
    let [interval, ewma_log] = info.bytes(16);
    RateParameters { interval: interval as i8, ewma_log }
}

impl Xt {
    /// Names of estimators that it compares, one or two.
    pub fn compared_rates(&self) -> impl Iterator<Item = &str> {
        let info = CStruct(&self.info);
        let compares = !self.target && &*self.name == "rateest";
        let names = [(0, compares), (RATE_NAME, compares && info.u16(32) & RELATIVE != 0)];
        names.into_iter().filter(|(_, is)| *is).filter_map(move |(at, _)| info.text(at, RATE_NAME))
    }

    /// The estimator that it counts in, and how that estimates.
    pub fn counted_rate(&self) -> Option<(&str, RateParameters)> {
        let info = CStruct(&self.info);
        let counts = self.target && &*self.name == "RATEEST";
        let name = info.text(0, RATE_NAME).filter(|_| counts)?;
        Some((name, rate_parameters(info)))
    }
}

/// `XT_RATEEST_MATCH_INVERT` and on
const INVERT: u16 = 1;
const ABSOLUTE: u16 = 1 << 1;
const RELATIVE: u16 = 1 << 2;
const DELTA: u16 = 1 << 3;
const BYTES_IN_SECOND: u16 = 1 << 4;
const PACKETS_IN_SECOND: u16 = 1 << 5;

/// Whether `xt_rateest_mt_checkentry()` takes the flags and the mode.
pub fn compares_rates(info: CStruct<'_>) -> bool {
    let [flags, mode] = info.u16s(32);
    (flags & (ABSOLUTE | RELATIVE)).count_ones() == 1
        && flags & (BYTES_IN_SECOND | PACKETS_IN_SECOND) != 0
        && (1..=3).contains(&mode)
}

/// `struct xt_rateest_match_info`
pub fn rateest(given: &Given<'_>) -> Lowering {
    let info = given.info;
    if !compares_rates(info) {
        return Err("it compares nothing, or in no known way");
    }
    let [flags, mode] = info.u16s(32);
    let order = match mode {
        1 => Ordering::Equal,
        2 => Ordering::Less,
        _ => Ordering::Greater,
    };
    let has = move |flag| flags & flag != 0;
    let given = [36, 44].map(|at| [info.u32(at), info.u32(at + 4)]);
    Ok(vec![stateful(move |state| {
        let rule = |state: &Arc<State>| RateRule {
            order,
            inverted: has(INVERT),
            bytes: has(BYTES_IN_SECOND),
            packets: has(PACKETS_IN_SECOND),
            below: has(DELTA).then_some(given),
            second: has(ABSOLUTE).then_some(given[1]),
            state: state.clone(),
        };
        matches!(**state, State::Rates(_)).then(|| Extension::Rate(rule(state)))
    })])
}

/// `struct xt_rateest_target_info`
pub fn rateest_target(given: &Given<'_>) -> Lowering {
    if !rate_parameters(given.info).are_valid() || given.info.text(0, RATE_NAME).is_none() {
        return Err("it estimates in no known way");
    }
    Ok(vec![stateful(|state| {
        matches!(**state, State::Rate(_)).then(|| Extension::CountRate(state.clone()))
    })])
}

/// `struct xt_rateinfo`: how much of a second, in ten thousandths, a packet takes.
pub fn limit(given: &Given<'_>) -> Lowering {
    const PARTS: u64 = 10_000;
    let (cost, burst) = (given.info.u32(0), given.info.u32(4));
    if cost == 0 || burst == 0 {
        return Err("it limits nothing");
    }
    let kind = LimitType::Packets;
    let limit = Limit { rate: PARTS, unit: cost.into(), burst, kind, over: false };
    match Bucket::new(&limit) {
        Ok(_) => Ok(vec![vm(limit)]),
        Err(_) => Err(TOO_LARGE),
    }
}

/// A statement that counts connections; the limit is the rule's.
fn connections() -> NewStatement {
    let statement = SetStatement::Connlimit { limit: u32::MAX, over: false };
    NewStatement { statement, state: [0; 2] }
}

/// `struct xt_connlimit_info`
pub fn connlimit(given: &Given<'_>) -> Lowering {
    const INVERTED: u32 = 1;
    const DESTINATION: u32 = 2;
    let (info, family) = (given.info, given.ip()?);
    let (limit, flags) = (info.u32(16), info.u32(20));
    let mut mask = info.bytes::<16>(0);
    if family == Family::Ip {
        mask[4..].fill(0);
    }
    Ok(vec![
        Part::Tracks,
        stateful(move |state| {
            let State::Elements(set) = &**state else { return None };
            Some(Extension::Connlimit(ConnectionsOf {
                destination: flags & DESTINATION != 0,
                mask,
                limit,
                inverted: flags & INVERTED != 0,
                set: set.clone(),
                statements: set.default_statements(),
            }))
        }),
    ])
}

/// Hits that a rule asks for.
fn hits(info: CStruct<'_>) -> u32 {
    info.u32(4).min(RECENT_MOST - 1)
}

fn recent_mask(rev: u32, info: CStruct<'_>) -> [u8; 16] {
    if rev == 0 { [u8::MAX; 16] } else { info.bytes(212) }
}

/// `struct xt_recent_mtinfo` and `_v1`
pub fn recent(given: &Given<'_>) -> Lowering {
    const CHECK: u8 = 1;
    const SET: u8 = 1 << 1;
    const UPDATE: u8 = 1 << 2;
    const REMOVE: u8 = 1 << 3;
    const TTL: u8 = 1 << 4;
    const REAP: u8 = 1 << 5;
    given.ip()?;
    let info = given.info;
    let (seconds, hits, asked, inverted) = (info.u32(0), info.u32(4), info.u8(8), info.u8(9) != 0);
    if info.text(10, 200).is_none_or(str::is_empty) {
        return Err("it has no name");
    }
    if hits >= RECENT_MOST || asked & REAP != 0 && seconds == 0 {
        return Err("it asks for more hits than there are, or forgets without seconds");
    }
    let reap = asked & REAP != 0;
    let action = match asked & (CHECK | SET | UPDATE | REMOVE) {
        SET => RecentAction::Set,
        REMOVE => RecentAction::Remove,
        CHECK => RecentAction::Check { update: false, seconds, hits, reap },
        UPDATE => RecentAction::Check { update: true, seconds, hits, reap },
        _ => return Err("it does nothing, or too much"),
    };
    let destination = info.u8(210) != 0;
    Ok(vec![stateful(move |state| {
        let rule = |state: &Arc<State>| RecentRule {
            action,
            destination,
            same_ttl: asked & TTL != 0,
            inverted,
            state: state.clone(),
        };
        matches!(**state, State::Recent(_)).then(|| Extension::Recent(rule(state)))
    })])
}

/// `struct hashlimit_cfg1` to `3`, in the form of the last one.
struct GroupConfig {
    cost: u64,
    burst: u64,
    mode: u32,
    size: u32,
    max: u32,
    expire: u32,
    interval: u32,
    source: u8,
    destination: u8,
}

impl GroupConfig {
    /// The most groups (`htable_create()`); without a size that of a machine with much memory.
    fn groups(&self) -> u32 {
        const SIZE: u32 = 8192;
        let size = if self.size == 0 { SIZE } else { self.size };
        if self.max == 0 { size.saturating_mul(8) } else { self.max.max(size) }
    }

    fn has(&self, flag: u32) -> bool {
        self.mode & flag != 0
    }
}

fn group_config(rev: u32, info: CStruct<'_>) -> GroupConfig {
    let (rates, rest) = match rev {
        1 => ([info.u32(20).into(), info.u32(24).into()], 28),
        _ => ([info.u64(256), info.u64(264)], 276),
    };
    let masks = match rev {
        1 => 44,
        2 => 292,
        _ => 296,
    };
    GroupConfig {
        cost: rates[0],
        burst: rates[1],
        mode: info.u32(if rev == 1 { 16 } else { 272 }),
        size: info.u32(rest),
        max: info.u32(rest + 4),
        expire: info.u32(rest + 12),
        interval: if rev == 3 { info.u32(292) } else { 0 },
        source: info.u8(masks),
        destination: info.u8(masks + 1),
    }
}

/// `XT_HASHLIMIT_HASH_DIP` and on.
const DESTINATION: u32 = 1;
const DESTINATION_PORT: u32 = 1 << 1;
const SOURCE: u32 = 1 << 2;
const SOURCE_PORT: u32 = 1 << 3;
const INVERTED: u32 = 1 << 4;
const BYTES: u32 = 1 << 5;
const WINDOW: u32 = 1 << 6;

fn group_rate(rev: u32, info: CStruct<'_>) -> Result<GroupRate, &'static str> {
    /// Costs are in these parts of a second.
    const PARTS: u64 = 1_000_000;
    let cfg = group_config(rev, info);
    if cfg.expire == 0 || cfg.cost == 0 && !cfg.has(BYTES) {
        return Err("its groups have no rate, or do not live");
    }
    if cfg.has(WINDOW) {
        if rev < 3 || cfg.interval == 0 {
            return Err("its window has no length");
        }
        let bytes = cfg.has(BYTES);
        // user2rate_bytes(), user2rate()
        let pieces = |cost: u32| u32::MAX.checked_div(cost).unwrap_or(u32::MAX);
        let rate = match bytes {
            true => u64::from(pieces(cfg.cost as u32)).saturating_sub(1) << 4,
            false => PARTS / cfg.cost,
        };
        let burst = match bytes {
            true => rate.checked_mul(cfg.burst.max(1)),
            false => rate.checked_add(cfg.burst),
        };
        let burst = burst.ok_or(TOO_LARGE)?;
        return Ok(GroupRate::Window { bytes, burst, rate, interval: cfg.interval });
    }
    if cfg.has(BYTES) {
        return Ok(GroupRate::Bytes { cost: cfg.cost as u32, bursts: cfg.burst });
    }
    // Revision 1 has ten thousandths of a second.
    let nanoseconds = if rev == 1 { 100_000 } else { 1000 };
    let burst = u32::try_from(cfg.burst).map_err(|_| TOO_LARGE)?;
    if burst == 0 {
        return Err("its burst is zero");
    }
    let cost = cfg.cost.checked_mul(nanoseconds).ok_or(TOO_LARGE)?;
    Bucket::of_packets(cost, burst).map(GroupRate::Packets).map_err(|_| TOO_LARGE)
}

/// `struct xt_hashlimit_mtinfo1` to `3`
pub fn hashlimit(given: &Given<'_>) -> Lowering {
    let family = given.ip()?;
    let cfg = group_config(given.rev, given.info);
    group_rate(given.rev, given.info)?;
    let most = if family == Family::Ip6 { 128 } else { 32 };
    if cfg.source > most || cfg.destination > most {
        return Err("its masks are too long");
    }
    let of = |flag, bits| if cfg.has(flag) { bits } else { 0 };
    let (destination, source) = (of(DESTINATION, cfg.destination), of(SOURCE, cfg.source));
    let (destination_port, source_port) = (cfg.has(DESTINATION_PORT), cfg.has(SOURCE_PORT));
    let inverted = cfg.has(INVERTED);
    Ok(vec![stateful(move |state| {
        let rule = |state: &Arc<State>| GroupRule {
            destination,
            source,
            destination_port,
            source_port,
            inverted,
            state: state.clone(),
        };
        matches!(**state, State::Hashlimit(_)).then(|| Extension::Hashlimit(rule(state)))
    })])
}
