//! Frames from devices, a burst at a time.
//!
//! ```text
//! burst -> early ingress -> what is left of it, frame by frame in their order: clock, receive, what came of it
//! ```
//!
//! Everything that follows from a frame is done before the next one, as if frames came one by one. What is done for several
//! at once is only what nobody can tell from that: looking ahead, and what is taken by early ingress.

use penstock_packet::Packet;

use crate::ahead::Ahead;
use crate::sink::{Frame, Sink};
use crate::worker::Worker;

/// Frames of a burst at most: a bit of a word for each.
pub(crate) const BURST: usize = u64::BITS as usize;

/// Time between the first and the last frame of a burst at most, in nanoseconds: what is far apart in a capture was no burst.
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

    /// Those of them for which `is` says so.
    #[inline(always)]
    pub(crate) fn and(self, is: impl Fn(usize) -> bool) -> Left {
        Left(self.fold(0, |all, at| all | u64::from(is(at)) << at))
    }

    /// Without some others.
    #[inline(always)]
    pub(crate) const fn without(self, others: Left) -> Left {
        Left(self.0 & !others.0)
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

/// Gives frames on in bursts as they come.
pub(crate) fn gather<'f>(frames: impl Iterator<Item = Frame<'f>>, mut take: impl FnMut(&[Frame<'f>])) {
    let mut burst = [Frame { device: 0, bytes: &[], time: 0 }; BURST];
    let mut count = 0;
    for frame in frames {
        if count > 0 && frame.time.abs_diff(burst[0].time) > SPAN {
            take(&burst[..count]);
            count = 0;
        }
        burst[count] = frame;
        count += 1;
        if count == BURST {
            take(&burst);
            count = 0;
        }
    }
    if count > 0 {
        take(&burst[..count]);
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Frames from devices, at most [`BURST`] of them, and all that follows from each.
    pub(crate) fn receive_burst(&mut self, frames: &[Frame<'_>], packet: &mut Packet) {
        let mut left = Left::all_of(frames.len());
        if self.hooks.has_early() {
            left = self.early_ingress(frames, left, packet);
        }
        self.receive_left(frames, left, packet);
    }

    /// The normal way, in order.
    fn receive_left(&mut self, frames: &[Frame<'_>], left: Left, packet: &mut Packet) {
        if self.hooks.tracks() && frames.len() > Ahead::STEP {
            let mut ahead = Ahead::new();
            for at in left {
                ahead.fetch(frames, at, self.state);
                self.frame(&frames[at], packet);
            }
            return;
        }
        for at in left {
            self.frame(&frames[at], packet);
        }
    }

    /// One frame, and all that follows from it.
    #[inline]
    fn frame(&mut self, frame: &Frame<'_>, packet: &mut Packet) {
        self.pass_time(frame.time);
        self.receive(frame, packet);
        self.drain();
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
}
