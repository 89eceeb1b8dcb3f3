// SPDX-License-Identifier: Apache-2.0

//! Sequence numbers on the way in: which ones come again, and the high half that does not travel
//! (RFC 4303, 3.4.3 and appendix A; RFC 4304; `net/xfrm/xfrm_replay.c`).

/// Numbers that a window has at most (`XFRMA_REPLAY_ESN_MAX`).
pub(crate) const MAX_WINDOW: u32 = 4096;

/// Why a number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is too old, or none.
    Window,
    /// It was there before.
    Replay,
}

/// The window: the highest number that came, and which of those below it did.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    window: u32,
    esn: bool,
    top: u64,
    /// A bit per number, by its remainder: a power of two of words, at least as many bits as the
    /// window has numbers.
    seen: Vec<u64>,
}

impl Replay {
    /// A window of so many numbers, 0 for no check. `top` counts as having come, as do all below
    /// it.
    pub(crate) fn new(window: u32, esn: bool, top: u64) -> Self {
        let window = window.min(MAX_WINDOW);
        let words = (window as usize).div_ceil(64).next_power_of_two();
        Replay { window, esn, top, seen: vec![0; words] }
    }

    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// The whole number of a packet that has this low half (`xfrm_replay_seqhi()`).
    #[inline]
    pub(crate) fn whole(&self, low: u32) -> u64 {
        if !self.esn {
            return u64::from(low);
        }
        let top_low = self.top as u32;
        let high = self.top >> 32;
        let bottom = top_low.wrapping_sub(self.window).wrapping_add(1);
        let high = if top_low >= self.window.saturating_sub(1) {
            if low < bottom { high.wrapping_add(1) } else { high }
        } else if low >= bottom {
            high.wrapping_sub(1)
        } else {
            high
        };
        high << 32 | u64::from(low)
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let at = number & (self.seen.len() as u64 * 64 - 1);
        ((at / 64) as usize, 1 << (at % 64))
    }

    /// Whether a number may come.
    #[inline]
    pub(crate) fn check(&self, number: u64) -> Result<(), Refused> {
        if self.window == 0 {
            return Ok(());
        }
        if number == 0 {
            return Err(Refused::Window);
        }
        if number > self.top {
            // Before the first number there are none: those that would lie there wrap around.
            let forward = number - self.top;
            return if self.esn && forward > u64::from(u32::MAX) {
                Err(Refused::Window)
            } else {
                Ok(())
            };
        }
        if self.top - number >= u64::from(self.window) {
            return Err(Refused::Window);
        }
        let (word, bit) = self.place(number);
        if self.seen.get(word).is_some_and(|w| w & bit != 0) {
            Err(Refused::Replay)
        } else {
            Ok(())
        }
    }

    /// A number has come.
    #[inline]
    pub(crate) fn advance(&mut self, number: u64) {
        if self.window == 0 {
            return;
        }
        if number > self.top {
            let all = self.seen.len() as u64 * 64;
            if number - self.top >= all {
                self.seen.fill(0);
            } else {
                for skipped in self.top + 1..number {
                    let (word, bit) = self.place(skipped);
                    if let Some(w) = self.seen.get_mut(word) {
                        *w &= !bit;
                    }
                }
            }
            self.top = number;
        }
        let (word, bit) = self.place(number);
        if let Some(w) = self.seen.get_mut(word) {
            *w |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The definition: a number comes at most once, and not below the window.
    struct Model {
        window: u64,
        top: u64,
        seen: BTreeSet<u64>,
    }

    impl Model {
        fn take(&mut self, n: u64) -> bool {
            if n == 0 || n + self.window <= self.top || self.seen.contains(&n) {
                return false;
            }
            self.seen.insert(n);
            self.top = self.top.max(n);
            true
        }
    }

    #[test]
    fn windows_of_all_sizes_follow_rfc_4303() {
        let mut random = fastrand::Rng::with_seed(7);
        for window in [1, 2, 31, 32, 33, 63, 64, 65, 128, 1000, 4095, 4096] {
            for (esn, start) in
                [(false, 0), (true, 0), (true, u64::from(u32::MAX) - 3000), (true, 5 << 32)]
            {
                let mut replay = Replay::new(window, esn, start);
                let mut model = Model { window: window.into(), top: start, seen: BTreeSet::new() };
                // Numbers up to the start have come, as far as the window tells.
                for n in start.saturating_sub(window.into())..=start {
                    model.seen.insert(n);
                    if n > 0 && start > 0 {
                        let (word, bit) = replay.place(n);
                        replay.seen[word] |= bit;
                    }
                }
                for _ in 0..3000 {
                    let back = random.u64(0..u64::from(window) * 2);
                    let near = (model.top + random.u64(0..8)).saturating_sub(back);
                    let n =
                        if random.u8(0..20) == 0 { model.top + random.u64(1..6000) } else { near };
                    if esn && (n + u64::from(window) <= model.top || n == 0) {
                        // Looks like a number of the next four thousand million.
                        continue;
                    }
                    let whole = replay.whole(n as u32);
                    assert_eq!(whole, n, "window {window} top {}", model.top);
                    let taken = replay.check(whole).is_ok();
                    if taken {
                        replay.advance(whole);
                    }
                    assert_eq!(
                        taken,
                        model.take(n),
                        "window {window} number {n} top {}",
                        replay.top()
                    );
                }
            }
        }
    }

    #[test]
    fn the_high_half_follows_the_window_over_the_edge() {
        let edge = 1 << 32;
        for (top, low, whole) in [
            (edge - 10, 0xffff_fff0_u32, edge - 16),
            (edge - 10, 5, edge + 5),
            (edge + 10, 0xffff_fffa, edge - 6),
            (edge + 10, 20, edge + 20),
            // Far below the window: of the next round.
            (edge + 1000, 100, 2 * edge + 100),
        ] {
            assert_eq!(Replay::new(64, true, top).whole(low), whole, "{top:#x} {low:#x}");
        }
        assert_eq!(Replay::new(64, false, edge - 10).whole(5), 5);
    }

    #[test]
    fn without_a_window_all_numbers_pass_and_with_one_zero_is_refused() {
        let mut none = Replay::new(0, false, 0);
        none.advance(7);
        assert_eq!((none.check(7), none.check(0)), (Ok(()), Ok(())));
        assert_eq!(Replay::new(32, false, 0).check(0), Err(Refused::Window));
    }
}
