// SPDX-License-Identifier: Apache-2.0

//! Frames that the host's own stack has put on a device: it has routed them and found the
//! neighbour, but they have not passed our hooks yet.

use penstock_net::{Flow4, Flow6, LOOPBACK, Link, Mac, RouteType};
use penstock_packet::{Frame, Gso, Packet, PacketType};
use penstock_program::Hook;
use penstock_wire::{ethernet, ipv4, ipv6, protocol, vlan};

use crate::addresses;
use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::link_header::put_ethernet;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

fn ethertype(frame: &[u8], at: usize) -> u16 {
    frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

impl<S: Sink> Worker<'_, S> {
    /// A frame of a packet socket: only egress of the device sees it.
    pub(crate) fn raw_frame(&mut self, frame: &Frame<'_>, gso: Option<Gso>, packet: &mut Packet) {
        // The network header is after all tags, but the protocol is that of the outermost
        // (packet_parse_headers()).
        let mut link_len = ethernet::LEN;
        while vlan::is_tag(ethertype(frame.bytes, link_len - 2)) && link_len < frame.bytes.len() {
            link_len += vlan::LEN;
        }
        packet.load(frame.bytes, link_len);
        packet.meta.time = frame.time;
        packet.meta.gso = gso;
        packet.meta.nftrace = self.state.trace_all;
        match ethernet::Header::new(frame.bytes) {
            Some(h) => {
                packet.meta.protocol = h.ethertype();
                self.transmit(packet, frame.device, None);
            }
            None => self.drop(DropReason::LinkHeader, packet),
        }
    }

    /// A frame that the host has given to a device: what of it is the host's own passes the hooks
    /// that such packets pass.
    pub(crate) fn host_frame(&mut self, frame: &Frame<'_>, gso: Option<Gso>, packet: &mut Packet) {
        self.state.counters.from_host += 1;
        let (mut device, mut link_len) = (frame.device, ethernet::LEN);
        // Tags of VLAN devices are taken off: below them the frame gets them again.
        while let tag = ethertype(frame.bytes, link_len - 2)
            && vlan::is_tag(tag)
            && let Some(upper) =
                self.net.vlan(device, tag, ethertype(frame.bytes, link_len) & vlan::VID_MASK)
        {
            device = upper;
            link_len += vlan::LEN;
        }
        let Some(link) = self.net.link(device) else { return self.raw_frame(frame, gso, packet) };
        let protocol = match ethertype(frame.bytes, link_len - 2) {
            ethernet::IPV4 => Protocol::Ip,
            ethernet::IPV6 => Protocol::Ip6,
            ethernet::ARP => Protocol::Arp,
            _ => return self.raw_frame(frame, gso, packet),
        };
        let (Some(payload), Some((to, from))) = (frame.bytes.get(link_len..), macs(frame.bytes))
        else {
            return self.raw_frame(frame, gso, packet);
        };
        let own = match protocol {
            Protocol::Ip => self.own_packet4(payload),
            Protocol::Ip6 => self.own_packet6(payload),
            Protocol::Arp | Protocol::Bridge => true,
        };
        if !own || from != link.mac {
            return self.raw_frame(frame, gso, packet);
        }
        packet.load_network(payload);
        packet.meta.time = frame.time;
        packet.meta.gso = gso;
        packet.meta.packet_type = PacketType::Host;
        packet.meta.nftrace = self.state.trace_all;
        packet.meta.oif = device;
        packet.meta.protocol = ethertype(frame.bytes, link_len - 2);
        if protocol == Protocol::Arp {
            let mut course = Course::default();
            let next = self.hook(Protocol::Arp, Hook::Output, packet, &mut course, Next::Egress);
            if next == Next::Egress {
                put_ethernet(packet, to, from);
                self.transmit(packet, device, None);
            }
            return;
        }
        self.host_output(protocol, packet, link, (to, from));
    }

    /// An IP packet of the host's own that leaves by `link`, unless a rule at `output` changes its
    /// way.
    fn host_output(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        link: &Link,
        (to, from): (Mac, Mac),
    ) {
        let way = self.host_way(protocol, packet, link.index);
        packet.meta.realm = way.realm;
        packet.meta.route = Some(way.oif);
        let mut course = Course::to(way);
        let after = Next::AfterOutput(protocol);
        if self.hook_before_route(protocol, Hook::Output, packet, &mut course, after) != after {
            return;
        }
        let Some(found) = course.route else { return self.drop(DropReason::NoRoute, packet) };
        // Fragments that were reassembled for a rule are fragmented again where the path does that.
        if found != way || packet.meta.reassembled != 0 {
            self.run(after, packet, &mut course);
            return;
        }
        let after = Next::after_postrouting(protocol);
        if self.hook(protocol, Hook::Postrouting, packet, &mut course, after) == after {
            put_ethernet(packet, to, from);
            self.transmit(packet, link.index, Some(&found));
        }
    }

    /// The way that the host's stack has found, with what we know of it.
    fn host_way(&self, protocol: Protocol, packet: &Packet, device: u32) -> Route {
        let kind;
        let hit = match protocol {
            Protocol::Ip => {
                let Some(h) = ipv4::Header::new(packet.network()) else {
                    return Route::special(RouteType::Unicast, false, device, 0);
                };
                let (saddr, daddr) = (h.src().into(), u32::from(h.dst()));
                kind = self.net.kind4(daddr, Some(device));
                let tos = h.tos() & 0x1c;
                self.net.route4(&Flow4 {
                    daddr,
                    saddr,
                    tos,
                    iif: LOOPBACK,
                    oif: device,
                    ..Flow4::default()
                })
            }
            _ => {
                let (saddr, daddr) = addresses::of6(packet).unwrap_or_default();
                kind = if daddr >> 120 == 0xff { RouteType::Multicast } else { RouteType::Unicast };
                let saddr = (saddr != 0).then_some(saddr);
                let flow = Flow6 {
                    daddr,
                    saddr,
                    iif: LOOPBACK,
                    oif: device,
                    strict: true,
                    ..Flow6::default()
                };
                self.net.route6(&flow)
            }
        };
        match (kind, hit) {
            (RouteType::Broadcast | RouteType::Multicast, _) => {
                Route::special(kind, false, device, 0)
            }
            (_, Ok(hit)) if hit.nexthop.oif == device => {
                Route { local: false, ..Route::of(&hit, 0) }
            }
            _ => Route::special(RouteType::Unicast, false, device, 0),
        }
    }

    /// Whether a packet comes from the host's own stack: it has one of its addresses. What has none
    /// yet is asked by the stack itself, except by DHCP clients, which have packet sockets for
    /// that.
    fn own_packet4(&self, packet: &[u8]) -> bool {
        let Ok(_) = ipv4::check_input(packet) else { return false };
        ipv4::Header::new(packet).is_some_and(|h| match u32::from(h.src()) {
            0 => h.protocol() == protocol::IGMP,
            source => self.net.own4(source) || self.net.kind4(source, None) == RouteType::Local,
        })
    }

    fn own_packet6(&self, packet: &[u8]) -> bool {
        let Some(h) = ipv6::Header::new(packet).filter(|h| h.version() == 6) else { return false };
        match u128::from(h.src()) {
            // Questions whether an address is taken, and reports of memberships.
            0 => matches!(h.next_header(), protocol::ICMPV6 | protocol::HOP_BY_HOP),
            source => self.net.own6(source, None),
        }
    }
}

/// Destination and source of a frame.
fn macs(frame: &[u8]) -> Option<(Mac, Mac)> {
    let (to, rest) = frame.split_first_chunk::<6>()?;
    Some((Mac(*to), Mac(*rest.first_chunk::<6>()?)))
}
