// SPDX-License-Identifier: Apache-2.0

//! From the wire to the protocol: tags, ingress, VLAN devices, ARP (`__netif_receive_skb_core()`).

use penstock_packet::{Frame, Gso, Packet, PacketType, VlanTag};
use penstock_program::{Context, Family, Hook};
use penstock_wire::{arp, ethernet, vlan};

use crate::course::{Course, Next};
use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

/// VLAN devices on VLAN devices that a frame climbs at most.
const LEVELS: u8 = 8;

impl<S: Sink> Worker<'_, S> {
    /// A frame from a device.
    pub(crate) fn receive(&mut self, frame: &Frame<'_>, packet: &mut Packet) {
        self.receive_as(frame, None, packet);
    }

    /// A super-packet from a device.
    pub(crate) fn receive_super(&mut self, frame: &Frame<'_>, gso: Gso, packet: &mut Packet) {
        self.receive_as(frame, Some(gso), packet);
    }

    #[inline(always)]
    fn receive_as(&mut self, frame: &Frame<'_>, gso: Option<Gso>, packet: &mut Packet) {
        self.state.counters.received += 1;
        let Some(link) = self.net.link(frame.device) else {
            packet.load(frame.bytes, ethernet::LEN);
            return self.drop(DropReason::LinkDown, packet);
        };
        let whole = packet.receive_ethernet(frame.bytes, link.mac);
        packet.meta.time = frame.time;
        packet.meta.gso = gso;
        packet.meta.iif = link.index;
        if !whole {
            return self.drop(DropReason::LinkHeader, packet);
        }
        if !link.up {
            return self.drop(DropReason::LinkDown, packet);
        }
        if gso.is_some() && self.hooks.has_early() && self.early_super(packet) {
            return;
        }
        self.pass_up(packet, None);
    }

    /// Receives a packet that has an Ethernet header and [`penstock_packet::Meta::iif`]. `known` is
    /// the route that packets on the loopback device keep.
    pub(crate) fn pass_up(&mut self, packet: &mut Packet, known: Option<Route>) {
        packet.meta.nftrace |= self.state.trace_all;
        let mut course = Course { route: known, ..Course::default() };
        // The first stage of all packets, and of many the last: the loop need not choose it.
        match self.ingress(packet, &mut course) {
            Next::Done => {}
            next => _ = self.run(next, packet, &mut course),
        }
    }

    /// Receives a packet that ingress of its device has let pass.
    #[inline]
    pub(crate) fn pass_up_after_ingress(&mut self, packet: &mut Packet) {
        self.run(Next::AfterIngress, packet, &mut Course { levels: 1, ..Course::default() });
    }

    /// Untagging and the hooks of the device.
    #[inline]
    pub(super) fn ingress(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if course.levels >= LEVELS {
            return self.end(DropReason::Recursion, packet);
        }
        course.levels += 1;
        if packet.untag().is_err() {
            return self.end(DropReason::VlanTag, packet);
        }
        if let Some(link) = self.net.link(packet.meta.iif) {
            self.tap(packet, link, false);
        }
        if self.tc(penstock_tc::Hook::Ingress, packet.meta.iif, packet).is_some() {
            return Next::Done;
        }
        let list = self.hooks.ingress(packet.meta.iif);
        if list.is_empty() {
            return Next::AfterIngress;
        }
        packet.find_transport_checked();
        let context = Context { family: Family::Netdev, hook: Hook::Ingress };
        match self.run_list(list, context, packet, &mut Course::default()) {
            HookResult::Accept => Next::AfterIngress,
            HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => Next::Done,
        }
    }

    /// VLAN devices and bridges, and if the packet is for none of them, its protocol.
    #[inline]
    pub(super) fn after_ingress(&mut self, packet: &mut Packet) -> Next {
        if let Some(tag) = packet.meta.vlan
            && let Some(upper) = self.vlan_device(packet, tag)
        {
            return self.climb(packet, upper, tag.tci);
        }
        if self.net.bridge_port(packet.meta.iif).is_some() {
            return Next::BridgePrerouting;
        }
        self.protocol(packet)
    }

    /// The packet is for no device above: its protocol, unless a tag is left.
    #[inline]
    pub(super) fn protocol(&mut self, packet: &mut Packet) -> Next {
        let Some(tag) = packet.meta.vlan else { return self.hand_over(packet) };
        let id = tag.tci & vlan::VID_MASK;
        if id != 0 {
            // The kernel marks it as another host's and lets the protocols drop it.
            packet.meta.packet_type = PacketType::OtherHost;
            packet.meta.vlan = None;
            return self.end(DropReason::UnknownVlan, packet);
        }
        // A tag that is only about priority. A tag inside it may name a VLAN device, without
        // another ingress for this device.
        packet.meta.vlan = None;
        if vlan::is_tag(packet.meta.protocol) {
            if packet.untag().is_err() {
                return self.end(DropReason::VlanTag, packet);
            }
            if let Some(inner) = packet.meta.vlan {
                return match self.vlan_device(packet, inner) {
                    Some(upper) => self.climb(packet, upper, inner.tci),
                    None => self.end(DropReason::UnknownVlan, packet),
                };
            }
        }
        self.hand_over(packet)
    }

    /// The VLAN device of a tag.
    #[inline]
    fn vlan_device(&self, packet: &Packet, tag: VlanTag) -> Option<u32> {
        self.net.vlan(packet.meta.iif, tag.protocol, tag.tci & vlan::VID_MASK)
    }

    /// The packet goes up to a VLAN device (`vlan_do_receive()`).
    fn climb(&mut self, packet: &mut Packet, upper: u32, tci: u16) -> Next {
        let Some(link) = self.net.link(upper).filter(|l| l.up) else {
            return self.end(DropReason::LinkDown, packet);
        };
        packet.meta.iif = upper;
        packet.meta.vlan = None;
        if packet.meta.packet_type == PacketType::OtherHost
            && packet.link().get(..6) == Some(&link.mac.0[..])
        {
            packet.meta.packet_type = PacketType::Host;
        }
        let code = (tci >> vlan::PRIORITY_SHIFT) as u8;
        let map = link.vlan().map_or(&[][..], |v| &v.ingress_qos);
        packet.meta.priority = map.iter().find(|(from, _)| *from == code).map_or(0, |(_, to)| *to);
        Next::Ingress
    }

    #[inline]
    fn hand_over(&mut self, packet: &mut Packet) -> Next {
        match packet.meta.protocol {
            ethernet::IPV4 => Next::Ip4Prerouting,
            ethernet::IPV6 => Next::Ip6Prerouting,
            ethernet::ARP => Next::Arp,
            ethernet::PPPOE_SESSION if self.net.has_sessions() => {
                self.pppoe_receive(packet);
                Next::Done
            }
            _ => self.end(DropReason::Ethertype, packet),
        }
    }

    /// `arp_rcv()`. Neighbours are static, so messages have no effect: after `input` they go to the
    /// host.
    pub(super) fn arp_receive(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if !self.net.link(packet.meta.iif).is_some_and(|l| l.arp) {
            return self.end(DropReason::ArpOff, packet);
        }
        if matches!(packet.meta.packet_type, PacketType::OtherHost | PacketType::Loopback) {
            return self.end(DropReason::OtherHost, packet);
        }
        let fits = packet.network().len() >= arp::LEN
            && arp::Header::new(packet.network()).is_some_and(|h| h.hlen() == 6 && h.plen() == 4);
        if !fits {
            return self.end(DropReason::Arp, packet);
        }
        self.hook(Protocol::Arp, Hook::Input, packet, course, Next::Deliver)
    }
}
