// SPDX-License-Identifier: Apache-2.0

//! IPv6 from reception to delivery or forwarding (`ip6_rcv_core()`, `ip6_route_input()`,
//! `ip6_forward()`).

use penstock_net::{Devconf, Flow6, NoRoute, RouteNumber, RouteType};
use penstock_packet::{Packet, PacketType};
use penstock_program::Hook;
use penstock_wire::ipv6::{self, InputError};
use penstock_wire::ipv6_ext::{self, OptionError};
use penstock_wire::{icmpv6, protocol};
use penstock_xfrm::Direction;

use crate::addresses;
use crate::adjacencies::Way;
use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

/// Extension headers that a packet for this host may have.
const EXTENSIONS: usize = 32;

impl<S: Sink> Worker<'_, S> {
    /// The checks of IPv6, and `prerouting` (`ip6_rcv_core()`).
    pub(super) fn ip6_prerouting(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if packet.meta.packet_type == PacketType::OtherHost {
            return self.end(DropReason::OtherHost, packet);
        }
        let Some(link) = self.net.link(packet.meta.iif) else {
            return self.end(DropReason::LinkDown, packet);
        };
        if link.mtu6().is_none() {
            return self.end(DropReason::Ip6Disabled, packet);
        }
        match ipv6::check_input(packet.network(), link.is_loopback()) {
            Ok(total) => packet.trim_network(total),
            Err(InputError::Header) => return self.end(DropReason::Ip6Header, packet),
            Err(InputError::Truncated) => return self.end(DropReason::Ip6Truncated, packet),
        }
        if matches!(packet.meta.packet_type, PacketType::Broadcast | PacketType::Multicast)
            && link.conf.is_on(Devconf::DropUnicastInMulticast6)
            && addresses::of6(packet).is_some_and(|(_, daddr)| daddr >> 120 != 0xff)
        {
            return self.end(DropReason::UnicastInMulticast, packet);
        }
        if packet.network().get(6) == Some(&protocol::HOP_BY_HOP) {
            match ipv6_ext::check_hop_by_hop(packet.network()) {
                Ok(found) => {
                    if let Some(len) = found.jumbo {
                        packet.trim_network(ipv6::LEN.saturating_add(len as usize));
                    }
                }
                Err(OptionError::Drop) => return self.end(DropReason::Ip6Options, packet),
                Err(OptionError::Problem { code, pointer }) => {
                    self.icmp6_error(packet, icmpv6::PARAMETER_PROBLEM, code, pointer as u32);
                    return self.end(DropReason::Ip6Options, packet);
                }
            }
        }
        if packet.meta.bridged.passed {
            self.leave_bridged(packet);
            return Next::Ip6Route;
        }
        self.hook_before_route(Protocol::Ip6, Hook::Prerouting, packet, course, Next::Ip6Route)
    }

    /// The routing decision (`ip6_rcv_finish()`).
    pub(super) fn ip6_route(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let Some(link) = self.net.link(packet.meta.iif) else {
            return self.end(DropReason::LinkDown, packet);
        };
        let to = match course.route {
            Some(to) => to,
            None => match self.ip6_cached_route(packet) {
                Some(to) => to,
                None => match self.ip6_new_route(packet) {
                    Ok(to) => to,
                    Err(why) => {
                        self.ip6_unroutable(packet, why);
                        return Next::Done;
                    }
                },
            },
        };
        course.route = Some(to);
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        match to.kind {
            RouteType::Multicast => {
                let joined = self.settings.host_stack
                    || addresses::of6(packet).is_some_and(|(_, group)| link.joined6(group));
                if !joined {
                    return self.end(DropReason::NotMember, packet);
                }
                Next::Ip6Input
            }
            _ if to.local => Next::Ip6Input,
            _ => Next::Ip6Forward,
        }
    }

    /// The routing decision for a packet that came in, where it was made before for another one.
    #[inline]
    fn ip6_cached_route(&mut self, packet: &Packet) -> Option<Route> {
        let (_, daddr) = addresses::of6(packet)?;
        let iif = packet.meta.iif;
        let at = self.adjacency6(daddr, self.net.route_number6(daddr))?;
        self.state.forwarding.v6.route(at, iif)
    }

    /// The adjacency of packets by the number of the route to their destination; `None` where more
    /// has to be asked, or it is not known yet.
    #[inline(always)]
    pub(super) fn adjacency6(&self, daddr: u128, number: RouteNumber) -> Option<usize> {
        // What was learned of a path is about one destination.
        if addresses::needs_device(daddr) || self.state.path_mtus.may_know(daddr) {
            return None;
        }
        self.state.forwarding.v6.find(number, daddr)
    }

    /// Decides, and remembers the route if it is the same for other packets.
    #[inline(never)]
    fn ip6_new_route(&mut self, packet: &Packet) -> Result<Route, NoRoute> {
        let to = self.ip6_route_input(packet)?;
        if let Some((_, daddr)) = addresses::of6(packet)
            && to.kind == RouteType::Unicast
            && !to.local
            && !addresses::needs_device(daddr)
            && !self.is_held_to_path6(&to, daddr)
        {
            self.remember_way6(daddr, &to);
        }
        Ok(to)
    }

    /// Remembers a way for the next packets by its route.
    fn remember_way6(&mut self, daddr: u128, to: &Route) {
        let number = self.net.route_number6(daddr);
        let next = to.gateway.unwrap_or(addresses::ip6(daddr).into());
        let way = Way {
            number,
            destination: daddr,
            to,
            mtu: self.mtu6(to),
            neighbour: self.wire_neighbour(to.oif, next),
        };
        self.state.forwarding.v6.insert(&way);
    }

    /// The routing decision for a packet that came in.
    pub(crate) fn ip6_route_input(&self, packet: &Packet) -> Result<Route, NoRoute> {
        let h = ipv6::Header::new(packet.network()).ok_or(NoRoute::None)?;
        let daddr = u128::from(h.dst());
        let iif = packet.meta.iif;
        let ports = packet.transport_bytes().and_then(|t| t.first_chunk::<4>());
        let ports = ports.map_or((0, 0), |t| {
            (u16::from_be_bytes([t[0], t[1]]), u16::from_be_bytes([t[2], t[3]]))
        });
        let flow = Flow6 {
            daddr,
            saddr: Some(h.src().into()),
            tos: h.traffic_class() & 0xfc,
            mark: packet.meta.mark,
            iif,
            oif: iif,
            protocol: h.next_header(),
            ports,
            strict: addresses::needs_device(daddr),
        };
        let hit = self.net.route6(&flow)?;
        Ok(self.path6(Route::of(&hit, iif), daddr))
    }

    /// `ip6_pkt_discard()`, `ip6_pkt_prohibit()`.
    fn ip6_unroutable(&mut self, packet: &Packet, why: NoRoute) {
        let (code, reason) = match why {
            NoRoute::Blackhole => return self.drop(DropReason::Blackhole, packet),
            NoRoute::None => (icmpv6::unreachable::NO_ROUTE, DropReason::NoRoute),
            NoRoute::Unreachable => (icmpv6::unreachable::NO_ROUTE, DropReason::Unreachable),
            NoRoute::Prohibit => (icmpv6::unreachable::ADMIN_PROHIBITED, DropReason::Prohibit),
        };
        self.icmp6_error(packet, icmpv6::DEST_UNREACHABLE, code, 0);
        self.drop(reason, packet);
    }

    /// To this host: `input` first, then the extension headers, as in the kernel (`ip6_input()`):
    /// rules see fragments.
    #[inline]
    pub(super) fn ip6_input(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        self.hook(Protocol::Ip6, Hook::Input, packet, course, Next::Ip6AfterInput)
    }

    /// `ip6_input_finish()`.
    pub(super) fn ip6_after_input(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let tunnels = self.net.has_tunnels(true);
        if !self.settings.host_extensions && !tunnels && self.state.ipsec.is_none() {
            return Next::Deliver;
        }
        let mut at = ipv6::LEN;
        let mut next = packet.network().get(6).copied().unwrap_or(protocol::NO_NEXT);
        for _ in 0..EXTENSIONS {
            match next {
                protocol::HOP_BY_HOP | protocol::DEST_OPTIONS | protocol::ROUTING => {
                    let header = packet.network().get(at..).and_then(ipv6_ext::OptionsHeader::new);
                    let Some(header) = header else {
                        return self.end(DropReason::Ip6Extension, packet);
                    };
                    let len = header.header_len();
                    let following = header.next_header();
                    if next == protocol::ROUTING && !self.passes_routing_header(packet, at) {
                        return self.end(DropReason::Ip6Extension, packet);
                    }
                    if next == protocol::DEST_OPTIONS {
                        match self.destination_options(packet, at, len) {
                            Ok(()) => {}
                            Err(()) => return self.end(DropReason::Ip6Extension, packet),
                        }
                    }
                    next = following;
                    at += len;
                }
                protocol::FRAGMENT => {
                    if !self.ip6_reassemble(packet, at) {
                        return Next::Done;
                    }
                    let (offset, found) =
                        match ipv6_ext::find(packet.network(), None, ipv6_ext::Walk::default()) {
                            Ok(f) => (f.offset, f.protocol),
                            Err(_) => return self.end(DropReason::Ip6Extension, packet),
                        };
                    (at, next) = (offset, found);
                }
                _ if tunnels => return self.deliver6(packet, next, at, course),
                _ => return Next::Deliver,
            }
        }
        self.end(DropReason::Ip6Extension, packet)
    }

    /// A routing header for the host, `at` bytes into the packet: none is followed
    /// (`ipv6_rthdr_rcv()` without Mobile IPv6, `rpl_seg_enabled` and `seg6_enabled`). Whether the
    /// packet may continue after it.
    fn passes_routing_header(&mut self, packet: &Packet, at: usize) -> bool {
        let Some(&[kind, left]) = packet.network().get(at + 2..).and_then(|b| b.first_chunk())
        else {
            return false;
        };
        let group = addresses::of6(packet).is_some_and(|(_, d)| d >> 120 == 0xff);
        if group || packet.meta.packet_type != PacketType::Host {
            return false;
        }
        if matches!(kind, ipv6_ext::ROUTING_RPL | ipv6_ext::ROUTING_SEGMENTS) {
            return false;
        }
        if left != 0 {
            let code = icmpv6::parameter_problem::HEADER_FIELD;
            self.icmp6_error(packet, icmpv6::PARAMETER_PROBLEM, code, at as u32 + 2);
        }
        left == 0
    }

    /// Options that the host does not know say themselves what to do about them (RFC 8200, 4.2).
    fn destination_options(&mut self, packet: &Packet, at: usize, len: usize) -> Result<(), ()> {
        let network = packet.network();
        let end = (at + len).min(network.len());
        let mut position = at + 2;
        while position < end {
            let kind = network[position];
            if kind == ipv6_ext::OPTION_PAD1 {
                position += 1;
                continue;
            }
            let Some(&size) = network.get(position + 1).filter(|_| position + 1 < end) else {
                return Err(());
            };
            if position + 2 + usize::from(size) > end {
                return Err(());
            }
            if kind != ipv6_ext::OPTION_PADN {
                let group = addresses::of6(packet).is_some_and(|(_, d)| d >> 120 == 0xff);
                match kind >> 6 {
                    0 => {}
                    1 => return Err(()),
                    3 if group => return Err(()),
                    _ => {
                        let code = icmpv6::parameter_problem::UNKNOWN_OPTION;
                        self.icmp6_error(packet, icmpv6::PARAMETER_PROBLEM, code, position as u32);
                        return Err(());
                    }
                }
            }
            position += 2 + usize::from(size);
        }
        Ok(())
    }

    /// `ip6_forward()`.
    pub(super) fn ip6_forward(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if !self.net.link(packet.meta.iif).is_some_and(|link| link.conf.forwards6()) {
            return self.end(DropReason::NotForwarding, packet);
        }
        if packet.meta.packet_type != PacketType::Host {
            return self.end(DropReason::NotForHost, packet);
        }
        if packet.meta.socket != 0 {
            return self.end(DropReason::OfSocket, packet);
        }
        if self.state.ipsec.is_some() && !self.xfrm_check(Direction::Forward, packet) {
            return Next::Done;
        }
        let Some(mut to) = course.route else { return self.end(DropReason::NoRoute, packet) };
        let Some(h) = ipv6::Header::new(packet.network()) else {
            return self.end(DropReason::Ip6Header, packet);
        };
        let (hop_limit, source) = (h.hop_limit(), u128::from(h.src()));
        if hop_limit <= 1 {
            let code = icmpv6::time_exceeded::HOP_LIMIT;
            self.icmp6_error(packet, icmpv6::TIME_EXCEEDED, code, 0);
            return self.end(DropReason::Ttl, packet);
        }
        if self.state.ipsec.is_some() {
            let Some(found) = self.xfrm_route(packet, to) else { return Next::Done };
            to = found;
            course.route = Some(to);
        }
        if to.oif == to.iif && packet.meta.secpath == 0 {
            self.ip6_redirect(packet, &to);
        } else {
            if addresses::is_no_source(source) {
                return self.end(DropReason::Scope, packet);
            }
            if addresses::is_link_local(source) {
                let code = icmpv6::unreachable::BEYOND_SCOPE;
                self.icmp6_error(packet, icmpv6::DEST_UNREACHABLE, code, 0);
                return self.end(DropReason::Scope, packet);
            }
        }
        self.state.counters.forwarded += 1;
        let mtu = self.forward_mtu6(&to);
        if self.ip6_too_big(packet, mtu) {
            self.icmp6_error(packet, icmpv6::PACKET_TOO_BIG, 0, mtu as u32);
            return self.end(DropReason::TooBig, packet);
        }
        if !to.is_by_host()
            && let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut())
        {
            h.decrement_hop_limit();
        }
        packet.meta.oif = to.oif;
        self.hook(Protocol::Ip6, Hook::Forward, packet, course, Next::Ip6Postrouting)
    }
}
