// SPDX-License-Identifier: Apache-2.0

//! The NAT stage (`nf_nat_inet_fn()`, `nf_nat_ipv4_in()` and their kin): the first packet of a
//! connection walks the nat chains of a hook until one of them decides; all packets follow what was
//! decided. What has no connection is left alone.

use std::net::IpAddr;

use penstock_conntrack::tuple::{self, IPV4, IPV6};
use penstock_conntrack::{Direction, status};
use penstock_nat::range::PROTO_RANDOM_ALL;
use penstock_nat::{Manip, Range, bind, icmp};
use penstock_packet::{CtInfo, Packet};
use penstock_program::env::{Decision, NatKind, NatRequest};
use penstock_program::{Context, Family, Hook};

use crate::addresses;
use crate::addresses::as_v4;
use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::hook_env::ChainCall;
use crate::stages::run_chain;
use crate::worker::Worker;

/// What a hook translates (`HOOK2MANIP()`).
pub(super) const fn manip_of(hook: Hook) -> Manip {
    match hook {
        Hook::Postrouting | Hook::Input => Manip::Source,
        Hook::Prerouting | Hook::Output | Hook::Forward | Hook::Ingress | Hook::Egress => {
            Manip::Destination
        }
    }
}

fn protocol_of(context: Context) -> Protocol {
    if context.family == Family::Ip { Protocol::Ip } else { Protocol::Ip6 }
}

impl<S: Sink> Worker<'_, S> {
    /// The stage. The packet's route goes where its destination changed on the way in; a packet of
    /// the host with a changed destination is routed again.
    #[inline]
    pub(crate) fn nat(
        &mut self,
        context: Context,
        packet: &mut Packet,
        destination: &mut Option<Route>,
    ) -> HookResult {
        let ct = packet.meta.ct;
        let Some(connection) = self.state.conntrack.connection(&ct) else {
            return HookResult::Accept;
        };
        let manip = manip_of(context.hook);
        // Packets on the loopback device have their route already.
        if context.hook == Hook::Prerouting && destination.is_some() {
            let before = destination_bytes(packet);
            let routed = destination.take();
            let end = self.nat(context, packet, destination);
            if destination_bytes(packet) == before {
                *destination = routed;
            }
            return end;
        }
        let direction = if ct.info.is_reply() { Direction::Reply } else { Direction::Original };
        let new = !matches!(ct.info, CtInfo::Established | CtInfo::EstablishedReply);
        if !new {
            if context.hook == Hook::Postrouting
                && direction == Direction::Original
                && self.left_its_device(packet)
            {
                return self.by_another_device(packet);
            }
        } else {
            let l3 = if context.family == Family::Ip { IPV4 } else { IPV6 };
            if matches!(ct.info, CtInfo::Related | CtInfo::RelatedReply)
                && let Some(at) = icmp::offset(packet.network(), l3)
            {
                let related = icmp::Related {
                    manip,
                    direction,
                    opposite: connection.tuple(direction.opposite()),
                    status: connection.status(),
                    // Later hooks see what the first one has checked.
                    check: manip == Manip::Destination,
                };
                if !icmp::translate(packet.network_mut(), at, &related) {
                    self.drop(DropReason::Nat, packet);
                    return HookResult::Dropped;
                }
                return self.nat_routed(context, direction, packet, destination);
            }
            let end = self.nat_begin(context, manip, packet, destination.as_ref());
            if end != HookResult::Accept {
                return end;
            }
        }
        if !bind::follow(&self.state.conntrack, &ct, packet, manip) {
            self.drop(DropReason::Nat, packet);
            return HookResult::Dropped;
        }
        self.nat_routed(context, direction, packet, destination)
    }

    /// Whether the stage only lets a packet pass: it has no connection, or one that is bound
    /// already and leaves packets of this direction unchanged here.
    #[inline]
    pub(crate) fn stays_as_it_is(&self, hook: Hook, packet: &Packet) -> bool {
        let ct = &packet.meta.ct;
        let Some(connection) = self.state.conntrack.connection(ct) else { return true };
        let decided = matches!(ct.info, CtInfo::Established | CtInfo::EstablishedReply);
        let direction = if ct.info.is_reply() { Direction::Reply } else { Direction::Original };
        let leaves = hook == Hook::Postrouting && direction == Direction::Original;
        decided
            && connection.status() & manip_of(hook).due(direction) == 0
            && !(leaves && self.left_its_device(packet))
            // Policy is asked again.
            && self.state.ipsec.is_none()
    }

    /// A packet that may be the first of its connection in this direction: decides.
    fn nat_begin(
        &mut self,
        context: Context,
        manip: Manip,
        packet: &mut Packet,
        destination: Option<&Route>,
    ) -> HookResult {
        let ct = packet.meta.ct;
        let bound = |worker: &Self| {
            worker
                .state
                .conntrack
                .connection(&ct)
                .is_some_and(|c| bind::is_bound(c.status(), manip))
        };
        if bound(self) {
            // A packet that comes again before it was answered, or through the loopback device.
            if context.hook == Hook::Postrouting
                && !ct.info.is_reply()
                && self.left_its_device(packet)
            {
                return self.by_another_device(packet);
            }
            return HookResult::Accept;
        }
        let (conntrack, random) = (&mut self.state.conntrack, &mut self.state.numbers.random);
        if let Some(n) = conntrack.resolve(&ct)
            && !bind::bind_as_announced(conntrack, n, random)
        {
            self.drop(DropReason::Nat, packet);
            return HookResult::Dropped;
        }
        if bound(self) {
            return HookResult::Accept;
        }
        let hooks = self.hooks;
        for entry in hooks.nat(protocol_of(context), context.hook) {
            match run_chain::run(self, &ChainCall { entry, context, destination }, packet) {
                HookResult::Accept => {}
                end => return end,
            }
            if bound(self) {
                return HookResult::Accept;
            }
        }
        let conntrack = &mut self.state.conntrack;
        let random = &mut self.state.numbers.random;
        if let Some(n) = conntrack.resolve(&ct)
            && bind::bind_to_itself(conntrack, n, manip, random)
        {
            return HookResult::Accept;
        }
        self.drop(DropReason::Nat, packet);
        HookResult::Dropped
    }

    /// A packet of the host's own goes where its connection goes.
    #[inline]
    fn nat_routed(
        &mut self,
        context: Context,
        direction: Direction,
        packet: &mut Packet,
        destination: &mut Option<Route>,
    ) -> HookResult {
        if self.state.ipsec.is_some() && !self.xfrm_translated(context.hook, packet, destination) {
            return HookResult::Dropped;
        }
        if context.hook != Hook::Output {
            return HookResult::Accept;
        }
        let Some(connection) = self.state.conntrack.connection(&packet.meta.ct) else {
            return HookResult::Accept;
        };
        let there = connection.tuple(direction);
        let back = connection.tuple(direction.opposite());
        if there.dst == back.src {
            return HookResult::Accept;
        }
        *destination = self.route_again(protocol_of(context), packet);
        if destination.is_none() {
            self.drop(DropReason::NoRoute, packet);
            return HookResult::Dropped;
        }
        HookResult::Accept
    }

    /// Whether the packet's connection is masqueraded through another device than the packet now
    /// leaves by (`nf_nat_oif_changed()`).
    #[inline]
    fn left_its_device(&self, packet: &Packet) -> bool {
        let device = self
            .state
            .conntrack
            .connection(&packet.meta.ct)
            .map_or(0, |connection| connection.masquerade());
        device != 0 && device != packet.meta.oif
    }

    #[cold]
    fn by_another_device(&mut self, packet: &Packet) -> HookResult {
        if let Some(n) = self.state.conntrack.resolve(&packet.meta.ct) {
            self.state.conntrack.kill(n);
        }
        self.drop(DropReason::NatDevice, packet);
        HookResult::Dropped
    }

    /// What a rule asks for (`nft_nat_eval()`, `nf_nat_masquerade_ipv4()`, `nf_nat_redirect_ipv4()`
    /// and their kin).
    pub(crate) fn nat_request(
        &mut self,
        context: Context,
        destination: Option<&Route>,
        packet: &Packet,
        request: &NatRequest,
    ) -> Decision {
        let Some(n) = self.state.conntrack.resolve(&packet.meta.ct) else { return Decision::Drop };
        let range = Range {
            flags: request.flags,
            min_address: request.min_address,
            max_address: request.max_address,
            min_id: request.min_port,
            max_id: request.max_port,
            base_id: request.base_port,
        };
        let (range, manip) = match request.kind {
            NatKind::Source => (range, Manip::Source),
            NatKind::Destination => (range, Manip::Destination),
            NatKind::Masquerade => {
                let original =
                    self.state.conntrack.connection_at(n).map(|c| *c.tuple(Direction::Original));
                if original.is_some_and(|t| t.l3 == IPV4 && t.src == [0; 16]) {
                    // The host has no address yet, and this packet is about getting one.
                    return Decision::Accept;
                }
                let Some(address) = self.masquerade_address(context, destination, packet) else {
                    return Decision::Drop;
                };
                if !is_confirmed(&self.state.conntrack, n) {
                    self.state.conntrack.set_masquerade(n, packet.meta.oif);
                }
                (range.on_address(tuple::address(address)), Manip::Source)
            }
            NatKind::Redirect => {
                let Some(address) = self.redirect_address(context, packet) else {
                    return Decision::Drop;
                };
                (range.on_address(tuple::address(address)), Manip::Destination)
            }
        };
        if bind::bind(&mut self.state.conntrack, n, &range, manip, &mut self.state.numbers.random) {
            let drawn =
                range.flags & PROTO_RANDOM_ALL != 0 && !is_confirmed(&self.state.conntrack, n);
            self.state.counters.random_ports += u64::from(drawn);
            Decision::Accept
        } else {
            Decision::Drop
        }
    }

    /// The address of the device on the way out that suits the next hop.
    fn masquerade_address(
        &self,
        context: Context,
        destination: Option<&Route>,
        packet: &Packet,
    ) -> Option<IpAddr> {
        let device = packet.meta.oif;
        if context.family == Family::Ip {
            let next = match destination.and_then(|d| as_v4(d.gateway)) {
                Some(gateway) => gateway,
                None => addresses::of4(packet)?.1,
            };
            let source = self.net.source4(device, next, penstock_net::Scope::UNIVERSE);
            (source != 0).then(|| IpAddr::V4(source.into()))
        } else {
            let (_, to) = addresses::of6(packet)?;
            self.net.source6(device, to).map(|source| IpAddr::V6(source.into()))
        }
    }

    /// An address of this host: of the loopback device for the host's own packets, else of the
    /// device of arrival.
    fn redirect_address(&self, context: Context, packet: &Packet) -> Option<IpAddr> {
        let device = packet.meta.iif;
        match (context.family == Family::Ip, context.hook == Hook::Output) {
            (true, true) => Some(std::net::Ipv4Addr::LOCALHOST.into()),
            (false, true) => Some(std::net::Ipv6Addr::LOCALHOST.into()),
            (true, false) => self.net.redirect4(device).map(|to| IpAddr::V4(to.into())),
            (false, false) => {
                let (_, to) = addresses::of6(packet)?;
                self.net.redirect6(device, to).map(|to| IpAddr::V6(to.into()))
            }
        }
    }
}

/// Destination address of a packet.
fn destination_bytes(packet: &Packet) -> [u8; 16] {
    let network = packet.network();
    let (at, len) = if network.first().is_some_and(|b| b >> 4 == 6) { (24, 16) } else { (16, 4) };
    let mut out = [0; 16];
    if let Some(address) = network.get(at..at + len) {
        out[..len].copy_from_slice(address);
    }
    out
}

fn is_confirmed(conntrack: &penstock_conntrack::Conntrack, n: u32) -> bool {
    conntrack.connection_at(n).is_some_and(|c| c.status() & status::CONFIRMED != 0)
}
