// SPDX-License-Identifier: Apache-2.0

//! Ingress of frames that are no packets yet.
//!
//! Where the rules at ingress of a device ask for nothing but what stands in a frame, and change
//! nothing but counters, machine code decides on the frames of a burst as they are. Those that it
//! drops never become packets; the others go on behind ingress, in order.

use penstock_jit::{Decision, PackedDecision};
use penstock_packet::{Frame, Packet};
use penstock_program::{Context, Family, Hook, Outcome};

use crate::burst::{BURST, Left, Packets, Together};
use crate::hooks::{HookList, Stage};
use crate::reason::{Drop, DropReason};
use crate::rules::{End, chain_place, rule_place};
use crate::sink::Sink;
use crate::straight::Road;
use crate::worker::Worker;

impl<'a, S: Sink> Worker<'a, S> {
    /// Takes the next frames from a device, runs ingress for all of them, and then does what
    /// follows from each.
    pub(crate) fn receive_frames(
        &mut self,
        together: &Together<'a>,
        frames: &[Frame<'_>],
        left: &mut Left,
        road: Option<&Road<'_>>,
        packets: &mut Packets,
    ) {
        let Some(first) = left.first() else { return };
        let these = &frames[first..first + left.in_a_row()];
        let others = these.iter().position(|frame| frame.device != together.device);
        let these = &these[..others.unwrap_or(these.len())];
        let mut decisions = [PackedDecision::default(); BURST];
        let Packets { one, ahead, unknown, .. } = packets;
        unknown.meta.iif = together.device;
        if !self.run_frames(together.code, these, unknown, &mut decisions) {
            // There is no such code after all.
            left.next();
            return self.frame(&frames[first], one);
        }
        *left = left.without_next(these.len());
        let decisions = &decisions[..these.len()];
        let latest = these.iter().fold(0, |latest, frame| latest.max(frame.time));
        let mut quiet = !self.is_due(latest);
        let mut at = 0;
        while let (Some(&decision), Some(frame)) = (decisions.get(at), these.get(at)) {
            if quiet && let Some(drop) = self.drop_of(decision, together.list) {
                // Mostly it is the same rule that drops the next ones. Nothing comes of them that
                // could be due later.
                let same = decisions[at..].iter().take_while(|other| **other == decision).count();
                self.drop_frames(&drop, together, &these[at..at + same], one);
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
                    self.look_ahead(first + at, frames, road, ahead);
                    match (ahead.usual(first + at), road) {
                        (Some((usual, sought)), Some(road)) => {
                            self.straight(road, frame, usual, sought, Some(together), one);
                        }
                        _ => self.frame_behind_ingress(frame, together, one),
                    }
                } else {
                    self.take_in(frame, together, one);
                    self.state.counters.received += 1;
                    let context = Context { family: Family::Netdev, hook: Hook::Ingress };
                    if self.carry_out(decision, together.list, context, one, &mut None)
                        == End::Accept
                    {
                        self.pass_up_behind_ingress(one);
                    }
                }
                self.drain();
            }
            quiet = !self.is_due(latest);
            at += 1;
        }
    }

    /// A frame that has passed ingress, and all that follows from it.
    pub(crate) fn frame_behind_ingress(
        &mut self,
        frame: &Frame<'_>,
        together: &Together<'_>,
        packet: &mut Packet,
    ) {
        self.state.counters.received += 1;
        self.take_in(frame, together, packet);
        self.pass_up_behind_ingress(packet);
    }

    /// Makes a packet of a frame, as ingress has seen it.
    fn take_in(&mut self, frame: &Frame<'_>, together: &Together<'_>, packet: &mut Packet) {
        packet.receive_dissected(frame.bytes, together.address);
        packet.meta.time = frame.time;
        packet.meta.iif = together.device;
        packet.meta.trace_id = self.next_trace_id();
    }

    /// What is told of a frame if a rule or a policy drops it.
    #[inline]
    fn drop_of(&self, decision: PackedDecision, list: &HookList) -> Option<Drop<'a>> {
        if let Some(rule) = decision.dropped_by() {
            return Some(Drop { reason: DropReason::Rule, place: rule_place(self.image, rule) });
        }
        if decision.is_pass() || decision.is_unusual() {
            return None;
        }
        let Decision::Chain { entry, outcome: Outcome::Policy } = decision.unpack() else {
            return None;
        };
        let Some(Stage::Chain(chain)) = list.stages.get(entry) else { return None };
        Some(Drop { reason: DropReason::Policy, place: chain_place(self.image, chain.chain) })
    }

    /// Ends frames.
    #[inline]
    fn drop_frames(
        &mut self,
        drop: &Drop<'_>,
        together: &Together<'_>,
        frames: &[Frame<'_>],
        packet: &mut Packet,
    ) {
        self.state.counters.received += frames.len() as u64;
        self.state.counters.count_several(drop.reason, frames.len() as u64);
        if self.sink.drop_several(drop, frames.len() as u64) {
            return self.skip_trace_ids(frames.len() as u32);
        }
        for frame in frames {
            self.take_in(frame, together, packet);
            self.sink.drop(drop, packet);
        }
    }
}
