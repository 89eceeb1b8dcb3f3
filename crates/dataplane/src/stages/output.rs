// SPDX-License-Identifier: Apache-2.0

//! What leaves: the host's own packets through `output`, everything through `postrouting`
//! (`ip_local_out()`, `ip_output()`, `ip6_output()`).

use penstock_net::{Flow4, Flow6, LOOPBACK, RouteType};
use penstock_packet::{Packet, PacketType};
use penstock_program::Hook;
use penstock_wire::{ethernet, ipv4, ipv6};

use crate::addresses;
use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Routes a packet of the host's own (`ip_route_output_key()`): way and source address, the
    /// given one if it is not zero. A source that is not an address of this host is refused unless
    /// `any_source`.
    pub(crate) fn ip4_route_output(
        &self,
        daddr: u32,
        saddr: u32,
        tos: u8,
        mark: u32,
        any_source: bool,
    ) -> Option<(Route, u32)> {
        self.ip4_route_output_by(Flow4 { daddr, saddr, tos, mark, ..Flow4::default() }, any_source)
    }

    /// Routes a packet of the host's own that must leave by the flow's `oif`; 0 for any device.
    /// Where no route leads there, the destination is taken to be on the link. The flow's `iif` is
    /// not read: such packets come from the loopback device.
    pub(crate) fn ip4_route_output_by(
        &self,
        flow: Flow4,
        any_source: bool,
    ) -> Option<(Route, u32)> {
        let flow = Flow4 { iif: LOOPBACK, ..flow };
        let Flow4 { daddr, saddr, oif, .. } = flow;
        let zero = |a: u32| a == 0;
        if saddr != 0 {
            if saddr >> 28 == 0xe || saddr == u32::MAX || zero(saddr) {
                return None;
            }
            if !any_source && self.net.kind4(saddr, None) != RouteType::Local {
                return None;
            }
        }
        if zero(daddr) {
            return None;
        }
        if saddr != 0 && (daddr >> 28 == 0xe || daddr == u32::MAX) {
            // A source address chooses the device for groups and broadcasts.
            if let Some(oif) = self.net.owner4(saddr) {
                let kind =
                    if daddr == u32::MAX { RouteType::Broadcast } else { RouteType::Multicast };
                return Some((Route::special(kind, false, oif, 0), saddr));
            }
        }
        let hit = match self.net.route4(&flow) {
            Ok(hit) => hit,
            Err(_) if oif != 0 && self.net.link(oif).is_some_and(|l| l.up) => {
                let near = penstock_net::Scope::LINK;
                let saddr = if saddr != 0 { saddr } else { self.net.source4(oif, daddr, near) };
                let kind = match daddr {
                    u32::MAX => RouteType::Broadcast,
                    _ if daddr >> 28 == 0xe => RouteType::Multicast,
                    _ => RouteType::Unicast,
                };
                return Some((Route::special(kind, false, oif, 0), saddr));
            }
            Err(_) => return None,
        };
        let mut to = Route::of(&hit, 0);
        if hit.route.kind == RouteType::Local {
            to.oif = LOOPBACK;
            let source = match hit.route.source {
                Some(std::net::IpAddr::V4(s)) => s.into(),
                _ => daddr,
            };
            return Some((to, if saddr != 0 { saddr } else { source }));
        }
        let saddr = if saddr != 0 { saddr } else { self.net.source_of4(&hit) };
        if daddr == u32::MAX {
            to.kind = RouteType::Broadcast;
        } else if daddr >> 28 == 0xe {
            to.kind = RouteType::Multicast;
        }
        to.local = to.oif == LOOPBACK;
        if matches!(to.kind, RouteType::Broadcast | RouteType::Multicast) {
            to.gateway = None;
        }
        Some((self.path4(to, daddr), saddr))
    }

    /// Routes an IPv6 packet of the host's own (`ip6_route_output()`); `oif` 0 for any device.
    pub(crate) fn ip6_route_output(
        &self,
        daddr: u128,
        saddr: Option<u128>,
        mark: u32,
        oif: u32,
    ) -> Option<Route> {
        let strict = oif != 0 || addresses::needs_device(daddr);
        let flow = Flow6 { daddr, saddr, mark, iif: LOOPBACK, oif, strict, ..Flow6::default() };
        let hit = self.net.route6(&flow).ok()?;
        let mut to = Route::of(&hit, 0);
        if to.local {
            to.oif = LOOPBACK;
        }
        if daddr >> 120 == 0xff {
            to.kind = RouteType::Multicast;
            to.gateway = None;
        }
        Some(self.path6(to, daddr))
    }

    /// A packet of the host's own makes its journey: `output`, perhaps another route, then out.
    ///
    /// Tunnels call it while the inner packet is being sent ([`Worker::transmit`], which queues,
    /// `fwd` and flows call as well as the stages). What its sender learns does not depend on what
    /// becomes of the packet around it, as with `ip_tunnel_xmit()`; so the outer packet is not the
    /// next stage of the inner one. Stages call [`Worker::local_output`].
    ///
    /// `on` is the device that the packet is on, 0 for none: that of its arrival at `postrouting`.
    pub(crate) fn local_out(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        to: Route,
        on: u32,
    ) {
        let mut course = Course::default();
        let next = self.local_output(protocol, packet, to, on, &mut course);
        self.run(next, packet, &mut course);
    }

    /// As [`Worker::local_out`], for an IPv6 packet that is not fragmented (`ip6tunnel_xmit()`).
    pub(crate) fn local_out_whole(&mut self, packet: &mut Packet, to: Route, on: u32) {
        let mut course = Course { whole: true, ..Course::default() };
        let next = self.local_output(Protocol::Ip6, packet, to, on, &mut course);
        self.run(next, packet, &mut course);
    }

    /// A packet becomes one of the host's own, with a course of its own: `output`. Gives the stage
    /// where it continues. `on` is as for [`Worker::local_out`].
    pub(crate) fn local_output(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        mut to: Route,
        on: u32,
        course: &mut Course,
    ) -> Next {
        packet.meta.protocol =
            if protocol == Protocol::Ip { ethernet::IPV4 } else { ethernet::IPV6 };
        if self.state.ipsec.is_some() {
            let Some(way) = self.xfrm_route(packet, to) else { return Next::Done };
            to = way;
        }
        packet.meta.iif = 0;
        packet.meta.oif = to.oif;
        packet.meta.realm = to.realm;
        packet.meta.packet_type = PacketType::Host;
        packet.meta.route = Some(to.oif);
        packet.meta.nftrace |= self.state.trace_all;
        *course = Course { on, whole: course.whole, ..Course::to(to) };
        self.hook_before_route(protocol, Hook::Output, packet, course, Next::AfterOutput(protocol))
    }

    /// `dst_output()`.
    pub(super) fn after_output(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        course: &mut Course,
    ) -> Next {
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        packet.meta.oif = to.oif;
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        Next::postrouting(protocol)
    }

    /// `ip_route_me_harder()`, `ip6_route_me_harder()`.
    pub(crate) fn route_again(&mut self, protocol: Protocol, packet: &mut Packet) -> Option<Route> {
        let to = self.rerouted(protocol, packet)?;
        self.xfrm_lookup(packet, to).ok()
    }

    fn rerouted(&self, protocol: Protocol, packet: &Packet) -> Option<Route> {
        let mark = packet.meta.mark;
        match protocol {
            Protocol::Ip => {
                let h = ipv4::Header::new(packet.network())?;
                let saddr = u32::from(h.src());
                let saddr = match self.net.kind4(saddr, None) {
                    RouteType::Local | RouteType::Unicast => saddr,
                    _ => 0,
                };
                self.ip4_route_output(h.dst().into(), saddr, h.tos() & 0x1c, mark, true)
                    .map(|w| w.0)
            }
            Protocol::Ip6 => {
                let h = ipv6::Header::new(packet.network())?;
                let daddr = u128::from(h.dst());
                // The loopback address needs no device here (ip6_route_me_harder()).
                let bound = daddr >> 120 == 0xff || addresses::is_link_local(daddr);
                let oif = if bound { packet.meta.oif } else { 0 };
                self.ip6_route_output(daddr, Some(h.src().into()), mark, oif)
            }
            Protocol::Arp | Protocol::Bridge => None,
        }
    }

    /// `ip_output()`.
    pub(super) fn ip4_postrouting(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        if to.is_by_host() {
            self.leave_to_host(packet);
            return Next::Done;
        }
        packet.meta.oif = to.oif;
        let heard = packet.meta.iif == 0 && to.oif != LOOPBACK && self.is_heard_by_host(packet, to);
        if heard {
            // What is in a tunnel is not heard if it goes to a group (sk_mc_loop()).
            if to.kind == RouteType::Broadcast || self.state.tunnels.depth == 0 {
                self.hear_oneself(Protocol::Ip, packet, to);
            }
            let ttl = ipv4::Header::new(packet.network()).map(|h| h.ttl());
            if to.kind == RouteType::Multicast && ttl == Some(0) {
                return self.end(DropReason::Ttl, packet);
            }
        }
        if course.on != 0 && !heard {
            packet.meta.iif = course.on;
        }
        self.hook(Protocol::Ip, Hook::Postrouting, packet, course, Next::Ip4Finish)
    }

    /// Whether an IPv4 packet of the host's own is for this host, too: one to everybody, or to a
    /// group that the host is a member of (`__mkroute_output()`).
    fn is_heard_by_host(&self, packet: &Packet, to: &Route) -> bool {
        match to.kind {
            RouteType::Broadcast => true,
            RouteType::Multicast => {
                let group = addresses::of4(packet).map_or(0, |(_, group)| group);
                self.net.link(to.oif).is_some_and(|link| link.joined4(group))
            }
            _ => false,
        }
    }

    /// The host's own broadcasts and groups come back to it on the device that they leave by
    /// (`ip_mc_output()`, `ip6_finish_output2()`): a copy passes `postrouting` and is received.
    fn hear_oneself(&mut self, protocol: Protocol, packet: &Packet, to: &Route) {
        let back = Some(Route { local: true, gateway: None, ..*to });
        self.nested(packet.meta.time, |worker, copy| {
            worker.state.counters.originated += 1;
            copy.clone_from(packet);
            let mut course = Course { back, ..Course::to(*to) };
            let next = worker.hook(protocol, Hook::Postrouting, copy, &mut course, Next::ComeBack);
            worker.run(next, copy, &mut course);
        });
    }

    /// A copy of what the host sent is received on the device that it left by
    /// (`dev_loopback_xmit()`).
    pub(super) fn come_back(&mut self, copy: &Packet, course: &Course) -> Next {
        let Some(route) = course.back else { return self.end(DropReason::NoRoute, copy) };
        let mut back = self.state.buffers.spare.pop().unwrap_or_default();
        back.load_network(copy.network());
        back.meta = copy.meta.clone();
        back.meta.iif = route.oif;
        back.meta.oif = 0;
        back.meta.packet_type = PacketType::Loopback;
        self.state.buffers.backlog.push_back((back, Some(route)));
        Next::Done
    }

    /// `ip6_output()`.
    pub(super) fn ip6_postrouting(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        if to.is_by_host() {
            self.leave_to_host(packet);
            return Next::Done;
        }
        packet.meta.oif = to.oif;
        if course.on != 0 {
            packet.meta.iif = course.on;
        }
        self.hook(Protocol::Ip6, Hook::Postrouting, packet, course, Next::Ip6AfterPostrouting)
    }

    /// `__ip6_finish_output()`.
    pub(super) fn ip6_after_postrouting(&mut self, packet: &mut Packet, course: &Course) -> Next {
        if course.on != 0 {
            packet.meta.iif = 0;
        }
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        let forwarded = packet.meta.iif != 0;
        if to.kind == RouteType::Multicast && !forwarded && to.oif != LOOPBACK {
            let group = addresses::of6(packet).map_or(0, |(_, d)| d);
            if self.net.link(to.oif).is_some_and(|l| l.joined6(group)) {
                if self.state.tunnels.depth == 0 {
                    self.hear_oneself(Protocol::Ip6, packet, to);
                }
                if ipv6::Header::new(packet.network()).is_some_and(|h| h.hop_limit() == 0) {
                    return self.end(DropReason::Ttl, packet);
                }
            }
            if (group >> 112) & 0xf <= 1 {
                return self.end(DropReason::Scope, packet);
            }
        }
        Next::Ip6Finish
    }

    /// The MTU towards an IPv6 destination; never below what IPv6 asks for.
    pub(crate) fn mtu6(&self, to: &Route) -> usize {
        let set = self.net.link(to.oif).filter(|_| to.mtu == 0).and_then(|l| l.mtu6());
        let mtu = self.mtu(to);
        set.map_or(mtu, |set| mtu.min(set as usize)).max(ipv6::MIN_MTU)
    }

    /// An IP packet that the host sends (`raw_send_hdrinc()`): the total length and checksum are
    /// made right, a missing identification or source is filled in, then it is routed.
    pub(crate) fn host_packet(&mut self, bytes: &[u8], time: u64, packet: &mut Packet) {
        self.state.counters.from_host += 1;
        packet.load_network(bytes);
        packet.meta.time = time;
        match bytes.first().map(|b| b >> 4) {
            Some(4) => self.host_packet4(packet),
            Some(6) => self.host_packet6(packet),
            _ => self.drop(DropReason::HostPacket, packet),
        }
    }

    fn host_packet4(&mut self, packet: &mut Packet) {
        packet.meta.protocol = ethernet::IPV4;
        let len = packet.network().len();
        let fits = ipv4::Header::new(packet.network())
            .is_some_and(|h| h.header_len() >= ipv4::LEN && h.header_len() <= len && len <= 65535);
        if !fits {
            return self.drop(DropReason::HostPacket, packet);
        }
        let (saddr, daddr, tos) = match ipv4::Header::new(packet.network()) {
            Some(h) => (u32::from(h.src()), u32::from(h.dst()), h.tos()),
            None => return self.drop(DropReason::HostPacket, packet),
        };
        let Some((to, source)) = self.ip4_route_output(daddr, saddr, tos & 0x1c, 0, true) else {
            return self.drop(DropReason::NoRoute, packet);
        };
        let ids = &mut self.state.numbers.ip_ids;
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            if saddr == 0 {
                h.set_src(source.into());
            }
            if h.read().id() == 0 {
                let id = ids.next(h.read().src().into(), daddr, h.read().protocol());
                h.set_id(id);
            }
            h.set_total_len(len as u16);
            h.fill_checksum();
        }
        self.local_out(Protocol::Ip, packet, to, 0);
    }

    fn host_packet6(&mut self, packet: &mut Packet) {
        packet.meta.protocol = ethernet::IPV6;
        let Some((saddr, daddr)) = addresses::of6(packet) else {
            return self.drop(DropReason::HostPacket, packet);
        };
        let source = (saddr != 0).then_some(saddr);
        // A destination on some link goes by the link that has the source address.
        let oif = if addresses::needs_device(daddr) {
            self.net
                .links()
                .iter()
                .find(|l| l.addresses6.iter().any(|a| a.local == saddr))
                .map_or(0, |l| l.index)
        } else {
            0
        };
        let Some(to) = self.ip6_route_output(daddr, source, 0, oif) else {
            return self.drop(DropReason::NoRoute, packet);
        };
        self.local_out(Protocol::Ip6, packet, to, 0);
    }
}
