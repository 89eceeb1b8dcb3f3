// SPDX-License-Identifier: Apache-2.0

//! Running a base chain by the interpreter, and carrying out its verdict.

use penstock_packet::Packet;
use penstock_program::Outcome;
use penstock_program::image::ChainIndex;

use crate::hook_result::HookResult;
use crate::place::{chain_place, rule_place};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::hook_env::{ChainCall, HookEnv};
use crate::worker::Worker;

/// Runs a base chain; a packet that it drops is counted.
pub(crate) fn run<S: Sink>(
    worker: &mut Worker<'_, S>,
    site: &ChainCall<'_>,
    packet: &mut Packet,
) -> HookResult {
    let image = worker.image;
    if packet.meta.trace_id == 0 {
        packet.meta.trace_id = worker.next_trace_id();
    }
    let mut env = HookEnv::new(worker, site, packet);
    let outcome = penstock_program::run(image, site.entry.chain, packet, &mut env);
    let rejected = env.rejected;
    ended(worker, site.entry.chain, outcome, rejected, packet)
}

/// Carries out what a base chain decided. `rejected`: the packet was answered.
pub(crate) fn ended<S: Sink>(
    worker: &mut Worker<'_, S>,
    chain: ChainIndex,
    outcome: Outcome,
    rejected: bool,
    packet: &Packet,
) -> HookResult {
    let image = worker.image;
    match outcome {
        Outcome::Accept => HookResult::Accept,
        Outcome::Drop(rule) => {
            let reason = if rejected { DropReason::Reject } else { DropReason::Rule };
            worker.drop_at(reason, rule_place(image, rule), packet);
            HookResult::Dropped
        }
        Outcome::Queue { rule, num, bypass } => HookResult::Queue { num, bypass, rule: Some(rule) },
        Outcome::Stolen => {
            worker.state.counters.taken += 1;
            worker.state.counters.absorbed += 1;
            HookResult::Stolen
        }
        Outcome::Policy => {
            let accept = image.chain(chain).and_then(|c| c.policy_accept).unwrap_or(true);
            if accept {
                return HookResult::Accept;
            }
            worker.drop_at(DropReason::Policy, chain_place(image, chain), packet);
            HookResult::Dropped
        }
    }
}
