// SPDX-License-Identifier: Apache-2.0

//! IP packets on a bridge pass the hooks of IP, as if the bridge were a router between its ports
//! (`net/bridge/br_netfilter_hooks.c`, `br_netfilter_ipv6.c`).
//!
//! ```text
//! prerouting:  chains up to priority 0, prerouting of IP, other chains
//! forward:     chains up to priority 0, forward of IP, other chains
//! postrouting: all chains, postrouting of IP
//! ```
//!
//! At the hooks of IP the bridge is the device that a packet comes in and leaves by;
//! [`Bridged`] has the ports. Where the bridge device receives a packet, it does not pass
//! `prerouting` of IP again.

use penstock_conntrack::status;
use penstock_net::{BridgePort, Link, Mac};
use penstock_packet::{Bridged, Ct, Packet, PacketType};
use penstock_program::{Context, Family, Hook};
use penstock_wire::{ethernet, icmpv6, ipv4, ipv6, vlan};

use crate::addresses;
use crate::addresses::{ip4, ip6};
use crate::bridge::ipv6_len::ipv6_len;
use crate::course::{Course, Next};
use crate::hook_result::HookResult;
use crate::hooks::{Protocol, Stage};
use crate::reason::DropReason;
use crate::route::{Route, Routed};
use crate::sink::Sink;
use crate::worker::Worker;

/// Destination of an IP packet, an IPv4 address in the low bits.
fn destination(protocol: Protocol, packet: &Packet) -> u128 {
    match protocol {
        Protocol::Ip => addresses::of4(packet).map_or(0, |(_, to)| to.into()),
        _ => addresses::of6(packet).map_or(0, |(_, to)| to),
    }
}

/// Where a packet continues after the list of a bridge's hook.
const fn after(hook: Hook) -> Next {
    match hook {
        Hook::Prerouting => Next::BridgeRoute,
        Hook::Forward => Next::BridgePostrouting,
        Hook::Postrouting => Next::BridgePush,
        Hook::Input | Hook::Output | Hook::Ingress | Hook::Egress => Next::Done,
    }
}

impl<'a, S: Sink> Worker<'a, S> {
    /// The stage in a list of the bridge.
    pub(crate) fn bridge_ip(
        &mut self,
        hook: Hook,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        let ready = match hook {
            Hook::Prerouting => self.bridge_ip_prerouting(packet, course),
            Hook::Forward => self.bridge_ip_forward(packet),
            Hook::Postrouting => self.bridge_ip_postrouting(packet),
            Hook::Input => return self.bridge_ip_input(packet),
            Hook::Output | Hook::Ingress | Hook::Egress => Ok(None),
        };
        let protocol = match ready {
            Ok(Some(protocol)) => protocol,
            Ok(None) => return HookResult::Accept,
            Err(reason) => {
                self.drop(reason, packet);
                return HookResult::Dropped;
            }
        };
        let next = course.next;
        let done = Next::BridgeAfterIp(hook);
        if self.hook_before_route(protocol, hook, packet, course, done) != done {
            return HookResult::Stolen;
        }
        course.next = next;
        self.bridge_ip_passed(hook, protocol, packet, course)
    }

    /// A packet that a queue held at a hook of IP has passed it: the rest of the bridge's list.
    pub(crate) fn bridge_after_ip(
        &mut self,
        hook: Hook,
        packet: &mut Packet,
        course: &mut Course,
    ) -> Next {
        let protocol = match packet.meta.protocol {
            ethernet::IPV4 => Protocol::Ip,
            _ => Protocol::Ip6,
        };
        if self.bridge_ip_passed(hook, protocol, packet, course) != HookResult::Accept {
            return Next::Done;
        }
        let hooks = self.hooks;
        let list = hooks.list(Protocol::Bridge, hook);
        let is_here = |stage: &Stage| *stage == Stage::BridgeIp(hook);
        let rest = list.stages.iter().position(is_here).map_or(list.stages.len(), |at| at + 1);
        let context = Context { family: Family::Bridge, hook };
        course.next = after(hook);
        match self.run_list_from(list, rest, context, packet, course) {
            HookResult::Accept => course.next,
            HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => Next::Done,
        }
    }

    /// The protocol whose hooks a packet of a port passes.
    fn bridge_ip_protocol(&self, port: &BridgePort, packet: &Packet) -> Option<Protocol> {
        let settings = &self.settings.bridge;
        if packet.meta.vlan.is_some() && !settings.vlan_tagged {
            return None;
        }
        let bridge = self.net.link(port.bridge)?.bridge()?;
        match packet.meta.protocol {
            ethernet::IPV4 if settings.call_ip || bridge.call_ip => Some(Protocol::Ip),
            ethernet::IPV6 if settings.call_ip6 || bridge.call_ip6 => Some(Protocol::Ip6),
            _ => None,
        }
    }

    /// The device that rules see a packet come in by: the bridge, or a VLAN device on it
    /// (`brnf_get_logical_dev()`).
    fn bridge_ip_device(&self, bridge: u32, packet: &Packet) -> u32 {
        match packet.meta.vlan.filter(|_| self.settings.bridge.vlan_device) {
            Some(tag) => {
                let id = tag.tci & vlan::VID_MASK;
                self.net.vlan(bridge, tag.protocol, id).unwrap_or(bridge)
            }
            None => bridge,
        }
    }

    /// `br_nf_pre_routing()`. `None` for what passes no hook of IP.
    fn bridge_ip_prerouting(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
    ) -> Result<Option<Protocol>, DropReason> {
        let arrived = packet.meta.iif;
        let Some(port) = self.net.bridge_port(arrived) else { return Ok(None) };
        let Some(protocol) = self.bridge_ip_protocol(port, packet) else { return Ok(None) };
        check(protocol, packet)?;
        let device = self.bridge_ip_device(port.bridge, packet);
        let meta = &mut packet.meta;
        let other_host = meta.packet_type == PacketType::OtherHost;
        if other_host {
            meta.packet_type = PacketType::Host;
        }
        meta.bridged = Bridged { arrived, other_host, passed: true, ..Bridged::default() };
        meta.socket = 0;
        meta.iif = device;
        course.destination = destination(protocol, packet);
        course.route = None;
        Ok(Some(protocol))
    }

    /// `br_nf_forward_ip()`. Only packets pass that passed `prerouting`.
    fn bridge_ip_forward(&mut self, packet: &mut Packet) -> Result<Option<Protocol>, DropReason> {
        if packet.meta.bridged.arrived == 0 {
            return Ok(None);
        }
        let (iif, leaves) = (packet.meta.iif, packet.meta.oif);
        let Some(port) = self.net.bridge_port(leaves) else { return Err(DropReason::BridgePort) };
        let Some(protocol) = self.bridge_ip_seen(packet) else { return Ok(None) };
        check(protocol, packet)?;
        hide_other_host(packet);
        packet.meta.bridged.leaves = leaves;
        let bridge = self.net.bridge_port(iif).map_or(port.bridge, |port| port.bridge);
        packet.meta.iif = self.bridge_ip_device(bridge, packet);
        packet.meta.oif = port.bridge;
        Ok(Some(protocol))
    }

    /// `br_nf_post_routing()`. Only packets pass that passed `forward`.
    fn bridge_ip_postrouting(
        &mut self,
        packet: &mut Packet,
    ) -> Result<Option<Protocol>, DropReason> {
        if packet.meta.bridged.leaves == 0 {
            return Ok(None);
        }
        let Some(port) = self.net.bridge_port(packet.meta.oif) else {
            return Err(DropReason::BridgePort);
        };
        let Some(protocol) = self.bridge_ip_seen(packet) else { return Ok(None) };
        hide_other_host(packet);
        packet.meta.iif = 0;
        packet.meta.oif = port.bridge;
        Ok(Some(protocol))
    }

    /// The protocol of a packet that has passed `prerouting`, whatever the settings of its bridge
    /// are.
    fn bridge_ip_seen(&self, packet: &Packet) -> Option<Protocol> {
        if packet.meta.vlan.is_some() && !self.settings.bridge.vlan_tagged {
            return None;
        }
        match packet.meta.protocol {
            ethernet::IPV4 => Some(Protocol::Ip),
            ethernet::IPV6 => Some(Protocol::Ip6),
            _ => None,
        }
    }

    /// `br_nf_local_in()`: a new connection of a packet that is not for this host alone is entered
    /// into the table, since copies of the packet are of the same one. Of what the bridge only
    /// listens to, IP begins another.
    fn bridge_ip_input(&mut self, packet: &mut Packet) -> HookResult {
        if !packet.meta.ct.has_entry() {
            return HookResult::Accept;
        }
        if packet.meta.bridged.overheard {
            packet.meta.ct = Ct::default();
            return HookResult::Accept;
        }
        let new = self
            .state
            .conntrack
            .connection(&packet.meta.ct)
            .is_some_and(|c| c.status() & status::CONFIRMED == 0);
        if packet.meta.packet_type != PacketType::Host && new {
            return self.enter(packet);
        }
        HookResult::Accept
    }

    /// A hook of IP has let a packet pass. [`HookResult::Stolen`] if it went on in pieces.
    fn bridge_ip_passed(
        &mut self,
        hook: Hook,
        protocol: Protocol,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        let Bridged { arrived, leaves, other_host, .. } = packet.meta.bridged;
        if other_host {
            packet.meta.packet_type = PacketType::OtherHost;
            packet.meta.bridged.other_host = false;
        }
        course.route = None;
        let passed = match hook {
            Hook::Prerouting => {
                let routed = self.bridge_ip_turned(protocol, packet, course);
                packet.meta.iif = arrived;
                routed
            }
            Hook::Forward => {
                (packet.meta.iif, packet.meta.oif) = (arrived, leaves);
                Ok(())
            }
            _ => {
                let bridge = packet.meta.oif;
                packet.meta.oif = leaves;
                packet.meta.bridged = Bridged::default();
                return self.bridge_ip_push(protocol, packet, bridge);
            }
        };
        packet.find_transport_checked();
        match passed {
            Ok(()) => HookResult::Accept,
            Err(reason) => {
                self.drop(reason, packet);
                HookResult::Dropped
            }
        }
    }

    /// After `prerouting` of IP, which may have turned the packet to another destination
    /// (`br_nf_pre_routing_finish()`): a station on the bridge, whose link address it gets after
    /// the bridge's own `prerouting`, or the host.
    fn bridge_ip_turned(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        course: &mut Course,
    ) -> Result<(), DropReason> {
        if destination(protocol, packet) == course.destination {
            return Ok(());
        }
        let device = packet.meta.iif;
        let to: Option<Route> = match protocol {
            Protocol::Ip => match self.ip4_route_input(packet) {
                Routed::To(to) => Some(to),
                // IP says so, where the bridge has received it.
                Routed::No(_) | Routed::NotForwarded => None,
                Routed::Refused(reason) => return Err(reason),
            },
            _ => Some(self.ip6_route_input(packet).map_err(|_| DropReason::NoRoute)?),
        };
        if let Some(to) = to.filter(|to| to.oif == device && !to.local) {
            course.route = Some(to);
            return Ok(());
        }
        let Some(link) = self.net.link(device) else { return Err(DropReason::LinkDown) };
        set_destination(packet, link.mac);
        packet.meta.packet_type = PacketType::Host;
        Ok(())
    }

    /// The link address of the station that a packet was turned to
    /// (`br_nf_pre_routing_finish_bridge()`). `false` if it is not known: the packet has ended.
    pub(super) fn bridge_turn(&mut self, packet: &mut Packet, to: &Route) -> bool {
        let Some(link) = self.net.link(to.oif) else {
            self.drop(DropReason::LinkDown, packet);
            return false;
        };
        let next = match packet.meta.protocol {
            ethernet::IPV4 => addresses::of4(packet).map(|(_, next)| ip4(next).into()),
            _ => addresses::of6(packet).map(|(_, next)| ip6(next).into()),
        };
        let Some(next) = to.gateway.or(next) else {
            self.drop(DropReason::NoNeighbour, packet);
            return false;
        };
        let Some(mac) = self.link_address(link, next) else {
            self.sink.resolve(link, next);
            self.drop(DropReason::NoNeighbour, packet);
            return false;
        };
        set_destination(packet, mac);
        true
    }

    /// The ports that a packet at a hook of IP came and leaves by.
    pub(crate) fn bridge_ports(&self, packet: &Packet) -> [Option<&'a Link>; 2] {
        let Bridged { arrived, leaves, .. } = packet.meta.bridged;
        [arrived, leaves].map(|port| self.net.link(port).filter(|_| port != 0))
    }

    /// A packet that has passed `prerouting` of IP on a bridge is received by the bridge device, and
    /// does not pass it again (`ip_sabotage_in()`).
    #[cold]
    pub(crate) fn leave_bridged(&mut self, packet: &mut Packet) {
        packet.meta.bridged.passed = false;
        self.state.fragments.reassembled.forget_size(packet);
        packet.find_transport();
    }

    /// `br_nf_dev_queue_xmit()`: what is too long for the port, and what was put together, leaves
    /// in fragments.
    fn bridge_ip_push(
        &mut self,
        protocol: Protocol,
        packet: &mut Packet,
        bridge: u32,
    ) -> HookResult {
        let mtu = |index| self.net.link(index).map_or(0, |link| link.mtu as usize);
        let (port, bridge) = (mtu(packet.meta.oif), mtu(bridge));
        let came = self.state.fragments.reassembled.get(packet).map(|came| came.max_size);
        let limit = came.map_or(port, |size| size.min(port));
        if packet.meta.gso.is_some() || packet.network().len() <= limit {
            return HookResult::Accept;
        }
        if let Err(reason) = check(protocol, packet) {
            self.drop(reason, packet);
            return HookResult::Dropped;
        }
        let v6 = protocol == Protocol::Ip6;
        let df = !v6 && ipv4::Header::new(packet.network()).is_some_and(|h| h.df());
        let may_be_cut = match came {
            Some(size) => size <= bridge,
            None => !v6 && !df || packet.network().len() <= bridge,
        };
        if !may_be_cut {
            if v6 {
                self.icmp6_error(packet, icmpv6::PACKET_TOO_BIG, 0, bridge as u32);
            }
            self.drop(DropReason::TooBig, packet);
            return HookResult::Dropped;
        }
        let least = if v6 { ipv6::MIN_MTU } else { 0 };
        self.state.counters.taken += 1;
        self.bridge_cut(packet, came.map_or(bridge, |size| size.max(least)));
        HookResult::Stolen
    }
}

/// The checks of a packet before hooks of IP, which take padding off (`br_validate_ipv4()`,
/// `br_validate_ipv6()`).
fn check(protocol: Protocol, packet: &mut Packet) -> Result<(), DropReason> {
    let len = match protocol {
        Protocol::Ip => ipv4::check_input(packet.network()).map_err(|error| match error {
            ipv4::InputError::Header => DropReason::Ip4Header,
            ipv4::InputError::Checksum => DropReason::Ip4Checksum,
            ipv4::InputError::Truncated => DropReason::Ip4Truncated,
        })?,
        _ => ipv6_len(packet.network()).ok_or(DropReason::Ip6Header)?,
    };
    packet.trim_network(len);
    Ok(())
}

/// Sets where a frame goes on its link.
fn set_destination(packet: &mut Packet, mac: Mac) {
    if let Some(to) = packet.link_mut().first_chunk_mut() {
        *to = mac.0;
    }
}

/// Rules of IP see no packet of another host.
fn hide_other_host(packet: &mut Packet) {
    if packet.meta.packet_type == PacketType::OtherHost {
        packet.meta.packet_type = PacketType::Host;
        packet.meta.bridged.other_host = true;
    }
}
