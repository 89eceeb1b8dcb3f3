// SPDX-License-Identifier: Apache-2.0

//! Packets that leave: which states policy wants, and going through them (`xfrm_lookup()`,
//! `xfrm_output_resume()`).

use std::net::IpAddr;

use penstock_conntrack::Direction as TupleDirection;
use penstock_net::{Devconf, LOOPBACK};
use penstock_packet::{Ct, Packet};
use penstock_program::Hook;
use penstock_wire::{icmp, icmpv6, ipv4};
use penstock_xfrm::{Bundle, Direction, Flow, Mode, Outer, Stat, StateId};

use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::ipsec::{Bundled, reason};
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::stages::xfrm::flow::flow_of;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// What a packet with this way has to go through: the way, with the states in it where there
    /// are any (`xfrm_lookup()`). `None` if it must not leave; it was dropped then.
    pub(crate) fn xfrm_route(&mut self, packet: &mut Packet, to: Route) -> Option<Route> {
        match self.xfrm_lookup(packet, to) {
            Ok(to) => Some(to),
            Err(stat) => {
                self.drop(reason(stat), packet);
                None
            }
        }
    }

    pub(crate) fn xfrm_lookup(&mut self, packet: &mut Packet, to: Route) -> Result<Route, Stat> {
        let Some(ipsec) = self.state.ipsec.as_deref() else { return Ok(to) };
        if !ipsec.xfrm.asks(Direction::Out) || packet.meta.transformed || to.bundle != 0 {
            return Ok(to);
        }
        let flow = flow_of(packet, to.oif);
        self.xfrm_lookup_flow(&flow, class_of(packet), packet.meta.time, to)
    }

    /// The IPsec states for a flow with this TOS or traffic class.
    pub(crate) fn xfrm_lookup_flow(
        &mut self,
        flow: &Flow,
        class: u8,
        now: u64,
        to: Route,
    ) -> Result<Route, Stat> {
        let asks = self.state.ipsec.as_deref().is_some_and(|ipsec| ipsec.xfrm.asks(Direction::Out));
        // The loopback device has no transformations (`net.ipv4.conf.lo.disable_xfrm`).
        let off = to.oif == LOOPBACK || !flow.v6 && self.conf_of(to.oif, Devconf::DisableXfrm) != 0;
        if !asks || off {
            return Ok(to);
        }
        let Some(mut ipsec) = self.state.ipsec.take() else { return Ok(to) };
        ipsec.xfrm.start(now);
        let states = ipsec.xfrm.output(flow, now, |far| self.source_towards(far));
        self.state.ipsec = Some(ipsec);
        let states = match states {
            Err(Stat::OutNoStates) => return self.without_state(to),
            states => states?,
        };
        if states.states().is_empty() {
            return Ok(to);
        }
        self.bundled(states, to, flow, class)
    }

    /// A way through states by its number.
    pub(crate) fn xfrm_bundle(&self, number: u32) -> Option<Bundled> {
        self.state.ipsec.as_deref()?.bundles.get(number).flatten()
    }

    /// The way of a packet without the states that it goes through.
    pub(crate) fn xfrm_before(&self, to: &Route) -> Route {
        self.state
            .ipsec
            .as_deref()
            .and_then(|ipsec| ipsec.bundled(to))
            .map_or(*to, |bundled| bundled.before)
    }

    /// A way through states as a destination.
    pub(crate) fn xfrm_destination(&mut self, number: u32) -> Option<Route> {
        let bundled = self.xfrm_bundle(number)?;
        Some(self.number_bundle(bundled))
    }

    /// Our address towards another host.
    fn source_towards(&self, far: IpAddr) -> Option<IpAddr> {
        match far {
            IpAddr::V4(a) => {
                let (_, source) = self.ip4_route_output(a.into(), 0, 0, 0, false)?;
                (source != 0).then(|| IpAddr::V4(source.into()))
            }
            IpAddr::V6(a) => {
                let to = self.ip6_route_output(a.into(), None, 0, 0)?;
                self.net.source6(to.oif, a.into()).map(|source| IpAddr::V6(source.into()))
            }
        }
    }

    /// The way through states (`xfrm_bundle_create()`): where the last tunnel leads, and how much
    /// fits through.
    fn bundled(
        &mut self,
        states: Bundle,
        before: Route,
        flow: &Flow,
        class: u8,
    ) -> Result<Route, Stat> {
        let Some(ipsec) = self.state.ipsec.as_deref() else { return Ok(before) };
        let mut after = before;
        for &id in states.states() {
            let config = &ipsec.xfrm.state(id).config;
            if config.mode == Mode::Transport {
                continue;
            }
            let mark = ipsec.xfrm.mark(id, flow.mark);
            after = match (config.source, config.destination) {
                (IpAddr::V4(near), IpAddr::V4(far)) => {
                    let tos = class & 0x1c;
                    self.ip4_route_output(far.into(), near.into(), tos, mark, false)
                        .map(|(to, _)| to)
                }
                (IpAddr::V6(near), IpAddr::V6(far)) => {
                    self.ip6_route_output(far.into(), Some(near.into()), mark, 0)
                }
                _ => None,
            }
            .ok_or(Stat::OutBundleGen)?;
        }
        Ok(self.number_bundle(Bundled { states, before, after }))
    }

    /// The way that stands for this one in a destination.
    fn number_bundle(&mut self, bundled: Bundled) -> Route {
        let mut mtu = self.mtu(&bundled.after);
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return bundled.before };
        for &id in bundled.states.states().iter().rev() {
            mtu = ipsec.xfrm.mtu(id, mtu);
        }
        let bundle = ipsec.number(bundled);
        Route {
            oif: bundled.after.oif,
            mtu: mtu as u32,
            mtu_locked: false,
            local: false,
            bundle,
            ..bundled.before
        }
    }

    /// A packet after `postrouting`: where it continues if it has gone through states, or ended
    /// there. `None` if it goes through none. Where translation has changed its source, policy is
    /// asked again (`nf_xfrm_me_harder()`).
    pub(crate) fn xfrm_output(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        course: &mut Course,
    ) -> Option<Next> {
        let mut to = course.route?;
        if !packet.meta.transformed && self.source_was_translated(packet) {
            let before = self
                .state
                .ipsec
                .as_deref()
                .and_then(|ipsec| ipsec.bundled(&to))
                .map_or(to, |bundled| bundled.before);
            let Some(found) = self.xfrm_route(packet, before) else {
                return Some(Next::Done);
            };
            let passes_now = to.bundle != 0 && found.bundle == 0;
            to = found;
            if passes_now {
                packet.meta.transformed = true;
                packet.meta.oif = to.oif;
                course.route = Some(to);
                return Some(match protocol {
                    Protocol::Ip => Next::Ip4Finish,
                    Protocol::Ip6 => Next::Ip6Finish,
                    Protocol::Arp | Protocol::Bridge => Next::Done,
                });
            }
        }
        if to.bundle == 0 {
            return None;
        }
        if packet.meta.gso.is_some() {
            self.send_segments(packet, |worker, segment| {
                let mut course = Course::default();
                let next = worker.xfrm_transform(protocol, segment, &to, &mut course);
                worker.run(next, segment, &mut course);
            });
            return Some(Next::Done);
        }
        Some(self.xfrm_transform(protocol, packet, &to, course))
    }

    /// A packet was translated: whether policy still lets it leave (`nf_xfrm_me_harder()`). With
    /// another destination address it is also routed again, and policy is checked then.
    pub(crate) fn xfrm_translated(
        &mut self,
        hook: Hook,
        packet: &mut Packet,
        destination: &mut Option<Route>,
    ) -> bool {
        let changed = match hook {
            Hook::Postrouting => self.source_was_translated(packet),
            Hook::Output => self.only_port_was_translated(packet),
            Hook::Ingress | Hook::Prerouting | Hook::Input | Hook::Forward | Hook::Egress => false,
        };
        let Some(to) = destination.filter(|_| changed && !packet.meta.transformed) else {
            return true;
        };
        let before = self.xfrm_before(&to);
        *destination = self.xfrm_route(packet, before);
        destination.is_some()
    }

    fn only_port_was_translated(&self, packet: &Packet) -> bool {
        let ct = packet.meta.ct;
        let Some(connection) = self.state.conntrack.connection(&ct) else { return false };
        let direction =
            if ct.info.is_reply() { TupleDirection::Reply } else { TupleDirection::Original };
        let (there, back) = (connection.tuple(direction), connection.tuple(direction.opposite()));
        there.dst == back.src
            && there.dst_id != back.src_id
            && there.protocol != penstock_wire::protocol::ICMP
    }

    /// Whether the packet's source is another than it was at first.
    fn source_was_translated(&self, packet: &Packet) -> bool {
        let ct = packet.meta.ct;
        let Some(connection) = self.state.conntrack.connection(&ct) else { return false };
        let direction =
            if ct.info.is_reply() { TupleDirection::Reply } else { TupleDirection::Original };
        let (there, back) = (connection.tuple(direction), connection.tuple(direction.opposite()));
        there.src != back.dst
            || there.src_id != back.dst_id && there.protocol != penstock_wire::protocol::ICMP
    }

    /// States one after the other up to the next tunnel; then what came of it is a packet of the
    /// host's own.
    fn xfrm_transform(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        to: &Route,
        course: &mut Course,
    ) -> Next {
        let Some(bundled) = self.state.ipsec.as_deref().and_then(|ipsec| ipsec.bundled(to)) else {
            return self.end(reason(Stat::OutBundleGen), packet);
        };
        if !self.fits_tunnel(protocol, packet, to, &bundled) {
            return Next::Done;
        }
        packet.meta.reassembled = 0;
        packet.meta.secpath = 0;
        let states = bundled.states.states();
        let mut done = 0;
        for &id in states {
            if done > 0 && self.is_tunnel(id) {
                break;
            }
            if let Err(stat) = self.xfrm_seal(packet, id, &bundled.after) {
                return self.end(reason(stat), packet);
            }
            done += 1;
        }
        packet.meta.ct = Ct::default();
        packet.meta.transformed = true;
        let on = if packet.meta.iif != 0 { packet.meta.iif } else { course.on };
        let v6 = packet.network().first().is_some_and(|b| b >> 4 == 6);
        let outer = if v6 { Protocol::Ip6 } else { Protocol::Ip };
        let rest = bundled.states.rest(done);
        let next = if rest.states().is_empty() {
            bundled.after
        } else {
            self.number_bundle(Bundled {
                states: rest,
                before: bundled.after,
                after: bundled.after,
            })
        };
        course.whole = false;
        self.local_output(outer, packet, next, on, course)
    }

    fn is_tunnel(&self, id: StateId) -> bool {
        let mode = self.state.ipsec.as_deref().map(|ipsec| ipsec.xfrm.state(id).config.mode);
        mode == Some(Mode::Tunnel)
    }

    /// Encrypts a packet in its place.
    pub(crate) fn xfrm_seal(
        &mut self,
        packet: &mut Packet,
        id: StateId,
        after: &Route,
    ) -> Result<(), Stat> {
        let hop_limit = if after.hop_limit != 0 { after.hop_limit } else { self.settings.ttl };
        self.state.numbers.ip_id = self.state.numbers.ip_id.wrapping_add(1);
        let outer = Outer { hop_limit, id: self.state.numbers.ip_id };
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return Ok(()) };
        let room = ipsec.xfrm.room(id, packet.network())?;
        packet.push_network(room.head);
        packet.extend(room.tail);
        let now = packet.meta.time;
        ipsec.xfrm.seal(id, packet.network_mut(), room, outer, now)?;
        packet.meta.mark = ipsec.xfrm.mark(id, packet.meta.mark);
        Ok(())
    }

    /// A packet that must not be fragmented and is too long for a tunnel causes an ICMP error
    /// (`xfrm4_tunnel_check_size()`, `xfrm6_tunnel_check_size()`).
    fn fits_tunnel(
        &mut self,
        protocol: Protocol,
        packet: &Packet,
        to: &Route,
        bundled: &Bundled,
    ) -> bool {
        let tunnel = bundled.states.states().first().is_some_and(|&id| self.is_tunnel(id));
        // Only the first tunnel looks (`IPSKB_XFRM_TUNNEL_SIZE`).
        if !tunnel || packet.meta.transformed {
            return true;
        }
        let forwarded = packet.meta.iif != 0;
        match protocol {
            Protocol::Ip => {
                let df = ipv4::Header::new(packet.network()).is_some_and(|h| h.df());
                let mtu = self.mtu(to);
                if !df || packet.network().len() <= mtu {
                    return true;
                }
                self.icmp4_error(
                    packet,
                    Some(&bundled.before),
                    icmp::Repr::frag_needed(mtu as u32),
                    Options::read_if(forwarded),
                );
            }
            Protocol::Ip6 => {
                // Over IPv4 it may be less than IPv6 asks for (`ip6_fragment()`).
                let mtu = self.mtu(to);
                if packet.network().len() <= mtu {
                    return true;
                }
                self.icmp6_error(packet, icmpv6::PACKET_TOO_BIG, 0, mtu as u32);
            }
            Protocol::Arp | Protocol::Bridge => return true,
        }
        self.drop(reason(Stat::OutStateMode), packet);
        false
    }
}

/// TOS or traffic class without congestion bits.
fn class_of(packet: &Packet) -> u8 {
    let class = match packet.network() {
        [a, b, ..] if a >> 4 == 6 => a << 4 | b >> 4,
        [_, b, ..] => *b,
        _ => 0,
    };
    class & 0xfc
}
