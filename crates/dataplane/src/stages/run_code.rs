// SPDX-License-Identifier: Apache-2.0

//! Running hook lists by compiled code, and carrying out what it decides.

use penstock_jit as jit;
use penstock_packet::{Frame, Packet};
use penstock_program::classify::PACKETS;
use penstock_program::interp::engine::find;
use penstock_program::{Context, Family};
use penstock_wire::ethernet;

use crate::course::Course;
use crate::hook_result::HookResult;
use crate::hooks::{HookList, Stage};
use crate::place::rule_place;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::hook_env::{ChainCall, Destined, FoundFirst, HookEnv, Listed};
use crate::stages::ingress_batch::ListCode;
use crate::stages::run_chain::ended;
use crate::worker::Worker;

/// What compiled code decided of a packet, and what happened on the way there.
struct Decided {
    decision: jit::Decision,
    /// The packet was answered.
    rejected: bool,
    /// How the last stage that is no chain ended.
    stage_end: HookResult,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Runs a list by compiled code.
    pub(crate) fn run_code(
        &mut self,
        code: ListCode<'_>,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        let stages = &*list.stages;
        let first = stages.iter().find(|stage| matches!(stage, Stage::Chain(_)));
        let (Some(Stage::Chain(first)), Some(bound)) = (first, code.code.bind()) else {
            return self.run_list_from(list, 0, context, packet, course);
        };
        let site = ChainCall { entry: first, context, destination: None };
        let mut env = HookEnv::new(self, &site, packet);
        env.destination = Destined::Changing(course);
        let protocol = packet.meta.protocol;
        env.list = Some(Listed { stages, context, entry: usize::MAX, protocol });
        let decision = bound.run(code.number, packet, &mut env);
        let (rejected, stage_end) = (env.rejected, env.stage_end);
        match decision {
            Some(jit::Decision::Pass) => HookResult::Accept,
            Some(decision) => {
                let decided = Decided { decision, rejected, stage_end };
                self.decided(decided, list, context, packet, course)
            }
            None => self.run_list_from(list, 0, context, packet, course),
        }
    }

    /// Carries out what compiled code decided of a packet.
    fn decided(
        &mut self,
        decided: Decided,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        let Decided { decision, rejected, stage_end } = decided;
        let (at, mut end) = match decision {
            jit::Decision::Pass => return HookResult::Accept,
            jit::Decision::Chain { entry, outcome } => {
                let Some(Stage::Chain(chain)) = list.stages.get(entry) else {
                    return HookResult::Accept;
                };
                (entry, ended(self, chain.chain, outcome, rejected, packet))
            }
            jit::Decision::BadHeader { .. } => {
                let v6 = packet.meta.protocol == ethernet::IPV6;
                let family = if v6 { Family::Ip6 } else { Family::Ip };
                return self.drop_bad_header(Context { family, ..context }, packet);
            }
            jit::Decision::Stage { entry, .. } => (entry, stage_end),
        };
        if let HookResult::Queue { num, bypass, rule } = end {
            end = self.queue((num, bypass, rule), context, at, packet, course);
        }
        match end {
            // Without a listener the packet continues after the chain.
            HookResult::Accept => self.run_list_from(list, at + 1, context, packet, course),
            end => end,
        }
    }

    /// The compiled code of a list of chains, if it takes packets in bursts.
    #[inline]
    pub(crate) fn burst_code(&self, list: &HookList) -> Option<ListCode<'a>> {
        let (code, number) = (self.code?, list.code?);
        (code.takes_bursts(number) || code.takes_frames(number))
            .then_some(ListCode { code, number })
    }

    /// Runs frames of one device through a list; what was decided is still to be carried out.
    /// `packet` has the metadata that is the same for all. Gives how many of them were run; `None`,
    /// and nothing was run, if that is not possible.
    #[inline]
    pub(crate) fn run_frames(
        &self,
        code: ListCode<'_>,
        frames: &[Frame<'_>],
        packet: &mut Packet,
        decisions: &mut [jit::PackedDecision],
    ) -> Option<usize> {
        code.code.run_frames(code.number, frames, packet, self.state.worker, decisions)
    }

    /// Runs packets of one device through a list; what was decided is still to be carried out,
    /// packet by packet, by [`Worker::carry_out`]. `false`, and nothing was run, if that is not
    /// possible.
    #[inline]
    pub(crate) fn run_burst(
        &mut self,
        code: ListCode<'_>,
        list: &HookList,
        context: Context,
        packets: &mut [Packet],
        decisions: &mut [jit::PackedDecision],
    ) -> bool {
        let (Some(Stage::Chain(first)), Some(packet)) = (list.stages.first(), packets.first())
        else {
            return false;
        };
        let Some(bound) = code.code.bind() else { return false };
        let image = self.image;
        let site = ChainCall { entry: first, context, destination: None };
        let protocol = packet.meta.protocol;
        let mut env = HookEnv::new(self, &site, packet);
        // The code of such lists does not ask for the protocol.
        env.list = Some(Listed { stages: &list.stages, context, entry: usize::MAX, protocol });
        // Long chains are searched for all packets at once, as long as no other chain has seen
        // them.
        let mut found = [None; PACKETS];
        if code.code.starts_with_lookup(code.number)
            && find(image, first.chain, packets, &mut env, &mut found)
        {
            let first_packet = packets.as_ptr().addr();
            let found = found.get(..packets.len()).unwrap_or(&[]);
            env.found = Some(FoundFirst { chain: first.chain, first: first_packet, found });
        }
        bound.run_burst(code.number, packets, &mut env, decisions).is_some()
    }

    /// Carries out the decision of a list without host calls.
    #[inline]
    pub(crate) fn carry_out(
        &mut self,
        decision: jit::PackedDecision,
        list: &HookList,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) -> HookResult {
        if decision.is_pass() {
            return HookResult::Accept;
        }
        if let Some(rule) = decision.dropped_by() {
            self.drop_at(DropReason::Rule, rule_place(self.image, rule), packet);
            return HookResult::Dropped;
        }
        // No list of this kind answers packets.
        let decided =
            Decided { decision: decision.unpack(), rejected: false, stage_end: HookResult::Accept };
        self.decided(decided, list, context, packet, course)
    }
}
