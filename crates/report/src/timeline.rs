// SPDX-License-Identifier: Apache-2.0

//! Counts over time. The end is not known when counting begins: steps become twice as long whenever
//! there are too many of them.

/// Steps at most.
const STEPS: usize = 120;
/// How long a step is at first: a millisecond, in nanoseconds.
const FIRST: u64 = 1_000_000;

/// Several counts over the same time.
#[derive(Clone, Debug)]
pub struct Timelines {
    /// When they begin, nanoseconds since the epoch.
    start: Option<u64>,
    /// How long a step is, in nanoseconds.
    step: u64,
    lines: Vec<Vec<u64>>,
}

impl Default for Timelines {
    fn default() -> Self {
        Timelines { start: None, step: FIRST, lines: Vec::new() }
    }
}

impl Timelines {
    /// Time begins, if it has not: the first call counts.
    pub fn begin(&mut self, time: u64) {
        self.start.get_or_insert(time);
    }

    /// Time has come that far, in nanoseconds since the epoch.
    pub fn advance(&mut self, time: u64) {
        self.step_of(time);
    }

    /// Another line; its number.
    pub fn add(&mut self) -> usize {
        self.lines.push(Vec::new());
        self.lines.len() - 1
    }

    /// Counts at a time, in nanoseconds since the epoch.
    pub fn count(&mut self, line: usize, time: u64, count: u64) {
        let at = self.step_of(time);
        let Some(line) = self.lines.get_mut(line) else { return };
        if line.len() <= at {
            line.resize(at + 1, 0);
        }
        line[at] += count;
    }

    fn step_of(&mut self, time: u64) -> usize {
        let since = time.saturating_sub(*self.start.get_or_insert(time));
        while since / self.step >= STEPS as u64 {
            self.step *= 2;
            for line in &mut self.lines {
                *line = line.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        (since / self.step) as usize
    }

    /// How long a step is, in nanoseconds.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The counts of a line, step by step.
    pub fn line(&self, line: usize) -> &[u64] {
        self.lines.get(line).map_or(&[], Vec::as_slice)
    }

    /// Steps of the longest line.
    pub fn len(&self) -> usize {
        self.lines.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_their_sum_and_their_place_when_steps_become_longer() {
        const SECOND: u64 = 1_000_000_000;
        let mut lines = Timelines::default();
        let (a, b) = (lines.add(), lines.add());
        lines.begin(100 * SECOND);
        for second in 0..1000 {
            lines.count(a, (100 + second) * SECOND, 1);
        }
        lines.count(b, 1099 * SECOND, 7);
        assert_eq!(lines.line(a).iter().sum::<u64>(), 1000);
        assert!(lines.len() <= STEPS && lines.step() >= 1000 * SECOND / STEPS as u64);
        assert_eq!((lines.line(b).last(), lines.line(b).len()), (Some(&7), lines.line(a).len()));
        // What comes late counts in the first step.
        lines.count(b, 5, 2);
        assert_eq!(lines.line(b)[0], 2);
    }
}
