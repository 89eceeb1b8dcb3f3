// SPDX-License-Identifier: Apache-2.0

//! Where a worker's time goes besides its rules: ticks of the processor's clock, counted only on
//! request.

use penstock_dataplane::clock_ticks;

/// What a worker does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    FromDevice,
    FromHost,
    InPath,
    Send,
    Timers,
}

/// Names, in the order of [`Doing`].
const WORDS: [&str; 5] = [
    "frames received from devices",
    "frames received from the host",
    "path besides rules: connections, flows, routes, neighbours, copies",
    "frames sent",
    "timeouts",
];

/// Frames and ticks of each.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    counted: bool,
    cells: [(u64, u64); WORDS.len()],
}

impl Stages {
    /// Starts or stops counting.
    pub(crate) fn set(&mut self, counted: bool) {
        *self = Stages { counted, ..Stages::default() };
    }

    /// The clock, if it matters.
    #[inline]
    pub(crate) fn begin(&self) -> u64 {
        if self.counted { clock_ticks() } else { 0 }
    }

    /// So many frames have taken the time since the clock was asked.
    #[inline]
    pub(crate) fn end(&mut self, doing: Doing, frames: usize, since: u64) {
        if self.counted {
            let (times, all) = &mut self.cells[doing as usize];
            *times += frames as u64;
            *all += clock_ticks().wrapping_sub(since);
        }
    }

    /// Name, frames, ticks. What rules have taken is part of the path's time.
    pub(crate) fn lines(&self, rules: &[(String, u64, u64)]) -> Vec<(String, u64, u64)> {
        let of_rules: u64 = rules.iter().map(|(_, _, ticks)| ticks).sum();
        let lines =
            WORDS.iter().zip(self.cells).enumerate().map(|(number, (words, (frames, ticks)))| {
                let besides = if number == Doing::InPath as usize { of_rules } else { 0 };
                ((*words).to_owned(), frames, ticks.saturating_sub(besides))
            });
        lines.filter(|(_, frames, ticks)| *frames > 0 || *ticks > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_time_is_not_counted_for_other_stages() {
        let mut stages = Stages::default();
        stages.end(Doing::Send, 7, stages.begin());
        assert_eq!(stages.lines(&[]), [], "nobody asks");
        stages.set(true);
        stages.cells = [(64, 500), (0, 0), (64, 3000), (60, 900), (0, 20)];
        let rules =
            [("inet t c handle 1".to_owned(), 64, 1000), ("translation".to_owned(), 3, 200)];
        let lines = stages.lines(&rules);
        let ticks: Vec<_> = lines.iter().map(|(_, frames, ticks)| (*frames, *ticks)).collect();
        assert_eq!(ticks, [(64, 500), (64, 1800), (60, 900), (0, 20)]);
    }
}
