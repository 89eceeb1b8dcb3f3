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
use penstock_packet::{Frame, Packet, prefetch};
use penstock_program::{Context, Family, Hook};
use penstock_wire::ethernet::Mac;

use crate::ahead::Ahead;
use crate::hooks::HookList;
use crate::reason::{Drop, DropReason};
use crate::rules::{BurstCode, End, rule_place};
use crate::sink::Sink;
use crate::straight::Road;
use crate::worker::Worker;

/// Frames of a burst at most: a bit of a word for each.
pub(crate) const BURST: usize = u64::BITS as usize;

/// Time between the first and the last frame of a burst at most, in nanoseconds: what is far apart
/// in a capture was no burst.
const SPAN: u64 = 100_000;

/// The frames of a burst that are still to be received, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left(u64);

impl Left {
    /// The first `count`, at most [`BURST`].
    fn all_of(count: usize) -> Self {
        Left(u64::MAX.checked_shr((BURST - count.min(BURST)) as u32).unwrap_or(0))
    }

    /// None.
    pub(crate) const NONE: Left = Left(0);

    /// The first of them.
    #[inline(always)]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// How many of them follow the first without a gap, that one counted.
    #[inline(always)]
    pub(crate) const fn in_a_row(self) -> usize {
        match self.0.checked_shr(self.0.trailing_zeros()) {
            Some(from_first) => from_first.trailing_ones() as usize,
            None => 0,
        }
    }

    /// Without the first `count` of them.
    #[inline(always)]
    pub(crate) fn without_next(self, count: usize) -> Left {
        (0..count).fold(self, |left, _| Left(left.0 & left.0.wrapping_sub(1)))
    }

    /// Those of them for which `is` says so.
    #[inline(always)]
    pub(crate) fn and(self, is: impl Fn(usize) -> bool) -> Left {
        Left(self.fold(0, |all, at| all | u64::from(is(at)) << at))
    }

    /// Whether one of them is there.
    #[inline(always)]
    pub(crate) const fn has(self, at: usize) -> bool {
        self.0 >> (at % BURST) & 1 != 0
    }

    /// Without some others.
    #[inline(always)]
    pub(crate) const fn without(self, others: Left) -> Left {
        Left(self.0 & !others.0)
    }

    /// With others.
    #[inline(always)]
    pub(crate) const fn and_also(self, others: Left) -> Left {
        Left(self.0 | others.0)
    }

    /// With another one, which is less than [`BURST`].
    #[inline(always)]
    pub(crate) const fn with(self, at: usize) -> Left {
        Left(self.0 | 1 << (at % BURST))
    }
}

impl Iterator for Left {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let next = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (next < u64::BITS).then_some(next as usize)
    }
}

/// Whether a frame of this time is one more of a burst of `count` frames, the first of which came
/// at `first`: there are at most 64, within a tenth of a millisecond. Times in nanoseconds.
#[inline]
pub const fn is_of_burst(count: usize, first: u64, time: u64) -> bool {
    count < BURST && time.abs_diff(first) <= SPAN
}

/// Gives frames on in bursts as they come.
pub(crate) fn gather<'f>(
    frames: impl Iterator<Item = Frame<'f>>,
    mut take: impl FnMut(&[Frame<'f>]),
) {
    let mut burst = [Frame { device: 0, bytes: &[], time: 0 }; BURST];
    let mut count = 0;
    for frame in frames {
        if count > 0 && !is_of_burst(count, burst[0].time, frame.time) {
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
    pub(crate) ahead: Ahead,
    /// For those that pass ingress together.
    several: Box<[Packet]>,
    /// For those that pass ingress as frames: of no frame, and with nothing but a device.
    pub(crate) unknown: Packet,
}

impl Default for Packets {
    fn default() -> Self {
        let ahead = Ahead::default();
        let several = (0..TOGETHER).map(|_| Packet::new()).collect();
        Packets { one: Packet::new(), ahead, several, unknown: Packet::new() }
    }
}

/// Packets that pass ingress together: few enough that they stay in the nearest cache.
const TOGETHER: usize = penstock_program::classify::PACKETS;
/// Frames between the one that is copied and the one that is fetched into the cache.
const FETCHED: usize = 8;

/// What frames pass together, where that is possible.
pub(crate) struct Together<'a> {
    pub(crate) device: u32,
    pub(crate) address: Mac,
    pub(crate) list: &'a HookList,
    pub(crate) code: BurstCode<'a>,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Frames from devices, at most [`BURST`] of them, and all that follows from each.
    pub(crate) fn receive_burst(&mut self, frames: &[Frame<'_>], packets: &mut Packets) {
        let mut left = Left::all_of(frames.len());
        if self.hooks.has_early() {
            left = self.early_ingress(frames, left, &mut packets.one);
        }
        self.receive_left(frames, left, packets);
    }

    /// The normal way, in order.
    fn receive_left(&mut self, frames: &[Frame<'_>], left: Left, packets: &mut Packets) {
        packets.ahead.begin();
        let road = frames.first().and_then(|frame| self.road(frame.device));
        let straight = road.as_ref().filter(|road| !road.filtered);
        let mut left = left;
        while let Some(first) = left.first() {
            let frame = &frames[first];
            if let Some(together) = self.together(frame) {
                if together.code.takes_frames() {
                    self.receive_frames(&together, frames, &mut left, road.as_ref(), packets);
                } else {
                    self.receive_together(&together, frames, &mut left, packets);
                }
                continue;
            }
            left.next();
            let Packets { one, ahead, .. } = packets;
            self.look_ahead(first, frames, straight, ahead);
            match (ahead.usual(first), straight) {
                (Some((usual, sought)), Some(road)) => {
                    if self.is_due(frame.time) {
                        self.pass_time(frame.time);
                    }
                    self.straight(road, frame, usual, sought, None, one);
                    self.drain();
                }
                _ => self.frame(frame, one),
            }
        }
    }

    #[inline]
    pub(crate) fn look_ahead(
        &self,
        turn: usize,
        frames: &[Frame<'_>],
        road: Option<&Road<'_>>,
        ahead: &mut Ahead,
    ) {
        ahead.reach(turn, frames, road, self.hooks.tracks().then_some(&self.state.conntrack));
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
    fn together(&self, frame: &Frame<'_>) -> Option<Together<'a>> {
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
        Some(Together { device: frame.device, address: link.mac, list, code })
    }

    /// Takes in the next frames from a device, runs ingress for all of them, and then does what
    /// follows from each.
    fn receive_together(
        &mut self,
        together: &Together<'a>,
        frames: &[Frame<'_>],
        left: &mut Left,
        packets: &mut Packets,
    ) {
        let Packets { one, ahead, several, .. } = packets;
        let mut numbers = [0; TOGETHER];
        let (mut taken, mut latest) = (0, 0);
        let mut rest = *left;
        while let (Some(number), Some(packet)) = (rest.next(), several.get_mut(taken)) {
            let frame = &frames[number];
            if let Some(later) = frames.get(number + FETCHED) {
                later.bytes.first().map(prefetch);
            }
            if frame.device != together.device
                || !packet.receive_dissected(frame.bytes, together.address)
            {
                break;
            }
            packet.meta.time = frame.time;
            packet.meta.iif = together.device;
            latest = latest.max(frame.time);
            numbers[taken] = number;
            taken += 1;
            *left = rest;
        }
        let context = Context { family: Family::Netdev, hook: Hook::Ingress };
        let mut decisions = [PackedDecision::default(); TOGETHER];
        let Together { list, code, .. } = *together;
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
        let mut quiet = !self.is_due(latest);
        // Mostly it is the same rule that drops them.
        let (mut by, mut drop) = (None, Drop { reason: DropReason::Rule, place: None });
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
            match self.carry_out(decision, list, context, packet, &mut None) {
                End::Dropped if quiet => continue,
                End::Dropped | End::Taken | End::Queue { .. } => {}
                End::Accept => {
                    self.look_ahead(number, frames, None, ahead);
                    self.pass_up_behind_ingress(packet);
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
    fn what_is_left_is_received_in_order() {
        for count in [0, 1, 5, 63, 64] {
            assert!(Left::all_of(count).eq(0..count), "{count}");
        }
        assert!(Left(0b1010_0001).eq([0, 5, 7]));
        assert!(Left(1 << 63 | 1).eq([0, 63]));
        for (left, in_a_row) in
            [(0, 0), (1, 1), (0b1011_0110, 2), (u64::MAX, 64), (u64::MAX << 60, 4)]
        {
            assert_eq!(Left(left).in_a_row(), in_a_row, "{left:#b}");
        }
        assert!(Left(0b1011_0110).without_next(3).eq([5, 7]));
        assert_eq!(Left(u64::MAX).without_next(64), Left::NONE);
    }

    #[test]
    fn frames_are_gathered_into_bursts() {
        let frame = |device| Frame { device, bytes: &[], time: 0 };
        for (count, bursts) in
            [(0, vec![]), (1, vec![1]), (64, vec![64]), (65, vec![64, 1]), (150, vec![64, 64, 22])]
        {
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
    fn what_comes_much_later_or_earlier_is_no_part_of_a_burst() {
        let mut lens = Vec::new();
        let times = [0, SPAN, SPAN + 1, 2 * SPAN, 3 * SPAN, 10 * SPAN, SPAN, 0];
        gather(times.into_iter().map(|time| Frame { device: 0, bytes: &[], time }), |b| {
            lens.push(b.len())
        });
        assert_eq!(lens, [2, 2, 1, 1, 2]);
    }
}
