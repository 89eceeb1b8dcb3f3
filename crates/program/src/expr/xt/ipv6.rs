// SPDX-License-Identifier: Apache-2.0

//! Matches of headers of IPv6 (`include/uapi/linux/netfilter_ipv6/ip6t_*.h`).

use std::cmp::Ordering;

use super::part::own;
use super::{Given, Lowering};
use crate::op::{
    Extension, FragmentMatch, Ipv6Match, Masked, Number, OptionsMatch, RoutingMatch, Segment,
    SegmentField, SegmentsMatch, Within,
};
use penstock_wire::protocol;

/// The most options, and addresses, that a structure has room for.
const MOST: usize = 16;

fn part(asked: Ipv6Match) -> Lowering {
    Ok(vec![own(Extension::Ipv6(asked))])
}

/// First and last of a range at an offset.
fn within(given: &Given<'_>, at: usize, inverted: bool) -> Within {
    Within { range: [given.info.u32(at), given.info.u32(at + 4)], inverted }
}

/// A number that is asked for if a flag is set.
fn number(is_asked: bool, number: u32, inverted: bool) -> Number {
    is_asked.then_some((number, inverted))
}

/// `struct ip6t_opts`
fn options(given: &Given<'_>, header: u8) -> Lowering {
    const LEN: u8 = 1;
    const OPTIONS: u8 = 2;
    let info = given.info;
    let (flags, inverted, count) = (info.u8(4), info.u8(5), usize::from(info.u8(38)));
    if count > MOST {
        return Err("it asks for more options than it has room for");
    }
    let options = (0..count).map(|i| info.u16(6 + 2 * i).to_be_bytes());
    part(Ipv6Match::Options(OptionsMatch {
        header,
        len: number(flags & LEN != 0, info.u32(0), inverted & LEN != 0),
        options: (flags & OPTIONS != 0).then(|| options.collect()),
    }))
}

/// Hop-by-hop options.
pub fn hbh(given: &Given<'_>) -> Lowering {
    options(given, protocol::HOP_BY_HOP)
}

/// Destination options.
pub fn dst(given: &Given<'_>) -> Lowering {
    options(given, protocol::DEST_OPTIONS)
}

/// `struct ip6t_frag`
pub fn frag(given: &Given<'_>) -> Lowering {
    const INVERTED_ID: u8 = 1;
    const RESERVED: u8 = 4;
    const FIRST: u8 = 8;
    const MORE: u8 = 0x10;
    const LAST: u8 = 0x20;
    let (flags, inverted) = (given.info.u8(12), given.info.u8(13));
    let has = |flag| flags & flag != 0;
    part(Ipv6Match::Fragment(FragmentMatch {
        id: within(given, 0, inverted & INVERTED_ID != 0),
        reserved: has(RESERVED),
        first: has(FIRST),
        more: has(MORE),
        last: has(LAST),
    }))
}

/// `struct ip6t_rt`
pub fn rt(given: &Given<'_>) -> Lowering {
    const TYPE: u8 = 1;
    const LEFT: u8 = 2;
    const LEN: u8 = 4;
    const RESERVED: u8 = 8;
    const ADDRESSES: u8 = 0x10;
    const OTHERS: u8 = 0x20;
    let info = given.info;
    let (flags, inverted, count) = (info.u8(16), info.u8(17), usize::from(info.u8(276)));
    if count > MOST {
        return Err("it asks for more addresses than it has room for");
    }
    let has = |flag| flags & flag != 0;
    let not = |flag| inverted & flag != 0;
    let addresses = (0..count).map(|i| info.bytes(20 + 16 * i));
    part(Ipv6Match::Routing(RoutingMatch {
        left: within(given, 4, not(LEFT)),
        len: number(has(LEN), info.u32(12), not(LEN)),
        kind: number(has(TYPE), info.u32(0), not(TYPE)),
        reserved: has(RESERVED),
        addresses: has(ADDRESSES).then(|| addresses.collect()),
        others: has(OTHERS),
    }))
}

/// `struct ip6t_srh` and `ip6t_srh1`
pub fn srh(given: &Given<'_>) -> Lowering {
    const TAG: u16 = 0x400;
    /// Number of the first flag, field, and where its number is.
    const NUMBERS: [(u8, SegmentField, usize); 3] =
        [(1, SegmentField::Len, 1), (4, SegmentField::Left, 2), (7, SegmentField::Last, 3)];
    /// Flag, segment, and where its address and mask are.
    const ADDRESSES: [(u16, Segment, usize, usize); 3] = [
        (0x800, Segment::Previous, 8, 56),
        (0x1000, Segment::Next, 24, 72),
        (0x2000, Segment::Last, 40, 88),
    ];
    let info = given.info;
    let [flags, inverted] = info.u16s(if given.rev == 0 { 6 } else { 104 });
    let asked = |flag: u16| (flags & flag != 0).then_some(inverted & flag != 0);
    let mut numbers = Vec::new();
    if let Some(not) = asked(1) {
        numbers.push((SegmentField::Next, Ordering::Equal, info.u8(0), not));
    }
    for (first, field, at) in NUMBERS {
        let orders = [Ordering::Equal, Ordering::Greater, Ordering::Less];
        for (bit, order) in (first..).zip(orders) {
            if let Some(not) = asked(1 << bit) {
                numbers.push((field, order, info.u8(at), not));
            }
        }
    }
    let mut addresses = Vec::new();
    for (flag, segment, address, mask) in ADDRESSES {
        if given.rev > 0
            && let Some(not) = asked(flag)
        {
            let masked = Masked { address: info.bytes(address), mask: info.bytes(mask) };
            addresses.push((segment, masked, not));
        }
    }
    part(Ipv6Match::Segments(SegmentsMatch {
        numbers: numbers.into(),
        tag: asked(TAG).map(|not| (info.bytes(4), not)),
        addresses: addresses.into(),
    }))
}

/// `struct ip6t_ah`
pub fn ah(given: &Given<'_>) -> Lowering {
    const INVERTED_SPI: u8 = 1;
    const INVERTED_LEN: u8 = 2;
    let info = given.info;
    let (len, inverted) = (info.u32(8), info.u8(13));
    part(Ipv6Match::Authentication {
        spi: within(given, 0, inverted & INVERTED_SPI != 0),
        len: number(len != 0, len, inverted & INVERTED_LEN != 0),
        reserved: info.u8(12) != 0,
    })
}

/// `struct ip6t_mh`
pub fn mh(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let range = [info.u8(0).into(), info.u8(1).into()];
    part(Ipv6Match::Mobility(Within { range, inverted: info.u8(2) & 1 != 0 }))
}

/// A number that no one reads.
pub fn eui64(_: &Given<'_>) -> Lowering {
    part(Ipv6Match::Eui64)
}

/// `struct ip6t_ipv6header_info`
pub fn ipv6header(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let (wanted, inverted, others) = (info.u8(0), info.u8(1), info.u8(2) != 0);
    part(Ipv6Match::Headers { wanted, inverted, others })
}
