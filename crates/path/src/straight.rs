// SPDX-License-Identifier: Apache-2.0

//! The straight way: what the packets of most flows meet, in one function.
//!
//! Packets of TCP and UDP, of IPv4 without options and IPv6 without extension headers, that arrive
//! at a plain device go from reception over the hooks to the next plain device with what was read
//! of their headers beforehand. Nothing here means anything of its own: each step is what the
//! normal way ([`Worker::receive`]) does with such a packet, and where a packet needs more (it
//! begins a connection, a rule keeps it, its way was not asked for before, …) it goes on from that
//! step in the normal way.

use std::net::IpAddr;

use penstock_conntrack::{Conntrack, TupleLookup};
use penstock_jit::{self as jit, Head};
use penstock_net::Mac;
use penstock_packet::{Frame, Packet, Transport};
use penstock_program::{Context, Family, Hook};
use penstock_wire::checksum::Sum;
use penstock_wire::ipv4_options::Compiled;
use penstock_wire::{ethernet, ipv4, ipv6, protocol};

use crate::burst::Together;
use crate::hooks::{BuiltIn, HookList, Hooks, Protocol};
use crate::route_cache::Way;
use crate::rules::End;
use crate::sink::Sink;
use crate::transmit::put_ethernet;
use crate::worker::{Destination, Worker};
use crate::{ip4, ip6};

/// What frames of a device pass that go straight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Road<'a> {
    device: u32,
    address: Mac,
    /// There are rules at ingress: only frames that have passed them go this way.
    pub(crate) filtered: bool,
    /// The hooks of IPv4, and those of IPv6, unless that is off on the device.
    four: Passage<'a>,
    six: Option<Passage<'a>>,
    /// About egress of the device by which the last packet left: the next ones mostly leave there,
    /// too. Of IPv4 only.
    pub(crate) foresight: Option<Foresight<'a>>,
}

/// The hooks of a protocol that packets pass on their way through.
#[derive(Clone, Copy, Debug)]
struct Passage<'a> {
    /// `prerouting` and `postrouting`; `None` where there are chains and the like.
    before: Option<BuiltIn>,
    behind: Option<BuiltIn>,
    forward: &'a HookList,
    /// Nothing on the way can change a header that says where the next one is.
    untouched: bool,
}

impl<'a> Passage<'a> {
    fn of(hooks: &'a Hooks, protocol: Protocol) -> Self {
        let behind = hooks.list(protocol, Hook::Postrouting).built_in;
        let before = hooks.list(protocol, Hook::Prerouting).built_in;
        let forward = hooks.list(protocol, Hook::Forward);
        let keeps = |built_in: Option<BuiltIn>| built_in.is_some_and(|stages| !stages.translates);
        let untouched = forward.is_empty() && keeps(before) && keeps(behind);
        Passage { before, behind, forward, untouched }
    }
}

impl<'a> Road<'a> {
    /// The hooks of a family.
    #[inline(always)]
    fn hooks(&self, six: bool) -> Option<&Passage<'a>> {
        if six { self.six.as_ref() } else { Some(&self.four) }
    }
}

/// Code that says of packets whether they will pass a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foresight<'a> {
    pub(crate) code: &'a jit::Compiled,
    pub(crate) list: usize,
    /// The device, at egress of which it is.
    device: u32,
}

/// What was read of a frame that may go straight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// It is of IPv6.
    pub(crate) six: bool,
    /// Addresses of IPv4.
    src: u32,
    dst: u32,
    /// Length of the packet.
    len: u16,
    protocol: u8,
    tos: u8,
    /// It is known that it passes what the road foresees.
    pub(crate) passes: bool,
}

impl Usual {
    /// Reads a frame. `None` if it is not for such a road: addressed to another host, tagged, no IP
    /// or not a valid one, with options, a fragment, at its last hop, or of another protocol than
    /// TCP and UDP. Otherwise `head` is its headers, if it is of IPv4.
    #[inline(always)]
    pub(crate) fn read<'f>(
        frame: &Frame<'f>,
        road: &Road<'_>,
        head: &mut &'f Head,
    ) -> Option<Usual> {
        /// Version and length of a header without options.
        const PLAIN: u8 = 0x45;
        /// Bits of fragments: more follow, or this is not the first.
        const FRAGMENT: u16 = 0x3fff;
        /// Ports and what both protocols have behind them.
        const TRANSPORT: usize = 8;
        let (link, network) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>()?;
        let h: &Head = network.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let (len, fragment) = (half(2), half(6));
        let plain = frame.device == road.device
            && link[..6] == road.address.0
            && link[12..] == ethernet::IPV4.to_be_bytes()
            && h[0] == PLAIN
            && fragment & FRAGMENT == 0
            && h[8] > 1
            && matches!(h[9], protocol::TCP | protocol::UDP)
            && usize::from(len) >= ipv4::LEN + TRANSPORT
            && usize::from(len) <= network.len();
        if !plain {
            return Usual::read_six(frame, road);
        }
        let sum = (0..5).fold(Sum::new(), |sum, n| sum.u32(word(4 * n)));
        if !sum.is_valid() {
            return None;
        }
        *head = h;
        Some(Usual {
            src: word(12),
            dst: word(16),
            len,
            protocol: h[9],
            tos: h[1],
            six: false,
            passes: false,
        })
    }

    /// The same for IPv6: no extension headers, and addresses that need no second look.
    #[inline(never)]
    fn read_six(frame: &Frame<'_>, road: &Road<'_>) -> Option<Usual> {
        /// Ports and what both protocols have behind them.
        const TRANSPORT: usize = 8;
        let (link, network) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>()?;
        let h: &[u8; ipv6::LEN] = network.first_chunk()?;
        let payload = u16::from_be_bytes([h[4], h[5]]);
        // Not unspecified, loopback, mapped, link-local, or a group.
        let usual = |first: u8| (1..0xfe).contains(&first);
        let plain = road.six.is_some()
            && frame.device == road.device
            && link[..6] == road.address.0
            && link[12..] == ethernet::IPV6.to_be_bytes()
            && h[0] >> 4 == 6
            && matches!(h[6], protocol::TCP | protocol::UDP)
            && h[7] > 1
            && usual(h[8])
            && usual(h[24])
            && usize::from(payload) >= TRANSPORT
            && usize::from(payload) <= network.len() - ipv6::LEN;
        let len = payload.checked_add(ipv6::LEN as u16).filter(|_| plain)?;
        Some(Usual { six: true, src: 0, dst: 0, len, protocol: h[6], tos: 0, passes: false })
    }

    /// Where the connection of a frame that was read is to be looked up, if that is what happens
    /// first.
    #[inline(always)]
    pub(crate) fn seek(
        &self,
        frame: &Frame<'_>,
        road: &Road<'_>,
        conntrack: &Conntrack,
    ) -> Option<TupleLookup> {
        road.hooks(self.six)?.before.filter(|before| before.tracks)?;
        let network = frame.bytes.get(ethernet::LEN..)?;
        Some(match self.six {
            false => conntrack.seek_ports4(network.first_chunk()?),
            true => conntrack.seek_ports6(network.first_chunk()?),
        })
    }
}

/// What came of a packet at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It goes on as it is.
    On,
    /// It goes on with other addresses or ports.
    Translated,
    /// It was dropped, or goes on elsewhere.
    Ended,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// The road of a device; `None` if somebody looks at its frames on their way in, or anything
    /// else than IP comes of them.
    pub(crate) fn road(&self, device: u32) -> Option<Road<'a>> {
        let state = &*self.state;
        let watched = self.filtered(device) || state.ipsec.is_some() || state.trace_all;
        let watched = watched || state.taps.has(device);
        let hooks = self.hooks;
        if !self.straight || watched {
            return None;
        }
        let link = self.net.link(device).filter(|link| link.up && link.is_wire())?;
        if self.net.bridge_port(device).is_some() {
            return None;
        }
        let four = Passage::of(hooks, Protocol::Ip);
        let six = (link.mtu >= ipv6::MIN_MTU as u32).then(|| Passage::of(hooks, Protocol::Ip6));
        let filtered = !hooks.ingress(device).is_empty();
        let foresight = self.foresight().filter(|_| four.untouched);
        Some(Road { foresight, device, address: link.mac, filtered, four, six })
    }

    /// Code that says what passes egress of the device by which the last packet left.
    fn foresight(&self) -> Option<Foresight<'a>> {
        let device = self.state.last_out;
        let list = self.hooks.egress(device).code?;
        let code = self.code.filter(|code| code.foresees(list))?;
        Some(Foresight { code, list, device })
    }

    /// A frame that may go straight, and all that follows from it; `passed` is what it has passed
    /// at ingress, if there is anything.
    #[inline]
    pub(crate) fn straight(
        &mut self,
        road: &Road<'_>,
        frame: &Frame<'_>,
        usual: &Usual,
        sought: Option<&TupleLookup>,
        passed: Option<&Together<'_>>,
        packet: &mut Packet,
    ) {
        if usual.six {
            self.straight_six(road, frame, usual, sought, passed, packet);
        } else {
            self.straight_by::<false>(road, frame, usual, sought, passed, packet);
        }
    }

    /// A function of its own, so that what is called from one place for IPv4 stays in one piece.
    #[inline(never)]
    fn straight_six(
        &mut self,
        road: &Road<'_>,
        frame: &Frame<'_>,
        usual: &Usual,
        sought: Option<&TupleLookup>,
        passed: Option<&Together<'_>>,
        packet: &mut Packet,
    ) {
        self.straight_by::<true>(road, frame, usual, sought, passed, packet);
    }

    /// The same for a family that is known.
    #[inline(always)]
    fn straight_by<const SIX: bool>(
        &mut self,
        road: &Road<'_>,
        frame: &Frame<'_>,
        usual: &Usual,
        sought: Option<&TupleLookup>,
        passed: Option<&Together<'_>>,
        packet: &mut Packet,
    ) {
        let Some(hooks) = road.hooks(SIX) else { return };
        let len = ethernet::LEN + usize::from(usual.len);
        let full = self.state.conntrack.statistics().table_full;
        let mut tracked = None;
        if let Some(sought) = sought {
            let network = frame.bytes.get(ethernet::LEN..len).unwrap_or(&[]);
            tracked = self.state.conntrack.track_sought(network, sought, frame.time);
            if tracked.is_none() {
                // It begins a connection.
                return match passed {
                    Some(together) => self.frame_behind_ingress(frame, together, packet),
                    None => self.receive(frame, packet),
                };
            }
        }
        self.state.counters.received += 1;
        let (offset, ethertype) =
            if SIX { (ipv6::LEN, ethernet::IPV6) } else { (ipv4::LEN, ethernet::IPV4) };
        let transport =
            Transport { protocol: usual.protocol, offset: offset as u16, fragment_offset: 0 };
        packet.receive_known(frame.bytes, len, ethertype, transport);
        packet.meta.time = frame.time;
        packet.meta.iif = road.device;
        if passed.is_some() {
            packet.meta.trace_id = self.next_trace_id();
        }
        if let Some((ct, verdict)) = tracked {
            packet.meta.ct = ct;
            if self.tracked(verdict, full, packet) != End::Accept {
                return;
            }
        }
        let step = self.straight_before::<SIX>(hooks, packet);
        match (step, SIX) {
            (Step::Ended, _) => {}
            (Step::On | Step::Translated, true) => {
                self.straight_forward6(road, hooks, usual, packet)
            }
            (Step::On, false) => {
                self.straight_forward4(road, hooks, usual, (usual.src, usual.dst), packet)
            }
            (Step::Translated, false) => match ip4::addresses(packet) {
                Some(addresses) => self.straight_forward4(road, hooks, usual, addresses, packet),
                None => self.ip4_behind_prerouting(packet, None),
            },
        }
    }

    /// `prerouting`; tracking is done, where it comes first.
    #[inline(always)]
    fn straight_before<const SIX: bool>(
        &mut self,
        hooks: &Passage<'_>,
        packet: &mut Packet,
    ) -> Step {
        match hooks.before {
            Some(before) if before.translates => self.straight_nat::<SIX>(Hook::Prerouting, packet),
            Some(_) => Step::On,
            None => {
                if self.hook_before_route(protocol_of(SIX), Hook::Prerouting, packet, &mut None) {
                    match SIX {
                        true => self.ip6_behind_prerouting(packet, None),
                        false => self.ip4_behind_prerouting(packet, None),
                    }
                }
                Step::Ended
            }
        }
    }

    /// The NAT stage of a hook.
    #[inline(always)]
    fn straight_nat<const SIX: bool>(&mut self, hook: Hook, packet: &mut Packet) -> Step {
        if self.stays_as_it_is(hook, packet) {
            return Step::On;
        }
        packet.find_transport();
        match self.nat(Context { family: family_of(SIX), hook }, packet, &mut None) {
            End::Accept => Step::Translated,
            End::Dropped | End::Taken | End::Queue { .. } => Step::Ended,
        }
    }

    /// From the routing decision of IPv4 on.
    #[inline(always)]
    fn straight_forward4(
        &mut self,
        road: &Road<'_>,
        hooks: &Passage<'_>,
        usual: &Usual,
        (src, dst): (u32, u32),
        packet: &mut Packet,
    ) {
        let known = self.state.routes.v4.way(road.device, dst);
        let Some(&Way { to, mtu, .. }) = known.filter(|_| self.ip4_usual_source(src)) else {
            return self.ip4_new_way(packet);
        };
        let too_long = usize::from(usual.len) > mtu;
        if to.local || to.redirect || too_long {
            return self.ip4_take_way(packet, &to, false);
        }
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        self.state.counters.forwarded += 1;
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            h.decrement_ttl();
        }
        packet.meta.priority = ip4::priority_of_tos(usual.tos);
        packet.meta.oif = to.oif;
        self.straight_behind_route::<false>(road, hooks, usual, packet, &to, mtu);
    }

    /// From the routing decision of IPv6 on.
    #[inline(always)]
    fn straight_forward6(
        &mut self,
        road: &Road<'_>,
        hooks: &Passage<'_>,
        usual: &Usual,
        packet: &mut Packet,
    ) {
        let addresses = ip6::addresses(packet);
        let known = addresses.and_then(|(_, dst)| self.state.routes.v6.way(road.device, dst));
        let Some(&Way { to, mtu, .. }) = known else {
            return self.ip6_behind_prerouting(packet, None);
        };
        let unusual = addresses.is_none_or(|(src, _)| !ip6::is_usual_source(src));
        if to.oif == to.iif || unusual || usize::from(usual.len) > mtu {
            return self.ip6_behind_prerouting(packet, Some(to));
        }
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        self.state.counters.forwarded += 1;
        if let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut()) {
            h.decrement_hop_limit();
        }
        packet.meta.oif = to.oif;
        self.straight_behind_route::<true>(road, hooks, usual, packet, &to, mtu);
    }

    /// `forward` and `postrouting`.
    #[inline(always)]
    fn straight_behind_route<const SIX: bool>(
        &mut self,
        road: &Road<'_>,
        hooks: &Passage<'_>,
        usual: &Usual,
        packet: &mut Packet,
        to: &Destination,
        mtu: usize,
    ) {
        if !self.straight_hook::<SIX>(hooks.forward, packet, to) {
            return;
        }
        let Some(behind) = hooks.behind else {
            return match SIX {
                true => self.ip6_output(packet, to, true),
                false => self.ip4_output(packet, to),
            };
        };
        if behind.translates && self.straight_nat::<SIX>(Hook::Postrouting, packet) == Step::Ended {
            return;
        }
        let settled = !behind.confirms || self.state.conntrack.is_settled(&packet.meta.ct);
        if !settled && self.confirm(packet) != End::Accept {
            return;
        }
        self.straight_out::<SIX>(road, hooks, usual, packet, to, mtu);
    }

    /// `forward`. Whether the packet goes on.
    #[inline(always)]
    fn straight_hook<const SIX: bool>(
        &mut self,
        list: &HookList,
        packet: &mut Packet,
        to: &Destination,
    ) -> bool {
        if list.is_empty() {
            return true;
        }
        if list.has_chains && packet.meta.trace_id == 0 {
            packet.meta.trace_id = self.next_trace_id();
        }
        let decision = match (self.code, list.code) {
            (Some(code), Some(number)) => code.run_alone(number, packet, self.state.worker),
            _ => None,
        };
        match decision {
            Some(decision) if decision.is_pass() => true,
            Some(decision) => {
                self.state.queues.options = Compiled::default();
                let context = Context { family: family_of(SIX), hook: Hook::Forward };
                self.carry_out(decision, list, context, packet, &mut Some(*to)) == End::Accept
            }
            None => {
                self.state.queues.options = Compiled::default();
                self.hook(protocol_of(SIX), Hook::Forward, packet, Some(to))
            }
        }
    }

    /// To a neighbour that is known, by egress of the device, which nobody taps.
    #[inline(always)]
    fn straight_out<const SIX: bool>(
        &mut self,
        road: &Road<'_>,
        hooks: &Passage<'_>,
        usual: &Usual,
        packet: &mut Packet,
        to: &Destination,
        mtu: usize,
    ) {
        let routes = &self.state.routes;
        let neighbour = match (to.gateway, SIX) {
            (None, false) => {
                ip4::addresses(packet).and_then(|(_, dst)| routes.v4.neighbour(to.oif, dst))
            }
            (None, true) => {
                ip6::addresses(packet).and_then(|(_, dst)| routes.v6.neighbour(to.oif, dst))
            }
            (Some(IpAddr::V4(gateway)), _) => routes.v4.neighbour(to.oif, gateway.into()),
            (Some(IpAddr::V6(gateway)), _) => routes.v6.neighbour(to.oif, gateway.into()),
        };
        let link = self.net.link(to.oif).filter(|link| link.up && link.is_wire());
        let link =
            link.filter(|link| !self.state.taps.has(link.index) && packet.network().len() <= mtu);
        let (Some(neighbour), Some(link)) = (neighbour, link) else {
            return match SIX {
                true => self.ip6_finish_output(packet, to, true),
                false => self.ip4_finish_output(packet, to),
            };
        };
        packet.meta.protocol = if SIX { ethernet::IPV6 } else { ethernet::IPV4 };
        packet.meta.vlan = None;
        put_ethernet(packet, neighbour, link.mac);
        packet.data_at_link();
        packet.meta.iif = 0;
        packet.meta.oif = link.index;
        let foreseen =
            usual.passes && road.foresight.is_some_and(|foresight| foresight.device == link.index);
        let sees = self.state.tc.as_mut().is_none_or(|tc| tc.egress_sees());
        if foreseen && sees {
            if packet.meta.trace_id == 0 {
                packet.meta.trace_id = self.next_trace_id();
            }
        } else if sees {
            let egress = self.hooks.egress(link.index);
            if !egress.is_empty() {
                self.state.last_out = link.index;
                if !self.straight_egress(hooks, egress, packet) {
                    return;
                }
            }
        }
        if self.state.tc.is_some()
            && (self.tc(penstock_tc::Hook::Egress, link.index, packet).is_some()
                || self.enqueue(packet, link).is_some())
        {
            return;
        }
        packet.put_tag_into_frame();
        self.state.counters.transmitted += 1;
        self.sink.transmit(link, packet.frame(), &packet.meta);
    }

    /// Netfilter's egress. Whether the packet goes on.
    #[inline(always)]
    fn straight_egress(
        &mut self,
        hooks: &Passage<'_>,
        list: &HookList,
        packet: &mut Packet,
    ) -> bool {
        if !hooks.untouched {
            packet.find_transport_checked();
        }
        if list.has_chains && packet.meta.trace_id == 0 {
            packet.meta.trace_id = self.next_trace_id();
        }
        let decision = match (self.code, list.code) {
            (Some(code), Some(number)) => code.run_alone(number, packet, self.state.worker),
            _ => None,
        };
        if decision.is_some_and(|decision| decision.is_pass()) {
            return true;
        }
        self.state.queues.options = Compiled::default();
        let context = Context { family: Family::Netdev, hook: Hook::Egress };
        let end = match decision {
            Some(decision) => self.carry_out(decision, list, context, packet, &mut None),
            None => self.run_list(list, context, packet, &mut None),
        };
        end == End::Accept
    }
}

#[inline(always)]
const fn protocol_of(six: bool) -> Protocol {
    if six { Protocol::Ip6 } else { Protocol::Ip }
}

#[inline(always)]
const fn family_of(six: bool) -> Family {
    if six { Family::Ip6 } else { Family::Ip }
}
