// SPDX-License-Identifier: Apache-2.0

//! `penstock ask --matrix`: which device reaches which, and with what.

use std::collections::{BTreeSet, HashMap};

use penstock_lang::names::Names;
use penstock_program::Hook;
use penstock_program::expr::MetaKey;
use penstock_program::image::RuleIndex;
use penstock_symbolic::{
    Answer, Answers, Class, End, Program, Query, Start, Unanswered, Universe, ask, compared,
};
use serde_json::{Value as Json, json};

use super::passes;
use crate::symbolic::Settings;
use crate::symbolic::hooks::{HookName, Station, stations};
use crate::symbolic::load::{Devices, Loaded};
use crate::symbolic::matches::Matches;
use crate::symbolic::told::Told;
use crate::symbolic::words::Words;

/// Devices that a matrix has rows and columns for, at most.
const MOST: usize = 64;
/// What packets are asked about where nothing is said: those that begin a connection.
const NEW: &str = "ct state new";
/// Bytes of a cell beyond which its text stands below the table.
const WIDE: usize = 28;

/// Where packets come from, or go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host itself.
    Host,
    /// A device that rules name.
    Device(String),
    /// All other devices.
    Other,
}

impl Side {
    /// In a heading.
    pub fn name(&self) -> &str {
        match self {
            Side::Host => "the host",
            Side::Device(name) => name,
            Side::Other => "others",
        }
    }
}

/// What passes from one side to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passes {
    /// Packets do not go this way.
    NoWay,
    /// Everything that was asked about.
    All,
    /// Nothing of it.
    Nothing,
    /// What these lines say.
    Some(Vec<String>),
}

impl Passes {
    /// In a cell; `None` if there is more to say.
    pub fn short(&self) -> Option<&str> {
        match self {
            Passes::NoWay => Some(""),
            Passes::All => Some("all"),
            Passes::Nothing => Some("none"),
            Passes::Some(lines) => match &lines[..] {
                [line] if line.len() <= WIDE => Some(line),
                _ => None,
            },
        }
    }

    fn json(&self) -> Json {
        match self {
            Passes::NoWay => Json::Null,
            Passes::All => json!("all"),
            Passes::Nothing => json!("none"),
            Passes::Some(lines) => json!(lines),
        }
    }
}

/// Which side reaches which.
pub struct Matrix {
    /// What was asked about.
    pub about: String,
    /// The ruleset.
    pub rules: String,
    /// Rows and columns.
    pub sides: Vec<Side>,
    /// Row by row: from the side of the row to that of the column.
    pub cells: Vec<Vec<Passes>>,
}

/// What is asked.
struct Question<'a> {
    rules: &'a Loaded,
    devices: &'a Devices<'a>,
    settings: &'a Settings,
    /// Matches of all packets that are asked about.
    about: String,
    /// Devices that rules name, and whether they do by index.
    named: Vec<(String, bool)>,
}

impl Matrix {
    /// Asks which device reaches which with packets that matches are about; with those that begin a
    /// connection, unless the matches are about `ct state`.
    ///
    /// # Errors
    /// The ruleset cannot be evaluated, or the matches are none.
    pub fn new(
        rules: &Loaded,
        devices: &Devices<'_>,
        settings: &Settings,
        matches: &str,
    ) -> Result<Matrix, String> {
        let about = match (matches.is_empty(), matches.contains("ct state")) {
            (true, _) => NEW.to_owned(),
            (_, true) => matches.to_owned(),
            (_, false) => format!("{NEW} {matches}"),
        };
        if rules.network.is_some() {
            return Matrix::of_network(rules, devices, settings, about);
        }
        let named = named(rules, devices, settings)?;
        let devices_of = |(name, _): &(String, bool)| Side::Device(name.clone());
        let sides = [Side::Host].into_iter().chain(named.iter().map(devices_of));
        let sides: Vec<Side> = sides.chain([Side::Other]).collect();
        let question = Question { rules, devices, settings, about, named };
        let mut cells = Vec::new();
        for from in &sides {
            let row: Result<Vec<Passes>, String> =
                sides.iter().map(|to| question.passes(from, to)).collect();
            cells.push(row?);
        }
        Ok(Matrix { about: question.about, rules: rules.file.clone(), sides, cells })
    }

    /// Each way that packets may go, with what passes.
    pub fn ways(&self) -> impl Iterator<Item = (&Side, &Side, &Passes)> {
        self.sides.iter().zip(&self.cells).flat_map(|(from, row)| {
            self.sides.iter().zip(row).map(move |(to, passes)| (from, to, passes))
        })
    }

    /// As a table for a terminal. What is long stands below it.
    pub fn text(&self) -> String {
        // What is long, and the ways that it is about.
        let mut notes: Vec<(&[String], Vec<String>)> = Vec::new();
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(self.sides.iter().map(|side| side.name().to_owned()));
        for (from, row) in self.sides.iter().zip(&self.cells) {
            let mut cells = vec![from.name().to_owned()];
            for (to, passes) in self.sides.iter().zip(row) {
                cells.push(match (passes.short(), passes) {
                    (None, Passes::Some(lines)) => {
                        let way = format!("{} to {}", from.name(), to.name());
                        let known = notes.iter().position(|(of, _)| *of == &lines[..]);
                        let at = known.unwrap_or_else(|| {
                            notes.push((lines, Vec::new()));
                            notes.len() - 1
                        });
                        notes[at].1.push(way);
                        format!("[{}]", at + 1)
                    }
                    (text, _) => text.unwrap_or_default().to_owned(),
                });
            }
            rows.push(cells);
        }
        let widths: Vec<usize> = (0..=self.sides.len())
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = format!("{}, from row to column: {}\n\n", self.rules, self.about);
        for row in rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for (number, (lines, ways)) in (1..).zip(notes) {
            let (ways, lines) = (ways.join(", "), lines.join("\n   or "));
            text.push_str(&format!("\n[{number}] {ways}\n   {lines}\n"));
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Json {
        let ways = self.ways().filter(|(_, _, passes)| **passes != Passes::NoWay);
        let ways: Vec<Json> = ways
            .map(|(from, to, passes)| {
                json!({ "from": from.name(), "to": to.name(), "passes": passes.json() })
            })
            .collect();
        json!({ "about": self.about, "rules": self.rules, "ways": ways })
    }
}

/// The hook of packets that go from one side to another.
fn hook(from: &Side, to: &Side) -> Option<Hook> {
    match (from, to) {
        (Side::Host, Side::Host) => None,
        (Side::Host, _) => Some(Hook::Output),
        (_, Side::Host) => Some(Hook::Input),
        _ => Some(Hook::Forward),
    }
}

/// The chains of a hook of the inet family, which may be none.
fn station(hook: Hook, rules: &Loaded) -> Result<Station, String> {
    HookName { family: penstock_program::Family::Inet, hook, device: None }.station(rules)
}

/// Devices that rules name, in the order of their names, and whether any rule does so by index.
fn named(
    rules: &Loaded,
    devices: &Devices<'_>,
    settings: &Settings,
) -> Result<Vec<(String, bool)>, String> {
    let (mut names, mut indexes) = (BTreeSet::new(), BTreeSet::new());
    for hook in [Hook::Input, Hook::Forward, Hook::Output] {
        let station = station(hook, rules)?;
        let program = station.program(rules, devices, settings, &mut HashMap::new());
        for value in
            [MetaKey::IifName, MetaKey::OifName].iter().flat_map(|k| compared(&program, *k))
        {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            names.insert(String::from_utf8_lossy(name).into_owned());
        }
        for value in [MetaKey::Iif, MetaKey::Oif].iter().flat_map(|k| compared(&program, *k)) {
            let index = <[u8; 4]>::try_from(&value[..]).map(u32::from_ne_bytes);
            let name = index.ok().and_then(|index| devices.interface_name(index));
            indexes.extend(name);
        }
    }
    names.extend(indexes.iter().cloned());
    names.retain(|name| !name.is_empty());
    if names.len() > MOST {
        return Err(format!("Error: --matrix: rules name {} devices, {MOST} at most", names.len()));
    }
    Ok(names.into_iter().map(|name| (name.clone(), indexes.contains(&name))).collect())
}

/// What answers are put into words with.
struct Named<'a> {
    rules: &'a Loaded,
    devices: &'a Devices<'a>,
    station: &'a Station,
}

impl Named<'_> {
    /// What passes of the packets that an answer is about.
    fn passes(
        &self,
        universe: &Universe,
        program: &Program<'_>,
        answer: &Answer,
        passes: impl Fn(&Class) -> bool,
    ) -> Result<Passes, String> {
        let Answer { classes, nfproto, transport } = answer;
        let passing: Vec<&Class> = classes.iter().filter(|class| passes(class)).collect();
        match passing.len() {
            0 => return Ok(Passes::Nothing),
            count if count == classes.len() => return Ok(Passes::All),
            _ => {}
        }
        let rule_name = |number: u32| self.rules.rule_place(RuleIndex(number), self.devices);
        let listing = self.rules.listing(&self.rules.generation, self.devices);
        let words = Words::new(listing, self.station.place, universe, &rule_name)
            .of_protocols(*nfproto, *transport);
        let mut lines = Vec::new();
        for class in passing {
            let told = Told::new(&words, class, &[(self.rules, program)], self.devices)?;
            lines.extend(told.packets.iter().cloned());
            if told.more {
                lines.push("others like these".to_owned());
            }
        }
        Ok(Passes::Some(lines))
    }
}

impl Matrix {
    /// Asks of each device of the network, and of the host, which others it reaches.
    fn of_network(
        rules: &Loaded,
        devices: &Devices<'_>,
        settings: &Settings,
        about: String,
    ) -> Result<Matrix, String> {
        let stations = stations(&[rules], settings)?;
        let links = rules.network.iter().flat_map(|net| net.links());
        let names: Vec<String> = links
            .filter(|link| link.up && !link.is_loopback())
            .map(|link| link.name.to_string())
            .collect();
        if names.len() > MOST {
            return Err(format!("Error: --matrix: {} devices, {MOST} at most", names.len()));
        }
        let sides = [Side::Host].into_iter().chain(names.into_iter().map(Side::Device));
        let sides: Vec<Side> = sides.collect();
        let mut cells = vec![vec![Passes::NoWay; sides.len()]; sides.len()];
        for station in &stations {
            let is_row = |side: &Side| (*side == Side::Host) == (station.way == Some(Start::Host));
            let mut asked = Vec::new();
            for (row, from) in sides.iter().enumerate().filter(|(_, side)| is_row(side)) {
                let text = match from {
                    Side::Device(name) => format!("iifname \"{name}\" {about}"),
                    Side::Host | Side::Other => about.clone(),
                };
                let matches = Matches::new(&text, station, devices, rules.now)
                    .map_err(|e| format!("Error: {e}\n{text}"))?;
                asked.push((row, text, matches));
            }
            let programs: Result<Vec<Program<'_>>, String> =
                asked.iter().map(|(.., matches)| matches.program(devices, settings)).collect();
            let programs = programs?;
            let (mut queries, mut places) = (Vec::new(), Vec::new());
            for ((row, ..), matches) in asked.iter().zip(&programs) {
                for (column, to) in sides.iter().enumerate() {
                    let to = match to {
                        Side::Host if *row == 0 => continue,
                        Side::Host | Side::Other => End::Host,
                        Side::Device(name) => {
                            End::Leaves(devices.interface_index(name).unwrap_or_default())
                        }
                    };
                    queries.push(Query { matches, led: Some(to) });
                    places.push((*row, column, to));
                }
            }
            let program = station.program(rules, devices, settings, &mut HashMap::new());
            let answers = ask(station.place, &program, &queries, settings.limits);
            let Answers { universe, all } = answers.map_err(|unanswered| match unanswered {
                Unanswered::Rules(failure) => station.failed(rules, devices, &failure),
                Unanswered::Match(_, failure) => format!("Error: {about}: {failure}"),
            })?;
            let named = Named { rules, devices, station };
            for ((row, column, to), answer) in places.into_iter().zip(&all) {
                // Where nothing is led there is no way.
                if !answer.classes.is_empty() {
                    let arrives = |class: &Class| class.fates[0].end == to;
                    cells[row][column] = named.passes(&universe, &program, answer, arrives)?;
                }
            }
        }
        Ok(Matrix { about, rules: rules.file.clone(), sides, cells })
    }
}

impl Question<'_> {
    /// What passes from one side to another.
    fn passes(&self, from: &Side, to: &Side) -> Result<Passes, String> {
        let Some(hook) = hook(from, to) else { return Ok(Passes::NoWay) };
        let station = station(hook, self.rules)?;
        let words = [self.matches("iif", from), self.matches("oif", to), self.about.clone()];
        let text = words.join(" ");
        let matches = Matches::new(&text, &station, self.devices, self.rules.now)
            .map_err(|e| format!("Error: {e}\n{text}"))?;
        let program = station.program(self.rules, self.devices, self.settings, &mut HashMap::new());
        let asked = matches.program(self.devices, self.settings)?;
        let query = Query { matches: &asked, led: None };
        let answers = ask(station.place, &program, &[query], self.settings.limits);
        let Answers { universe, all } = answers.map_err(|unanswered| match unanswered {
            Unanswered::Rules(failure) => station.failed(self.rules, self.devices, &failure),
            Unanswered::Match(_, failure) => format!("Error: {text}: {failure}"),
        })?;
        let named = Named { rules: self.rules, devices: self.devices, station: &station };
        named.passes(&universe, &program, &all[0], passes)
    }

    /// Matches of packets from (`iif`) or to (`oif`) a side.
    fn matches(&self, key: &str, side: &Side) -> String {
        // Names of those that rules know by index, or of all, as a set.
        let all = |by_index: bool| -> Option<String> {
            let of_it = self.named.iter().filter(|(_, index)| *index || !by_index);
            let names: Vec<String> = of_it.map(|(name, _)| format!("\"{name}\"")).collect();
            (!names.is_empty()).then(|| format!("{{ {} }}", names.join(", ")))
        };
        let not_by_index = all(true).map(|names| format!("{key} != {names}"));
        let parts = match side {
            Side::Host => return String::new(),
            Side::Device(name) => {
                let by_index = self.named.iter().any(|(of, by_index)| of == name && *by_index);
                let index = if by_index { Some(format!("{key} \"{name}\"")) } else { not_by_index };
                [index, Some(format!("{key}name \"{name}\""))]
            }
            Side::Other => [not_by_index, all(false).map(|names| format!("{key}name != {names}"))],
        };
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}
