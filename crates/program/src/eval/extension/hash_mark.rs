// SPDX-License-Identifier: Apache-2.0

//! Marks by a hash of what is the same in both directions of a flow (`net/netfilter/xt_HMARK.c`).

use std::net::IpAddr;

use penstock_packet::Packet;
use penstock_wire::ipv6_ext::{self, Walk};
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

use super::super::{jhash, reciprocal_scale};
use super::Step;
use crate::Env;
use crate::op::HashMark;

/// Bytes of an ICMP header before the packet that an error is about.
const ICMP_LEN: usize = 8;

/// What is hashed, as far as the rule lets it count.
#[derive(Default)]
struct Seen {
    /// Source and destination, as [`masked`] gives them.
    addresses: [u32; 2],
    protocol: u8,
    /// Both ports, or an SPI.
    ports: Option<[u8; 4]>,
}

/// Sets the mark, unless there is nothing to be hashed.
pub(super) fn set<E: Env>(rule: &HashMark, packet: &mut Packet, env: &mut E) -> Step {
    let seen = if rule.of_connection {
        of_connection(rule, packet, env)
    } else if packet.meta.protocol == ethernet::IPV6 {
        of_packet6(rule, packet.network())
    } else {
        of_packet4(rule, packet.network())
    };
    if let Some(seen) = seen {
        packet.meta.mark = mark(rule, &seen);
    }
    Step::Next
}

/// `hmark_hash()`
fn mark(rule: &HashMark, seen: &Seen) -> u32 {
    let [src, dst] = seen.addresses;
    let (ports, protocol) = match rule.addresses_only {
        true => (0, 0),
        false => (seen.ports.map_or(0, |bytes| ports(rule, bytes)), seen.protocol),
    };
    let words = [src.min(dst), src.max(dst), ports].map(u32::to_ne_bytes);
    let hash = jhash(words.as_flattened(), rule.seed);
    let hash = hash ^ u32::from(u16::from(protocol) & rule.protocol);
    reciprocal_scale(hash, rule.modulus).wrapping_add(rule.offset)
}

/// `hmark_addr_mask()`: words of an IPv6 address are folded.
fn masked(address: &[u8], mask: &[u8; 16]) -> u32 {
    let (words, _) = address.as_chunks::<4>();
    let (masks, _) = mask.as_chunks::<4>();
    let masked =
        words.iter().zip(masks).map(|(w, m)| u32::from_be_bytes(*w) & u32::from_be_bytes(*m));
    masked.fold(0, |all, word| all ^ word)
}

/// `hmark_swap_ports()`: the greater port first.
fn ports(rule: &HashMark, bytes: [u8; 4]) -> u32 {
    let both = u32::from_be_bytes(bytes) & rule.port_mask | rule.port_set;
    let (src, dst) = (both >> 16, both & 0xffff);
    src.max(dst) << 16 | src.min(dst)
}

/// `hmark_ct_set_htuple()`: the two sources of the connection.
fn of_connection<E: Env>(rule: &HashMark, packet: &Packet, env: &mut E) -> Option<Seen> {
    let ends = env.ct_sources(packet)?;
    let fold = |address: IpAddr, mask| match address {
        IpAddr::V4(address) => masked(&address.octets(), mask),
        IpAddr::V6(address) => masked(&address.octets(), mask),
    };
    let [(src, sport), (dst, dport)] = ends.sources;
    let ([a, b], [c, d]) = (sport.to_be_bytes(), dport.to_be_bytes());
    Some(Seen {
        addresses: [fold(src, &rule.source), fold(dst, &rule.destination)],
        protocol: ends.protocol,
        ports: (ends.protocol != protocol::ICMP).then_some([a, b, c, d]),
    })
}

/// The ports of a transport header at an offset, or the SPI (`hmark_set_tuple_ports()`,
/// `proto_ports_offset()`).
fn ports_at(packet: &[u8], number: u8, transport: usize) -> Option<[u8; 4]> {
    let offset = match number {
        protocol::TCP
        | protocol::UDP
        | protocol::DCCP
        | protocol::ESP
        | protocol::SCTP
        | protocol::UDPLITE => 0,
        protocol::AH => 4,
        _ => return None,
    };
    packet.get(transport + offset..)?.first_chunk().copied()
}

/// `hmark_pkt_set_htuple_ipv4()`: errors of ICMP count as the packet that they are about.
fn of_packet4(rule: &HashMark, packet: &[u8]) -> Option<Seen> {
    let (mut packet, mut header) = (packet, ipv4::Header::new(packet)?);
    if header.protocol() == protocol::ICMP {
        let icmp = packet.get(header.header_len()..).unwrap_or_default();
        if let Some((icmp, about)) = icmp.split_first_chunk::<ICMP_LEN>()
            && icmp::is_error(icmp[0])
        {
            (packet, header) = (about, ipv4::Header::new(about)?);
        }
    }
    let [src, dst] = [header.src(), header.dst()].map(|address| address.octets());
    Some(Seen {
        addresses: [masked(&src, &rule.source), masked(&dst, &rule.destination)],
        protocol: header.protocol(),
        ports: match header.is_fragment() {
            true => None,
            false => ports_at(packet, header.protocol(), header.header_len()),
        },
    })
}

/// `hmark_pkt_set_htuple_ipv6()`: errors of ICMPv6 count as the packet that they are about, and what
/// cannot be read as nothing.
fn of_packet6(rule: &HashMark, packet: &[u8]) -> Option<Seen> {
    const WALK: Walk = Walk { stop_at_ah: true, skip_done_routing: false };
    let mut packet = packet;
    let Ok(mut found) = ipv6_ext::find(packet, None, WALK) else { return Some(Seen::default()) };
    if !found.is_fragment && found.protocol == protocol::ICMPV6 {
        let icmp = packet.get(found.offset..).unwrap_or_default();
        if let Some((icmp, about)) = icmp.split_first_chunk::<ICMP_LEN>()
            && icmpv6::is_error(icmp[0])
        {
            ipv6::Header::new(about).filter(|header| header.version() == 6)?;
            (packet, found) = (about, ipv6_ext::find(about, None, WALK).ok()?);
        }
    }
    let header = ipv6::Header::new(packet)?;
    let [src, dst] = [header.src(), header.dst()].map(|address| address.octets());
    Some(Seen {
        addresses: [masked(&src, &rule.source), masked(&dst, &rule.destination)],
        protocol: found.protocol,
        ports: match found.is_fragment {
            true => None,
            false => ports_at(packet, found.protocol, found.offset),
        },
    })
}
