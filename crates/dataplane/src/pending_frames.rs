// SPDX-License-Identifier: Apache-2.0

//! Which frames of a burst are still to be received.

use std::ops::Range;

/// Frames of a burst at most: a bit of a word for each.
pub(crate) const BURST: usize = u64::BITS as usize;

/// The frames of a burst that are still to be received, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingFrames(u64);

impl PendingFrames {
    /// The first `count`, at most [`BURST`].
    pub(crate) fn all_of(count: usize) -> Self {
        PendingFrames(u64::MAX.checked_shr((BURST - count.min(BURST)) as u32).unwrap_or(0))
    }

    /// Those with a bit in a word.
    pub(crate) const fn of_bits(bits: u64) -> Self {
        PendingFrames(bits)
    }

    /// A bit for each.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// None.
    pub(crate) const NONE: PendingFrames = PendingFrames(0);

    /// The first of them.
    #[inline(always)]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }

    /// From the first to the last of them.
    #[inline(always)]
    pub(crate) fn span(self) -> Range<usize> {
        let end = BURST - self.0.leading_zeros() as usize;
        self.first().unwrap_or(end)..end
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
    pub(crate) fn without_next(self, count: usize) -> PendingFrames {
        (0..count).fold(self, |left, _| PendingFrames(left.0 & left.0.wrapping_sub(1)))
    }

    /// Those of them for which `is` says so.
    #[inline(always)]
    pub(crate) fn and(self, is: impl Fn(usize) -> bool) -> PendingFrames {
        PendingFrames(self.fold(0, |all, at| all | u64::from(is(at)) << at))
    }

    /// Whether one of them is there.
    #[inline(always)]
    pub(crate) const fn has(self, at: usize) -> bool {
        self.0 >> (at % BURST) & 1 != 0
    }

    /// Without some others.
    #[inline(always)]
    pub(crate) const fn without(self, others: PendingFrames) -> PendingFrames {
        PendingFrames(self.0 & !others.0)
    }

    /// Those that are also among others.
    #[inline(always)]
    pub(crate) const fn and_only(self, others: PendingFrames) -> PendingFrames {
        PendingFrames(self.0 & others.0)
    }

    /// With others.
    #[inline(always)]
    pub(crate) const fn and_also(self, others: PendingFrames) -> PendingFrames {
        PendingFrames(self.0 | others.0)
    }

    /// With another one, which is less than [`BURST`].
    #[inline(always)]
    pub(crate) const fn with(self, at: usize) -> PendingFrames {
        PendingFrames(self.0 | 1 << (at % BURST))
    }

    /// With another one, if that is so.
    #[inline(always)]
    pub(crate) const fn with_if(self, at: usize, is: bool) -> PendingFrames {
        PendingFrames(self.0 | (is as u64) << (at % BURST))
    }
}

impl Iterator for PendingFrames {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let next = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (next < u64::BITS).then_some(next as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_frames_are_received_in_order() {
        for count in [0, 1, 5, 63, 64] {
            assert!(PendingFrames::all_of(count).eq(0..count), "{count}");
        }
        assert!(PendingFrames(0b1010_0001).eq([0, 5, 7]));
        assert!(PendingFrames(1 << 63 | 1).eq([0, 63]));
        for (left, in_a_row) in
            [(0, 0), (1, 1), (0b1011_0110, 2), (u64::MAX, 64), (u64::MAX << 60, 4)]
        {
            assert_eq!(PendingFrames(left).in_a_row(), in_a_row, "{left:#b}");
        }
        assert!(PendingFrames(0b1011_0110).without_next(3).eq([5, 7]));
        let spans = [0, 1 << 9, 1 << 63, 0b1010].map(|frames| PendingFrames(frames).span());
        assert_eq!(spans, [0..0, 9..10, 63..64, 1..4]);
        assert_eq!(PendingFrames(u64::MAX).without_next(64), PendingFrames::NONE);
    }
}
