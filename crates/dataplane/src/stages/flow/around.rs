// SPDX-License-Identifier: Apache-2.0

//! Packets of flows with something around them: which ones they are, and putting it around what
//! leaves.

use penstock_flowtable::Xmit;
use penstock_flowtable::arrival::Encap;
use penstock_net::Mac;
use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_program::image::FlowtableIndex;
use penstock_wire::{ethernet, pppoe};

use crate::flow::around::{FlowCandidate, find, next_id};
use crate::flow::flow_packet::{self, FlowPacket};
use crate::flow::resolved::Resolved;
use crate::flow::table::Table;
use crate::link_header::put_ethernet;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Whether a frame that came in by a device is for this host as far as flows go: those on a
    /// port of a bridge have the bridge's address.
    #[inline]
    pub(crate) fn flow_is_for_us(&self, packet: &Packet) -> bool {
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
    pub(crate) fn seen_at_ingress(
        &mut self,
        index: FlowtableIndex,
        packet: &Packet,
    ) -> Option<FlowPacket> {
        let table = self.state.flows.table_mut(index)?;
        let meta = &packet.meta;
        if meta.vlan.is_none() {
            let arrival = table.plain(meta.iif);
            let seen = match meta.protocol {
                ethernet::IPV4 => Some(flow_packet::ipv4(packet.network(), arrival)),
                ethernet::IPV6 => Some(flow_packet::ipv6(packet.network(), arrival)),
                _ => None,
            };
            if let Some(Ok(seen)) = seen {
                return (arrival != Table::NOWHERE).then_some(seen);
            }
        }
        if !table.around {
            return None;
        }
        let lately = table.lately.get_or_insert_default();
        match find(&table.flows, lately, meta.iif, meta.vlan, meta.protocol, packet.network()) {
            FlowCandidate::Packet(seen) => Some(seen),
            FlowCandidate::Not(_) | FlowCandidate::Hidden => None,
        }
    }

    /// Takes off what is around a packet of a flow.
    pub(crate) fn take_off(&self, packet: &mut Packet, seen: &FlowPacket, protocol: u16) {
        if seen.at > 0 {
            packet.decapsulate(seen.at.into(), false);
        }
        packet.meta.protocol = protocol;
        packet.meta.vlan = None;
        packet.trim_network(seen.len as usize);
    }

    /// A packet that was rewritten gets what belongs around it, and leaves by its device.
    pub(crate) fn send_by_xmit(&mut self, packet: &mut Packet, xmit: &Xmit, resolved: &Resolved) {
        if let Some(outer) = &xmit.tunnel {
            let id = if outer.ends.src.is_ipv4() { self.next_ip_id() } else { 0 };
            let inner6 = packet.meta.protocol == ethernet::IPV6;
            let (header, len) = outer.header(packet.network(), inner6, id);
            packet.push_header(header.get(..len).unwrap_or(&[]));
            packet.meta.protocol =
                if outer.ends.src.is_ipv4() { ethernet::IPV4 } else { ethernet::IPV6 };
        }
        let is_session = |e: &&Encap| e.protocol == ethernet::PPPOE_SESSION;
        if let Some(session) = xmit.encaps.as_slice().iter().find(is_session) {
            let v6 = packet.meta.protocol == ethernet::IPV6;
            let protocol = if v6 { pppoe::IPV6 } else { pppoe::IPV4 };
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
        for tag in xmit.encaps.as_slice().iter().rev().filter(|e| !is_session(e)) {
            packet.push_tag(VlanTag { protocol: tag.protocol, tci: tag.id });
        }
        self.transmit(packet, resolved.device, None);
    }

    /// Identification of a packet that the host makes.
    #[inline]
    pub(crate) fn next_ip_id(&mut self) -> u16 {
        next_id(&mut self.state.numbers.ip_id)
    }
}
