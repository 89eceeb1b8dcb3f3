// SPDX-License-Identifier: Apache-2.0

//! Marks by a hash of what is the same in both directions of a flow (`net/netfilter/xt_HMARK.c`).

use std::net::IpAddr;

use penstock_packet::Packet;
use penstock_wire::ipv6_ext::{self, Walk};
use penstock_wire::{ethernet, icmp, ipv4, ipv6, protocol};

use super::super::{jhash, reciprocal_scale};
use super::Step;
use crate::Env;
use crate::op::HashMark;

/// Bytes of an ICMP header before the packet that an error is about.
const ICMP_LEN: usize = 8;

/// What is hashed; addresses and ports as numbers.
#[derive(Default)]
struct Tuple {
    addresses: [u32; 2],
    ports: u32,
    protocol: u8,
}

/// Sets the mark, unless there is nothing to be hashed.
pub(super) fn set<E: Env>(rule: &HashMark, packet: &mut Packet, env: &mut E) -> Step {
    let tuple = if rule.of_connection {
        of_connection(rule, packet, env)
    } else if packet.meta.protocol == ethernet::IPV6 {
        of_packet6(rule, packet.network())
    } else {
        of_packet4(rule, packet.network())
    };
    if let Some(tuple) = tuple {
        packet.meta.mark = mark(rule, tuple);
    }
    Step::Next
}

/// `hmark_hash()`
fn mark(rule: &HashMark, Tuple { addresses, ports, protocol }: Tuple) -> u32 {
    let [src, dst] = addresses;
    let (less, more) = (src.min(dst), src.max(dst));
    let words = [less, more, ports].map(u32::to_ne_bytes);
    let hash =
        jhash(words.as_flattened(), rule.seed) ^ u32::from(u16::from(protocol) & rule.protocol);
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
fn of_connection<E: Env>(rule: &HashMark, packet: &Packet, env: &mut E) -> Option<Tuple> {
    let ends = env.ct_sources(packet)?;
    let fold = |address: IpAddr, mask| match address {
        IpAddr::V4(address) => masked(&address.octets(), mask),
        IpAddr::V6(address) => masked(&address.octets(), mask),
    };
    let [(src, sport), (dst, dport)] = ends.sources;
    let addresses = [fold(src, &rule.source), fold(dst, &rule.destination)];
    let mut tuple = Tuple { addresses, ..Tuple::default() };
    if rule.addresses_only {
        return Some(tuple);
    }
    tuple.protocol = ends.protocol;
    if ends.protocol != protocol::ICMP {
        let ([a, b], [c, d]) = (sport.to_be_bytes(), dport.to_be_bytes());
        tuple.ports = ports(rule, [a, b, c, d]);
    }
    Some(tuple)
}

/// Where ports are in a transport header, or the SPI (`proto_ports_offset()`).
const fn ports_offset(number: u8) -> Option<usize> {
    match number {
        protocol::TCP
        | protocol::UDP
        | protocol::DCCP
        | protocol::ESP
        | protocol::SCTP
        | protocol::UDPLITE => Some(0),
        protocol::AH => Some(4),
        _ => None,
    }
}

/// `hmark_set_tuple_ports()`
fn set_ports(rule: &HashMark, packet: &[u8], transport: usize, tuple: &mut Tuple) {
    let at = ports_offset(tuple.protocol).map(|offset| transport + offset);
    let bytes = at.and_then(|at| packet.get(at..)).and_then(|rest| rest.first_chunk());
    if let Some(bytes) = bytes {
        tuple.ports = ports(rule, *bytes);
    }
}

/// `hmark_pkt_set_htuple_ipv4()`: errors of ICMP count as the packet that they are about.
fn of_packet4(rule: &HashMark, packet: &[u8]) -> Option<Tuple> {
    let mut packet = packet;
    let header = ipv4::Header::new(packet)?;
    if header.protocol() == protocol::ICMP {
        let icmp =
            packet.get(header.header_len()..).and_then(|icmp| icmp.first_chunk::<ICMP_LEN>());
        if icmp.is_some_and(|icmp| icmp::is_error(icmp[0])) {
            packet = packet.get(header.header_len() + ICMP_LEN..)?;
        }
    }
    let header: &[u8; ipv4::LEN] = packet.first_chunk()?;
    let addresses =
        [masked(&header[12..16], &rule.source), masked(&header[16..20], &rule.destination)];
    let mut tuple = Tuple { addresses, ..Tuple::default() };
    if rule.addresses_only {
        return Some(tuple);
    }
    tuple.protocol = header[9];
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if tuple.protocol != protocol::ICMP && !is_fragment {
        set_ports(rule, packet, usize::from(header[0] & 0xf) * 4, &mut tuple);
    }
    Some(tuple)
}

/// `hmark_pkt_set_htuple_ipv6()`: errors of ICMPv6 count as the packet that they are about, and what
/// cannot be read as nothing.
fn of_packet6(rule: &HashMark, packet: &[u8]) -> Option<Tuple> {
    const WALK: Walk = Walk { stop_at_ah: true, skip_done_routing: false };
    const FIRST_INFORMATION: u8 = 128;
    let mut packet = packet;
    let Ok(mut found) = ipv6_ext::find(packet, None, WALK) else { return Some(Tuple::default()) };
    if !found.is_fragment && found.protocol == protocol::ICMPV6 {
        let icmp = packet.get(found.offset..).and_then(|icmp| icmp.first_chunk::<ICMP_LEN>());
        if icmp.is_some_and(|icmp| icmp[0] < FIRST_INFORMATION) {
            packet = packet.get(found.offset + ICMP_LEN..)?;
            packet.first_chunk::<{ ipv6::LEN }>().filter(|header| header[0] >> 4 == 6)?;
            found = ipv6_ext::find(packet, None, WALK).ok()?;
        }
    }
    let addresses =
        [masked(packet.get(8..24)?, &rule.source), masked(packet.get(24..40)?, &rule.destination)];
    let mut tuple = Tuple { addresses, ..Tuple::default() };
    if rule.addresses_only {
        return Some(tuple);
    }
    tuple.protocol = found.protocol;
    if found.protocol != protocol::ICMPV6 && !found.is_fragment {
        set_ports(rule, packet, found.offset, &mut tuple);
    }
    Some(tuple)
}
