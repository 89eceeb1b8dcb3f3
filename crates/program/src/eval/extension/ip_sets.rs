// SPDX-License-Identifier: Apache-2.0

//! Sets of ipset (`net/netfilter/xt_set.c`).

use penstock_ipset::{Family, Fields, IFACE_LEN};
use penstock_packet::Packet;
use penstock_wire::{ethernet, protocol};

use super::Step;
use crate::op::{IpSetMatch, IpSetTarget};
use crate::{Env, State};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// A packet as sets see it.
struct Seen<'p, E> {
    packet: &'p Packet,
    env: &'p E,
}

impl<E: Env> Fields for Seen<'_, E> {
    fn family(&self) -> Family {
        match self.packet.meta.protocol {
            ethernet::IPV6 => Family::V6,
            _ => Family::V4,
        }
    }

    fn address(&self, source: bool) -> Option<[u8; 16]> {
        let (first, len) = if self.family() == Family::V6 { (8, 16) } else { (12, 4) };
        let at = if source { first } else { first + len };
        let mut address = [0; 16];
        address[..len].copy_from_slice(self.packet.network().get(at..at + len)?);
        Some(address)
    }

    /// `ip_set_get_ip4_port()`, `ip_set_get_ip6_port()`
    fn port(&self, source: bool) -> Option<(u16, u8)> {
        let transport = self.packet.transport()?;
        let v6 = self.family() == Family::V6;
        let number = transport.protocol;
        let icmp = number == if v6 { protocol::ICMPV6 } else { protocol::ICMP };
        let with_ports =
            [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::UDPLITE].contains(&number);
        if transport.fragment_offset != 0 {
            let fragments = !v6 && !with_ports && number != protocol::ICMP;
            return fragments.then_some((0, number));
        }
        if !with_ports && !icmp {
            return Some((0, number));
        }
        let bytes = self.packet.transport_bytes()?;
        let at = if source || icmp { 0 } else { 2 };
        let port = bytes.get(at..)?.first_chunk().copied()?;
        Some((u16::from_be_bytes(port), number))
    }

    fn mac(&self, source: bool) -> Option<[u8; 6]> {
        let link = self.packet.link();
        let at = if source { 6 } else { 0 };
        link.get(..ETHERNET)?.get(at..)?.first_chunk().copied()
    }

    fn mark(&self) -> u32 {
        self.packet.meta.mark
    }

    fn device(&self, source: bool, port: bool) -> Option<[u8; IFACE_LEN]> {
        let meta = &self.packet.meta;
        let index = if source { meta.iif } else { meta.oif };
        if port {
            return None;
        }
        self.env.interface(index).map(|device| device.name)
    }

    fn bytes(&self) -> u64 {
        self.packet.len() as u64
    }
}

/// `set_match_v4()`
pub(super) fn matches<E: Env>(rule: &IpSetMatch, packet: &Packet, env: &E) -> Step {
    let State::IpSets(sets) = &*rule.state else { return Step::Break };
    let seen = Seen { packet, env };
    let found = sets.test(&rule.query, &seen, packet.meta.time).is_some();
    Step::unless(found == rule.inverted)
}

/// `set_target_v3()`
pub(super) fn target<E: Env>(rule: &IpSetTarget, packet: &mut Packet, env: &E) -> Step {
    let State::IpSets(sets) = &*rule.state else { return Step::Next };
    let time = packet.meta.time;
    let seen = Seen { packet, env };
    if let Some(query) = &rule.add {
        sets.change(query, false, &seen, time);
    }
    if let Some(query) = &rule.delete {
        sets.change(query, true, &seen, time);
    }
    let Some(query) = &rule.map else { return Step::Next };
    let found = sets.test(query, &seen, time);
    if found.is_some() == rule.map_inverted {
        return Step::Next;
    }
    let info = found.unwrap_or_default();
    if rule.mark {
        packet.meta.mark = packet.meta.mark & !info.mask ^ info.mark;
    }
    if rule.priority {
        packet.meta.priority = info.priority;
    }
    Step::Next
}
