// SPDX-License-Identifier: Apache-2.0

//! Running a hook list: chains and stages one after the other until one of them keeps the packet.

use penstock_jit::PackedDecision;
use penstock_packet::Packet;
use penstock_program::{Context, Family, Hook};
use penstock_ruleset::model::ChainType;

use crate::course::{Course, Next};
use crate::hook_result::HookResult;
use crate::hooks::{Entry, HookList, Protocol, Stage};
use crate::reason::DropReason;
use crate::route::route_key;
use crate::sink::Sink;
use crate::stages::bridge::is_brouted;
use crate::stages::hook_env::ChainCall;
use crate::stages::ingress_batch::ListCode;
use crate::stages::run_chain;
use crate::worker::Worker;

/// The number of a packet after one with another number: 0 is never used.
#[inline(always)]
pub(crate) fn after_trace_id(number: u32) -> u32 {
    number.wrapping_add(1).max(1)
}

impl<S: Sink> Worker<'_, S> {
    /// Runs a hook after the routing decision, or one where there is no route. Returns `next`,
    /// where the packet continues, unless it was dropped or taken. What stages of the list make of
    /// the route is for each other only.
    #[inline]
    pub(crate) fn hook(
        &mut self,
        protocol: Protocol,
        hook: Hook,
        packet: &mut Packet,
        course: &mut Course,
        next: Next,
    ) -> Next {
        // Only IPsec makes something of it here: a translated packet has another policy.
        let kept = self.state.ipsec.is_some().then_some(course.route);
        let next = self.hook_before_route(protocol, hook, packet, course, next);
        if let Some(route) = kept {
            course.route = route;
        }
        next
    }

    /// Runs a hook with a list that may change the packet's route: `prerouting` takes away the one
    /// that a packet on the loopback device kept, `output` finds another. Returns `next`, where the
    /// packet continues, unless it was dropped or taken.
    #[inline]
    pub(crate) fn hook_before_route(
        &mut self,
        protocol: Protocol,
        hook: Hook,
        packet: &mut Packet,
        course: &mut Course,
        next: Next,
    ) -> Next {
        let hooks = self.hooks;
        let list = hooks.list(protocol, hook);
        if list.is_empty() {
            return next;
        }
        match protocol {
            // The contents of the frame are not checked yet.
            Protocol::Bridge => {
                packet.find_transport_checked();
            }
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp => packet.find_transport(),
        }
        let family = match protocol {
            Protocol::Ip => Family::Ip,
            Protocol::Ip6 => Family::Ip6,
            Protocol::Arp => Family::Arp,
            Protocol::Bridge => Family::Bridge,
        };
        course.next = next;
        match self.run_list(list, Context { family, hook }, packet, course) {
            HookResult::Accept => next,
            HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => Next::Done,
        }
    }

    /// Runs a list: its chains and stages in order, until one does not accept. The packet's
    /// transport header has been found.
    #[inline]
    pub(crate) fn run_list(
        &mut self,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        match self.run_without_host(list, packet) {
            Some(decision) => self.carry_out(decision, list, context, packet, course),
            None => self.run_with_host(list, context, packet, course),
        }
    }

    /// What a list decides that needs nothing from its host; [`Worker::carry_out`] does that,
    /// unless the packet just passes. `None` for other lists, which [`Worker::run_with_host`] runs
    /// then.
    #[inline(always)]
    pub(super) fn run_without_host(
        &mut self,
        list: &HookList,
        packet: &mut Packet,
    ) -> Option<PackedDecision> {
        if list.has_chains && packet.meta.trace_id == 0 {
            packet.meta.trace_id = self.next_trace_id();
        }
        match (self.code, list.code) {
            (Some(code), Some(number)) => code.run_without_host(number, packet, self.state.worker),
            _ => None,
        }
    }

    /// Runs a list for which [`Worker::run_without_host`] decided nothing.
    pub(super) fn run_with_host(
        &mut self,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        match (self.code, list.code) {
            (Some(code), Some(number)) => {
                self.run_code(ListCode { code, number }, list, context, packet, course)
            }
            _ => self.run_list_from(list, 0, context, packet, course),
        }
    }

    /// Numbers packets that see chains.
    #[inline]
    pub(crate) fn next_trace_id(&mut self) -> u32 {
        self.state.numbers.trace_id = after_trace_id(self.state.numbers.trace_id);
        self.state.numbers.trace_id
    }

    /// Numbers several packets that need no number each.
    #[inline]
    pub(crate) fn skip_trace_ids(&mut self, packets: u32) {
        let (last, wrapped) = self.state.numbers.trace_id.overflowing_add(packets);
        // The number 0 is never used.
        self.state.numbers.trace_id = last + u32::from(wrapped);
    }

    /// Runs a list from a stage on, by its number in the list, by the interpreter.
    pub(crate) fn run_list_from(
        &mut self,
        list: &HookList,
        first: usize,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        for (at, stage) in list.stages.iter().enumerate().skip(first) {
            let mut end = self.stage(stage, context, packet, course);
            if let HookResult::Queue { num, bypass, rule } = end {
                end = self.queue((num, bypass, rule), context, at, packet, course);
            }
            // A frame to be routed leaves the bridge at once (nf_hook_bridge_pre()).
            if end != HookResult::Accept || is_brouted(packet) {
                return end;
            }
        }
        HookResult::Accept
    }

    /// Runs one stage of a list.
    pub(crate) fn stage(
        &mut self,
        stage: &Stage,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        match stage {
            Stage::Chain(entry) => self.chain(entry, context, packet, course),
            Stage::Defrag => self.defragment(context, packet),
            Stage::Conntrack => self.track(context, packet),
            Stage::Nat => self.nat(context, packet, &mut course.route),
            Stage::Synproxy => self.synproxy_stage(context, packet),
            Stage::Confirm => self.confirm(packet),
            Stage::Flowtable(index) => self.flowtable(*index, packet),
            Stage::BridgeConntrack => self.bridge_track(context, packet),
            Stage::BridgeInput => self.bridge_input_track(packet),
            Stage::BridgeConfirm => self.bridge_confirm(packet),
            Stage::BridgeIp(hook) => self.bridge_ip(*hook, packet, course),
            Stage::Program(index) => self.netfilter_program(*index, context, packet),
        }
    }

    /// A base chain.
    fn chain(
        &mut self,
        entry: &Entry,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        let Some(context) = entry.context(context, packet.meta.protocol) else {
            return HookResult::Accept;
        };
        if context.hook == Hook::Ingress
            && context.family != Family::Netdev
            && packet.transport().is_none()
        {
            return self.drop_bad_header(context, packet);
        }
        if entry.kind == ChainType::Route {
            return self.route_chain(entry, context, packet, course);
        }
        run_chain::run(
            self,
            &ChainCall { entry, context, destination: course.route.as_ref() },
            packet,
        )
    }

    /// Drops an IP packet with invalid headers at ingress, before an inet chain.
    pub(crate) fn drop_bad_header(&mut self, context: Context, packet: &Packet) -> HookResult {
        let v4 = context.family == Family::Ip;
        self.drop(if v4 { DropReason::Ip4Header } else { DropReason::Ip6Header }, packet);
        HookResult::Dropped
    }

    /// A `type route` chain: if it changes what routing depends on, the packet is routed again.
    /// What follows in the list still sees the first device (`nft_chain_route.c`).
    fn route_chain(
        &mut self,
        entry: &Entry,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        let protocol = if context.family == Family::Ip { Protocol::Ip } else { Protocol::Ip6 };
        let before = route_key(protocol, packet);
        let end = run_chain::run(
            self,
            &ChainCall { entry, context, destination: course.route.as_ref() },
            packet,
        );
        if end != HookResult::Accept || before.is_none() || before == route_key(protocol, packet) {
            return end;
        }
        course.route = self.route_again(protocol, packet);
        if course.route.is_none() {
            self.drop(DropReason::NoRoute, packet);
            return HookResult::Dropped;
        }
        HookResult::Accept
    }
}
