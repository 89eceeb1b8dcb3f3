// SPDX-License-Identifier: Apache-2.0

//! Matches of what is known of a packet (`net/netfilter/xt_mark.c`, `xt_mac.c`, `xt_pkttype.c`,
//! `xt_realm.c`, `xt_cpu.c`, `xt_devgroup.c`, `xt_owner.c`, `xt_physdev.c`, `xt_addrtype.c`,
//! `xt_statistic.c`, `xt_quota.c`, `xt_u32.c`, `xt_string.c`, `xt_time.c`).

use super::super::{Fib, Numgen, NumgenMode, Quota};
use super::part::{
    Part, REG, compare, equal, in_ranges, mask, meta, network, never, own, payload, range32,
    to_network, vm,
};
use super::{Given, Lowering};
use crate::Family;
use crate::op::{Extension, Physdev, PortName, Search, Times, WordStep, WordTest, Words};
use crate::operand::{
    CmpOp, FIB_DADDR, FIB_IIF, FIB_OIF, FIB_SADDR, FibResult, MetaKey, PayloadBase,
};

/// `struct xt_mark_mtinfo1`
pub fn mark(given: &Given<'_>) -> Lowering {
    let info = given.info;
    Ok(vec![
        meta(MetaKey::Mark),
        mask(&info.bytes::<4>(4)),
        equal(&info.bytes::<4>(0), info.u8(8) != 0),
    ])
}

/// `struct xt_mac_info`
pub fn mac(given: &Given<'_>) -> Lowering {
    const ARPHRD_ETHER: u16 = 1;
    let info = given.info;
    Ok(vec![
        meta(MetaKey::IifType),
        equal(&ARPHRD_ETHER.to_ne_bytes(), false),
        payload(PayloadBase::Link, 6, 6),
        equal(&info.bytes::<6>(0), info.u32(8) != 0),
    ])
}

/// `struct xt_pkttype_info`
pub fn pkttype(given: &Given<'_>) -> Lowering {
    let (kind, inverted) = (given.info.u32(0), given.info.u32(4));
    match (u8::try_from(kind), inverted) {
        (Ok(kind), 0 | 1) => Ok(vec![meta(MetaKey::PktType), equal(&[kind], inverted != 0)]),
        _ => Err("it asks for an unknown type"),
    }
}

/// `struct xt_realm_info`
pub fn realm(given: &Given<'_>) -> Lowering {
    let info = given.info;
    Ok(vec![
        meta(MetaKey::RtClassid),
        mask(&info.bytes::<4>(4)),
        equal(&info.bytes::<4>(0), info.u8(8) != 0),
    ])
}

/// `struct xt_cpu_info`
pub fn cpu(given: &Given<'_>) -> Lowering {
    Ok(vec![meta(MetaKey::Cpu), equal(&given.info.bytes::<4>(0), given.info.u32(4) != 0)])
}

/// `struct xt_devgroup_info`
pub fn devgroup(given: &Given<'_>) -> Lowering {
    let (info, flags) = (given.info, given.info.u32(0));
    let mut parts = Vec::new();
    for (flag, key, at) in [(1, MetaKey::IifGroup, 4), (4, MetaKey::OifGroup, 12)] {
        if flags & flag != 0 {
            parts.extend([
                meta(key),
                mask(&info.bytes::<4>(at + 4)),
                equal(&info.bytes::<4>(at), flags & flag << 1 != 0),
            ]);
        }
    }
    Ok(parts)
}

/// `struct xt_owner_match_info`: a packet without a socket matches if all that is asked is
/// inverted.
pub fn owner(given: &Given<'_>) -> Lowering {
    const UID: u8 = 1;
    const GID: u8 = 2;
    const SOCKET: u8 = 4;
    const KNOWN: u8 = UID | GID | SOCKET;
    let (info, wanted, inverted) = (given.info, given.info.u8(16), given.info.u8(17));
    if wanted & !KNOWN != 0 {
        return Err("supplementary groups are not known");
    }
    let mut owned = vec![meta(MetaKey::SkUid)];
    if wanted & inverted & SOCKET != 0 {
        owned.push(never());
    }
    for (flag, key, at) in [(UID, MetaKey::SkUid, 0), (GID, MetaKey::SkGid, 8)] {
        if wanted & flag != 0 {
            let ends = [info.u32(at), info.u32(at + 4)];
            owned.extend([meta(key), to_network(4), range32(ends, inverted & flag != 0)]);
        }
    }
    if wanted != inverted {
        return Ok(owned);
    }
    let no_socket = Part::AnyOf { of: vec![vec![meta(MetaKey::SkUid)]], inverted: true };
    Ok(vec![Part::AnyOf { of: vec![vec![no_socket], owned], inverted: false }])
}

/// `struct xt_physdev_info`
pub fn physdev(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let port = |at| PortName { name: info.bytes(at), mask: info.bytes(at + 16) };
    Ok(vec![own(Extension::Physdev(Physdev {
        arrived: port(0),
        leaves: port(32),
        inverted: info.u8(64),
        asked: info.u8(65),
    }))])
}

/// `struct xt_addrtype_info_v1`
pub fn addrtype(given: &Given<'_>) -> Lowering {
    const LIMIT_IN: u32 = 4;
    const LIMIT_OUT: u32 = 8;
    let (info, flags) = (given.info, given.info.u32(4));
    let device = match flags {
        _ if flags & LIMIT_IN != 0 => FIB_IIF,
        _ if flags & LIMIT_OUT != 0 => FIB_OIF,
        _ => 0,
    };
    let family = given.ip()?;
    let mut parts = Vec::new();
    for (types, inverted, which) in
        [(info.u16(0), flags & 1 != 0, FIB_SADDR), (info.u16(2), flags & 2 != 0, FIB_DADDR)]
    {
        match family {
            _ if types == 0 => {}
            Family::Ip6 => {
                let list = address_types6(types, which, device)?;
                parts.push(Part::AnyOf { of: vec![list], inverted });
            }
            _ => {
                let types = (0..16u32).filter(|t| types & 1 << t != 0);
                let types = types.map(|t| [t.to_ne_bytes(); 2]).collect();
                parts.extend([address_type(which | device), in_ranges(types, inverted)?]);
            }
        }
    }
    Ok(parts)
}

fn address_type(flags: u32) -> Part {
    vm(Fib { result: FibResult::AddrType, flags, dreg: REG })
}

/// All types that the address itself tells have to hold, and one of those that the route tells
/// (`match_type6()`).
fn address_types6(types: u16, which: u32, device: u32) -> Lowering {
    const UNSPEC: u16 = 1;
    const UNICAST: u16 = 1 << 1;
    const LOCAL: u16 = 1 << 2;
    const ANYCAST: u16 = 1 << 4;
    const MULTICAST: u16 = 1 << 5;
    const UNREACHABLE: u16 = 1 << 7;
    /// `RTN_LOCAL`, `RTN_ANYCAST`, and routes that refuse: `RTN_BLACKHOLE` to `RTN_THROW`.
    const OF_ROUTES: [(u16, u32, u32); 3] = [(LOCAL, 2, 2), (ANYCAST, 4, 4), (UNREACHABLE, 6, 9)];
    if types & !(UNSPEC | UNICAST | LOCAL | ANYCAST | MULTICAST | UNREACHABLE) != 0 {
        return Err("IPv6 has no such type of addresses");
    }
    let at = if which == FIB_SADDR { 8 } else { 24 };
    let mut parts = Vec::new();
    if types & MULTICAST != 0 {
        parts.extend([network(at, 1), equal(&[0xff], false)]);
    }
    if types & UNICAST != 0 {
        parts.extend([network(at, 1), equal(&[0xff], true)]);
        parts.extend([network(at, 16), equal(&[0; 16], true)]);
    }
    if types & UNSPEC != 0 {
        parts.extend([network(at, 16), equal(&[0; 16], false)]);
    }
    let of_routes = OF_ROUTES.iter().filter(|(kind, _, _)| types & kind != 0);
    let numbers = of_routes.flat_map(|(_, first, last)| *first..=*last);
    let numbers: Vec<_> = numbers.map(|number| [number.to_ne_bytes(); 2]).collect();
    if !numbers.is_empty() {
        parts.extend([address_type(which | device), in_ranges(numbers, false)?]);
    }
    Ok(parts)
}

/// `struct xt_statistic_info`
pub fn statistic(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let (mode, inverted) = (info.u16(0), info.u16(2) & 1 != 0);
    match (mode, info.u32(4), info.u32(12)) {
        (0, probability, _) => Ok(vec![
            meta(MetaKey::Prandom),
            mask(&0x7fff_ffffu32.to_ne_bytes()),
            to_network(4),
            compare(if inverted { CmpOp::Gte } else { CmpOp::Lt }, &probability.to_be_bytes()),
        ]),
        // `every` is one less than the number of packets, `count` how many have come before.
        (1, every, count) if count <= every && every < u32::MAX => {
            let modulus = every + 1;
            let next = Numgen { mode: NumgenMode::Inc, modulus, offset: 0, dreg: REG };
            Ok(vec![vm(next), equal(&[0; 4], inverted)])
        }
        (1, ..) => Err("its first packet comes after its last one"),
        _ => Err("it has an unknown mode"),
    }
}

/// `struct xt_quota_info`. A quota that a packet was too long for is used up.
pub fn quota(given: &Given<'_>) -> Lowering {
    let over = given.info.u32(0) & 1 != 0;
    Ok(vec![vm(Quota { bytes: given.info.u64(8), over, consumed: 0, depleted: false })])
}

/// `struct xt_u32`
pub fn u32(given: &Given<'_>) -> Lowering {
    const LISTED: usize = 10;
    /// Bytes of `struct xt_u32_test`.
    const TEST: usize = 180;
    let info = given.info;
    let test = |at: usize| {
        let (steps, ranges) = (usize::from(info.u8(at + 176)), usize::from(info.u8(at + 177)));
        if steps == 0 || steps > LISTED + 1 || ranges > LISTED + 1 {
            return Err("a test of it has no word or too many parts");
        }
        let step = |i: usize| {
            let (number, op) = (info.u32(at + 8 * i), info.u8(at + 8 * i + 4));
            let bits = u8::try_from(number).ok().filter(|bits| *bits < 32);
            Ok(match (op, bits) {
                (0, _) => WordStep::And(number),
                (1, Some(bits)) => WordStep::ShiftLeft(bits),
                (2, Some(bits)) => WordStep::ShiftRight(bits),
                (3, _) => WordStep::At(number),
                _ => return Err("a test of it has an unknown step"),
            })
        };
        let range = |i: usize| [info.u32(at + 88 + 8 * i), info.u32(at + 92 + 8 * i)];
        Ok(WordTest {
            position: info.u32(at),
            steps: (1..steps).map(step).collect::<Result<_, _>>()?,
            ranges: (0..ranges).map(range).collect(),
        })
    };
    let count = usize::from(info.u8(11 * TEST));
    if count > LISTED + 1 {
        return Err("it has too many tests");
    }
    let tests = (0..count).map(|i| test(i * TEST)).collect::<Result<_, _>>()?;
    Ok(vec![own(Extension::U32(Words { tests, inverted: info.u8(11 * TEST + 1) != 0 }))])
}

/// `struct xt_string_info`
pub fn string(given: &Given<'_>) -> Lowering {
    const INVERTED: u8 = 1;
    const IGNORES_CASE: u8 = 2;
    let info = given.info;
    let ([from, to], len, flags) = (info.u16s(0), usize::from(info.u8(148)), info.u8(149));
    if !matches!(info.text(4, 16), Some("bm" | "kmp")) {
        return Err("it searches by an unknown algorithm");
    }
    if len == 0 || len > 128 || from > to || flags & !(INVERTED | IGNORES_CASE) != 0 {
        return Err("its pattern, offsets or flags are malformed");
    }
    let ignores_case = flags & IGNORES_CASE != 0;
    let mut pattern = info.bytes::<128>(20)[..len].to_vec();
    if ignores_case {
        pattern.make_ascii_uppercase();
    }
    let inverted = flags & INVERTED != 0;
    let search = Search { pattern: pattern.into(), from, to, ignores_case, inverted };
    Ok(vec![own(Extension::Search(search))])
}

/// `struct xt_time_info`
pub fn time(given: &Given<'_>) -> Lowering {
    const LOCAL_TIME: u8 = 1;
    const CONTIGUOUS: u8 = 2;
    let (info, flags) = (given.info, given.info.u8(21));
    if flags & LOCAL_TIME != 0 {
        return Err("the kernel's time zone is not known");
    }
    Ok(vec![own(Extension::Time(Times {
        dates: [info.u32(0), info.u32(4)],
        daytime: [info.u32(8), info.u32(12)],
        month_days: info.u32(16),
        week_days: info.u8(20),
        contiguous: flags & CONTIGUOUS != 0,
    }))])
}
