// SPDX-License-Identifier: Apache-2.0

//! `penstock cover`: packets that together meet every rule that can be met, and the rules that none
//! can meet.

mod host;
mod options;
mod written;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use penstock_daemon::out;
use penstock_program::image::RuleIndex;
use penstock_symbolic::{Case, Cover, Coverage, Element, Example, Wanted, cover, parts};
use serde_json::{Value as Json, json};

use crate::options::given;
use crate::symbolic;
use crate::symbolic::hooks::Station;
use crate::symbolic::load::{Devices, Loaded};
use crate::symbolic::opened::Opened;
use crate::symbolic::watched::watched;
use crate::symbolic::words::Words;
pub use options::SECTIONS;
use options::{Asked, parse, usage};
use written::Tests;

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("cover", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    symbolic::status(all(&asked))
}

/// Whether each rule can be met; prints which cannot.
fn all(asked: &Asked) -> Result<bool, String> {
    let Opened { devices, rules, stations } = Opened::new(&asked.rules, &asked.settings)?;
    symbolic::make_directory(asked.write.as_deref())?;
    let (mut texts, mut hooks) = (Vec::new(), Vec::new());
    let mut every = true;
    for station in &stations {
        let found = watched(|| Found::new(station, &rules, asked, &devices))?;
        every &= found.every;
        texts.push(found.text);
        hooks.push(found.json);
    }
    match asked.json {
        true => out!("{:#}\n", json!({ "hooks": hooks })),
        false => out!("{}", texts.join("\n")),
    }
    Ok(every)
}

/// A packet, as it is told and written.
pub struct ToldCase<'u> {
    /// Its number.
    number: usize,
    /// The packet.
    example: Example<'u>,
    /// Another one that meets the rule that this one was sought for.
    other: Option<Example<'u>>,
    /// In words.
    such: String,
    /// What becomes of it at the hook.
    fate: String,
    /// Places and texts of the rules that it is for.
    meets: Vec<String>,
    /// Those rules.
    rules: Vec<RuleIndex>,
    /// It depends on more than the packet.
    depends: bool,
}

/// What was found at a hook.
struct Found {
    text: String,
    json: Json,
    /// Each rule can be met.
    every: bool,
}

impl Found {
    fn new(
        station: &Station,
        rules: &Loaded,
        asked: &Asked,
        devices: &Devices,
    ) -> Result<Found, String> {
        let program = station.program(rules, devices, &asked.settings, &mut HashMap::new());
        let wanted = Wanted { others: asked.write.is_some(), elements: asked.elements };
        let covered = cover(station.place, &program, wanted, asked.settings.limits)
            .map_err(|failure| station.failed(rules, devices, &failure))?;
        let rule_name = |number: u32| rules.rule_place(RuleIndex(number), devices);
        let listing = rules.listing(&rules.generation, devices);
        let words = Words::new(listing, station.place, &covered.universe, &rule_name);
        let cases = told_cases(&covered, &words, rules, devices);
        let tests = match &asked.write {
            Some(dir) => Some(Tests::write(dir, station, rules, asked, &cases, devices)?),
            None => None,
        };
        let named = |rule: RuleIndex| rules.rule_text(rule, devices);
        let met = covered.rules.iter().filter(|(_, c)| matches!(c, Coverage::Case(_))).count();
        let mut text = format!(
            "{}: {} {} {met} of {}\n",
            station.name,
            counted(cases.len(), "packet"),
            if cases.len() == 1 { "meets" } else { "meet" },
            counted(covered.rules.len(), "rule")
        );
        let mut never = Vec::new();
        for (rule, coverage) in &covered.rules {
            let why = match coverage {
                Coverage::Case(_) => continue,
                Coverage::NothingMatches => "no packet can match it here".to_owned(),
                Coverage::NothingComes => "no packet that matches it comes to its chain".to_owned(),
                Coverage::Taken(takers) => {
                    let takers: Vec<String> =
                        takers.iter().map(|rule| rules.rule_place(*rule, devices)).collect();
                    format!("earlier rules take all of its packets: {}", takers.join(", "))
                }
                Coverage::NotMatched => "no packet that comes to it matches it".to_owned(),
                Coverage::NotMade => "packets meet it, but none could be made".to_owned(),
            };
            let is_proved = *coverage != Coverage::NotMade;
            let _ = writeln!(text, "\n{}\n    {why}", named(*rule));
            never.push(json!({ "rule": named(*rule), "never": is_proved, "why": why }));
        }
        let missed: Vec<&Element> = covered.elements.iter().filter(|e| e.case.is_none()).collect();
        if asked.elements {
            let all = covered.elements.len();
            let _ = writeln!(text, "\n{} of {} met", all - missed.len(), counted(all, "element"));
        }
        let mut missed_json = Vec::new();
        for element in &missed {
            let (rule, key) = (named(element.rule), words.key(&element.key));
            let why = if element.never { "no packet meets it" } else { "no packet could be made" };
            let _ = writeln!(text, "\n{rule}\n    element {key}: {why}");
            missed_json.push(json!({ "rule": rule, "element": key, "never": element.never }));
        }
        if let Some(tests) = &tests {
            text.push_str(&tests.text());
        }
        let packets: Vec<Json> = cases
            .iter()
            .map(|case| {
                json!({
                    "packet": case.such,
                    "becomes": case.fate,
                    "meets": case.meets,
                    "depends": case.depends,
                })
            })
            .collect();
        let json = json!({
            "hook": station.name,
            "rules": covered.rules.len(),
            "met": met,
            "packets": packets,
            "not_met": never,
            "elements": covered.elements.len(),
            "elements_not_met": missed_json,
            "tests": tests.as_ref().map(Tests::json),
        });
        let every = met == covered.rules.len() && missed.is_empty();
        Ok(Found { text, json, every })
    }
}

/// The packets in words, with the rules that each is for.
fn told_cases<'u>(
    covered: &'u Cover,
    words: &Words<'u>,
    rules: &Loaded,
    devices: &Devices,
) -> Vec<ToldCase<'u>> {
    let universe = &covered.universe;
    let mut all = Vec::new();
    for (number, case) in covered.cases.iter().enumerate() {
        let Case { example: point, other, verified, depends } = case;
        let Some(example) = Example::new(universe, point) else { continue };
        let of_it = covered.rules.iter().filter(|(_, c)| *c == Coverage::Case(number));
        let mut its_rules: Vec<RuleIndex> = of_it.map(|(rule, _)| *rule).collect();
        let mut meets: Vec<String> =
            its_rules.iter().map(|rule| rules.rule_text(*rule, devices)).collect();
        for element in covered.elements.iter().filter(|e| e.case == Some(number)) {
            if !its_rules.contains(&element.rule) {
                its_rules.push(element.rule);
            }
            let rule = rules.rule_text(element.rule, devices);
            meets.push(format!("{rule}: element {}", words.key(&element.key)));
        }
        let fate = penstock_symbolic::Fate { end: verified.end, written: Vec::new() };
        all.push(ToldCase {
            number,
            example,
            other: other.as_ref().and_then(|point| Example::new(universe, point)),
            such: words.example(point, &parts(universe, point), depends),
            fate: words.fate(&fate),
            meets,
            rules: its_rules,
            depends: !depends.is_empty(),
        });
    }
    all
}

/// `1 packet`, `2 packets`.
fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
