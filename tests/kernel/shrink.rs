// SPDX-License-Identifier: Apache-2.0

//! A scenario that differs is made smaller as long as it still differs.

use std::time::{Duration, Instant};

use crate::scenario::Scenario;

/// Leaves out frames and rules, as many at a time as possible, until nothing more can go or the
/// time is over.
pub fn shrink(
    scenario: &Scenario,
    time: Duration,
    mut differs: impl FnMut(&Scenario) -> bool,
) -> Scenario {
    let deadline = Instant::now() + time;
    let mut best = scenario.clone();
    loop {
        let before = (best.frames.len(), best.rules.len());
        let mut size = best.frames.len().div_ceil(2);
        while size > 0 && Instant::now() < deadline {
            let mut at = 0;
            while at < best.frames.len() && Instant::now() < deadline {
                let mut smaller = best.clone();
                smaller.frames.drain(at..(at + size).min(best.frames.len()));
                if !smaller.frames.is_empty() && differs(&smaller) {
                    best = smaller;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        let mut size = rules(&best.rules).len().div_ceil(2);
        while size > 0 && Instant::now() < deadline {
            let mut at = 0;
            while at < rules(&best.rules).len() && Instant::now() < deadline {
                let places = rules(&best.rules);
                let gone = &places[at..(at + size).min(places.len())];
                let mut smaller = best.clone();
                smaller.rules = best
                    .rules
                    .lines()
                    .enumerate()
                    .filter(|(i, _)| !gone.contains(i))
                    .map(|(_, line)| format!("{line}\n"))
                    .collect();
                if differs(&smaller) {
                    best = smaller;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        if before == (best.frames.len(), best.rules.len()) || Instant::now() >= deadline {
            return best;
        }
    }
}

/// The lines of a ruleset that are rules: what is inside a chain, but for its head.
fn rules(text: &str) -> Vec<usize> {
    text.lines()
        .enumerate()
        .filter(|(_, l)| {
            l.starts_with("\t\t")
                && l.contains("counter")
                && !l.contains("type filter")
                && !l.contains("elements")
        })
        .map(|(i, _)| i)
        .collect()
}
