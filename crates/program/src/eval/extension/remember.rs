// SPDX-License-Identifier: Apache-2.0

//! Extensions that remember packets: `recent`, `hashlimit`, `connlimit`, `nfacct`, `rateest`,
//! `RATEEST` (`net/netfilter/xt_recent.c`, `xt_hashlimit.c`, `xt_connlimit.c`, `xt_nfacct.c`,
//! `xt_rateest.c`, `xt_RATEEST.c`).

use std::sync::Arc;

use penstock_packet::Packet;
use penstock_wire::{ethernet, protocol};

use super::{HOTDROP, Step};
use crate::env::ConnCount;
use crate::op::{ConnectionsOf, GroupRule, RateRule, RecentRule};
use crate::operand::CtKey;
use crate::state::{GROUP_KEY_LEN, Seen};
use crate::{Env, Hook, State};

/// Source or destination address, one of IPv4 in the first 4 bytes, and whether it is of IPv6.
fn address(packet: &Packet, destination: bool) -> Option<([u8; 16], bool)> {
    let network = packet.network();
    let v6 = packet.meta.protocol == ethernet::IPV6;
    let (source, len) = if v6 { (8, 16) } else { (12, 4) };
    let at = if destination { source + len } else { source };
    let mut address = [0; 16];
    address[..len].copy_from_slice(network.get(at..at + len)?);
    Some((address, v6))
}

fn masked(mut address: [u8; 16], mask: &[u8; 16]) -> [u8; 16] {
    address.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    address
}

/// `recent_mt()`
pub(super) fn recent<E: Env>(rule: &RecentRule, packet: &Packet, env: &E) -> Step {
    let State::Recent(table) = &*rule.state else { return Step::Break };
    let Some((address, v6)) = address(packet, rule.destination) else { return Step::Break };
    let mut ttl = packet.network().get(if v6 { 7 } else { 8 }).copied().unwrap_or_default();
    // A packet that is forwarded counts with the TTL that it came with.
    if matches!(env.context().hook, Hook::Forward | Hook::Postrouting)
        && packet.meta.owner.is_none()
    {
        ttl = ttl.wrapping_add(1);
    }
    let seen = Seen { address: masked(address, &table.mask), v6, ttl, same_ttl: rule.same_ttl };
    let met = table.meet(rule.action, &seen, rule.inverted, packet.meta.time);
    Step::unless(met == rule.inverted)
}

/// `nfacct_mt()`
pub(super) fn account<E: Env>(state: &Arc<State>, packet: &Packet, env: &mut E) -> Step {
    let State::Account(account) = &**state else { return Step::Break };
    let against = account.count(packet.len() as u64);
    if against.reached {
        env.quota_depleted(state);
    }
    Step::unless(against.within)
}

/// `xt_rateest_tg()`
pub(super) fn count_rate(state: &State, packet: &Packet) -> Step {
    if let State::Rate(rate) = state {
        rate.count(packet.len() as u64, packet.meta.time);
    }
    Step::Next
}

/// `xt_rateest_mt()`
pub(super) fn rate(rule: &RateRule, packet: &Packet) -> Step {
    let State::Rates(estimators) = &*rule.state else { return Step::Break };
    let mut rates = [[0; 2]; 2];
    for (number, (to, estimator)) in rates.iter_mut().zip(estimators).enumerate() {
        let State::Rate(estimator) = estimator.as_ref() else { return Step::Break };
        let read = estimator.read(packet.meta.time);
        // Rates are compared in 32 bits.
        *to = match rule.below {
            Some(most) => {
                let [bytes, packets] = most[number].map(u64::from);
                [bytes.saturating_sub(read.bytes), packets.saturating_sub(read.packets)]
            }
            None => [read.bytes, read.packets],
        }
        .map(|rate| rate as u32);
    }
    let [first, second] = [rates[0], rule.second.unwrap_or(rates[1])];
    let holds = |asked: bool, part: usize| !asked || first[part].cmp(&second[part]) == rule.order;
    Step::unless((holds(rule.bytes, 0) && holds(rule.packets, 1)) == rule.inverted)
}

/// `hashlimit_mt_common()`
pub(super) fn hashlimit(rule: &GroupRule, packet: &Packet) -> Step {
    let State::Hashlimit(groups) = &*rule.state else { return Step::Break };
    let Some(key) = group(rule, packet) else { return HOTDROP };
    match groups.count(&key, packet.len() as u64, packet.meta.time) {
        Some(within) => Step::unless(within == rule.inverted),
        None => HOTDROP,
    }
}

/// `hashlimit_init_dst()`
fn group(rule: &GroupRule, packet: &Packet) -> Option<[u8; GROUP_KEY_LEN]> {
    let mut key = [0; GROUP_KEY_LEN];
    for (at, destination, bits) in [(0, true, rule.destination), (16, false, rule.source)] {
        if bits != 0 {
            let address = masked(address(packet, destination)?.0, &prefix(bits));
            key[at..at + 16].copy_from_slice(&address);
        }
    }
    if rule.source_port || rule.destination_port {
        let ports = ports(packet)?;
        if rule.source_port {
            key[32..34].copy_from_slice(&ports[..2]);
        }
        if rule.destination_port {
            key[34..].copy_from_slice(&ports[2..]);
        }
    }
    Some(key)
}

/// So many bits.
fn prefix(bits: u8) -> [u8; 16] {
    let bits = u32::from(bits.min(128));
    (u128::MAX.checked_shl(128 - bits).unwrap_or(0)).to_be_bytes()
}

/// Source and destination port, where a packet has them, in fragments of IPv4 what lies there;
/// zeros for other protocols.
fn ports(packet: &Packet) -> Option<[u8; 4]> {
    let v6 = packet.meta.protocol == ethernet::IPV6;
    let Some(transport) = packet.transport() else { return if v6 { None } else { Some([0; 4]) } };
    if v6 && transport.fragment_offset != 0 {
        return Some([0; 4]);
    }
    let mut bytes = packet.transport_bytes_of_fragment()?;
    let mut number = transport.protocol;
    if v6 {
        (number, bytes) = after_extensions(number, bytes)?;
    }
    let at = match number {
        protocol::TCP
        | protocol::UDP
        | protocol::UDPLITE
        | protocol::SCTP
        | protocol::DCCP
        | protocol::ESP => 0,
        protocol::AH => 4,
        _ => return Some([0; 4]),
    };
    bytes.get(at..)?.first_chunk().copied()
}

/// The header after extension headers of IPv6 and an authentication header, at which the walk to
/// the transport header ends; its number and bytes.
fn after_extensions(mut number: u8, mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let [next, len, ..] = *bytes else { return Some((number, bytes)) };
        let len = match number {
            protocol::AH => (usize::from(len) + 2) * 4,
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DEST_OPTIONS => {
                (usize::from(len) + 1) * 8
            }
            _ => return Some((number, bytes)),
        };
        (number, bytes) = (next, bytes.get(len..)?);
    }
}

/// `connlimit_mt()`: which connections there are of an address is known for each zone.
pub(super) fn connlimit<E: Env>(rule: &ConnectionsOf, packet: &Packet, env: &mut E) -> Step {
    let Some((address, _)) = address(packet, rule.destination) else { return Step::Break };
    let mut zone = [0; 16];
    if env.ct_get(packet, CtKey::Zone, None, &mut zone).is_none() {
        zone = [0; 16];
    }
    let mut key = [0; CONNLIMIT_KEY];
    key[..16].copy_from_slice(&masked(address, &rule.mask));
    key[16..].copy_from_slice(&zone[..4]);
    let set = &rule.set;
    let add = || set.add(&key, &[], packet.meta.time, 0, &rule.statements);
    let Some(found) = add().or_else(|| if set.drop_idle() { add() } else { None }) else {
        return HOTDROP;
    };
    let count = ConnCount::Element { set, slot: found.slot, statement: 0 };
    match env.connlimit(packet, count) {
        Some(connections) => Step::unless((connections > rule.limit) == rule.inverted),
        None => HOTDROP,
    }
}

/// Bytes of a key: an address, and a zone.
pub(crate) const CONNLIMIT_KEY: usize = 20;
