// SPDX-License-Identifier: Apache-2.0

//! `SNPT` and `DNPT` (`net/ipv6/netfilter/ip6t_NPT.c`, RFC 6296).

use penstock_packet::Packet;
use penstock_wire::checksum::Sum;
use penstock_wire::{ipv6, protocol};

use super::{HOTDROP, Step};
use crate::Env;
use crate::op::PrefixChange;

/// Where source and destination are in the header.
const SOURCE: usize = 8;
const DESTINATION: usize = 24;
const ADDRESS: usize = 16;

pub(super) fn change<E: Env>(change: &PrefixChange, packet: &mut Packet, env: &mut E) -> Step {
    let (own, other) = match change.destination {
        true => (DESTINATION, SOURCE),
        false => (SOURCE, DESTINATION),
    };
    let mapped = packet.network_mut().get_mut(own..).and_then(|rest| rest.first_chunk_mut());
    if !mapped.is_some_and(|address| map(change, address)) {
        env.bad_field6(packet, own as u32);
        return HOTDROP;
    }
    // An error says which packet it is about: that one went the other way.
    if let Some(at) = quoted(packet)
        && let Some(rest) = packet.network_mut().get_mut(at + other..)
        && let Some(address) = rest.first_chunk_mut()
    {
        let (from, bits) = change.from;
        if (u128::from_be_bytes(*address) ^ u128::from_be_bytes(from)) & prefix(bits) == 0 {
            map(change, address);
        }
    }
    Step::Next
}

/// Where the header begins that an ICMPv6 error quotes, right after the packet's own one.
fn quoted(packet: &Packet) -> Option<usize> {
    const FIRST_INFORMATIONAL: u8 = 128;
    const ICMPV6_HEADER: usize = 8;
    let network = packet.network();
    let transport = packet.transport()?;
    let is_icmp = network.get(6) == Some(&protocol::ICMPV6) && transport.fragment_offset == 0;
    let is_error = packet.transport_bytes()?.first()? < &FIRST_INFORMATIONAL;
    let at = usize::from(transport.offset) + ICMPV6_HEADER;
    (is_icmp && is_error && network.len() >= at + ipv6::LEN).then_some(at)
}

/// So many bits of an address.
fn prefix(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)
}

/// `ip6t_npt_map_pfx()`: whether there is a word that can take the difference.
fn map(change: &PrefixChange, address: &mut [u8; ADDRESS]) -> bool {
    let bits = prefix(change.len);
    let new = u128::from_be_bytes(*address) & !bits | u128::from_be_bytes(change.prefix) & bits;
    *address = new.to_be_bytes();
    let word = |at: usize| u16::from_be_bytes([address[2 * at], address[2 * at + 1]]);
    let at = match change.len {
        ..=48 => Some(3),
        _ => (4..8).find(|at| word(*at) != u16::MAX),
    };
    let Some(at) = at else { return false };
    let sum = match !Sum::new().u16(word(at)).u16(change.adjustment).finish() {
        u16::MAX => 0,
        sum => sum,
    };
    address[2 * at..2 * at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}
