// SPDX-License-Identifier: Apache-2.0

//! The fast path: what the packets of most flows meet, in one function.
//!
//! Packets of TCP and UDP, of IPv4 without options and IPv6 without extension headers, that arrive
//! at a plain device go from reception over the hooks to the next plain device with what was read
//! of their headers beforehand. Nothing here means anything of its own: each step is what the
//! normal way ([`Worker::receive`]) does with such a packet, and where a packet needs more (a rule
//! keeps it, its way was not asked for before, …) it continues from that step in the normal way.

use penstock_conntrack::Verdict;
use penstock_net::RouteNumber;
use penstock_packet::{Ct, CtInfo, Packet, Transport};
use penstock_program::image::RuleIndex;
use penstock_program::{Context, Family, Hook};
use penstock_wire::{ethernet, ipv4, ipv6};

use crate::addresses;
use crate::course::{Course, Next};
use crate::hook_result::HookResult;
use crate::hooks::{FamilyHooks, HookList, Protocol, Stage};
use crate::route::{Route, priority_of_tos};
use crate::sink::Sink;
use crate::stages::device_path::FastPath;
use crate::stages::headers_ahead::ParsedHeaders;
use crate::stages::prefetcher::ParsedFrame;
use crate::worker::Worker;

/// What a packet on the fast path is forwarded by.
#[derive(Clone, Copy)]
struct FastPacket<'a> {
    fast_path: &'a FastPath<'a>,
    /// The hooks of its family.
    hooks: &'a FamilyHooks,
    headers: &'a ParsedHeaders,
    /// [`ParsedFrame::egress_prechecked`].
    egress_prechecked: bool,
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
    /// Forwards a frame by the fast path, and does what follows from it. The second packet is for
    /// those whose connection remembers their way.
    #[inline(always)]
    pub(crate) fn take_fast_path(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: ParsedFrame<'_>,
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
        parsed: ParsedFrame<'_>,
        packets: (&mut Packet, &mut Packet),
    ) {
        self.take_fast_path_of::<true>(fast_path, parsed, packets);
    }

    /// Forwards a frame of a family that is known by the fast path.
    #[inline(always)]
    fn take_fast_path_of<const SIX: bool>(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: ParsedFrame<'_>,
        (packet, known): (&mut Packet, &mut Packet),
    ) {
        let Some(hooks) = fast_path.hooks(SIX) else { return };
        let Some(lookup) = parsed.lookup else {
            self.pass_hooks::<SIX>((fast_path, hooks), parsed, None, packet);
            return self.drain();
        };
        let ParsedFrame { frame, headers, .. } = &parsed;
        let len = ethernet::LEN + usize::from(headers.len);
        let network = frame.bytes.get(ethernet::LEN..len).unwrap_or(&[]);
        let full = self.state.conntrack.statistics().table_full;
        let sighting = self.state.conntrack.track_sought(network, lookup, frame.time);
        let (ct, verdict) = (self.state.conntrack.ct_of(sighting), sighting.verdict);
        if fast_path.remembers
            && sighting.known
            && verdict == Verdict::Accept
            && ct.has_entry()
            && self.take_remembered_way::<SIX>(fast_path, &parsed, &ct, known)
        {
            // Nothing follows from it.
            return;
        }
        let tracked = Some((ct, verdict, full));
        self.pass_hooks::<SIX>((fast_path, hooks), parsed, tracked, packet);
        self.drain();
    }

    /// From the hooks of `prerouting` on. `tracked` is what connection tracking said, and how often
    /// its table was full before.
    #[inline(never)]
    fn pass_hooks<const SIX: bool>(
        &mut self,
        (fast_path, hooks): (&FastPath<'_>, &FamilyHooks),
        parsed: ParsedFrame<'_>,
        tracked: Option<(Ct, Verdict, u64)>,
        packet: &mut Packet,
    ) {
        let ParsedFrame { frame, headers, route, egress_prechecked, ingress_batch, .. } = parsed;
        let fast = FastPacket { fast_path, hooks, headers, egress_prechecked };
        let len = ethernet::LEN + usize::from(headers.len);
        self.state.counters.received += 1;
        let (offset, ethertype) =
            if SIX { (ipv6::LEN, ethernet::IPV6) } else { (ipv4::LEN, ethernet::IPV4) };
        let transport =
            Transport { protocol: headers.protocol(), offset: offset as u16, fragment_offset: 0 };
        packet.receive_known(frame.bytes, len, ethertype, transport);
        packet.meta.time = frame.time;
        packet.meta.iif = fast_path.device;
        if ingress_batch.is_some() {
            packet.meta.trace_id = self.next_trace_id();
        }
        if let Some((ct, verdict, full)) = tracked {
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
            (Step::On, true) => self.fast_forward6(fast, route.number(self.net), packet),
            (Step::On, false) => {
                let route = route.number(self.net);
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
                    let route = match dst == headers.dst {
                        true => route.number(self.net),
                        false => self.net.route_number4(dst),
                    };
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
        hooks: &FamilyHooks,
        packet: &mut Packet,
    ) -> Step {
        match hooks.before {
            Some(before) if before.translates => {
                self.fast_nat::<SIX>(Hook::Prerouting, packet, None)
            }
            Some(_) => Step::On,
            None => {
                let (protocol, mut course) = (protocol_of(SIX), Course::default());
                let next = Next::route(protocol);
                let next = match hooks.tracked.filter(|_| !packet.meta.ct.has_entry()) {
                    Some(stage) => self.rest_of_prerouting::<SIX>(stage, packet),
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
    fn rest_of_prerouting<const SIX: bool>(&mut self, stage: usize, packet: &mut Packet) -> Next {
        let context = Context { family: family_of(SIX), hook: Hook::Prerouting };
        let next = Next::route(protocol_of(SIX));
        let mut course = Course { next, ..Course::default() };
        packet.find_transport();
        let prerouting = self.hooks.list(protocol_of(SIX), Hook::Prerouting);
        match self.run_list_from(prerouting, stage, context, packet, &mut course) {
            HookResult::Accept => next,
            HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => Next::Done,
        }
    }

    /// The NAT stage of a hook; after the routing decision with the way.
    #[inline(always)]
    fn fast_nat<const SIX: bool>(
        &mut self,
        hook: Hook,
        packet: &mut Packet,
        way: Option<&FastWay>,
    ) -> Step {
        if self.stays_as_it_is(hook, packet) {
            return Step::On;
        }
        packet.find_transport();
        // Where a connection is translated to may depend on its route.
        let decided = matches!(packet.meta.ct.info, CtInfo::Established | CtInfo::EstablishedReply);
        let mut route = way.filter(|_| !decided).and_then(|way| self.route_of::<SIX>(way, packet));
        match self.nat(Context { family: family_of(SIX), hook }, packet, &mut route) {
            HookResult::Accept => Step::Translated,
            HookResult::Queue { num, bypass, rule } => {
                let is_stage = |stage: &Stage| matches!(stage, Stage::Nat);
                match self.fast_queue::<SIX>(hook, is_stage, (num, bypass, rule), packet, way) {
                    true => Step::Translated,
                    false => Step::Ended,
                }
            }
            HookResult::Dropped | HookResult::Stolen => Step::Ended,
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
        let forward = self.hooks.list(protocol_of(SIX), Hook::Forward);
        if !self.fast_forward_hook::<SIX>(forward, packet, way) {
            return;
        }
        let Some(after) = hooks.after else {
            let to = self.route_of::<SIX>(way, packet);
            return self.continue_at(Next::postrouting(protocol_of(SIX)), packet, to);
        };
        if after.translates
            && self.fast_nat::<SIX>(Hook::Postrouting, packet, Some(way)) == Step::Ended
        {
            return;
        }
        let settled = !after.confirms || self.state.conntrack.is_settled(&packet.meta.ct);
        if !settled {
            match self.confirm(packet) {
                HookResult::Accept => {}
                // The helper of its connection is a program.
                HookResult::Queue { num, bypass, rule } => {
                    let (hook, to) = (Hook::Postrouting, (num, bypass, rule));
                    let is_stage = |stage: &Stage| matches!(stage, Stage::Confirm);
                    if !self.fast_queue::<SIX>(hook, is_stage, to, packet, Some(way)) {
                        return;
                    }
                }
                HookResult::Dropped | HookResult::Stolen => return,
            }
        }
        self.fast_out::<SIX>(fast, packet, way);
    }

    /// A stage of a hook gives the packet to a queue. Whether it continues at once.
    #[cold]
    fn fast_queue<const SIX: bool>(
        &mut self,
        hook: Hook,
        is_stage: fn(&Stage) -> bool,
        to: (u16, bool, Option<RuleIndex>),
        packet: &mut Packet,
        way: Option<&FastWay>,
    ) -> bool {
        let stages = &self.hooks.list(protocol_of(SIX), hook).stages;
        let at = stages.iter().position(is_stage).unwrap_or(stages.len());
        let next = match (hook, SIX) {
            (Hook::Prerouting, _) => Next::route(protocol_of(SIX)),
            (_, true) => Next::Ip6AfterPostrouting,
            (_, false) => Next::Ip4Finish,
        };
        let route = way.and_then(|way| self.route_of::<SIX>(way, packet));
        let context = Context { family: family_of(SIX), hook };
        self.queue(to, context, at, packet, &Course::at_hook(route, next)) == HookResult::Accept
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
        let FastPacket { fast_path, hooks, egress_prechecked, .. } = fast;
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
        if sees && egress_prechecked && fast_path.prechecks_egress(link.index) {
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
    fn fast_egress(&mut self, hooks: &FamilyHooks, list: &HookList, packet: &mut Packet) -> bool {
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
