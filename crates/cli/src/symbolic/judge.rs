// SPDX-License-Identifier: Apache-2.0

//! Whether claims hold of a ruleset, and a packet for which one does not.

use std::collections::HashMap;
use std::path::Path;

use penstock_lang::names::Names;
use penstock_program::image::RuleIndex;
use penstock_symbolic::{
    Claim, Claimed, End, Example, Fate, Program, Proof, Side, Start, Unanswered, check, diff,
    parts, prove,
};

use super::Settings;
use super::claims::{About, Claims, Kind, Line};
use super::hooks::{Station, stations};
use super::load::{Devices, Loaded, Source};
use super::matches::Matches;
use super::told::{Told, confirmed, rule_of};
use super::words::Words;

/// A claim that was decided.
pub struct Decided<'c> {
    /// The claim.
    pub line: &'c Line,
    /// No packet can match what it is about.
    pub is_empty: bool,
    /// Why it does not hold.
    pub wrong: Option<String>,
}

impl Decided<'_> {
    /// With what was decided of other packets: it holds of all of them, or not.
    fn join(&mut self, other: Decided<'_>) {
        self.is_empty &= other.is_empty;
        self.wrong = self.wrong.take().or(other.wrong);
    }
}

/// Decides claims of a ruleset, in their order.
///
/// # Errors
/// What a claim is about is not there, or cannot be evaluated.
pub fn decide<'c>(
    claims: &'c Claims,
    rules: &Loaded,
    devices: &Devices<'_>,
    settings: &Settings,
) -> Result<Vec<Decided<'c>>, String> {
    let mut decided = Vec::new();
    // Claims about one hook are decided together.
    for lines in claims.lines.chunk_by(|a, b| a.about == b.about) {
        let placed = match &lines[0].about {
            About::Way(net) => claims.network(net).map(|net| rules.placed(net)).transpose()?,
            _ => None,
        };
        let rules = placed.as_ref().unwrap_or(rules);
        let mut all: Vec<Decided<'c>> = Vec::new();
        for station in about(&lines[0].about, rules, settings)? {
            let judge = Judge { file: &claims.file, station, rules, settings, devices };
            let here = judge.lines(lines)?;
            match all.is_empty() {
                true => all = here,
                // What arrives, and what the host sends.
                false => all.iter_mut().zip(here).for_each(|(known, here)| known.join(here)),
            }
        }
        decided.extend(all);
    }
    Ok(decided)
}

/// The chains that claims are about: those of one hook, or of the ways through a network.
fn about(about: &About, rules: &Loaded, settings: &Settings) -> Result<Vec<Station>, String> {
    let found = match about {
        About::Given => stations(&[rules], settings)?,
        About::Hook(name) => vec![name.station(rules)?],
        About::Way(_) => {
            let whole = Settings { chain: None, hook: None, ..settings.clone() };
            stations(&[rules], &whole)?
        }
        About::Chain(chain) => {
            stations(&[rules], &Settings { chain: Some(chain.clone()), ..settings.clone() })?
        }
    };
    if found.len() == 1 || found.iter().all(|station| station.way.is_some()) && !found.is_empty() {
        return Ok(found);
    }
    if found.is_empty() {
        return Err(format!("Error: {}: there are no base chains", rules.file));
    }
    let names: Vec<String> = found.iter().map(|station| station.name.clone()).collect();
    Err(format!(
        "Error: claims are about one hook: a line `hook ...` or `chain ...` before them, \
         --hook or --chain says which of {}",
        names.join(", ")
    ))
}

/// Decides claims about the chains of one hook.
struct Judge<'a> {
    /// What the file of claims is called.
    file: &'a str,
    station: Station,
    rules: &'a Loaded,
    settings: &'a Settings,
    devices: &'a Devices<'a>,
}

impl Judge<'_> {
    fn lines<'c>(&self, lines: &'c [Line]) -> Result<Vec<Decided<'c>>, String> {
        let claimed = lines.iter().map(|line| Ok((line, self.claimed(line)?)));
        let claimed = claimed.collect::<Result<Vec<_>, String>>()?;
        let mut outcomes = self.outcomes(&claimed)?.into_iter();
        let mut decided = Vec::new();
        for (line, claimed) in claimed {
            decided.push(match (&line.kind, claimed) {
                (Kind::Same(file), _) => Decided { line, is_empty: false, wrong: self.same(file)? },
                (_, None) => Decided { line, is_empty: true, wrong: None },
                (_, Some(_)) => outcomes.next().expect("one for each claim"),
            });
        }
        Ok(decided)
    }

    /// What a line claims of the packets here, and the matches of those that it is about; `None` if
    /// it is about others, or no such claim.
    fn claimed<'l>(&self, line: &'l Line) -> Result<Option<(Claimed, &'l str)>, String> {
        let wrong = |e: String| format!("Error: {}:{}: {e}\n{}", self.file, line.number, line.text);
        let device = |name: &str| {
            let network = self.rules.network.as_ref().filter(|_| self.station.way.is_some());
            let no_network = || {
                wrong(
                    "this is about the way through a network: --net, or a line `net FILE`"
                        .to_owned(),
                )
            };
            let network = network.ok_or_else(no_network)?;
            let known = network.link_by_name(name).and(self.devices.interface_index(name));
            known.ok_or_else(|| wrong(format!("the network has no device `{name}`")))
        };
        Ok(Some(match &line.kind {
            Kind::Outcome { always: true, outcome, matches } => {
                (Claimed::Always(*outcome), matches)
            }
            Kind::Outcome { always: false, outcome, matches } => {
                (Claimed::Never(*outcome), matches)
            }
            Kind::Leave { always, device: name, matches } => match always {
                true => (Claimed::AlwaysLeaves(device(name)?), matches),
                false => (Claimed::NeverLeaves(device(name)?), matches),
            },
            Kind::Reach { of_host, to, matches } => {
                let to = match to {
                    Some(name) => End::Leaves(device(name)?),
                    None => device("lo").map(|_| End::Host)?,
                };
                let here = if *of_host { Start::Host } else { Start::Arrival };
                if self.station.way != Some(here) {
                    return Ok(None);
                }
                (Claimed::Reaches(to), matches)
            }
            Kind::Same(_) => return Ok(None),
        }))
    }

    /// Decides what lines claim of packets, in their order.
    fn outcomes<'c>(
        &self,
        lines: &[(&'c Line, Option<(Claimed, &str)>)],
    ) -> Result<Vec<Decided<'c>>, String> {
        let &Judge { file, ref station, rules, settings, devices } = self;
        let mut outcome_lines = Vec::new();
        let mut all = Vec::new();
        for (line, claimed) in lines {
            let Some((what, matches)) = *claimed else { continue };
            let wrong = |e| format!("Error: {file}:{}: {e}\n{}", line.number, line.text);
            outcome_lines.push((*line, what));
            all.push(Matches::new(matches, station, devices, rules.now).map_err(wrong)?);
        }
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let programs: Result<Vec<Program<'_>>, String> =
            all.iter().map(|one| one.program(devices, settings)).collect();
        let programs = programs?;
        let claims: Vec<Claim<'_>> = outcome_lines
            .iter()
            .zip(&programs)
            .map(|((_, what), matches)| Claim { matches, what: *what })
            .collect();
        let program = station.program(rules, devices, settings, &mut HashMap::new());
        let proofs = prove(station.place, &program, &claims, settings.limits);
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
        let mut decided = Vec::new();
        for ((line, ..), proof) in outcome_lines.iter().zip(&proofs.proofs) {
            let wrong = self.refuted(&words, proof, &program)?;
            decided.push(Decided { line, is_empty: *proof == Proof::NothingMatches, wrong });
        }
        Ok(decided)
    }

    /// The packet for which a claim does not hold, with the rules that it meets.
    fn refuted(
        &self,
        words: &Words<'_>,
        proof: &Proof,
        program: &Program<'_>,
    ) -> Result<Option<String>, String> {
        let (example, end, decider, depends) = match proof {
            Proof::Refuted { example, end, decider, depends } => (example, end, decider, depends),
            Proof::NothingReaches => {
                return Ok(Some("          routing leads no packet there\n".to_owned()));
            }
            Proof::Holds | Proof::NothingMatches => return Ok(None),
        };
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
        if decider.rule.is_none() && !end.is_refused() {
            let policy = self.rules.decider_text(*decider, self.devices);
            text.push_str(&format!("          {policy}\n"));
        }
        text.push_str(&format!("          {}\n", words.fate(&fate)));
        Ok(Some(text))
    }

    /// Whether another ruleset does the same; if not, for which packets it does not.
    fn same(&self, file: &Path) -> Result<Option<String>, String> {
        let &Judge { ref station, rules, settings, devices, .. } = self;
        let other = Loaded::new(&Source::File(file.to_owned()), devices, rules.now)?;
        let other = other.on(rules.network.clone())?;
        let mut sets = HashMap::new();
        let mut there = station.program(&other, devices, settings, &mut sets);
        let mut here = station.program(rules, devices, settings, &mut sets);
        let found = diff(station.place, &mut there, &mut here, settings.limits);
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
