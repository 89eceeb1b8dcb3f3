// SPDX-License-Identifier: Apache-2.0

//! Expectations written down: those that come true now.

use std::collections::HashMap;

use penstock_dataplane::DropReason;
use penstock_lang::source::Loc;
use penstock_net::Network;
use penstock_print::rules::{Written, WrittenRules};

use super::suite::Suite;
use crate::input::{Captures, Inputs};
use crate::setup::Setup;
use crate::trace::outcome::{Fate, Outcome, ends};

/// What is recorded of steps, by where they stand: `None` for frames that do not enter the path.
pub type Recorded = HashMap<(u32, u32), Option<Vec<String>>>;

/// The key of a step.
pub fn key(loc: Loc) -> (u32, u32) {
    (loc.start, loc.end)
}

/// What there is to expect of an outcome, in lines.
pub fn expectations(outcome: &Outcome, rules: &WrittenRules) -> Vec<String> {
    let mut out = Vec::new();
    let fate = outcome.fate();
    if fate == Fate::Dropped
        && let Some(ended) = outcome.dropped.first()
    {
        out.push(format!("expect drop {}", ended.why.reason()));
    }
    for sent in &outcome.sent {
        out.push(format!("expect out {}{}", sent.device, ends(&sent.frame, sent.network)));
    }
    if !outcome.delivered.is_empty() {
        out.push("expect host".to_owned());
    }
    let decided = outcome.met.iter().rev().find(|met| met.decides);
    let rule = decided
        .and_then(|met| rules.rule(met.chain.family, &met.chain.table, met.handle))
        .map(|rule| format!("expect rule {}", name(rule)));
    let refused = outcome.policies.iter().find(|(_, accept)| !accept);
    let policy = refused
        .map(|(at, _)| format!("expect policy {} {} {}", at.family.name(), at.table, at.chain));
    out.extend(policy.or(rule));
    out.dedup();
    out
}

/// What there is to expect of the fate alone, whichever rules decide it, in lines.
pub fn fates(outcome: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    if outcome.fate() == Fate::Dropped {
        let rejected = outcome.dropped.iter().any(|e| e.why.reason() == DropReason::Reject.text());
        out.push(if rejected { "expect drop reject" } else { "expect drop" }.to_owned());
    }
    for sent in &outcome.sent {
        out.push(format!("expect out {}{}", sent.device, ends(&sent.frame, sent.network)));
    }
    if !outcome.delivered.is_empty() {
        out.push("expect host".to_owned());
    }
    let marks = outcome.sent.iter().map(|sent| sent.mark);
    let mark = marks.chain(outcome.delivered.iter().map(|d| d.mark)).find(|mark| *mark != 0);
    out.extend(mark.map(|mark| format!("expect mark {mark:#x}")));
    out.dedup();
    out
}

fn name(rule: &Written) -> String {
    match &rule.origin {
        Some(origin) => {
            let file = origin.file.rsplit('/').next().unwrap_or_default();
            if file.contains(char::is_whitespace) {
                return format!("\"{}\"", rule.shown());
            }
            format!("{file}:{}", origin.line)
        }
        None => format!("\"{}\"", rule.shown()),
    }
}

/// The text of a suite with what was recorded after the lines of its steps.
pub fn written(suite: &Suite, recorded: &Recorded) -> String {
    let text = suite.inputs.text(0);
    let mut out = String::new();
    let mut at = 0u32;
    for line in text.split_inclusive('\n') {
        let end = at + line.len() as u32;
        let of_line = recorded.iter().find(|((start, _), _)| (at..end).contains(start));
        match of_line {
            Some((_, None)) => {}
            Some((_, Some(lines))) => {
                out.push_str(line.trim_end_matches('\n'));
                out.push('\n');
                let indent = &line[..line.len() - line.trim_start().len()];
                for line in lines {
                    out.push_str(&format!("{indent}{line}\n"));
                }
            }
            None => out.push_str(line),
        }
        at = end;
    }
    out
}

/// A file of tests about the frames of captures, without expectations.
///
/// # Errors
/// A capture is broken, or does not say where its frames belong.
pub fn suite_of(captures: &Captures, setup: &Setup, net: &Network) -> Result<String, String> {
    /// Nanoseconds in a millisecond.
    const MILLISECOND: u64 = 1_000_000;
    let mut inputs = Inputs::open(captures, net, setup.net())?;
    let mut out = setup.lines();
    let names = captures.reads.iter().map(|read| match &read.source {
        Some(source) => format!("{source}={}", read.file.display()),
        None => read.file.display().to_string(),
    });
    let names: Vec<String> = names.collect();
    if let Some(name) = names.iter().find(|name| name.contains(char::is_whitespace)) {
        return Err(format!(
            "Error: --record: `{name}` has a blank, which files of tests cannot have"
        ));
    }
    let start = inputs.next_time().unwrap_or(0);
    out += &format!("time {}\n\ntest {}\n", super::suite::date(start), names.join(", "));
    let mut counts = vec![0u64; names.len()];
    // Whole seconds begin the test.
    let mut now = start - start % 1_000_000_000;
    while let Some(next) = inputs.next() {
        let taken = next?;
        let (which, time) = (taken.which, taken.frame.time);
        counts[which] += 1;
        let pause = time.saturating_sub(now) / MILLISECOND;
        if pause > 0 {
            out += &format!("  wait {pause}ms\n");
            now += pause * MILLISECOND;
        }
        out += &format!("  frame {} {}\n", names[which], counts[which]);
        now += MILLISECOND;
    }
    Ok(out)
}
