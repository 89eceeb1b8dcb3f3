// SPDX-License-Identifier: Apache-2.0

//! What `--profile` tells.

use std::fmt;

/// Names of rules and stages, how often each was begun, and its ticks.
pub struct Profile(pub Vec<(String, u64, u64)>);

impl fmt::Display for Profile {
    /// A table, what took longest first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.clone();
        lines.sort_by_key(|(_, _, ticks)| std::cmp::Reverse(*ticks));
        let all: u64 = lines.iter().map(|(_, _, ticks)| ticks).sum();
        writeln!(f, "{:>14} {:>6} {:>12} {:>9}  rule or stage", "ticks", "share", "times", "each")?;
        for (name, times, ticks) in lines {
            let share = 100.0 * ticks as f64 / all.max(1) as f64;
            writeln!(
                f,
                "{ticks:>14} {share:>5.1}% {times:>12} {:>9}  {name}",
                ticks / times.max(1)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_longest_comes_first() {
        let profile =
            Profile(vec![("ip t c handle 1".into(), 4, 100), ("translation".into(), 1, 300)]);
        let text = profile.to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["ticks", "share", "times", "each", "rule", "or", "stage"]);
        assert_eq!(lines[1], ["300", "75.0%", "1", "300", "translation"]);
        assert_eq!(lines[2], ["100", "25.0%", "4", "25", "ip", "t", "c", "handle", "1"]);
    }
}
