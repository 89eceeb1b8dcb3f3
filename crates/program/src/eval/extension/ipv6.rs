// SPDX-License-Identifier: Apache-2.0

//! Headers of IPv6 (`net/ipv6/netfilter/ip6t_hbh.c`, `ip6t_frag.c`, `ip6t_rt.c`, `ip6t_ah.c`,
//! `ip6t_srh.c`, `ip6t_mh.c`, `ip6t_eui64.c`, `ip6t_ipv6header.c`).

use penstock_packet::Packet;
use penstock_wire::ipv6_ext::{self, FindError, Walk};
use penstock_wire::{ethernet, ipv6, protocol};

use super::{HOTDROP, Step};
use crate::op::{
    FragmentMatch, Ipv6Match, Masked, Number, OptionsMatch, RoutingMatch, Segment, SegmentField,
    SegmentsMatch, Within,
};

/// What a match finds: it matches or not, or has the packet dropped.
type Found = Result<bool, Dropped>;

/// The packet is malformed (`par->hotdrop`).
struct Dropped;

pub(super) fn matches(asked: &Ipv6Match, packet: &Packet) -> Step {
    if packet.meta.protocol != ethernet::IPV6 {
        return Step::Break;
    }
    let network = packet.network();
    let found = match asked {
        Ipv6Match::Options(asked) => options(network, asked),
        Ipv6Match::Fragment(asked) => fragment(network, asked),
        Ipv6Match::Routing(asked) => routing(network, asked),
        Ipv6Match::Segments(asked) => Ok(segments(network, asked).unwrap_or(false)),
        Ipv6Match::Authentication { spi, len, reserved } => {
            authentication(network, *spi, *len, *reserved)
        }
        Ipv6Match::Mobility(kind) => mobility(packet, *kind),
        Ipv6Match::Eui64 => Ok(eui64(packet)),
        Ipv6Match::Headers { wanted, inverted, others } => {
            Ok(headers(network).is_some_and(|there| match others {
                true => (there ^ wanted ^ inverted) & wanted == 0,
                false => (there == *wanted) == (*inverted == 0),
            }))
        }
    };
    match found {
        Ok(matches) => Step::unless(!matches),
        Err(Dropped) => HOTDROP,
    }
}

/// Where the first header of a kind begins, if there is one.
fn find(network: &[u8], kind: u8) -> Result<Option<usize>, Dropped> {
    match ipv6_ext::find(network, Some(kind), Walk::default()) {
        Ok(found) => Ok(Some(found.offset)),
        Err(FindError::Absent) => Ok(None),
        Err(FindError::Malformed) => Err(Dropped),
    }
}

/// Bytes of the packet, which have to be there.
fn bytes<const N: usize>(network: &[u8], at: usize) -> Result<[u8; N], Dropped> {
    network.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Dropped)
}

fn is(asked: Number, number: usize) -> bool {
    asked.is_none_or(|(wanted, inverted)| (wanted as usize == number) != inverted)
}

/// Bytes of a header whose length is in units of 8 bytes.
fn len_of(units: u8) -> usize {
    (usize::from(units) + 1) * 8
}

/// `hbh_mt6()`
fn options(network: &[u8], asked: &OptionsMatch) -> Found {
    let Some(mut at) = find(network, asked.header)? else { return Ok(false) };
    let [_, units] = bytes(network, at)?;
    let len = len_of(units);
    if network.len() - at < len {
        return Err(Dropped);
    }
    let matches = is(asked.len, len);
    let Some(wanted) = &asked.options else { return Ok(matches) };
    let end = at + len;
    at += 2;
    for (number, [kind, option_len]) in wanted.iter().enumerate() {
        let Some((own, rest)) = network.get(at..end).and_then(|rest| rest.split_first()) else {
            return Ok(false);
        };
        if own != kind {
            return Ok(false);
        }
        if *own == 0 {
            at += 1;
            continue;
        }
        let Some(len) = rest.first() else { return Ok(false) };
        if *option_len != u8::MAX && option_len != len {
            return Ok(false);
        }
        at += usize::from(*len) + 2;
        // Of the last one its data need not be there.
        if at > end && number + 1 < wanted.len() {
            return Ok(false);
        }
    }
    Ok(matches)
}

/// `frag_mt6()`
fn fragment(network: &[u8], asked: &FragmentMatch) -> Found {
    const OFFSET: u16 = 0xfff8;
    const RESERVED: u16 = 6;
    const MORE: u16 = 1;
    let Some(at) = find(network, protocol::FRAGMENT)? else { return Ok(false) };
    let [_, reserved, high, low, id @ ..] = bytes::<8>(network, at)?;
    let field = u16::from_be_bytes([high, low]);
    Ok(asked.id.has(u32::from_be_bytes(id))
        && !(asked.reserved && (reserved != 0 || field & RESERVED != 0))
        && !(asked.first && field & OFFSET != 0)
        && !(asked.more && field & MORE == 0)
        && !(asked.last && field & MORE != 0))
}

/// `rt_mt6()`
fn routing(network: &[u8], asked: &RoutingMatch) -> Found {
    /// Bytes before the addresses, and of an address.
    const HEADER: usize = 8;
    const ADDRESS: usize = 16;
    let Some(at) = find(network, protocol::ROUTING)? else { return Ok(false) };
    let [_, units, kind, left] = bytes(network, at)?;
    let len = len_of(units);
    if network.len() - at < len {
        return Err(Dropped);
    }
    let header = &network[at..at + len];
    let (fixed, addresses) = header.split_at(HEADER);
    if !asked.left.has(left.into())
        || !is(asked.len, len)
        || !is(asked.kind, kind.into())
        || asked.reserved && fixed[4..] != [0; 4]
    {
        return Ok(false);
    }
    let Some(wanted) = &asked.addresses else { return Ok(true) };
    let mut there = addresses.chunks_exact(ADDRESS);
    if wanted.len() > there.len() {
        return Ok(false);
    }
    if !asked.others {
        return Ok(there.len() == wanted.len() && there.eq(wanted.iter()));
    }
    Ok(wanted.iter().all(|address| there.any(|own| own == address)))
}

/// `srh1_mt6()`; `None` if there is no whole header.
fn segments(network: &[u8], asked: &SegmentsMatch) -> Option<bool> {
    const HEADER: usize = 8;
    const ADDRESS: usize = 16;
    const TYPE: u8 = 4;
    let at = find(network, protocol::ROUTING).ok()??;
    let rest = network.get(at..)?;
    let [next, units, kind, left, last, _, tag @ ..] = *rest.first_chunk::<HEADER>()?;
    if rest.len() < len_of(units) || kind != TYPE || left > last {
        return Some(false);
    }
    for &(field, order, number, inverted) in &asked.numbers {
        let own = match field {
            SegmentField::Next => next,
            SegmentField::Len => units,
            SegmentField::Left => left,
            SegmentField::Last => last,
        };
        if (own.cmp(&number) == order) == inverted {
            return Some(false);
        }
    }
    if asked.tag.is_some_and(|(wanted, inverted)| (tag == wanted) == inverted) {
        return Some(false);
    }
    for (segment, Masked { address, mask }, inverted) in &asked.addresses {
        let number = match segment {
            Segment::Previous if left == last => return Some(false),
            Segment::Previous => usize::from(left) + 1,
            Segment::Next => match left.checked_sub(1) {
                Some(number) => number.into(),
                None => return Some(false),
            },
            Segment::Last => 0,
        };
        // It may lie behind the header, as in the kernel.
        let own = rest.get(HEADER + ADDRESS * number..)?.first_chunk::<ADDRESS>()?;
        let same = own.iter().zip(mask).zip(address).all(|((own, mask), want)| own & mask == *want);
        if same == *inverted {
            return Some(false);
        }
    }
    Some(true)
}

/// `ah_mt6()`
fn authentication(network: &[u8], spi: Within, len: Number, reserved: bool) -> Found {
    let Some(at) = find(network, protocol::AH)? else { return Ok(false) };
    let [_, units, first, second, a, b, c, d, ..] = bytes::<12>(network, at)?;
    let own = (usize::from(units) + 2) * 4;
    if network.len() - at < own {
        return Err(Dropped);
    }
    Ok(spi.has(u32::from_be_bytes([a, b, c, d]))
        && is(len, own)
        && !(reserved && [first, second] != [0, 0]))
}

/// `mh_mt6()`
fn mobility(packet: &Packet, kind: Within) -> Found {
    let Some(transport) = packet.transport() else { return Ok(false) };
    if transport.fragment_offset != 0 {
        return Ok(false);
    }
    let header = packet.transport_bytes().and_then(|bytes| bytes.first_chunk::<6>());
    let [next, _, own, ..] = *header.ok_or(Dropped)?;
    if next != protocol::NO_NEXT {
        return Err(Dropped);
    }
    Ok(kind.has(own.into()))
}

/// `eui64_mt6()`
fn eui64(packet: &Packet) -> bool {
    /// Where the interface identifier of the source is in the IPv6 header.
    const IDENTIFIER: usize = 16;
    let Some(link) = packet.link().first_chunk::<{ ethernet::LEN }>() else { return false };
    let [_, _, _, _, _, _, a, b, c, d, e, f, high, low] = *link;
    let own = packet.network().get(IDENTIFIER..).and_then(|rest| rest.first_chunk::<8>());
    u16::from_be_bytes([high, low]) == ethernet::IPV6
        && own == Some(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Which headers a packet has; `None` if they are cut (`ipv6header_mt6()`).
fn headers(network: &[u8]) -> Option<u8> {
    const PROTOCOL: u8 = 1;
    const NONE: u8 = 1 << 1;
    const ESP: u8 = 1 << 2;
    const AH: u8 = 1 << 3;
    const FRAGMENT: u8 = 1 << 4;
    const ROUTING: u8 = 1 << 5;
    const DESTINATION: u8 = 1 << 6;
    const HOP_BY_HOP: u8 = 1 << 7;
    let (mut there, mut at, mut next) = (0, ipv6::LEN, *network.get(6)?);
    while at <= network.len() {
        let flag = match next {
            protocol::NO_NEXT => return Some(there | NONE),
            protocol::HOP_BY_HOP => HOP_BY_HOP,
            protocol::DEST_OPTIONS => DESTINATION,
            protocol::ROUTING => ROUTING,
            protocol::FRAGMENT => FRAGMENT,
            protocol::AH => AH,
            protocol::ESP => ESP,
            _ => break,
        };
        let [after, units] = *network.get(at..)?.first_chunk()?;
        there |= flag;
        at += match next {
            protocol::ESP => return Some(there),
            protocol::FRAGMENT => ipv6_ext::FRAGMENT_LEN,
            protocol::AH => (usize::from(units) + 2) * 4,
            _ => len_of(units),
        };
        next = after;
    }
    let ends = [protocol::NO_NEXT, protocol::ESP].contains(&next);
    Some(there | if ends { 0 } else { PROTOCOL })
}
