// SPDX-License-Identifier: Apache-2.0

//! The match `set` and the target `SET` (`net/netfilter/xt_set.c`).

use std::sync::Arc;

use penstock_ipset::{CounterMatch, Query, packet};

use super::part::stateful;
use super::{Given, Lowering, Xt};
use crate::State;
use crate::c_struct::CStruct;
use crate::op::{Extension, IpSetMatch, IpSetTarget};

/// `IPSET_INVALID_ID`
const NO_SET: u16 = u16::MAX;
/// `IPSET_INV_MATCH`
const INVERTED: u8 = 1;
/// `IPSET_RETURN_NOMATCH` of revisions 1 and 2
const EXCEPTIONS: u8 = 1 << 7;
/// `IPSET_DIM_MAX`
const DIMENSIONS: u8 = 6;

/// Bytes of a `struct xt_set_info`, and of revision 0.
const SET: usize = 4;
const SET_V0: usize = 32;

/// A `struct xt_set_info`: number of the set, dimensions, flags.
fn set_info(rev: u32, info: CStruct<'_>, at: usize) -> (u16, u8, u8) {
    if rev > 0 {
        return (info.u16(at), info.u8(at + 2), info.u8(at + 3));
    }
    // compat_flags()
    const SOURCE: u32 = 1;
    const NOT: u32 = 4;
    let (mut dimensions, mut flags) = (0, 0);
    if info.u32(at + 4) & NOT != 0 {
        flags |= INVERTED;
    }
    for of in (0..usize::from(DIMENSIONS) - 1).map(|i| info.u32(at + 4 + i * 4)) {
        if of == 0 {
            break;
        }
        dimensions += 1;
        if of & SOURCE != 0 {
            flags |= 1 << dimensions;
        }
    }
    (info.u16(at), dimensions, flags)
}

fn query((index, dimensions, sources): (u16, u8, u8)) -> Query {
    Query { index, dimensions, sources, flags: 0, counters: None, timeout: None }
}

/// Sets of an extension: number and dimensions of each.
fn sets(xt: &Xt) -> impl Iterator<Item = (u16, u8)> {
    let many = match (xt.target, &*xt.name, xt.rev) {
        (false, "set", _) => 1,
        (true, "SET", 3) => 3,
        (true, "SET", _) => 2,
        _ => 0,
    };
    let size = if xt.rev == 0 { SET_V0 } else { SET };
    (0..many).filter_map(move |n| {
        let (index, dimensions, _) = set_info(xt.rev, CStruct(&xt.info), n * size);
        (index != NO_SET || !xt.target).then_some((index, dimensions))
    })
}

impl Xt {
    /// Numbers of the sets of ipset that it looks into or changes, each as often as it does.
    pub fn ip_sets(&self) -> impl Iterator<Item = u16> {
        sets(self).map(|(index, _)| index)
    }

    /// Whether a set is named with more dimensions than there are.
    pub(super) fn has_too_many_dimensions(&self) -> bool {
        sets(self).any(|(_, dimensions)| dimensions > DIMENSIONS)
    }

    /// Whether it has a set whose elements give packets something (`--map-set`), and whether that
    /// is a priority or a queue.
    pub(super) fn maps(&self) -> Option<bool> {
        let info = CStruct(&self.info);
        let has = self.target && self.rev == 3 && info.u16(2 * SET) != NO_SET;
        has.then(|| info.u32(12) & (MAP_PRIORITY | MAP_QUEUE) != 0)
    }
}

/// `IPSET_FLAG_MAP_SKBMARK`, `IPSET_FLAG_MAP_SKBPRIO`, `IPSET_FLAG_MAP_SKBQUEUE`
const MAP_MARK: u32 = 1 << 8;
const MAP_PRIORITY: u32 = 1 << 9;
const MAP_QUEUE: u32 = 1 << 10;

/// `struct xt_set_info_match_v0` to `v4`
pub fn set(given: &Given<'_>) -> Lowering {
    given.ip()?;
    let (rev, info) = (given.rev, given.info);
    let of = set_info(rev, info, 0);
    let mut query = query(of);
    if rev >= 3 {
        query.flags = info.u32(40);
        // The value and the operation have changed places.
        let (value, op) = if rev == 3 { (8, 0) } else { (0, 8) };
        let counter =
            |at: usize| CounterMatch { op: info.u8(at + op), value: info.u64(at + value) };
        let counters = [counter(8), counter(24)];
        query.counters = counters.iter().any(|counter| counter.op != 0).then_some(counters);
    } else if of.2 & EXCEPTIONS != 0 {
        query.flags = packet::RETURN_NOMATCH;
    }
    let inverted = of.2 & INVERTED != 0;
    Ok(vec![stateful(move |state| {
        let rule = |state: &Arc<State>| IpSetMatch { query, inverted, state: state.clone() };
        matches!(**state, State::IpSets(_)).then(|| Extension::IpSet(rule(state)))
    })])
}

/// `struct xt_set_info_target_v0` to `v3`
pub fn target(given: &Given<'_>) -> Lowering {
    given.ip()?;
    let (rev, info) = (given.rev, given.info);
    let size = if rev == 0 { SET_V0 } else { SET };
    let query = |number: usize| {
        let of = set_info(rev, info, number * size);
        (of.0 != NO_SET).then(|| query(of))
    };
    let (flags, timeout) = match rev {
        2 => (info.u32(8), info.u32(12)),
        3 => (info.u32(12), info.u32(16)),
        _ => (0, u32::MAX),
    };
    let timeout = Some(timeout).filter(|seconds| *seconds != u32::MAX);
    let map = if rev == 3 { query(2) } else { None };
    let map_inverted = rev == 3 && info.u8(2 * SET + 3) & INVERTED != 0;
    let (add, delete) = (query(0).map(|query| Query { flags, timeout, ..query }), query(1));
    if map.is_some() && flags & MAP_QUEUE != 0 {
        return Err("packets have no queue of their device");
    }
    Ok(vec![stateful(move |state| {
        let rule = |state: &Arc<State>| IpSetTarget {
            add,
            delete,
            map,
            map_inverted,
            mark: flags & MAP_MARK != 0,
            priority: flags & MAP_PRIORITY != 0,
            state: state.clone(),
        };
        matches!(**state, State::IpSets(_)).then(|| Extension::SetIpSet(rule(state)))
    })])
}
