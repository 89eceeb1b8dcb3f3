// SPDX-License-Identifier: Apache-2.0

//! Frames from devices, a burst at a time.
//!
//! ```text
//! burst -> early ingress -> what is left of it: ingress of several frames from a device together, where it is compiled and
//!                           takes them apart from each other, as frames (`frames`) or as packets; then frame by frame:
//!                           clock, receive, what came of it
//! ```
//!
//! Everything that follows from a frame is done before the next one, as if frames came one by one.
//! What is done for several at once is only what nobody can tell from that: looking ahead, ingress
//! chains that neither ask nor change anything but the packet and counters, and what is taken by
//! early ingress.

use penstock_jit::PackedDecision;
use penstock_packet::{Frame, Packet};
use penstock_program::{Context, Family, Hook};
use penstock_wire::cache::prefetch;

use crate::course::Course;
use crate::hook_result::HookResult;
use crate::pending_frames::{BURST, PendingFrames};
use crate::place::rule_place;
use crate::reason::{DropEvent, DropReason};
use crate::sink::Sink;
use crate::stages::device_path::FastPath;
use crate::stages::ingress_batch::IngressBatch;
use crate::stages::prefetcher::{Ahead, Prefetcher};
use crate::worker::Worker;

/// Time between the first and the last frame of a burst at most, in nanoseconds: what is far apart
/// in a capture was no burst.
const SPAN: u64 = 100_000;

/// Whether a frame of this time is one more of a burst of `count` frames, the first of which came
/// at `first`: there are at most 64, within a tenth of a millisecond. Times in nanoseconds.
#[inline]
pub const fn is_of_burst(count: usize, first: u64, time: u64) -> bool {
    count < BURST && time.abs_diff(first) <= SPAN
}

/// Gives frames on in bursts as they come.
#[inline]
pub(crate) fn gather<'f>(frames: impl Iterator<Item = Frame<'f>>, take: impl FnMut(&[Frame<'f>])) {
    /// Where few come at a time, room for a whole burst would cost more than they do.
    const FEW: usize = 8;
    match frames.size_hint() {
        (_, Some(most)) if most <= FEW => gather_into::<FEW>(frames, take),
        _ => gather_into::<BURST>(frames, take),
    }
}

/// Gives frames on in bursts of at most `MOST`.
#[inline]
fn gather_into<'f, const MOST: usize>(
    frames: impl Iterator<Item = Frame<'f>>,
    mut take: impl FnMut(&[Frame<'f>]),
) {
    let mut burst = [Frame { device: 0, bytes: &[], time: 0 }; MOST];
    let mut count = 0;
    for frame in frames {
        let full = count == MOST || !is_of_burst(count, burst[0].time, frame.time);
        if count > 0 && full {
            take(&burst[..count]);
            count = 0;
        }
        burst[count] = frame;
        count += 1;
    }
    if count > 0 {
        take(&burst[..count]);
    }
}

/// Packets that frames are put into; reused.
#[derive(Debug)]
pub(crate) struct Packets {
    /// For the one that is being worked on.
    pub(crate) one: Packet,
    /// For one that no hook sees.
    pub(crate) plain: Packet,
    /// For one whose connection remembers its way.
    pub(crate) known: Packet,
    pub(crate) prefetcher: Prefetcher,
    /// For those that pass ingress together.
    several: Box<[Packet]>,
    /// For those that pass ingress as frames: of no frame, and with nothing but a device.
    pub(crate) unknown: Packet,
}

impl Default for Packets {
    fn default() -> Self {
        let prefetcher = Prefetcher::default();
        let several = (0..TOGETHER).map(|_| Packet::new()).collect();
        let [one, plain, known, unknown] = [(); 4].map(|()| Packet::new());
        Packets { one, plain, known, prefetcher, several, unknown }
    }
}

/// Packets that pass ingress together: few enough that they stay in the nearest cache.
const TOGETHER: usize = penstock_program::classify::PACKETS;

/// Frames between the one that is copied and the one that is fetched into the cache.
const FETCHED: usize = 8;

impl<'a, S: Sink> Worker<'a, S> {
    /// Frames from devices, at most [`BURST`] of them, and all that follows from each.
    pub(crate) fn receive_burst(&mut self, frames: &[Frame<'_>], packets: &mut Packets) {
        let mut left = PendingFrames::all_of(frames.len());
        if self.hooks.has_early() {
            left = self.early_ingress(frames, left, &mut packets.one);
            if left == PendingFrames::NONE {
                return;
            }
        }
        self.receive_left(frames, left, packets);
    }

    /// The normal way, in order.
    fn receive_left(&mut self, frames: &[Frame<'_>], left: PendingFrames, packets: &mut Packets) {
        packets.prefetcher.begin();
        let fast_path = frames.first().and_then(|frame| self.fast_path_of(frame.device));
        let unfiltered = fast_path.as_ref().filter(|fast_path| !fast_path.filtered);
        let mut left = left;
        while let Some(first) = left.first() {
            if let Some(fast_path) = unfiltered
                && self.receive_fast(first, &mut left, frames, fast_path, packets)
            {
                continue;
            }
            let frame = &frames[first];
            if let Some(batch) = self.ingress_batch(frame) {
                if batch.code.takes_frames() {
                    self.receive_frames(&batch, frames, &mut left, fast_path.as_ref(), packets);
                } else {
                    self.receive_batch(&batch, frames, &mut left, packets);
                }
                continue;
            }
            let Packets { one, prefetcher, .. } = packets;
            self.prefetch_ahead(first, || left, frames, unfiltered, prefetcher);
            left.next();
            self.frame(frame, one);
        }
    }

    /// The first of the frames that are left takes the fast path, or several do. `false` if it does
    /// not.
    #[inline(always)]
    fn receive_fast(
        &mut self,
        first: usize,
        left: &mut PendingFrames,
        frames: &[Frame<'_>],
        fast_path: &FastPath<'_>,
        packets: &mut Packets,
    ) -> bool {
        let Packets { one, plain, known, prefetcher, .. } = packets;
        self.prefetch_ahead(first, || *left, frames, Some(fast_path), prefetcher);
        if fast_path.plain {
            self.forward_plain(fast_path, frames, left, prefetcher, plain);
            if left.first() != Some(first) {
                return true;
            }
        }
        let Some(parsed) = prefetcher.parsed(first, frames, None) else { return false };
        left.next();
        if self.is_due(parsed.frame.time) {
            self.pass_time(parsed.frame.time);
        }
        self.take_fast_path(fast_path, parsed, (one, known));
        true
    }

    /// It is the turn of a frame, and later that of others among `wanted`.
    #[inline]
    pub(crate) fn prefetch_ahead(
        &self,
        turn: usize,
        wanted: impl FnOnce() -> PendingFrames,
        frames: &[Frame<'_>],
        fast_path: Option<&FastPath<'_>>,
        prefetcher: &mut Prefetcher,
    ) {
        prefetcher.reach(turn, || {
            let conntrack = self.hooks.tracks().then_some(&self.state.conntrack);
            let random = &self.state.numbers.random;
            Ahead { frames, wanted: wanted(), fast_path, conntrack, random }
        });
    }

    /// One frame, and all that follows from it.
    #[inline]
    pub(crate) fn frame(&mut self, frame: &Frame<'_>, packet: &mut Packet) {
        self.pass_time(frame.time);
        self.receive(frame, packet);
        self.drain();
    }

    /// Whether this frame and the next ones from its device pass ingress together: it is compiled,
    /// and nothing that happens there could be told from what happens to frames one by one.
    #[inline]
    fn ingress_batch(&self, frame: &Frame<'_>) -> Option<IngressBatch<'a>> {
        let list = self.hooks.ingress(frame.device);
        if list.is_empty()
            || self.state.trace_all
            || self.filtered(frame.device)
            || self.state.taps.has(frame.device)
        {
            return None;
        }
        let code = self.burst_code(list)?;
        let link = self.net.link(frame.device).filter(|link| link.up)?;
        Some(IngressBatch { device: frame.device, address: link.mac, list, code })
    }

    /// Takes in the next frames from a device, runs ingress for all of them, and then does what
    /// follows from each.
    fn receive_batch(
        &mut self,
        batch: &IngressBatch<'a>,
        frames: &[Frame<'_>],
        left: &mut PendingFrames,
        packets: &mut Packets,
    ) {
        let Packets { one, prefetcher, several, .. } = packets;
        let mut numbers = [0; TOGETHER];
        let (mut taken, mut latest) = (0, 0);
        let mut rest = *left;
        while let (Some(number), Some(packet)) = (rest.next(), several.get_mut(taken)) {
            let frame = &frames[number];
            if let Some(later) = frames.get(number + FETCHED) {
                later.bytes.first().map(prefetch);
            }
            if frame.device != batch.device || !packet.receive_dissected(frame.bytes, batch.address)
            {
                break;
            }
            packet.meta.time = frame.time;
            packet.meta.iif = batch.device;
            latest = latest.max(frame.time);
            numbers[taken] = number;
            taken += 1;
            *left = rest;
        }
        let context = Context { family: Family::Netdev, hook: Hook::Ingress };
        let mut decisions = [PackedDecision::default(); TOGETHER];
        let IngressBatch { list, code, .. } = *batch;
        let packets = &mut several[..taken];
        if !self.run_burst(code, list, context, packets, &mut decisions) {
            // None was taken in, or there is no such code after all.
            *left = numbers[..taken].iter().fold(*left, |left, number| left.with(*number));
            if let Some(number) = left.next() {
                self.frame(&frames[number], one);
            }
            return;
        }
        self.state.counters.received += taken as u64;
        let accepted = || {
            let all = numbers.iter().zip(&decisions).take(taken).filter(|(_, d)| d.is_pass());
            all.fold(PendingFrames::NONE, |all, (number, _)| all.with(*number))
        };
        let mut quiet = !self.is_due(latest);
        // Mostly it is the same rule that drops them.
        let (mut by, mut drop) = (None, DropEvent { reason: DropReason::Rule, place: None });
        for ((packet, &decision), &number) in packets.iter_mut().zip(&decisions).zip(&numbers) {
            if quiet && let Some(rule) = decision.dropped_by() {
                packet.meta.trace_id = self.next_trace_id();
                // Nothing has come of it that could be due later.
                if by != Some(rule) {
                    (by, drop.place) = (Some(rule), rule_place(self.image, rule));
                }
                self.drop_by(&drop, packet);
                continue;
            }
            if !quiet {
                self.pass_time(packet.meta.time);
            }
            packet.meta.trace_id = self.next_trace_id();
            match self.carry_out(decision, list, context, packet, &mut Course::default()) {
                HookResult::Dropped if quiet => continue,
                HookResult::Dropped | HookResult::Stolen | HookResult::Queue { .. } => {}
                HookResult::Accept => {
                    self.prefetch_ahead(number, accepted, frames, None, prefetcher);
                    self.pass_up_after_ingress(packet);
                }
            }
            quiet = false;
            self.drain();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_gathered_into_bursts() {
        let frame = |device| Frame { device, bytes: &[], time: 0 };
        for (count, bursts) in [
            (0, vec![]),
            (1, vec![1]),
            (8, vec![8]),
            (9, vec![9]),
            (64, vec![64]),
            (65, vec![64, 1]),
            (150, vec![64, 64, 22]),
        ] {
            let (mut lens, mut devices) = (Vec::new(), Vec::new());
            gather((0..count).map(frame), |burst| {
                lens.push(burst.len());
                devices.extend(burst.iter().map(|f| f.device));
            });
            assert_eq!(lens, bursts);
            assert!(devices.into_iter().eq(0..count));
        }
    }

    #[test]
    fn frames_far_apart_in_time_form_separate_bursts() {
        let mut lens = Vec::new();
        let times = [0, SPAN, SPAN + 1, 2 * SPAN, 3 * SPAN, 10 * SPAN, SPAN, 0];
        gather(times.into_iter().map(|time| Frame { device: 0, bytes: &[], time }), |b| {
            lens.push(b.len())
        });
        assert_eq!(lens, [2, 2, 1, 1, 2]);
    }
}
