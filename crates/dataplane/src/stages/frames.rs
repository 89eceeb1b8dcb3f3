// SPDX-License-Identifier: Apache-2.0

//! Ingress of frames that are no packets yet.
//!
//! Where the rules at ingress of a device ask for nothing but what stands in a frame, and change
//! nothing but counters, machine code decides on the frames of a burst as they are. Those that it
//! drops never become packets; the others continue after ingress, in order. Where rules look in
//! sets that packets change, the next frames are decided on only after that.

use penstock_jit::{Decision, PackedDecision};
use penstock_packet::{Frame, Packet};
use penstock_program::{Context, Family, Hook, Outcome};

use crate::course::Course;
use crate::hook_result::HookResult;
use crate::hooks::{HookList, Stage};
use crate::pending_frames::{BURST, PendingFrames};
use crate::place::{chain_place, rule_place};
use crate::reason::{DropEvent, DropReason};
use crate::sink::Sink;
use crate::stages::burst::Packets;
use crate::stages::device_path::FastPath;
use crate::stages::ingress_batch::IngressBatch;
use crate::worker::Worker;

impl<'a, S: Sink> Worker<'a, S> {
    /// Takes the next frames from a device, runs ingress for all of them, and then does what
    /// follows from each.
    pub(crate) fn receive_frames(
        &mut self,
        batch: &IngressBatch<'a>,
        frames: &[Frame<'_>],
        left: &mut PendingFrames,
        fast_path: Option<&FastPath<'_>>,
        packets: &mut Packets,
    ) {
        let Some(first) = left.first() else { return };
        let these = &frames[first..first + left.in_a_row()];
        let others = these.iter().position(|frame| frame.device != batch.device);
        let these = &these[..others.unwrap_or(these.len())];
        let mut decisions = [PackedDecision::default(); BURST];
        let Packets { one, known, prefetcher, unknown, .. } = packets;
        unknown.meta.iif = batch.device;
        let latest = these.iter().fold(0, |latest, frame| latest.max(frame.time));
        let mut quiet = !self.is_due(latest);
        // What is due may change sets in which frames are looked up.
        let too_early = !quiet && batch.code.takes_frames_in_order();
        let run = if too_early {
            None
        } else {
            self.run_frames(batch.code, these, unknown, &mut decisions)
        };
        let Some(run) = run.filter(|run| *run > 0) else {
            // Or there is no such code after all.
            left.next();
            return self.frame(&frames[first], one);
        };
        let these = &these[..run.min(these.len())];
        *left = left.without_next(these.len());
        let decisions = &decisions[..these.len()];
        let passing = || {
            let all = decisions.iter().enumerate().filter(|(_, decision)| decision.is_pass());
            all.fold(PendingFrames::NONE, |all, (at, _)| all.with(first + at))
        };
        let mut at = 0;
        while let (Some(&decision), Some(frame)) = (decisions.get(at), these.get(at)) {
            if quiet && let Some(drop) = self.drop_of(decision, batch.list) {
                // Mostly it is the same rule that drops the next ones. Nothing comes of them that
                // could be due later.
                let same = decisions[at..].iter().take_while(|other| **other == decision).count();
                self.drop_frames(&drop, batch, &these[at..at + same], one);
                at += same;
                continue;
            }
            if decision.is_unusual() {
                self.frame(frame, one);
            } else {
                if !quiet && self.is_due(frame.time) {
                    self.pass_time(frame.time);
                }
                if decision.is_pass() {
                    self.prefetch_ahead(first + at, passing, frames, fast_path, prefetcher);
                    match (prefetcher.parsed(first + at, frames, Some(batch)), fast_path) {
                        (Some(parsed), Some(fast_path)) => {
                            self.take_fast_path(fast_path, parsed, (one, known));
                        }
                        _ => {
                            self.frame_after_ingress(frame, batch, one);
                            self.drain();
                        }
                    }
                } else {
                    self.take_in(frame, batch, one);
                    self.state.counters.received += 1;
                    let context = Context { family: Family::Netdev, hook: Hook::Ingress };
                    if self.carry_out(decision, batch.list, context, one, &mut Course::default())
                        == HookResult::Accept
                    {
                        self.pass_up_after_ingress(one);
                    }
                    self.drain();
                }
            }
            quiet = !self.is_due(latest);
            at += 1;
        }
    }

    /// A frame that has passed ingress, and all that follows from it.
    pub(crate) fn frame_after_ingress(
        &mut self,
        frame: &Frame<'_>,
        batch: &IngressBatch<'_>,
        packet: &mut Packet,
    ) {
        self.state.counters.received += 1;
        self.take_in(frame, batch, packet);
        self.pass_up_after_ingress(packet);
    }

    /// Makes a packet of a frame, as ingress has seen it.
    fn take_in(&mut self, frame: &Frame<'_>, batch: &IngressBatch<'_>, packet: &mut Packet) {
        packet.receive_dissected(frame.bytes, batch.address);
        packet.meta.time = frame.time;
        packet.meta.iif = batch.device;
        packet.meta.trace_id = self.next_trace_id();
    }

    /// What is reported of a frame if a rule or a policy drops it.
    #[inline]
    fn drop_of(&self, decision: PackedDecision, list: &HookList) -> Option<DropEvent<'a>> {
        if let Some(rule) = decision.dropped_by() {
            return Some(DropEvent {
                reason: DropReason::Rule,
                place: rule_place(self.image, rule),
            });
        }
        if decision.is_pass() || decision.is_unusual() {
            return None;
        }
        let Decision::Chain { entry, outcome: Outcome::Policy } = decision.unpack() else {
            return None;
        };
        let Some(Stage::Chain(chain)) = list.stages.get(entry) else { return None };
        Some(DropEvent { reason: DropReason::Policy, place: chain_place(self.image, chain.chain) })
    }

    /// Ends frames.
    #[inline]
    fn drop_frames(
        &mut self,
        drop: &DropEvent<'_>,
        batch: &IngressBatch<'_>,
        frames: &[Frame<'_>],
        packet: &mut Packet,
    ) {
        self.state.counters.received += frames.len() as u64;
        self.state.counters.count_several(drop.reason, frames.len() as u64);
        if self.sink.drop_several(drop, frames.len() as u64) {
            return self.skip_trace_ids(frames.len() as u32);
        }
        for frame in frames {
            self.take_in(frame, batch, packet);
            self.sink.drop(drop, packet);
        }
    }
}
