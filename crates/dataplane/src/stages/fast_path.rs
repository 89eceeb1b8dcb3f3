// SPDX-License-Identifier: Apache-2.0

//! The fast path: what the packets of most flows meet, in one function.
//!
//! Packets of TCP and UDP, of IPv4 without options and IPv6 without extension headers, that arrive
//! at a plain device go from reception over the hooks to the next plain device with what was read
//! of their headers beforehand. Nothing here means anything of its own: each step is what the
//! normal way ([`Worker::receive`]) does with such a packet, and where a packet needs more (it
//! begins a connection, a rule keeps it, its way was not asked for before, …) it continues from
//! that step in the normal way.

use penstock_conntrack::{Conntrack, TupleLookup, Verdict};
use penstock_jit::{self as jit, Head};
use penstock_net::{Mac, RouteNumber};
use penstock_packet::{Frame, Packet, Transport};
use penstock_program::{Context, Family, Hook};
use penstock_wire::checksum::Sum;
use penstock_wire::{ethernet, ipv4, ipv6, protocol};

use crate::addresses;
use crate::course::{Course, Next};
use crate::hook_result::HookResult;
use crate::hooks::{BuiltIn, HookList, Hooks, Protocol, Stage};
use crate::plain_frame::{self, PlainFrame};
use crate::route::{Route, priority_of_tos};
use crate::sink::Sink;
use crate::stages::ingress_batch::IngressBatch;
use crate::worker::Worker;

/// What frames of a device pass that take the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath<'a> {
    pub(crate) device: u32,
    address: Mac,
    /// The address as [`PlainFrame`] has it.
    receiver: u64,
    /// There are rules at ingress: only frames that have passed them go this way.
    pub(crate) filtered: bool,
    /// No hook sees packets of IPv4 before egress, and nothing else does.
    pub(crate) plain: bool,
    /// Connections may remember the way of their packets.
    remembers: bool,
    /// The hooks of IPv4, and those of IPv6, unless that is off on the device.
    v4: FamilyHooks<'a>,
    v6: Option<FamilyHooks<'a>>,
    /// About egress of the device by which the last packet left: the next ones mostly leave there,
    /// too. Of IPv4 only.
    pub(crate) egress_precheck: Option<EgressPrecheck<'a>>,
}

/// The hooks of a protocol that packets pass on their way through.
#[derive(Clone, Copy, Debug)]
struct FamilyHooks<'a> {
    /// `prerouting` and `postrouting`; `None` where there are chains and the like.
    before: Option<BuiltIn>,
    after: Option<BuiltIn>,
    /// The stage of `prerouting` after connection tracking, if that comes before all chains.
    tracked: Option<usize>,
    prerouting: &'a HookList,
    forward: &'a HookList,
    postrouting: &'a HookList,
    /// Nothing on the way can change a header that says where the next one is.
    untouched: bool,
    /// Nothing on the way sees a packet that is no fragment.
    empty: bool,
}

impl<'a> FamilyHooks<'a> {
    fn of(hooks: &'a Hooks, protocol: Protocol) -> Self {
        let postrouting = hooks.list(protocol, Hook::Postrouting);
        let after = postrouting.built_in;
        let prerouting = hooks.list(protocol, Hook::Prerouting);
        let before = prerouting.built_in;
        let defragments = prerouting.stages.first() == Some(&Stage::Defrag);
        let at = usize::from(defragments);
        let tracked = prerouting.stages.get(at).filter(|stage| **stage == Stage::Conntrack);
        let tracked = tracked.map(|_| at + 1);
        let forward = hooks.list(protocol, Hook::Forward);
        let keeps = |built_in: Option<BuiltIn>| built_in.is_some_and(|stages| !stages.translates);
        let untouched = forward.is_empty() && keeps(before) && keeps(after);
        let does = |built_in: BuiltIn| built_in.tracks || built_in.translates || built_in.confirms;
        let empty = |built_in: Option<BuiltIn>| built_in.is_some_and(|stages| !does(stages));
        let empty = forward.is_empty() && empty(before) && empty(after);
        FamilyHooks { before, after, tracked, prerouting, forward, postrouting, untouched, empty }
    }
}

impl<'a> FastPath<'a> {
    /// The hooks of a family.
    #[inline(always)]
    fn hooks(&self, v6: bool) -> Option<&FamilyHooks<'a>> {
        if v6 { self.v6.as_ref() } else { Some(&self.v4) }
    }
}

/// Code that says of packets whether they will pass a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EgressPrecheck<'a> {
    pub(crate) code: &'a jit::Compiled,
    pub(crate) list: usize,
    /// The device, at egress of which it is.
    device: u32,
}

/// The headers of a frame that may take the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedHeaders {
    /// It is of IPv6.
    pub(crate) v6: bool,
    /// Addresses of IPv4.
    pub(crate) src: u32,
    pub(crate) dst: u32,
    /// Length of the packet.
    pub(crate) len: u16,
    protocol: u8,
    pub(crate) tos: u8,
    /// It is known that it passes egress ([`FastPath::egress_precheck`]).
    pub(crate) egress_prechecked: bool,
}

impl ParsedHeaders {
    /// Reads a frame. `None` if it is not for the fast path: addressed to another host, not plain
    /// ([`PlainFrame`]), or with a wrong checksum in its header.
    #[inline(always)]
    pub(crate) fn read(frame: &Frame<'_>, fast_path: &FastPath<'_>) -> Option<ParsedHeaders> {
        let plain = PlainFrame::read(frame.bytes)
            .filter(|plain| frame.device == fast_path.device && plain.is_to(fast_path.receiver));
        let Some(plain) = plain else { return ParsedHeaders::read6(frame, fast_path) };
        let h: &Head = frame.bytes.get(ethernet::LEN..)?.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let sum = (0..5).fold(Sum::new(), |sum, n| sum.u32(word(4 * n)));
        if !sum.is_valid() {
            return None;
        }
        let (src, dst) = plain.addresses();
        Some(ParsedHeaders {
            src,
            dst,
            len: plain.len,
            protocol: plain.protocol(),
            tos: h[1],
            v6: false,
            egress_prechecked: false,
        })
    }

    /// Reads a frame of IPv6: no extension headers, and addresses that need no second look.
    #[inline(never)]
    fn read6(frame: &Frame<'_>, fast_path: &FastPath<'_>) -> Option<ParsedHeaders> {
        /// Ports, and what both protocols have after them.
        const TRANSPORT: usize = 8;
        let (link, network) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>()?;
        let h: &[u8; ipv6::LEN] = network.first_chunk()?;
        let payload = u16::from_be_bytes([h[4], h[5]]);
        // Not unspecified, loopback, mapped, link-local, or a group.
        let headers = |first: u8| (1..0xfe).contains(&first);
        let plain = fast_path.v6.is_some()
            && frame.device == fast_path.device
            && link[..6] == fast_path.address.0
            && link[12..] == ethernet::IPV6.to_be_bytes()
            && h[0] >> 4 == 6
            && matches!(h[6], protocol::TCP | protocol::UDP)
            && h[7] > 1
            && headers(h[8])
            && headers(h[24])
            && usize::from(payload) >= TRANSPORT
            && usize::from(payload) <= network.len() - ipv6::LEN;
        let len = payload.checked_add(ipv6::LEN as u16).filter(|_| plain)?;
        Some(ParsedHeaders {
            v6: true,
            src: 0,
            dst: 0,
            len,
            protocol: h[6],
            tos: 0,
            egress_prechecked: false,
        })
    }

    /// Whether the packet is known to pass egress of a device.
    #[inline(always)]
    pub(crate) fn passes_egress(&self, fast_path: &FastPath<'_>, device: u32) -> bool {
        self.egress_prechecked
            && fast_path.egress_precheck.is_some_and(|precheck| precheck.device == device)
    }

    /// The transport protocol.
    pub(crate) fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The destination, of IPv4.
    #[inline(always)]
    pub(crate) fn destination(&self) -> u32 {
        self.dst
    }

    /// The connection lookup of a parsed frame, if that is its first step.
    #[inline(always)]
    pub(crate) fn seek(
        &self,
        frame: &Frame<'_>,
        fast_path: &FastPath<'_>,
        conntrack: &Conntrack,
    ) -> Option<TupleLookup> {
        fast_path.hooks(self.v6)?.tracked?;
        let network = frame.bytes.get(ethernet::LEN..)?;
        Some(match self.v6 {
            false => conntrack.seek_ports4(network.first_chunk()?),
            true => conntrack.seek_ports6(network.first_chunk()?),
        })
    }
}

/// A frame that may take the fast path, with what was found out before its turn.
pub(crate) struct ParsedFrame<'a> {
    pub(crate) frame: &'a Frame<'a>,
    pub(crate) headers: &'a ParsedHeaders,
    /// Where its connection is looked up, if that is what happens first.
    pub(crate) lookup: Option<&'a TupleLookup>,
    /// The route to its destination.
    pub(crate) route: RouteNumber,
    /// The ingress that it has passed, if there is any.
    pub(crate) ingress_batch: Option<&'a IngressBatch<'a>>,
}

/// What a packet on the fast path is forwarded by.
#[derive(Clone, Copy)]
struct FastPacket<'a> {
    fast_path: &'a FastPath<'a>,
    /// The hooks of its family.
    hooks: &'a FamilyHooks<'a>,
    headers: &'a ParsedHeaders,
}

/// Where a packet on the fast path goes.
#[derive(Clone, Copy)]
struct FastWay {
    /// Where its adjacency is.
    at: usize,
    oif: u32,
    mtu: u32,
    /// The link header to leave with.
    header: Option<[u8; ethernet::LEN]>,
}

/// What came of a packet at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It continues as it is.
    On,
    /// It continues with other addresses or ports.
    Translated,
    /// It was dropped, or continues elsewhere.
    Ended,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// The fast path from a device; `None` if something else sees its frames on their way in, or
    /// they may become anything other than IP packets.
    pub(crate) fn fast_path_of(&self, device: u32) -> Option<FastPath<'a>> {
        let state = &*self.state;
        let watched = self.filtered(device) || state.ipsec.is_some() || state.trace_all;
        let watched = watched || state.taps.has(device);
        let hooks = self.hooks;
        if !self.fast_path || watched {
            return None;
        }
        let link = self.net.link(device).filter(|link| link.up && link.is_wire())?;
        if self.net.bridge_port(device).is_some() {
            return None;
        }
        let v4 = FamilyHooks::of(hooks, Protocol::Ip);
        let forwards6 = link.mtu6().is_some() && link.conf.forwards6();
        let v6 = forwards6.then(|| FamilyHooks::of(hooks, Protocol::Ip6));
        let filtered = !hooks.ingress(device).is_empty();
        let egress_precheck = self.egress_precheck().filter(|_| v4.untouched);
        let (address, receiver) = (link.mac, plain_frame::receiver(link.mac.0));
        let plain = v4.empty && state.tc.is_none();
        // What is wrong with packets is told where they pass the hooks.
        let remembers = state.tc.is_none() && state.conntrack.settings().log_invalid == 0;
        Some(FastPath {
            egress_precheck,
            device,
            address,
            receiver,
            filtered,
            plain,
            remembers,
            v4,
            v6,
        })
    }

    /// Code that says what passes egress of the device by which the last packet left.
    fn egress_precheck(&self) -> Option<EgressPrecheck<'a>> {
        let device = self.state.forwarding.last_out;
        let list = self.hooks.egress(device).code?;
        let code = self.code.filter(|code| code.has_egress_precheck(list))?;
        Some(EgressPrecheck { code, list, device })
    }

    /// Forwards a frame by the fast path. The second packet is for those whose connection remembers
    /// their way.
    #[inline]
    pub(crate) fn take_fast_path(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        packets: (&mut Packet, &mut Packet),
    ) {
        if parsed.headers.v6 {
            self.take_fast_path6(fast_path, parsed, packets);
        } else {
            self.take_fast_path_of::<false>(fast_path, parsed, packets);
        }
    }

    /// A function of its own, so that what is called from one place for IPv4 stays in one piece.
    #[inline(never)]
    fn take_fast_path6(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        packets: (&mut Packet, &mut Packet),
    ) {
        self.take_fast_path_of::<true>(fast_path, parsed, packets);
    }

    /// Forwards a frame of a family that is known by the fast path.
    #[inline(always)]
    fn take_fast_path_of<const SIX: bool>(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        (packet, known): (&mut Packet, &mut Packet),
    ) {
        let &ParsedFrame { frame, headers, lookup, route, ingress_batch } = parsed;
        let Some(hooks) = fast_path.hooks(SIX) else { return };
        let fast = FastPacket { fast_path, hooks, headers };
        let len = ethernet::LEN + usize::from(headers.len);
        let full = self.state.conntrack.statistics().table_full;
        let mut tracked = None;
        if let Some(lookup) = lookup {
            let network = frame.bytes.get(ethernet::LEN..len).unwrap_or(&[]);
            tracked = self.state.conntrack.track_sought(network, lookup, frame.time);
            if tracked.is_none() {
                // It begins a connection.
                return match ingress_batch {
                    Some(batch) => self.frame_after_ingress(frame, batch, packet),
                    None => self.receive(frame, packet),
                };
            }
        }
        if fast_path.remembers
            && let Some((ct, Verdict::Accept)) = &tracked
            && ct.has_entry()
            && self.take_remembered_way::<SIX>(fast_path, parsed, ct, known)
        {
            return;
        }
        self.state.counters.received += 1;
        let (offset, ethertype) =
            if SIX { (ipv6::LEN, ethernet::IPV6) } else { (ipv4::LEN, ethernet::IPV4) };
        let transport =
            Transport { protocol: headers.protocol, offset: offset as u16, fragment_offset: 0 };
        packet.receive_known(frame.bytes, len, ethertype, transport);
        packet.meta.time = frame.time;
        packet.meta.iif = fast_path.device;
        if ingress_batch.is_some() {
            packet.meta.trace_id = self.next_trace_id();
        }
        if let Some((ct, verdict)) = tracked {
            packet.meta.ct = ct;
            let context = Context { family: family_of(SIX), hook: Hook::Prerouting };
            self.log_invalid(context, packet);
            if self.tracked(verdict, full, packet) != HookResult::Accept {
                return;
            }
        }
        let step = self.fast_prerouting::<SIX>(hooks, packet);
        match (step, SIX) {
            (Step::Ended, _) => {}
            (Step::On, true) => self.fast_forward6(fast, route, packet),
            (Step::On, false) => {
                self.fast_forward4(fast, (headers.src, headers.dst), route, packet);
            }
            (Step::Translated, true) => match addresses::of6(packet) {
                Some((_, dst)) => {
                    let route = self.net.route_number6(dst);
                    self.fast_forward6(fast, route, packet);
                }
                None => self.continue_at(Next::Ip6Route, packet, None),
            },
            (Step::Translated, false) => match addresses::of4(packet) {
                Some((src, dst)) => {
                    let route = self.net.route_number4(dst);
                    self.fast_forward4(fast, (src, dst), route, packet);
                }
                None => self.continue_at(Next::Ip4Route, packet, None),
            },
        }
    }

    /// A packet that needs more continues stage by stage.
    #[cold]
    fn continue_at(&mut self, next: Next, packet: &mut Packet, route: Option<Route>) {
        self.run(next, packet, &mut Course { route, ..Course::default() });
    }

    /// A packet of IPv4 for which no way is known continues with its routing decision.
    #[cold]
    fn continue_unknown4(&mut self, packet: &mut Packet) {
        let mut course = Course::default();
        let next = self.ip4_new_route(packet, &mut course);
        self.run(next, packet, &mut course);
    }

    /// A packet of IPv4 that needs more continues after its routing decision.
    #[cold]
    fn continue_routed4(&mut self, packet: &mut Packet, route: Option<Route>) {
        let mut course = Course { route, ..Course::default() };
        let next = self.ip4_routed(packet, &mut course, false);
        self.run(next, packet, &mut course);
    }

    /// `prerouting`; tracking is done, where it comes first.
    #[inline(always)]
    fn fast_prerouting<const SIX: bool>(
        &mut self,
        hooks: &FamilyHooks<'_>,
        packet: &mut Packet,
    ) -> Step {
        match hooks.before {
            Some(before) if before.translates => self.fast_nat::<SIX>(Hook::Prerouting, packet),
            Some(_) => Step::On,
            None => {
                let (protocol, mut course) = (protocol_of(SIX), Course::default());
                let next = Next::route(protocol);
                let next = match hooks.tracked.filter(|_| !packet.meta.ct.has_entry()) {
                    Some(stage) => self.rest_of_prerouting::<SIX>(hooks, stage, packet),
                    // A packet that has its connection is not tracked again.
                    None => {
                        let hook = Hook::Prerouting;
                        self.hook_before_route(protocol, hook, packet, &mut course, next)
                    }
                };
                // A chain here often drops: the stage loop is entered only if it did not.
                if next != Next::Done {
                    self.run(next, packet, &mut course);
                }
                Step::Ended
            }
        }
    }

    /// `prerouting` from a stage on, of a packet that was tracked and is part of no connection.
    #[cold]
    fn rest_of_prerouting<const SIX: bool>(
        &mut self,
        hooks: &FamilyHooks<'_>,
        stage: usize,
        packet: &mut Packet,
    ) -> Next {
        let context = Context { family: family_of(SIX), hook: Hook::Prerouting };
        let next = Next::route(protocol_of(SIX));
        let mut course = Course { next, ..Course::default() };
        packet.find_transport();
        match self.run_list_from(hooks.prerouting, stage, context, packet, &mut course) {
            HookResult::Accept => next,
            HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => Next::Done,
        }
    }

    /// The NAT stage of a hook.
    #[inline(always)]
    fn fast_nat<const SIX: bool>(&mut self, hook: Hook, packet: &mut Packet) -> Step {
        if self.stays_as_it_is(hook, packet) {
            return Step::On;
        }
        packet.find_transport();
        match self.nat(Context { family: family_of(SIX), hook }, packet, &mut None) {
            HookResult::Accept => Step::Translated,
            HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => Step::Ended,
        }
    }

    /// From the routing decision of IPv4 on.
    #[inline(always)]
    fn fast_forward4(
        &mut self,
        fast: FastPacket<'_>,
        (src, dst): (u32, u32),
        route: RouteNumber,
        packet: &mut Packet,
    ) {
        let FastPacket { fast_path, headers, .. } = fast;
        let usual = self.ip4_usual_source(fast_path.device, src);
        let known = self.adjacency4(fast_path.device, dst, route).filter(|_| usual);
        let Some((at, &to)) = known.and_then(|at| Some((at, self.state.forwarding.v4.get(at)?)))
        else {
            return self.continue_unknown4(packet);
        };
        if u32::from(headers.len) > to.mtu {
            let to = self.state.forwarding.v4.route(at, fast_path.device);
            return self.continue_routed4(packet, to);
        }
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        self.state.counters.forwarded += 1;
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            h.decrement_ttl();
        }
        packet.meta.priority = priority_of_tos(headers.tos);
        packet.meta.oif = to.oif;
        let way = FastWay { at, oif: to.oif, mtu: to.mtu, header: to.header().copied() };
        self.fast_after_route::<false>(fast, packet, &way);
    }

    /// From the routing decision of IPv6 on.
    #[inline(always)]
    fn fast_forward6(&mut self, fast: FastPacket<'_>, route: RouteNumber, packet: &mut Packet) {
        let FastPacket { fast_path, headers, .. } = fast;
        let addresses = addresses::of6(packet);
        let known = addresses.and_then(|(_, dst)| self.adjacency6(dst, route));
        let Some((at, &to)) = known.and_then(|at| Some((at, self.state.forwarding.v6.get(at)?)))
        else {
            return self.continue_at(Next::Ip6Route, packet, None);
        };
        let unusual = addresses.is_none_or(|(src, _)| !addresses::is_usual_source(src));
        if to.oif == fast_path.device || unusual || u32::from(headers.len) > to.mtu {
            let to = self.state.forwarding.v6.route(at, fast_path.device);
            return self.continue_at(Next::Ip6Route, packet, to);
        }
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        self.state.counters.forwarded += 1;
        if let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut()) {
            h.decrement_hop_limit();
        }
        packet.meta.oif = to.oif;
        let way = FastWay { at, oif: to.oif, mtu: to.mtu, header: to.header().copied() };
        self.fast_after_route::<true>(fast, packet, &way);
    }

    /// The route of a way, for stages that need all of it.
    #[inline(never)]
    fn route_of<const SIX: bool>(&self, way: &FastWay, packet: &Packet) -> Option<Route> {
        let (known, iif) = (&self.state.forwarding, packet.meta.iif);
        if SIX { known.v6.route(way.at, iif) } else { known.v4.route(way.at, iif) }
    }

    /// `forward` and `postrouting`.
    #[inline(always)]
    fn fast_after_route<const SIX: bool>(
        &mut self,
        fast: FastPacket<'_>,
        packet: &mut Packet,
        way: &FastWay,
    ) {
        let hooks = fast.hooks;
        if !self.fast_forward_hook::<SIX>(hooks.forward, packet, way) {
            return;
        }
        let Some(after) = hooks.after else {
            let to = self.route_of::<SIX>(way, packet);
            return self.continue_at(Next::postrouting(protocol_of(SIX)), packet, to);
        };
        if after.translates && self.fast_nat::<SIX>(Hook::Postrouting, packet) == Step::Ended {
            return;
        }
        let settled = !after.confirms || self.state.conntrack.is_settled(&packet.meta.ct);
        if !settled {
            match self.confirm(packet) {
                HookResult::Accept => {}
                HookResult::Queue { num, .. } => {
                    if !self.fast_read_by::<SIX>(num, hooks, packet, way) {
                        return;
                    }
                }
                HookResult::Dropped | HookResult::Stolen => return,
            }
        }
        self.fast_out::<SIX>(fast, packet, way);
    }

    /// The helper of the packet's connection is a program, which listens to a queue. Whether the
    /// packet continues without it.
    #[cold]
    fn fast_read_by<const SIX: bool>(
        &mut self,
        queue: u16,
        hooks: &FamilyHooks<'_>,
        packet: &mut Packet,
        way: &FastWay,
    ) -> bool {
        let stages = &hooks.postrouting.stages;
        let at = stages.iter().position(|stage| matches!(stage, Stage::Confirm));
        let next = if SIX { Next::Ip6AfterPostrouting } else { Next::Ip4Finish };
        let course = Course::at_hook(self.route_of::<SIX>(way, packet), next);
        let context = Context { family: family_of(SIX), hook: Hook::Postrouting };
        let at = at.unwrap_or(stages.len());
        self.queue((queue, true, None), context, at, packet, &course) == HookResult::Accept
    }

    /// `forward`. Whether the packet continues.
    #[inline(always)]
    fn fast_forward_hook<const SIX: bool>(
        &mut self,
        list: &HookList,
        packet: &mut Packet,
        way: &FastWay,
    ) -> bool {
        if list.is_empty() {
            return true;
        }
        match self.run_without_host(list, packet) {
            Some(decision) if decision.is_pass() => true,
            Some(decision) => {
                let context = Context { family: family_of(SIX), hook: Hook::Forward };
                let mut course =
                    Course::at_hook(self.route_of::<SIX>(way, packet), after_forward(SIX));
                self.carry_out(decision, list, context, packet, &mut course) == HookResult::Accept
            }
            None => {
                let mut course =
                    Course { route: self.route_of::<SIX>(way, packet), ..Course::default() };
                let next = after_forward(SIX);
                self.hook(protocol_of(SIX), Hook::Forward, packet, &mut course, next) == next
            }
        }
    }

    /// To a resolved neighbour, through egress of a device without taps.
    #[inline(always)]
    fn fast_out<const SIX: bool>(
        &mut self,
        fast: FastPacket<'_>,
        packet: &mut Packet,
        way: &FastWay,
    ) {
        let FastPacket { fast_path, hooks, headers } = fast;
        let link = self.net.link(way.oif).filter(|link| !self.state.taps.has(link.index));
        let link = link.filter(|_| packet.network().len() <= way.mtu as usize);
        let (Some(header), Some(link)) = (&way.header, link) else {
            let next = if SIX { Next::Ip6Finish } else { Next::Ip4Finish };
            let to = self.route_of::<SIX>(way, packet);
            return self.continue_at(next, packet, to);
        };
        packet.meta.protocol = if SIX { ethernet::IPV6 } else { ethernet::IPV4 };
        packet.meta.vlan = None;
        packet.put_link(ethernet::LEN).copy_from_slice(header);
        packet.data_at_link();
        packet.meta.iif = 0;
        packet.meta.oif = link.index;
        let sees = self.state.tc.as_mut().is_none_or(|tc| tc.egress_sees());
        if sees && headers.passes_egress(fast_path, link.index) {
            if packet.meta.trace_id == 0 {
                packet.meta.trace_id = self.next_trace_id();
            }
        } else if sees {
            let egress = self.hooks.egress(link.index);
            if !egress.is_empty() {
                self.state.forwarding.last_out = link.index;
                if !self.fast_egress(hooks, egress, packet) {
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

    /// Netfilter's egress. Whether the packet continues.
    #[inline(always)]
    fn fast_egress(
        &mut self,
        hooks: &FamilyHooks<'_>,
        list: &HookList,
        packet: &mut Packet,
    ) -> bool {
        if !hooks.untouched {
            packet.find_transport_checked();
        }
        let decision = self.run_without_host(list, packet);
        if decision.is_some_and(|decision| decision.is_pass()) {
            return true;
        }
        let context = Context { family: Family::Netdev, hook: Hook::Egress };
        let end = match decision {
            Some(decision) => {
                self.carry_out(decision, list, context, packet, &mut Course::default())
            }
            None => self.run_with_host(list, context, packet, &mut Course::default()),
        };
        end == HookResult::Accept
    }
}

#[inline(always)]
const fn protocol_of(v6: bool) -> Protocol {
    if v6 { Protocol::Ip6 } else { Protocol::Ip }
}

/// Where packets continue after `forward`.
#[inline(always)]
const fn after_forward(v6: bool) -> Next {
    if v6 { Next::Ip6Postrouting } else { Next::Ip4AfterForward }
}

#[inline(always)]
const fn family_of(v6: bool) -> Family {
    if v6 { Family::Ip6 } else { Family::Ip }
}
