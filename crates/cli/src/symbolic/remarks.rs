// SPDX-License-Identifier: Apache-2.0

//! Parts of a ruleset that make no difference, as warnings of `nft --lint`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use penstock_lang::session::{Remark, RemarkOn};
use penstock_program::Family;
use penstock_program::image::{ChainIndex, RuleIndex};
use penstock_symbolic::{Coverage, Failure, Limits, Review, Use, reachable, review};

use super::Settings;
use super::hooks::{Station, stations};
use super::load::{Devices, Loaded};
use super::words::Words;

/// Time for all hooks of a ruleset, at most.
const TIME: Duration = Duration::from_secs(15);

/// What was found so far, at all hooks: of what packets of one hook need nothing is said.
#[derive(Default)]
struct Found {
    /// Rules, and what is said of them; `None` where nothing is to be said.
    rules: BTreeMap<RuleIndex, Option<String>>,
    /// Elements, by rule and number.
    elements: BTreeMap<(RuleIndex, usize), Option<String>>,
    /// Base chains to whose end packets come, or not.
    policies: BTreeMap<ChainIndex, bool>,
    /// Rules that cannot be evaluated, and why.
    failed: BTreeSet<(RuleIndex, &'static str)>,
    /// Hooks that were not decided within limits.
    undecided: Vec<String>,
}

/// Warnings about a ruleset.
pub fn remarks(rules: &Loaded, devices: &Devices<'_>, settings: &Settings) -> Vec<Remark> {
    let mut found = Found::default();
    let end = Instant::now() + settings.limits.time.min(TIME);
    for station in stations(&[rules], settings).unwrap_or_default() {
        let time = end.saturating_duration_since(Instant::now());
        let limits = Limits { time, ..settings.limits };
        let program = station.program(rules, devices, settings, &mut HashMap::new());
        match review(station.place, &program, limits) {
            Ok(review) => found.add(&review, &station, rules, devices),
            Err(failure) => {
                for rule in reachable(&program) {
                    found.rules.insert(rule, None);
                }
                match failure {
                    Failure::NoMeaning { rule, reason } => {
                        found.failed.insert((rule, reason));
                    }
                    Failure::Undecided { .. } => found.undecided.push(station.name),
                }
            }
        }
    }
    found.remarks(rules)
}

impl Found {
    /// Adds what was found at a hook.
    fn add(&mut self, review: &Review, station: &Station, rules: &Loaded, devices: &Devices<'_>) {
        for (rule, found) in &review.rules {
            let text = said(found, rules, devices);
            let known = self.rules.entry(*rule).or_insert_with(|| text.clone());
            // A rule that is met at another hook makes a difference there.
            if text.is_none() {
                *known = None;
            }
        }
        let rule_name = |number: u32| rules.rule_place(RuleIndex(number), devices);
        let listing = rules.listing(&rules.generation, devices);
        let words = Words::new(listing, station.place, &review.universe, &rule_name);
        for element in &review.elements {
            let text = (!element.is_met).then(|| {
                format!("no packet meets this rule by its element {}", words.key(&element.key))
            });
            let place = (element.rule, element.number);
            let known = self.elements.entry(place).or_insert_with(|| text.clone());
            if text.is_none() {
                *known = None;
            }
        }
        for (chain, is_met) in &review.policies {
            *self.policies.entry(*chain).or_default() |= *is_met;
        }
    }

    /// As warnings, in the order of the ruleset.
    fn remarks(self, rules: &Loaded) -> Vec<Remark> {
        let image = &rules.linked.image;
        let on_rule = |rule: RuleIndex, text: String| {
            let (family, table, _, handle) = image.place(rule)?;
            Some(Remark { family, table: table.to_string(), part: RemarkOn::Rule(handle), text })
        };
        let elements = self.elements.into_iter().map(|((rule, _), text)| (rule, text));
        let failed = self.failed.into_iter().map(|(rule, reason)| {
            let text = format!(
                "this rule cannot be evaluated for all packets ({reason}): \
                 at its hook, rules that make no difference are not sought"
            );
            (rule, Some(text))
        });
        let undecided = self.undecided.into_iter().map(|hook| Remark {
            family: Family::Inet,
            table: String::new(),
            part: RemarkOn::Nothing,
            text: format!(
                "rules of {hook} that make no difference are not all known: there are too many"
            ),
        });
        let on_rules = self.rules.into_iter().chain(elements).chain(failed);
        let on_rules = on_rules.filter_map(|(rule, text)| on_rule(rule, text?));
        let mut all: Vec<Remark> = undecided.chain(on_rules).collect();
        for (chain, is_met) in self.policies {
            let (Some(table), Some(linked)) = (image.table_of(chain), image.chain(chain)) else {
                continue;
            };
            if !is_met {
                all.push(Remark {
                    family: table.family,
                    table: table.name.to_string(),
                    part: RemarkOn::Policy(linked.name.to_string()),
                    text: "the policy of this chain is never reached".to_owned(),
                });
            }
        }
        all
    }
}

/// What is said of a rule.
fn said(found: &Use, rules: &Loaded, devices: &Devices<'_>) -> Option<String> {
    let why = match found {
        Use::Some => return None,
        Use::NoDifference => {
            return Some("without this rule the same becomes of each packet".to_owned());
        }
        Use::Never(Coverage::Taken(takers)) => {
            let mut takers = takers.clone();
            takers.sort_unstable();
            let (words, verb) = match takers.len() {
                1 => ("the rule", "takes"),
                _ => ("the rules", "together take"),
            };
            format!("{words} {} {verb} all of its packets", places(&takers, rules, devices))
        }
        Use::Never(Coverage::NothingMatches) => "no packet can match it here".to_owned(),
        Use::Never(Coverage::NothingComes) => {
            "no packet that matches it comes to its chain".to_owned()
        }
        Use::Never(Coverage::NotMatched) => "no packet that comes to it matches it".to_owned(),
        Use::Never(Coverage::Case(_) | Coverage::NotMade) => return None,
    };
    Some(format!("this rule never matches: {why}"))
}

/// Where rules are: `in line 3`, `in lines 3 and 5`, or each with its file.
fn places(all: &[RuleIndex], rules: &Loaded, devices: &Devices<'_>) -> String {
    let origins: Vec<_> = all
        .iter()
        .map(|rule| rules.rule(*rule, devices).and_then(|written| written.origin))
        .collect();
    let list = |words: Vec<String>| match words.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    };
    let one_file = origins.windows(2).all(|pair| match (&pair[0], &pair[1]) {
        (Some(a), Some(b)) => a.file == b.file,
        _ => false,
    });
    let lines: Option<Vec<String>> = match one_file {
        true => origins.iter().map(|origin| Some(origin.as_ref()?.line.to_string())).collect(),
        false => None,
    };
    match lines {
        Some(lines) => {
            format!("in line{} {}", if lines.len() == 1 { "" } else { "s" }, list(lines))
        }
        None => list(all.iter().map(|rule| rules.rule_place(*rule, devices)).collect()),
    }
}
