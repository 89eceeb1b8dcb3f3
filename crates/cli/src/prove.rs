// SPDX-License-Identifier: Apache-2.0

//! `penstock prove`: whether what is claimed of all packets holds.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{errln, out};
use penstock_program::image::RuleIndex;
use penstock_symbolic::{
    Claim, Example, Fate, Program, Proof, Side, Unanswered, check, diff, parts, prove,
};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::recognise::{self, hinted};
use crate::setup::sentence;
use crate::symbolic::claims::{Kind, Line, claims};
use crate::symbolic::hooks::Station;
use crate::symbolic::load::{Devices, Loaded, Source};
use crate::symbolic::matches::Matches;
use crate::symbolic::opened::Opened;
use crate::symbolic::told::{Told, confirmed, rule_of};
use crate::symbolic::words::Words;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (symbolic::TITLE, symbolic::OPTIONS)];

const OPTIONS: &[Opt] = &[
    symbolic::RULES,
    symbolic::LIVE,
    long("junit", "write the results to FILE, as CI systems read them")
        .takes("FILE", Values::Files),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock prove [OPTIONS] --rules RULES CLAIMS\n\n\
         Proves of all packets what the file CLAIMS says of one hook, or shows a packet for which it\n\
         does not hold. A claim is a line, `#` begins a comment:\n\n  \
           never accept MATCHES...\n  \
           always accept MATCHES...\n  \
           same FILE\n\n\
         In place of accept: drop, reject, queue. MATCHES are matches of rules; `same` says that the\n\
         ruleset of FILE does the same with all packets.\n\n\
         {}\n{}:\n{}\n\
         The exit status is 0 if all claims hold, 1 if one does not, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::TITLE,
        usage_lines(symbolic::OPTIONS, 28)
    )
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rules: Source,
    claims: PathBuf,
    junit: Option<PathBuf>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut rules, mut live, mut claims, mut junit) = (None, false, None, None);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("live") => live = true,
            Long("rules") => rules = Some(parser.value().map_err(sentence)?.into()),
            Long("junit") => junit = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(file) if claims.is_none() => claims = Some(PathBuf::from(file)),
            other => return Err(sentence(other.unexpected())),
        }
    }
    let rules = Source::given(rules, live)?;
    let claims = claims.ok_or("the file of claims is missing")?;
    Ok(Some(Asked { rules, claims, junit, settings }))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("prove", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    symbolic::status(all(&asked))
}

/// A claim that was decided: its line, and why it does not hold.
struct Decided {
    number: usize,
    text: String,
    wrong: Option<String>,
}

/// Whether all claims hold; prints which do.
fn all(asked: &Asked) -> Result<bool, String> {
    let lines =
        claims(&asked.claims).map_err(|e| hinted(&e, &asked.claims, recognise::Given::Other))?;
    let Opened { devices, rules, stations } = Opened::new(&asked.rules, &asked.settings)?;
    let station = only(&stations)?;
    let judge = Judge { station, rules: &rules, asked, devices: &devices };
    let mut outcomes = judge.outcomes(&lines)?.into_iter();
    let mut decided = Vec::new();
    for line in &lines {
        let wrong = match &line.kind {
            Kind::Outcome { .. } => outcomes.next().flatten(),
            Kind::Same(file) => judge.same(file)?,
        };
        decided.push(Decided { number: line.number, text: line.text.clone(), wrong });
    }
    let mut held = true;
    for Decided { number, text, wrong } in &decided {
        match wrong {
            None => out!("holds     {}:{number}: {text}\n", asked.claims.display()),
            Some(wrong) => {
                held = false;
                out!("refuted   {}:{number}: {text}\n{wrong}", asked.claims.display());
            }
        }
    }
    if let Some(file) = &asked.junit {
        let text = junit(&asked.claims, &decided);
        std::fs::write(file, text).map_err(|e| format!("Error: {}: {e}", file.display()))?;
    }
    Ok(held)
}

/// The hook that claims are about, if there is but one.
fn only(stations: &[Station]) -> Result<&Station, String> {
    if let [station] = stations {
        return Ok(station);
    }
    let names: Vec<&str> = stations.iter().map(|station| &*station.name).collect();
    Err(format!(
        "Error: claims are about one hook: --hook or --chain says which of {}",
        names.join(", ")
    ))
}

/// Decides claims about a ruleset.
struct Judge<'a> {
    station: &'a Station,
    rules: &'a Loaded,
    asked: &'a Asked,
    devices: &'a Devices,
}

impl Judge<'_> {
    /// Decides the claims about outcomes, in their order: why those that do not hold do not.
    fn outcomes(&self, lines: &[Line]) -> Result<Vec<Option<String>>, String> {
        let &Judge { station, rules, asked, devices } = self;
        let file = asked.claims.display();
        let mut outcome_lines = Vec::new();
        let mut all = Vec::new();
        for line in lines {
            let Kind::Outcome { always, outcome, matches } = &line.kind else { continue };
            let wrong = |e| format!("Error: {file}:{}: {e}\n{}", line.number, line.text);
            outcome_lines.push((line, *always, *outcome));
            all.push(Matches::new(matches, station, devices, rules.now).map_err(wrong)?);
        }
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let programs: Result<Vec<Program<'_>>, String> =
            all.iter().map(|one| one.program(&asked.settings)).collect();
        let programs = programs?;
        let claims: Vec<Claim<'_>> = outcome_lines
            .iter()
            .zip(&programs)
            .map(|((_, always, outcome), matches)| Claim {
                matches,
                always: *always,
                outcome: *outcome,
            })
            .collect();
        let program = station.program(rules, &asked.settings, &mut HashMap::new());
        let proofs = prove(station.place, &program, &claims, asked.settings.limits);
        let proofs = proofs.map_err(|unanswered| match unanswered {
            Unanswered::Rules(failure) => station.failed(rules, devices, &failure),
            Unanswered::Match(number, failure) => {
                let (line, ..) = outcome_lines[number];
                format!("Error: {file}:{}: {failure}\n{}", line.number, line.text)
            }
        })?;
        let rule_name = |number: u32| rules.rule_place(RuleIndex(number), devices);
        let listing = rules.listing(&rules.generation, devices);
        let words = Words::new(listing, station.place, &proofs.universe, &rule_name);
        let mut refuted = Vec::new();
        for ((line, ..), proof) in outcome_lines.iter().zip(&proofs.proofs) {
            if *proof == Proof::NothingMatches {
                errln!("note: {file}:{}: no packet can match this", line.number);
            }
            refuted.push(self.refuted(&words, proof, &program)?);
        }
        Ok(refuted)
    }

    /// The packet for which a claim does not hold, with the rules that it meets.
    fn refuted(
        &self,
        words: &Words<'_>,
        proof: &Proof,
        program: &Program<'_>,
    ) -> Result<Option<String>, String> {
        let Proof::Refuted { example, end, decider, depends } = proof else { return Ok(None) };
        let universe = words.universe();
        let fate = Fate { end: *end, written: Vec::new() };
        let such = words.example(example, &parts(universe, example), depends);
        let mut text = format!("          by: {such}\n");
        match Example::new(universe, example) {
            None => text.push_str("          (no example could be made)\n"),
            Some(made) => {
                let verified = confirmed(check(&made, program, &fate, &[*decider]))?;
                for rule in &verified.met {
                    let rule = self.rules.rule_text(*rule, self.devices);
                    text.push_str(&format!("          {rule}\n"));
                }
            }
        }
        if decider.rule.is_none() {
            let policy = self.rules.decider_text(*decider, self.devices);
            text.push_str(&format!("          {policy}\n"));
        }
        text.push_str(&format!("          {}\n", words.fate(&fate)));
        Ok(Some(text))
    }

    /// Whether another ruleset does the same; if not, for which packets it does not.
    fn same(&self, file: &Path) -> Result<Option<String>, String> {
        let &Judge { station, rules, asked, devices } = self;
        let other = Loaded::new(&Source::File(file.to_owned()), devices, rules.now)?;
        let mut sets = HashMap::new();
        let mut there = station.program(&other, &asked.settings, &mut sets);
        let mut here = station.program(rules, &asked.settings, &mut sets);
        let found = diff(station.place, &mut there, &mut here, asked.settings.limits);
        let difference = found.map_err(|(side, failure)| {
            let side = if side == Side::Old { &other } else { rules };
            station.failed(side, devices, &failure)
        })?;
        let Some(class) = difference.classes.first() else { return Ok(None) };
        let sides = [(&other, &there), (rules, &here)];
        let rule_name = |number: u32| rule_of(number, &sides, devices);
        let listing = rules.listing(&rules.generation, devices);
        let words = Words::new(listing, station.place, &difference.universe, &rule_name);
        let told = Told::new(&words, class, &sides, devices)?;
        let mut text = format!("          by: {}\n", told.packets.join("\n           or "));
        for (word, fate) in ["there", "here"].into_iter().zip(&told.fates) {
            text.push_str(&format!("          {word}: {}", fate.text("              ")));
        }
        text.push_str(&format!("       {}", told.example_text()));
        Ok(Some(text))
    }
}

fn junit(file: &Path, all: &[Decided]) -> String {
    let escaped = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let failures = all.iter().filter(|claim| claim.wrong.is_some()).count();
    let name = escaped(&file.display().to_string());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n<testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">\n",
        all.len()
    );
    for claim in all {
        let case = escaped(&claim.text);
        text.push_str(&format!("<testcase classname=\"{name}\" name=\"{case}\""));
        match &claim.wrong {
            None => text.push_str("/>\n"),
            Some(wrong) => text.push_str(&format!(
                "><failure message=\"refuted\">{}</failure></testcase>\n",
                escaped(wrong)
            )),
        }
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_are_known() {
        let all = SECTIONS.iter().flat_map(|(_, options)| options.iter());
        crate::options::assert_known(all, |line| {
            parse(line.split(' ').map(OsString::from)).map(|_| ())
        });
    }
}
