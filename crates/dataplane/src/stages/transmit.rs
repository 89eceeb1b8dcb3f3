// SPDX-License-Identifier: Apache-2.0

//! Out of a device: link header, VLAN devices, egress, wire (`neigh_output()`,
//! `__dev_queue_xmit()`).

use std::net::IpAddr;

use penstock_net::{Kind, Link, Mac, Output, RouteType, Vlan};
use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_program::{Context, Family, Hook};
use penstock_wire::{ethernet, vlan};

use crate::addresses;
use crate::addresses::{ip4, ip6};
use crate::course::{Course, Next};
use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::link_header::put_ethernet;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

/// Devices below devices that a frame goes down through at most, and `fwd` in a row
/// (`NF_RECURSION_LIMIT`).
const LEVELS: usize = 8;

/// Ethernet group address for an IPv4 group (RFC 1112).
fn group4(address: u32) -> Mac {
    let [_, b, c, d] = address.to_be_bytes();
    Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// Ethernet group address for an IPv6 group (RFC 2464).
fn group6(address: u128) -> Mac {
    let [a, b, c, d] = (address as u32).to_be_bytes();
    Mac([0x33, 0x33, a, b, c, d])
}

/// Gives a frame the tag of a VLAN device; it stays in the metadata until the wire
/// (`vlan_dev_hard_start_xmit()`).
fn to_lower(packet: &mut Packet, v: &Vlan) {
    let code = v
        .egress_qos
        .iter()
        .find(|(from, _)| *from == packet.meta.priority)
        .map_or(0, |(_, to)| *to);
    let tci = v.id | u16::from(code) << vlan::PRIORITY_SHIFT;
    packet.push_tag(VlanTag { protocol: v.protocol, tci });
    packet.meta.oif = v.lower;
}

/// Puts the link header of a device before a packet, if the device has any.
#[inline]
fn put_link(packet: &mut Packet, link: &Link, to: Mac, from: Mac) {
    if link.has_link_header() {
        put_ethernet(packet, to, from);
    } else {
        packet.put_link(0);
    }
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Link address of an IPv4 next hop (`arp_constructor()`): groups and broadcasts have theirs by
    /// rule, devices without ARP answer with their own, the rest must be in the table.
    pub(crate) fn link_address4(&self, link: &Link, address: u32) -> Option<Mac> {
        if let Some(mac) = self.net.neighbour4(link.index, address) {
            return Some(mac);
        }
        match self.net.kind4(address, Some(link.index)) {
            RouteType::Multicast => Some(group4(address)),
            _ if !link.arp || link.is_loopback() => Some(link.mac),
            RouteType::Broadcast => Some(link.broadcast),
            _ => None,
        }
    }

    /// Link address of an IPv6 next hop (`ndisc_constructor()`).
    pub(crate) fn link_address6(&self, link: &Link, address: u128) -> Option<Mac> {
        if let Some(mac) = self.net.neighbour6(link.index, address) {
            return Some(mac);
        }
        if address >> 120 == 0xff {
            return Some(group6(address));
        }
        (!link.arp || link.is_loopback()).then_some(link.mac)
    }

    /// Link address of a next hop of either family.
    pub(crate) fn link_address(&self, link: &Link, next: IpAddr) -> Option<Mac> {
        match next {
            IpAddr::V4(next) => self.link_address4(link, next.into()),
            IpAddr::V6(next) => self.link_address6(link, next.into()),
        }
    }

    /// The link address of a next hop of either family on a device, if that is a wire that is up.
    pub(crate) fn wire_neighbour(&self, oif: u32, next: IpAddr) -> Option<(&'a Link, Mac)> {
        let link = self.net.link(oif).filter(|link| link.up && link.is_wire())?;
        Some((link, self.link_address(link, next)?))
    }

    /// An IP packet gets the link header for its next hop, from the neighbour's address.
    pub(super) fn neighbour(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        course: &Course,
    ) -> Next {
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        let Some(link) = self.net.link(to.oif) else {
            self.drop(DropReason::LinkDown, packet);
            return Next::Refused;
        };
        let next = match protocol {
            // The gateway may be one of IPv6 (RFC 8950).
            Protocol::Ip => to.gateway.or_else(|| addresses::of4(packet).map(|a| ip4(a.1).into())),
            Protocol::Ip6 => to.gateway.or_else(|| addresses::of6(packet).map(|a| ip6(a.1).into())),
            Protocol::Arp | Protocol::Bridge => None,
        };
        let address = match protocol {
            Protocol::Ip | Protocol::Ip6 if !link.has_link_header() => Some(link.mac),
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Bridge => {
                next.and_then(|next| self.link_address(link, next))
            }
        };
        let Some(mac) = address else {
            // The kernel takes it, too, and waits for an answer of the neighbour.
            match next {
                Some(next) => self.wait_for_neighbour(protocol, packet, to, link, next),
                None => self.drop(DropReason::NoNeighbour, packet),
            }
            return Next::Done;
        };
        packet.meta.protocol =
            if protocol == Protocol::Ip { ethernet::IPV4 } else { ethernet::IPV6 };
        packet.meta.vlan = None;
        put_link(packet, link, mac, link.mac);
        packet.meta.oif = link.index;
        Next::Egress
    }

    /// Sends an IP packet to its next hop. `false` if the sender learns that it was dropped.
    pub(crate) fn send_to_neighbour(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        to: &Route,
    ) -> bool {
        self.run(Next::Neighbour(protocol), packet, &mut Course::to(*to))
    }

    /// Puts an Ethernet header before the packet and sends it.
    pub(crate) fn send_on(
        &mut self,
        packet: &mut Packet,
        link: &Link,
        to: Mac,
        from: Mac,
        route: Option<&Route>,
    ) -> bool {
        put_link(packet, link, to, from);
        self.transmit(packet, link.index, route)
    }

    /// A frame with its link header goes out of a device: egress, then down through VLAN devices to
    /// the wire. `route` is kept by packets on the loopback device. `false` if the sender learns
    /// that the frame was dropped.
    pub(crate) fn transmit(
        &mut self,
        packet: &mut Packet,
        device: u32,
        route: Option<&Route>,
    ) -> bool {
        packet.meta.oif = device;
        packet.meta.iif = 0;
        for _ in 0..LEVELS {
            let Some(link) = self.net.link(packet.meta.oif).filter(|l| l.up) else {
                self.drop(DropReason::LinkDown, packet);
                return false;
            };
            packet.data_at_link();
            let list = self.hooks.egress(link.index);
            let sees = self.state.tc.as_mut().is_none_or(|tc| tc.egress_sees());
            if !list.is_empty() && sees {
                packet.find_transport_checked();
                let context = Context { family: Family::Netdev, hook: Hook::Egress };
                match self.run_list(list, context, packet, &mut Course::default()) {
                    HookResult::Accept => {}
                    HookResult::Stolen => return true,
                    HookResult::Dropped | HookResult::Queue { .. } => return false,
                }
            }
            if let Some(sent) = self.tc(penstock_tc::Hook::Egress, link.index, packet) {
                return sent;
            }
            if let Some(taken) = self.enqueue(packet, link) {
                return taken;
            }
            self.tap(packet, link, true);
            match link.vlan() {
                Some(v) => to_lower(packet, v),
                None => {
                    self.hand_over_to(packet, link, route);
                    return true;
                }
            }
        }
        self.drop(DropReason::Recursion, packet);
        false
    }

    /// Sends a dequeued frame to the lower device, or to the wire.
    pub(crate) fn hand_to_device(
        &mut self,
        packet: &mut Packet,
        link: &Link,
        route: Option<&Route>,
    ) {
        self.tap(packet, link, true);
        match link.vlan() {
            Some(v) => {
                to_lower(packet, v);
                self.transmit(packet, v.lower, route);
            }
            None => self.hand_over_to(packet, link, route),
        }
    }

    /// To the wire, around, to the ports of a bridge, or into another packet.
    #[inline]
    fn hand_over_to(&mut self, packet: &mut Packet, link: &Link, route: Option<&Route>) {
        match link.kind.output() {
            Output::Wire => {
                packet.put_tag_into_frame();
                self.state.counters.transmitted += 1;
                self.sink.transmit(link, packet.frame(), &packet.meta);
            }
            Output::Loopback => self.loop_back(packet, route.copied()),
            Output::Bridge(bridge) => self.bridge_transmit(packet, link, bridge),
            Output::Tunnel(tunnel) => self.tunnel_transmit(packet, link, tunnel, route.copied()),
            Output::Pppoe(session) => self.pppoe_transmit(packet, session),
            Output::Bare => {
                if packet.meta.gso.is_some() {
                    return self.send_segments(packet, |worker, segment| {
                        worker.hand_over_bare(segment, link)
                    });
                }
                self.hand_over_bare(packet, link);
            }
            // Went down to its lower device before.
            Output::Vlan(_) => self.drop(DropReason::Recursion, packet),
        }
    }

    /// To a device of the host's that has no link header.
    fn hand_over_bare(&mut self, packet: &Packet, link: &Link) {
        self.state.counters.transmitted += 1;
        self.sink.transmit(link, packet.network(), &packet.meta);
    }

    /// The loopback device receives what it sends; the packet keeps its route.
    pub(crate) fn loop_back(&mut self, packet: &mut Packet, to: Option<Route>) {
        let mut copy = self.state.buffers.spare.pop().unwrap_or_default();
        copy.clone_from(packet);
        copy.data_at_network();
        copy.meta.iif = copy.meta.oif;
        copy.meta.oif = 0;
        copy.meta.packet_type = PacketType::Host;
        self.state.buffers.backlog.push_back((copy, to));
    }
}
