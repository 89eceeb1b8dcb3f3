// SPDX-License-Identifier: Apache-2.0

//! IPv4 from reception to the decision between input and forward (`ip_rcv()`,
//! `ip_route_input_slow()`).

use std::net::IpAddr;

use penstock_net::{Devconf, Flow4, LOOPBACK, Link, NoRoute, RouteNumber, RouteType};
use penstock_packet::{Packet, PacketType};
use penstock_program::Hook;
use penstock_wire::ipv4::{self, InputError};
use penstock_wire::ipv4_options::Compiled;
use penstock_wire::{icmp, ipv4_options, protocol};
use penstock_xfrm::Direction;

use crate::addresses;
use crate::addresses::ip4;
use crate::adjacencies::Way;
use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::reassembly::User;
use crate::route::{Route, Routed, priority_of_tos};
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::stages::options4::has_way_to_go;
use crate::stages::path_mtu::mapped;
use crate::stages::validate_source::Journey;
use crate::worker::Worker;

/// Whether a route is to one host.
const fn is_for_one(kind: RouteType) -> bool {
    !matches!(kind, RouteType::Broadcast | RouteType::Multicast)
}

/// Whether the sender may be told of a better way by the same link (`__mkroute_input()`).
fn may_redirect(link: &Link, saddr: u32, gateway: Option<IpAddr>) -> bool {
    let gateway = match gateway {
        Some(IpAddr::V4(gateway)) => Some(u32::from(gateway)),
        _ => None,
    };
    // inet_addr_onlink()
    let shares_prefix = || {
        link.addresses4.iter().any(|a| {
            let mask = if a.len == 0 { 0 } else { u32::MAX << (32 - a.len.min(32)) };
            let within = |address: u32| (address ^ a.peer) & mask == 0;
            within(saddr) && gateway.is_none_or(within)
        })
    };
    link.conf.is_on(Devconf::SendRedirects)
        && (link.conf.is_on(Devconf::SharedMedia) || shares_prefix())
}

impl<S: Sink> Worker<'_, S> {
    /// The checks of IPv4, and `prerouting` (`ip_rcv()`).
    pub(super) fn ip4_prerouting(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if packet.meta.packet_type == PacketType::OtherHost {
            return self.end(DropReason::OtherHost, packet);
        }
        match ipv4::check_input(packet.network()) {
            Ok(total) => packet.trim_network(total),
            Err(InputError::Header) => return self.end(DropReason::Ip4Header, packet),
            Err(InputError::Checksum) => return self.end(DropReason::Ip4Checksum, packet),
            Err(InputError::Truncated) => return self.end(DropReason::Ip4Truncated, packet),
        }
        if packet.meta.bridged.passed {
            self.leave_bridged(packet);
            return Next::Ip4Route;
        }
        self.hook_before_route(Protocol::Ip, Hook::Prerouting, packet, course, Next::Ip4Route)
    }

    /// The routing decision (`ip_rcv_finish()`).
    pub(super) fn ip4_route(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if course.route.is_some() {
            return self.ip4_routed(packet, course, true);
        }
        course.route = self.ip4_cached_route(packet);
        match course.route {
            Some(_) => self.ip4_routed(packet, course, false),
            None => self.ip4_new_route(packet, course),
        }
    }

    /// With a route that was found, or that the packet had before.
    #[inline]
    pub(super) fn ip4_routed(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        before: bool,
    ) -> Next {
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        let Some(options) = self.ip4_options(packet, Some(to)) else { return Next::Done };
        course.options = options;
        let mut to = *to;
        if options.srr != 0 {
            match self.ip4_source_route(packet, course, to) {
                Some(found) => to = found,
                None => return Next::Done,
            }
        }
        let (local, kind) = (to.local, to.kind);
        if matches!(packet.meta.packet_type, PacketType::Broadcast | PacketType::Multicast)
            && is_for_one(kind)
            && self.conf_of(packet.meta.iif, Devconf::DropUnicastInMulticast4) != 0
        {
            return self.end(DropReason::UnicastInMulticast, packet);
        }
        if local {
            Next::Ip4Input
        } else if before {
            // What the host sent itself to a group it is no member of.
            self.end(DropReason::NotMember, packet)
        } else {
            Next::Ip4Forward
        }
    }

    /// The routing decision for a packet that came in, where it was made before for another one.
    #[inline]
    fn ip4_cached_route(&mut self, packet: &Packet) -> Option<Route> {
        let (saddr, daddr) = addresses::of4(packet)?;
        let iif = packet.meta.iif;
        let at = self.adjacency4(iif, daddr, self.net.route_number4(daddr))?;
        let to = self.state.forwarding.v4.route(at, iif)?;
        self.ip4_usual_source(iif, saddr).then_some(to)
    }

    /// The adjacency of packets that came in by a device, by the number of the route to their
    /// destination; `None` where more has to be asked, or it is not known yet.
    #[inline(always)]
    pub(super) fn adjacency4(&self, iif: u32, daddr: u32, number: RouteNumber) -> Option<usize> {
        if !addresses::is_usual4(daddr) || self.net.custom4() {
            return None;
        }
        // What was learned of a path is about one destination.
        if self.state.path_mtus.may_know(mapped(daddr)) {
            return None;
        }
        let known = &self.state.forwarding.v4;
        let at = known.find(number, daddr)?;
        // On the same device the source decides whether the sender gets a redirect.
        known.get(at).is_some_and(|found| found.oif != iif).then_some(at)
    }

    /// Decides, and remembers the route if it is the same for other packets.
    #[inline(never)]
    pub(super) fn ip4_new_route(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let to = match self.ip4_route_input(packet) {
            Routed::To(to) => to,
            Routed::No(why) => {
                if self.ip4_options(packet, None).is_none() {
                    return Next::Done;
                }
                self.ip4_unroutable(packet, why);
                return Next::Done;
            }
            Routed::NotForwarded => {
                if self.ip4_options(packet, None).is_none() {
                    return Next::Done;
                }
                return self.end(DropReason::NotForwarding, packet);
            }
            Routed::Refused(why) => return self.end(why, packet),
        };
        if let Some((saddr, daddr)) = addresses::of4(packet)
            && to.kind == RouteType::Unicast
            && !to.local
            && to.oif != to.iif
            && !self.net.custom4()
            && !self.is_held_to_path4(&to, daddr)
        {
            self.ip4_remember_source(packet, saddr);
            self.remember_way4(daddr, &to);
        }
        course.route = Some(to);
        self.ip4_routed(packet, course, false)
    }

    /// Remembers a way for the next packets by its route.
    fn remember_way4(&mut self, daddr: u32, to: &Route) {
        let number = self.net.route_number4(daddr);
        let next = to.gateway.unwrap_or(ip4(daddr).into());
        let way = Way {
            number,
            destination: daddr,
            to,
            mtu: self.mtu(to),
            neighbour: self.wire_neighbour(to.oif, next),
        };
        self.state.forwarding.v4.insert(&way);
    }

    /// Checks and fills in options (`ip_rcv_options()`). `None` if the packet was dropped.
    fn ip4_options(&mut self, packet: &mut Packet, to: Option<&Route>) -> Option<Compiled> {
        if packet.network().first().is_none_or(|b| b & 0xf <= 5) {
            return Some(Compiled::default());
        }
        let net = self.net;
        let iif = packet.meta.iif;
        let (source, destination) = addresses::of4(packet)?;
        // fib_compute_spec_dst(): the address that the packet was sent to, or one that suits an
        // answer.
        let own = match to {
            Some(to) if to.kind == RouteType::Local => destination,
            _ => {
                let back =
                    net.route4(&Flow4 { daddr: source, iif: LOOPBACK, oif: 0, ..Flow4::default() });
                match back {
                    Ok(hit) => net.source_of4(&hit),
                    Err(_) => net.source4(iif, source, penstock_net::Scope::UNIVERSE),
                }
            }
        };
        let receive = ipv4_options::Receive {
            address: ip4(own),
            time: (packet.meta.time / (SECOND / 1000) % 86_400_000) as u32,
            is_unicast: |a: std::net::Ipv4Addr| net.kind4(a.into(), None) == RouteType::Unicast,
        };
        let by_host = self.settings.host_stack && to.is_some_and(|to| to.local);
        let mut copy = [0; ipv4_options::MAX_LEN];
        let mut header = ipv4::HeaderMut::new(packet.network_mut())?;
        let options = header.options_mut();
        let read = match copy.get_mut(..options.len()) {
            // A host with its own stack fills in what it is given.
            Some(copy) if by_host => {
                copy.copy_from_slice(options);
                let read = ipv4_options::check_received(copy, &receive);
                match read {
                    Ok(found) if has_way_to_go(copy, &found) => {
                        ipv4_options::check_received(options, &receive)
                    }
                    read => read,
                }
            }
            _ => ipv4_options::check_received(options, &receive),
        };
        match read {
            Ok(found) => {
                // The checksum is recomputed only when the packet is forwarded.
                if found.srr != 0
                    && (to.is_none() || self.conf_of(iif, Devconf::AcceptSourceRoute4) == 0)
                {
                    self.drop(DropReason::SourceRoute, packet);
                    return None;
                }
                Some(found)
            }
            Err(bad) => {
                let error = icmp::Repr::parameter_problem(bad.0);
                self.icmp4_error(packet, to, error, Options::Wrong(bad));
                self.drop(DropReason::Ip4Options, packet);
                None
            }
        }
    }

    /// The routing decision for a packet that came in.
    pub(crate) fn ip4_route_input(&mut self, packet: &Packet) -> Routed {
        const BAD_SOURCE: Routed = Routed::Refused(DropReason::MartianSource);
        const BAD_DESTINATION: Routed = Routed::Refused(DropReason::MartianDestination);
        let Some(h) = ipv4::Header::new(packet.network()) else { return BAD_SOURCE };
        let (saddr, daddr) = (u32::from(h.src()), u32::from(h.dst()));
        let iif = packet.meta.iif;
        let Some(link) = self.net.link(iif) else { return BAD_SOURCE };
        // 0.0.0.0/8 but for its first address is unicast (ipv4_is_zeronet()).
        let zero = |a: u32| a == 0;
        let loopback = |a: u32| a >> 24 == 127;
        if addresses::is_multicast4(daddr) {
            return self.ip4_route_group(packet, (saddr, daddr), h.protocol(), link);
        }
        if addresses::is_multicast4(saddr) || saddr == u32::MAX {
            return BAD_SOURCE;
        }
        if daddr == u32::MAX || (saddr == 0 && daddr == 0) {
            return self.ip4_broadcast(packet, saddr);
        }
        if zero(saddr) {
            return BAD_SOURCE;
        }
        if zero(daddr) {
            return BAD_DESTINATION;
        }
        if !link.conf.is_on(Devconf::RouteLocalnet) {
            if loopback(daddr) {
                return BAD_DESTINATION;
            }
            if loopback(saddr) {
                return BAD_SOURCE;
            }
        }
        let ports = || {
            let t = packet.transport_bytes().and_then(|t| t.first_chunk::<4>());
            t.map_or((0, 0), |t| {
                (u16::from_be_bytes([t[0], t[1]]), u16::from_be_bytes([t[2], t[3]]))
            })
        };
        let flow = Flow4 {
            daddr,
            saddr,
            tos: h.tos() & 0x1c,
            mark: packet.meta.mark,
            iif,
            oif: 0,
            protocol: h.protocol(),
            ports: ports(),
            scope: 0,
        };
        let forwards = link.conf.is_on(Devconf::Forwarding4);
        let hit = match self.net.route4(&flow) {
            Ok(hit) => hit,
            Err(_) if !forwards => return Routed::NotForwarded,
            Err(why) => return Routed::No(why),
        };
        let journey = |oif| Journey { saddr, daddr, tos: flow.tos, oif };
        match hit.route.kind {
            RouteType::Broadcast => self.ip4_broadcast(packet, saddr),
            RouteType::Local => {
                if let Err(why) = self.ip4_check_source(packet, journey(0)) {
                    return Routed::Refused(why);
                }
                let mut to = Route::of(&hit, iif);
                to.oif = LOOPBACK;
                Routed::To(to)
            }
            _ if !forwards => Routed::NotForwarded,
            RouteType::Unicast => {
                let near = match self.ip4_check_source(packet, journey(hit.nexthop.oif)) {
                    Ok(near) => near,
                    Err(why) => return Routed::Refused(why),
                };
                let mut to = self.forward_path4(Route::of(&hit, iif), daddr);
                to.redirect = to.oif == iif && near && may_redirect(link, saddr, to.gateway);
                Routed::To(to)
            }
            _ => BAD_DESTINATION,
        }
    }

    fn ip4_broadcast(&self, packet: &Packet, saddr: u32) -> Routed {
        let journey = Journey { saddr, daddr: 0, tos: 0, oif: 0 };
        if saddr != 0
            && let Err(why) = self.ip4_check_source(packet, journey)
        {
            return Routed::Refused(why);
        }
        Routed::To(Route::special(RouteType::Broadcast, true, LOOPBACK, packet.meta.iif))
    }

    /// `ip_route_input_mc()`: nothing routes groups.
    fn ip4_route_group(
        &self,
        packet: &Packet,
        (saddr, daddr): (u32, u32),
        proto: u8,
        link: &Link,
    ) -> Routed {
        const BAD_SOURCE: Routed = Routed::Refused(DropReason::MartianSource);
        if !link.joined4(daddr) && !self.settings.host_stack {
            return Routed::Refused(DropReason::NotMember);
        }
        let localnet = link.conf.is_on(Devconf::RouteLocalnet);
        if addresses::is_multicast4(saddr) || saddr == u32::MAX || (saddr >> 24 == 127 && !localnet)
        {
            return BAD_SOURCE;
        }
        if saddr == 0 {
            if daddr >> 8 != 0xe0_0000 && proto != protocol::IGMP {
                return BAD_SOURCE;
            }
        } else if let Err(why) =
            self.ip4_check_source(packet, Journey { saddr, daddr: 0, tos: 0, oif: 0 })
        {
            return Routed::Refused(why);
        }
        Routed::To(Route::special(RouteType::Multicast, true, LOOPBACK, link.index))
    }

    /// `ip_error()`: tells the sender that there is no way, and drops.
    fn ip4_unroutable(&mut self, packet: &Packet, why: NoRoute) {
        let (code, reason) = match why {
            NoRoute::Blackhole => return self.drop(DropReason::Blackhole, packet),
            NoRoute::None => (icmp::unreachable::NET, DropReason::NoRoute),
            NoRoute::Unreachable => (icmp::unreachable::HOST, DropReason::Unreachable),
            NoRoute::Prohibit => (icmp::unreachable::ADMIN_PROHIBITED, DropReason::Prohibit),
        };
        if let Some((source, _)) = addresses::of4(packet) {
            let peer = u128::from(ip4(source).to_ipv6_mapped());
            if self.state.icmp_limits.v4.lock().route_error_allows(
                peer,
                packet.meta.time,
                self.settings,
            ) {
                let iif = packet.meta.iif;
                let nowhere = Route::special(RouteType::Unreachable, false, iif, iif);
                self.icmp4_error(
                    packet,
                    Some(&nowhere),
                    icmp::Repr::unreachable(code),
                    Options::Read,
                );
            }
        }
        self.drop(reason, packet);
    }

    /// To this host (`ip_local_deliver()`): whole again, then `input`.
    pub(super) fn ip4_input(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let fragment = ipv4::Header::new(packet.network()).is_some_and(|h| h.is_fragment());
        if fragment && !self.ip4_reassemble(packet, User::Host) {
            return Next::Done;
        }
        self.hook(Protocol::Ip, Hook::Input, packet, course, Next::Deliver)
    }

    /// `ip_forward()`.
    pub(super) fn ip4_forward(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if packet.meta.packet_type != PacketType::Host {
            return self.end(DropReason::NotForHost, packet);
        }
        if packet.meta.socket != 0 {
            return self.end(DropReason::OfSocket, packet);
        }
        if self.state.ipsec.is_some() && !self.xfrm_check(Direction::Forward, packet) {
            return Next::Done;
        }
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        let Some(h) = ipv4::Header::new(packet.network()) else {
            return self.end(DropReason::Ip4Header, packet);
        };
        let (ttl, df, tos) = (h.ttl(), h.df(), h.tos());
        if ttl <= 1 {
            self.icmp4_error(packet, Some(to), icmp::Repr::time_exceeded(), Options::Read);
            return self.end(DropReason::Ttl, packet);
        }
        if self.state.ipsec.is_some() {
            let Some(found) = self.xfrm_route(packet, *to) else { return Next::Done };
            course.route = Some(found);
        }
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        // A strict route names each router.
        if course.options.strict && to.gateway.is_some() {
            let code = icmp::unreachable::SOURCE_ROUTE_FAILED;
            self.icmp4_error(packet, Some(to), icmp::Repr::unreachable(code), Options::Read);
            return self.end(DropReason::SourceRoute, packet);
        }
        self.state.counters.forwarded += 1;
        let mtu = self.mtu(to);
        if df && self.ip4_too_big(packet, mtu) {
            self.icmp4_error(packet, Some(to), icmp::Repr::frag_needed(mtu as u32), Options::Read);
            return self.end(DropReason::TooBig, packet);
        }
        if !to.is_by_host()
            && let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut())
        {
            h.decrement_ttl();
        }
        if to.redirect && course.options.srr == 0 && packet.meta.secpath == 0 {
            self.ip4_redirect(packet, to);
        }
        packet.meta.priority = priority_of_tos(tos);
        packet.meta.oif = to.oif;
        self.hook(Protocol::Ip, Hook::Forward, packet, course, Next::Ip4AfterForward)
    }

    /// `ip_forward_finish()`.
    #[inline]
    pub(super) fn ip4_after_forward(&mut self, packet: &mut Packet, course: &Course) -> Next {
        if let Some(to) = course.route {
            self.ip4_forward_options(packet, &course.options, &to);
        }
        Next::Ip4Postrouting
    }

    /// Tells the sender of a shorter way, less and less often (`ip_rt_send_redirect()`).
    fn ip4_redirect(&mut self, packet: &Packet, to: &Route) {
        let Some((source, destination)) = addresses::of4(packet) else { return };
        let peer = u128::from(ip4(source).to_ipv6_mapped());
        if self.state.icmp_limits.v4.lock().redirect_allows(peer, packet.meta.time) {
            let gateway = match to.gateway {
                Some(IpAddr::V4(g)) => g.into(),
                _ => destination,
            };
            self.icmp4_error(
                packet,
                Some(to),
                icmp::Repr {
                    kind: icmp::REDIRECT,
                    code: icmp::redirect::HOST,
                    rest_of_header: gateway,
                },
                Options::Read,
            );
        }
    }
}
