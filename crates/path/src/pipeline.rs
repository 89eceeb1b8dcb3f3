// SPDX-License-Identifier: Apache-2.0

//! Running a hook list: chains and stages one after the other until one of them keeps the packet.

use penstock_packet::Packet;
use penstock_program::{Context, Hook};
use penstock_ruleset::Family;
use penstock_ruleset::model::ChainType;

use crate::hooks::{Entry, HookList, Protocol, Stage};
use crate::output::route_key;
use crate::reason::DropReason;
use crate::rules::{self, End, Site};
use crate::sink::Sink;
use crate::worker::{Destination, Worker};

/// Where a chain runs, in a list of the hook `context`; `None` if it does not see packets of that
/// ethertype.
pub(crate) fn context_of(entry: &Entry, context: Context, protocol: u16) -> Option<Context> {
    match (entry.family, context.hook, protocol) {
        // An inet chain at ingress sees IP only, as its IP family (nft_do_chain_inet_ingress()).
        (Family::Inet, Hook::Ingress, 0x0800) => Some(Context { family: Family::Ip, ..context }),
        (Family::Inet, Hook::Ingress, 0x86dd) => Some(Context { family: Family::Ip6, ..context }),
        (Family::Inet, Hook::Ingress, _) => None,
        _ => Some(context),
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Runs an IP or ARP hook behind the routing decision, or one where there is no route yet.
    /// `false` if the packet is no more: it was dropped, or something took it.
    #[inline]
    pub(crate) fn hook(
        &mut self,
        protocol: Protocol,
        hook: Hook,
        packet: &mut Packet,
        destination: Option<&Destination>,
    ) -> bool {
        if self.hooks.list(protocol, hook).is_empty() {
            return true;
        }
        self.hook_before_route(protocol, hook, packet, &mut destination.copied())
    }

    /// The same where the list may change the packet's route: `prerouting` takes away the one that
    /// a packet on the loopback device kept, `output` finds another.
    #[inline]
    pub(crate) fn hook_before_route(
        &mut self,
        protocol: Protocol,
        hook: Hook,
        packet: &mut Packet,
        destination: &mut Option<Destination>,
    ) -> bool {
        let hooks = self.hooks;
        let list = hooks.list(protocol, hook);
        if list.is_empty() {
            return true;
        }
        match protocol {
            // Nobody has checked what is in the frame.
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
        self.run_list(list, Context { family, hook }, packet, destination) == End::Accept
    }

    /// Runs a list: its chains and stages in order, until one does not accept. The packet's
    /// transport header has been found.
    pub(crate) fn run_list(
        &mut self,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        destination: &mut Option<Destination>,
    ) -> End {
        if list.has_chains && packet.meta.trace_id == 0 {
            packet.meta.trace_id = self.next_trace_id();
        }
        match (self.code, list.code) {
            (Some(code), Some(number)) => match code.run_alone(number, packet, self.state.worker) {
                Some(decision) => self.carry_out(decision, list, context, packet, destination),
                None => self.run_code(code, number, list, context, packet, destination),
            },
            _ => self.run_list_from(list, 0, context, packet, destination),
        }
    }

    /// Numbers packets that see chains.
    #[inline]
    pub(crate) fn next_trace_id(&mut self) -> u32 {
        self.state.trace_id = self.state.trace_id.wrapping_add(1).max(1);
        self.state.trace_id
    }

    /// Numbers several packets that nobody will ask for their numbers.
    #[inline]
    pub(crate) fn skip_trace_ids(&mut self, packets: u32) {
        let (last, wrapped) = self.state.trace_id.overflowing_add(packets);
        // Nobody has the number 0.
        self.state.trace_id = last + u32::from(wrapped);
    }

    /// The same from a stage on, by its number in the list, by the interpreter.
    pub(crate) fn run_list_from(
        &mut self,
        list: &HookList,
        first: usize,
        context: Context,
        packet: &mut Packet,
        destination: &mut Option<Destination>,
    ) -> End {
        for (at, stage) in list.stages.iter().enumerate().skip(first) {
            let mut end = self.stage(stage, context, packet, destination);
            if let End::Queue { num, bypass, rule } = end {
                end = self.queue((num, bypass, rule), context, at, packet, destination);
            }
            // A frame to be routed leaves the bridge at once (nf_hook_bridge_pre()).
            if end != End::Accept || packet.meta.broute {
                return end;
            }
        }
        End::Accept
    }

    /// Runs one of them.
    pub(crate) fn stage(
        &mut self,
        stage: &Stage,
        context: Context,
        packet: &mut Packet,
        destination: &mut Option<Destination>,
    ) -> End {
        match stage {
            Stage::Chain(entry) => self.chain(entry, context, packet, destination),
            Stage::Defrag => self.defragment(context, packet),
            Stage::Conntrack => self.track(context, packet),
            Stage::Nat => self.nat(context, packet, destination),
            Stage::Synproxy => self.synproxy_stage(context, packet),
            Stage::Confirm => self.confirm(packet),
            Stage::Flowtable(index) => self.flowtable(*index, packet),
            Stage::BridgeConntrack => self.bridge_track(context, packet),
            Stage::BridgeInput => self.bridge_input_track(packet),
            Stage::BridgeConfirm => self.bridge_confirm(packet),
        }
    }

    /// A base chain.
    fn chain(
        &mut self,
        entry: &Entry,
        context: Context,
        packet: &mut Packet,
        destination: &mut Option<Destination>,
    ) -> End {
        let Some(context) = context_of(entry, context, packet.meta.protocol) else {
            return End::Accept;
        };
        if context.hook == Hook::Ingress
            && context.family != Family::Netdev
            && packet.transport().is_none()
        {
            return self.drop_bad_header(context, packet);
        }
        if entry.kind == ChainType::Route {
            return self.route_chain(entry, context, packet, destination);
        }
        rules::run(self, &Site { entry, context, destination: destination.as_ref() }, packet)
    }

    /// An IP packet at ingress whose headers are not valid, where an inet chain was to see it.
    pub(crate) fn drop_bad_header(&mut self, context: Context, packet: &Packet) -> End {
        let four = context.family == Family::Ip;
        self.drop(if four { DropReason::Ip4Header } else { DropReason::Ip6Header }, packet);
        End::Dropped
    }

    /// A `type route` chain: if it changes what routing depends on, the packet is routed again.
    /// What follows in the list still sees the first device (`nft_chain_route.c`).
    fn route_chain(
        &mut self,
        entry: &Entry,
        context: Context,
        packet: &mut Packet,
        destination: &mut Option<Destination>,
    ) -> End {
        let protocol = if context.family == Family::Ip { Protocol::Ip } else { Protocol::Ip6 };
        let before = route_key(protocol, packet);
        let end =
            rules::run(self, &Site { entry, context, destination: destination.as_ref() }, packet);
        if end != End::Accept || before.is_none() || before == route_key(protocol, packet) {
            return end;
        }
        *destination = self.route_again(protocol, packet);
        if destination.is_none() {
            self.drop(DropReason::NoRoute, packet);
            return End::Dropped;
        }
        End::Accept
    }
}
