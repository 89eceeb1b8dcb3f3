// SPDX-License-Identifier: Apache-2.0

//! From the wire to the protocol: tags, ingress, VLAN devices, ARP (`__netif_receive_skb_core()`).

use penstock_packet::{Frame, Gso, Packet, PacketType, VlanTag};
use penstock_program::{Context, Family, Hook};
use penstock_wire::{arp, ethernet, vlan};

use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::rules::End;
use crate::sink::Sink;
use crate::worker::{Destination, Worker};

/// VLAN devices on VLAN devices that a frame climbs at most.
const ROUNDS: usize = 8;

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

    /// A packet that has an Ethernet header and [`penstock_packet::Meta::iif`]. `known` is the
    /// destination that packets on the loopback device keep.
    pub(crate) fn pass_up(&mut self, packet: &mut Packet, known: Option<&Destination>) {
        packet.meta.nftrace |= self.state.trace_all;
        self.climb_from(0, packet, known);
    }

    /// The same for one that ingress of its device has let pass.
    #[inline]
    pub(crate) fn pass_up_behind_ingress(&mut self, packet: &mut Packet) {
        if self.behind_ingress(packet, None) {
            self.climb_from(1, packet, None);
        }
    }

    /// Up from device to device, of which so many are done with.
    fn climb_from(&mut self, done: usize, packet: &mut Packet, known: Option<&Destination>) {
        for _ in done..ROUNDS {
            if !self.ingress(packet) || !self.behind_ingress(packet, known) {
                return;
            }
        }
        self.drop(DropReason::Recursion, packet);
    }

    /// Untagging and the hooks of the device. Whether the packet goes on.
    #[inline]
    fn ingress(&mut self, packet: &mut Packet) -> bool {
        if packet.untag().is_err() {
            self.drop(DropReason::VlanTag, packet);
            return false;
        }
        if let Some(link) = self.net.link(packet.meta.iif) {
            self.tap(packet, link, false);
        }
        if self.tc(penstock_tc::Hook::Ingress, packet.meta.iif, packet).is_some() {
            return false;
        }
        let list = self.hooks.ingress(packet.meta.iif);
        if list.is_empty() {
            return true;
        }
        packet.find_transport_checked();
        let context = Context { family: Family::Netdev, hook: Hook::Ingress };
        self.run_list(list, context, packet, &mut None) == End::Accept
    }

    /// VLAN devices, bridges, and if the packet is for none of them, its protocol. Whether it has
    /// climbed up to another device.
    #[inline]
    fn behind_ingress(&mut self, packet: &mut Packet, known: Option<&Destination>) -> bool {
        let net = self.net;
        let upper = |packet: &Packet, tag: VlanTag| {
            net.vlan(packet.meta.iif, tag.protocol, tag.tci & vlan::VID_MASK)
        };
        if let Some(tag) = packet.meta.vlan
            && let Some(upper) = upper(packet, tag)
        {
            return self.climb(packet, upper, tag.tci);
        }
        if net.bridge_port(packet.meta.iif).is_some() && !self.bridge_receive(packet) {
            return false;
        }
        let Some(tag) = packet.meta.vlan else {
            self.hand_over(packet, known);
            return false;
        };
        let id = tag.tci & vlan::VID_MASK;
        if id != 0 {
            // The kernel marks it as another host's and lets the protocols drop it.
            packet.meta.packet_type = PacketType::OtherHost;
            packet.meta.vlan = None;
            self.drop(DropReason::UnknownVlan, packet);
            return false;
        }
        // A tag that is only about priority. A tag inside it may name a VLAN device, without
        // another ingress for this device.
        packet.meta.vlan = None;
        if vlan::is_tag(packet.meta.protocol) {
            if packet.untag().is_err() {
                self.drop(DropReason::VlanTag, packet);
                return false;
            }
            if let Some(inner) = packet.meta.vlan {
                match upper(packet, inner) {
                    Some(upper) => return self.climb(packet, upper, inner.tci),
                    None => {
                        self.drop(DropReason::UnknownVlan, packet);
                        return false;
                    }
                }
            }
        }
        self.hand_over(packet, known);
        false
    }

    /// The packet goes up to a VLAN device (`vlan_do_receive()`).
    fn climb(&mut self, packet: &mut Packet, upper: u32, tci: u16) -> bool {
        let Some(link) = self.net.link(upper).filter(|l| l.up) else {
            self.drop(DropReason::LinkDown, packet);
            return false;
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
        true
    }

    fn hand_over(&mut self, packet: &mut Packet, known: Option<&Destination>) {
        match packet.meta.protocol {
            ethernet::IPV4 => self.ip4_receive(packet, known),
            ethernet::IPV6 => self.ip6_receive(packet, known),
            ethernet::ARP => self.arp_receive(packet),
            ethernet::PPPOE_SESSION if self.net.has_sessions() => self.pppoe_receive(packet),
            _ => self.drop(DropReason::Ethertype, packet),
        }
    }

    /// `arp_rcv()`. Neighbours are static, so messages have no effect: after `input` they go to the
    /// host.
    fn arp_receive(&mut self, packet: &mut Packet) {
        if !self.net.link(packet.meta.iif).is_some_and(|l| l.arp) {
            return self.drop(DropReason::ArpOff, packet);
        }
        if matches!(packet.meta.packet_type, PacketType::OtherHost | PacketType::Loopback) {
            return self.drop(DropReason::OtherHost, packet);
        }
        let fits = packet.network().len() >= arp::LEN
            && arp::Header::new(packet.network()).is_some_and(|h| h.hlen() == 6 && h.plen() == 4);
        if !fits {
            return self.drop(DropReason::Arp, packet);
        }
        if self.hook(Protocol::Arp, Hook::Input, packet, None) {
            self.deliver(packet);
        }
    }
}
