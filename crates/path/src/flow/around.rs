// SPDX-License-Identifier: Apache-2.0

//! Packets of flows with something around them: finding them in frames, and putting it around what
//! leaves.

use penstock_flowtable::arrival::Encap;
use penstock_flowtable::encap::{self, Lately, NotInside};
use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{ArrivalId, Flowtable, Way};
use penstock_net::Mac;
use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_program::image::FlowtableIndex;
use penstock_wire::{ethernet, ipv4, pppoe, protocol, vlan};

use super::seen::{self, Not, Seen};
use super::ways::Resolved;
use crate::link_header::put_ethernet;
use crate::sink::Sink;
use crate::worker::Worker;

/// What was found in a frame.
pub(super) enum Found {
    Packet(Seen),
    Not(Not),
    /// It is in a tunnel, and not for the fast path: any flow's packet may be in it, which what
    /// follows must not overtake.
    Hidden,
}

/// Looks for a packet of a flow in what came in by a device, given from behind the link header on.
#[inline(always)]
pub(super) fn find(
    flows: &Flowtable,
    lately: &mut Lately,
    device: u32,
    tag: Option<VlanTag>,
    ethertype: u16,
    bytes: &[u8],
) -> Found {
    let changed = flows.arrivals_changed();
    if ethertype == ethernet::IPV4
        && tag.is_none()
        && let Some((arrival, protocol, end)) = lately.latest4(device, changed, bytes)
        && let Some(packet) = bytes.get(ipv4::LEN..end)
    {
        return found(protocol, packet, arrival, ipv4::LEN);
    }
    find_anew(flows, lately, device, tag, ethertype, bytes)
}

/// The same where the latest packet came another way.
#[inline(never)]
fn find_anew(
    flows: &Flowtable,
    lately: &mut Lately,
    device: u32,
    tag: Option<VlanTag>,
    ethertype: u16,
    bytes: &[u8],
) -> Found {
    let changed = flows.arrivals_changed();
    let tag = tag.map(|t| (t.tci & vlan::VID_MASK, t.protocol));
    let inside = match encap::inside(device, tag, ethertype, bytes) {
        Ok(inside) => inside,
        Err(NotInside::Unusual) => return Found::Hidden,
        Err(NotInside::Other) => return Found::Not(Not::Other),
    };
    let arrival = lately.find(&inside.around, changed, |arrival| flows.arrival(arrival));
    let Some((arrival, packet)) = arrival.zip(bytes.get(inside.at..inside.end)) else {
        return Found::Not(Not::Other);
    };
    found(inside.protocol, packet, arrival, inside.at)
}

/// What a packet is that begins `at` bytes behind the link header.
#[inline(always)]
fn found(protocol: u16, packet: &[u8], arrival: ArrivalId, at: usize) -> Found {
    let seen = match protocol {
        ethernet::IPV6 => seen::ipv6(packet, arrival),
        _ => seen::ipv4(packet, arrival),
    };
    match seen {
        Ok(seen) => Found::Packet(Seen { at: at as u16, ..seen }),
        Err(not) => Found::Not(not),
    }
}

/// The headers in front of packets of a way.
pub(super) fn head(way: &Way, link: &[u8; 12]) -> Option<Head> {
    let six = match &way.tunnel {
        Some(outer) => outer.ends.protocol == protocol::IPV6,
        None => way.next_hop.is_some_and(|next| next.is_ipv6()),
    };
    let inner = if six { ethernet::IPV6 } else { ethernet::IPV4 };
    Head::new(link, &way.encaps, way.tunnel.as_ref(), inner)
}

/// The next identification, after the latest one.
#[inline(always)]
pub(super) fn next_id(latest: &mut u16) -> u16 {
    *latest = latest.wrapping_add(1);
    *latest
}

impl<S: Sink> Worker<'_, S> {
    /// Whether a frame that came in by a device is for this host as far as flows go: those on a
    /// port of a bridge have the bridge's address.
    #[inline]
    pub(super) fn flow_is_for_us(&self, packet: &Packet) -> bool {
        match packet.meta.packet_type {
            PacketType::Host => true,
            PacketType::OtherHost => {
                let bridge =
                    self.net.bridge_port(packet.meta.iif).and_then(|p| self.net.link(p.bridge));
                bridge.is_some_and(|b| packet.link().get(..6) == Some(&b.mac.0[..]))
            }
            PacketType::Broadcast
            | PacketType::Multicast
            | PacketType::Outgoing
            | PacketType::Loopback => false,
        }
    }

    /// What a packet at ingress of a device carries.
    pub(super) fn seen_at_ingress(
        &mut self,
        index: FlowtableIndex,
        packet: &Packet,
    ) -> Option<Seen> {
        let table = self.state.flows.table_mut(index)?;
        let meta = &packet.meta;
        if meta.vlan.is_none() {
            let arrival = table.plain(meta.iif);
            let seen = match meta.protocol {
                ethernet::IPV4 => Some(seen::ipv4(packet.network(), arrival)),
                ethernet::IPV6 => Some(seen::ipv6(packet.network(), arrival)),
                _ => None,
            };
            if let Some(Ok(seen)) = seen {
                return (arrival != super::table::Table::NOWHERE).then_some(seen);
            }
        }
        if !table.around {
            return None;
        }
        let lately = table.lately.get_or_insert_default();
        match find(&table.flows, lately, meta.iif, meta.vlan, meta.protocol, packet.network()) {
            Found::Packet(seen) => Some(seen),
            Found::Not(_) | Found::Hidden => None,
        }
    }

    /// Takes off what is around a packet of a flow.
    pub(super) fn take_off(&self, packet: &mut Packet, seen: &Seen, protocol: u16) {
        if seen.at > 0 {
            packet.decapsulate(seen.at.into(), false);
        }
        packet.meta.protocol = protocol;
        packet.meta.vlan = None;
        packet.trim_network(seen.len as usize);
    }

    /// A packet that was rewritten gets what belongs around it, and leaves by its device.
    pub(super) fn send_by_way(&mut self, packet: &mut Packet, way: &Way, resolved: &Resolved) {
        if let Some(outer) = &way.tunnel {
            let id = if outer.ends.src.is_ipv4() { self.next_ip_id() } else { 0 };
            let inner6 = packet.meta.protocol == ethernet::IPV6;
            let (header, len) = outer.header(packet.network(), inner6, id);
            packet.push_header(header.get(..len).unwrap_or(&[]));
            packet.meta.protocol =
                if outer.ends.src.is_ipv4() { ethernet::IPV4 } else { ethernet::IPV6 };
        }
        let is_session = |e: &&Encap| e.protocol == ethernet::PPPOE_SESSION;
        if let Some(session) = way.encaps.as_slice().iter().find(is_session) {
            let six = packet.meta.protocol == ethernet::IPV6;
            let protocol = if six { pppoe::IPV6 } else { pppoe::IPV4 };
            let payload_len = packet.network().len() as u16;
            packet.push_header(&pppoe::Repr { session: session.id, protocol, payload_len }.bytes());
            packet.meta.protocol = ethernet::PPPOE_SESSION;
        }
        if self.net.link(resolved.device).is_some_and(|l| l.has_link_header()) {
            let (to, from) = resolved.link.split_at(6);
            let mac = |bytes: &[u8]| Mac(bytes.first_chunk().copied().unwrap_or_default());
            put_ethernet(packet, mac(to), mac(from));
        } else {
            packet.put_link(0);
        }
        for tag in way.encaps.as_slice().iter().rev().filter(|e| !is_session(e)) {
            packet.push_tag(VlanTag { protocol: tag.protocol, tci: tag.id });
        }
        self.transmit(packet, resolved.device, None);
    }

    /// Identification of a packet that the host makes.
    #[inline]
    pub(super) fn next_ip_id(&mut self) -> u16 {
        next_id(&mut self.state.ip_id)
    }
}
