// SPDX-License-Identifier: Apache-2.0

//! Decisions of CrowdSec's local API (`GET /v1/decisions/stream`): answers with new decisions and
//! those that ended, and the elements that follow from all of them.
//!
//! Decisions are told apart by what they are about and not by their numbers: of several about the
//! same addresses the API tells the longest, and when all of them end, any one.

use std::collections::HashMap;

use serde::Deserialize;

use crate::elements::{Elements, cover};
use crate::span::Span;

/// An answer.
#[derive(Debug, Deserialize)]
struct Stream {
    #[serde(default)]
    new: Option<Vec<Decision>>,
    #[serde(default)]
    deleted: Option<Vec<Decision>>,
}

#[derive(Debug, Deserialize)]
struct Decision {
    scope: String,
    value: String,
    #[serde(rename = "type")]
    kind: String,
    duration: String,
}

/// What an answer has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Decisions that are new.
    pub new: usize,
    /// Decisions that have ended.
    pub deleted: usize,
    /// Decisions about anything but addresses, or that ask for anything but a ban.
    pub ignored: usize,
    /// Decisions that make no sense.
    pub malformed: usize,
    /// Decisions beyond the bound.
    pub beyond: usize,
}

/// The decisions that are in force.
#[derive(Debug, Default)]
pub struct Decisions {
    all: HashMap<Span, u64>,
    most: usize,
}

impl Decisions {
    /// None, of `most` at most.
    pub fn new(most: usize) -> Decisions {
        Decisions { all: HashMap::new(), most }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes an answer; one to `startup=true` replaces all decisions.
    ///
    /// # Errors
    /// The answer is none of the API; nothing is changed then.
    pub fn take(&mut self, json: &[u8], is_startup: bool, now: u64) -> Result<Taken, String> {
        let stream: Stream = serde_json::from_slice(json)
            .map_err(|e| format!("the answer is no stream of decisions: {e}"))?;
        if is_startup {
            self.all.clear();
        }
        let mut taken = Taken::default();
        for decision in stream.deleted.unwrap_or_default() {
            if let Some(span) = read(&decision, &mut taken) {
                taken.deleted += usize::from(self.all.remove(&span).is_some());
            }
        }
        for decision in stream.new.unwrap_or_default() {
            let Some(span) = read(&decision, &mut taken) else { continue };
            let Some(left) = seconds(&decision.duration) else {
                taken.malformed += 1;
                continue;
            };
            if left == 0 {
                continue;
            }
            if self.all.len() >= self.most && !self.all.contains_key(&span) {
                taken.beyond += 1;
                continue;
            }
            taken.new += 1;
            let end = self.all.entry(span).or_default();
            *end = now.saturating_add(left).max(*end);
        }
        Ok(taken)
    }

    /// The elements of both families that follow. Decisions that have ended are forgotten.
    pub fn elements(&mut self, now: u64) -> Elements {
        self.all.retain(|_, end| *end > now);
        cover(self.all.iter().map(|(span, end)| (*span, Some(*end))), now)
    }
}

/// The addresses of a decision, if it bans addresses.
fn read(decision: &Decision, taken: &mut Taken) -> Option<Span> {
    let of_addresses = ["ip", "range"].iter().any(|s| decision.scope.eq_ignore_ascii_case(s));
    if !of_addresses || decision.kind != "ban" {
        taken.ignored += 1;
        return None;
    }
    let span = decision.value.parse::<Span>().ok();
    taken.malformed += usize::from(span.is_none());
    span
}

/// Whole seconds of a duration as Go writes it, such as `3h59m12.5s`; a negative one is over.
fn seconds(text: &str) -> Option<u64> {
    if text.starts_with('-') {
        return Some(0);
    }
    let mut total = 0.0f64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit = &rest[..rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len())];
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = &rest[unit.len()..];
    }
    // Ten years are as good as ever, and fit into what a set can have.
    (!text.is_empty()).then_some(total.ceil().min(315_360_000.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(id: i64, value: &str, duration: &str) -> String {
        let scope = if value.contains('/') { "Range" } else { "Ip" };
        format!(
            "{{\"id\":{id},\"scope\":\"{scope}\",\"value\":\"{value}\",\"type\":\"ban\",\
             \"duration\":\"{duration}\",\"origin\":\"cscli\",\"scenario\":\"test\"}}"
        )
    }

    fn listed(decisions: &mut Decisions, now: u64) -> Vec<String> {
        let text = |(span, end): (Span, Option<u64>)| format!("{span} {}", end.unwrap_or(0));
        decisions.elements(now).into_iter().map(text).collect()
    }

    #[test]
    fn decisions_come_end_and_run_out() {
        let mut decisions = Decisions::new(4);
        let new = [
            decision(1, "198.18.0.1", "1h"),
            decision(2, "198.18.0.0/24", "10m0.5s"),
            decision(3, "2001:db8::1", "4s"),
            decision(4, "198.18.7.7", "-5s"),
            decision(5, "nobody", "5s"),
            decision(6, "198.18.7.7", "soon"),
            decision(7, "198.18.7.7", "5s").replace("ban", "captcha"),
            decision(8, "FR", "5s").replace("Ip", "Country"),
        ];
        let json = format!("{{\"new\":[{}],\"deleted\":null}}", new.join(","));
        let taken = decisions.take(json.as_bytes(), true, 1000);
        let expected = Taken { new: 3, ignored: 2, malformed: 2, ..Taken::default() };
        assert_eq!(taken, Ok(expected));
        let all = ["198.18.0.0 1601", "198.18.0.1 4600", "198.18.0.2-198.18.0.255 1601"];
        let last = ["2001:db8::1 1004"];
        assert_eq!(listed(&mut decisions, 1000), [&all[..], &last].concat());
        assert_eq!(listed(&mut decisions, 1004), all);
        // A shorter one about the same addresses changes nothing, and any one tells of the end.
        let json = format!(
            "{{\"new\":[{},{}],\"deleted\":[{}]}}",
            decision(9, "198.18.0.1", "2h"),
            decision(10, "198.18.0.1", "1h"),
            decision(2, "198.18.0.0/24", "-1s")
        );
        let taken = decisions.take(json.as_bytes(), false, 1010);
        assert_eq!(taken, Ok(Taken { new: 2, deleted: 1, ..Taken::default() }));
        assert_eq!(listed(&mut decisions, 1010), ["198.18.0.1 8210"]);
        let json = format!("{{\"deleted\":[{}]}}", decision(1, "198.18.0.1", "-1s"));
        let taken = decisions.take(json.as_bytes(), false, 1010);
        assert_eq!(taken, Ok(Taken { deleted: 1, ..Taken::default() }));
        assert!(decisions.is_empty());
        let many: Vec<String> =
            (20..30).map(|i| decision(i, &format!("198.18.1.{i}"), "1h")).collect();
        let json = format!("{{\"new\":[{}]}}", many.join(","));
        let taken = decisions.take(json.as_bytes(), false, 1010);
        assert_eq!(taken, Ok(Taken { new: 4, beyond: 6, ..Taken::default() }));
        // A start replaces everything, and an error nothing.
        assert!(decisions.take(b"<html>", true, 1010).is_err());
        assert_eq!(decisions.len(), 4);
        assert_eq!(decisions.take(b"{\"new\":null}", true, 1010), Ok(Taken::default()));
        assert!(decisions.is_empty());
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("3h59m12.5s", Some(14353)),
            ("167h59m59.999999999s", Some(604800)),
            ("500ms", Some(1)),
            ("-3h", Some(0)),
            ("999999999999h", Some(315_360_000)),
            ("", None),
            ("5", None),
            ("1.2.3s", None),
            ("5x", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
