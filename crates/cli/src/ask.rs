// SPDX-License-Identifier: Apache-2.0

//! `penstock ask`: what becomes of the packets that matches are about.

mod matrix;
mod page;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{errln, now, out};
use penstock_program::image::RuleIndex;
use penstock_symbolic::{Answer, Answers, Class, End, Query, Unanswered, ask};
use serde_json::{Value as Json, json};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use crate::symbolic::hooks::Station;
use crate::symbolic::load::{Devices, Loaded, Source};
use crate::symbolic::matches::Matches;
use crate::symbolic::opened::Opened;
use crate::symbolic::told::Told;
use crate::symbolic::watched::watched;
use crate::symbolic::words::Words;
use crate::symbolic::{self, Settings};
use matrix::{Matrix, Passes};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 3] = [
    ("", OPTIONS),
    (symbolic::NETWORK_TITLE, symbolic::NETWORK),
    (symbolic::TITLE, symbolic::OPTIONS),
];

const OPTIONS: &[Opt] = &[
    symbolic::RULES,
    symbolic::LIVE,
    flag('j', "json", "print JSON"),
    symbolic::WRITE,
    long("matrix", "which device reaches which with the packets, as a table"),
    long("html", "write the table of --matrix to FILE, as a page for a browser")
        .takes("FILE", Values::Files),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock ask [OPTIONS] --rules RULES [MATCHES...]\n\n\
         Shows what becomes of all packets that MATCHES are about, matches of rules such as\n\
         `oifname lan tcp dport 22`; of all packets without them. For each hook: classes of packets,\n\
         the largest first, with their fate, the rules that decide, and an example.\n\n\
         With --matrix: which device reaches which, and the host, with packets that begin a\n\
         connection, unless MATCHES are about `ct state`.\n\n\
         {}\n{}:\n{}\n{}:\n{}\n\
         The exit status is 0 if some of the packets pass all hooks that are asked, 1 if at one of\n\
         them none do, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::NETWORK_TITLE,
        usage_lines(symbolic::NETWORK, 28),
        symbolic::TITLE,
        usage_lines(symbolic::OPTIONS, 28)
    )
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rules: Source,
    matches: String,
    json: bool,
    write: Option<PathBuf>,
    matrix: bool,
    html: Option<PathBuf>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut json, mut write) = (false, None);
    let (mut rules, mut live) = (None, false);
    let (mut matrix, mut html) = (false, None);
    let mut words: Vec<String> = Vec::new();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => json = true,
            Long("live") => live = true,
            Long("matrix") => matrix = true,
            Long("html") => html = Some(parser.value().map_err(sentence)?.into()),
            Long("rules") => rules = Some(parser.value().map_err(sentence)?.into()),
            Long("write") => write = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(word) => {
                words.push(word.into_string().map_err(|_| "matches are text".to_owned())?);
            }
            other => return Err(sentence(other.unexpected())),
        }
    }
    let of_hooks = write.is_some() || settings.chain.is_some() || settings.hook.is_some();
    if matrix && of_hooks {
        return Err("--matrix is about all hooks, and writes no captures".to_owned());
    }
    if html.is_some() && !matrix {
        return Err("--html is for --matrix".to_owned());
    }
    Ok(Some(Asked {
        rules: Source::given(rules, live)?,
        matches: words.join(" "),
        json,
        write,
        matrix,
        html,
        settings,
    }))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("ask", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    symbolic::status(if asked.matrix { matrix(&asked) } else { answer(&asked) })
}

/// Whether anything passes from anywhere to anywhere; prints or writes the matrix.
fn matrix(asked: &Asked) -> Result<bool, String> {
    let devices = Devices::of(&[&asked.rules]);
    let rules = Loaded::new(&asked.rules, &devices, now())?.on(asked.settings.network()?)?;
    let matrix = watched(|| Matrix::new(&rules, &devices, &asked.settings, &asked.matches))?;
    match &asked.html {
        Some(file) => std::fs::write(file, page::page(&matrix))
            .map_err(|e| format!("Error: {}: {e}", file.display()))?,
        None if asked.json => out!("{:#}\n", matrix.json()),
        None => out!("{}", matrix.text()),
    }
    Ok(matrix.ways().any(|(_, _, what)| !matches!(what, Passes::NoWay | Passes::Nothing)))
}

/// Whether the packets of a class pass.
fn passes(class: &Class) -> bool {
    matches!(class.fates[0].end, End::Accept | End::Queue { .. } | End::Host | End::Leaves(_))
}

/// What was found at a hook.
struct Found {
    text: String,
    json: Json,
    /// Some of the packets pass.
    pass: bool,
}

/// Whether some of the packets pass each hook; prints what becomes of them.
fn answer(asked: &Asked) -> Result<bool, String> {
    let Opened { devices, rules, stations } = Opened::new(&asked.rules, &asked.settings)?;
    symbolic::make_directory(asked.write.as_deref())?;
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    let mut count = 0;
    for station in &stations {
        match Matches::new(&asked.matches, station, &devices, rules.now) {
            Ok(matches) => {
                let at = || at(station, &rules, &matches, asked, &devices, &mut count);
                found.extend(watched(at)?);
            }
            // What can be asked depends on the family.
            Err(message) => refused.push(format!("{}: {message}", station.name)),
        }
    }
    if refused.len() == stations.len() {
        let message = refused[0].split_once(": ").map_or(&*refused[0], |(_, message)| message);
        return Err(format!("Error: {message}"));
    }
    for message in refused {
        errln!("note: not asked at {message}");
    }
    if found.is_empty() {
        errln!("note: no packet can match this");
    }
    match asked.json {
        true => {
            let all: Vec<&Json> = found.iter().map(|found| &found.json).collect();
            out!("{:#}\n", json!({ "hooks": all }));
        }
        false => {
            let all: Vec<&str> = found.iter().map(|found| &*found.text).collect();
            out!("{}", all.join("\n"));
        }
    }
    Ok(match asked.settings.net {
        // What arrives, or what the host sends.
        Some(_) => found.iter().any(|found| found.pass),
        None => !found.is_empty() && found.iter().all(|found| found.pass),
    })
}

/// What becomes of the packets at a hook; `None` if none of them can be there.
fn at(
    station: &Station,
    rules: &Loaded,
    matches: &Matches,
    asked: &Asked,
    devices: &Devices,
    count: &mut usize,
) -> Result<Option<Found>, String> {
    let program = station.program(rules, devices, &asked.settings, &mut HashMap::new());
    let matches = matches.program(devices, &asked.settings)?;
    let query = Query { matches: &matches, led: None };
    let answers = ask(station.place, &program, &[query], asked.settings.limits);
    let Answers { universe, mut all } = answers.map_err(|unanswered| match unanswered {
        Unanswered::Rules(failure) => station.failed(rules, devices, &failure),
        Unanswered::Match(_, failure) => format!("Error: {}: {failure}", asked.matches),
    })?;
    let Some(Answer { classes, nfproto, transport }) = all.pop() else { return Ok(None) };
    if classes.is_empty() {
        return Ok(None);
    }
    let rule_name = |number: u32| rules.rule_place(RuleIndex(number), devices);
    let listing = rules.listing(&rules.generation, devices);
    let words =
        Words::new(listing, station.place, &universe, &rule_name).of_protocols(nfproto, transport);
    let carried = classes.iter().filter(|c| !c.fates[0].end.is_refused()).count();
    let classes_word = if carried == 1 { "class" } else { "classes" };
    let mut text = format!("{}: {carried} {classes_word}\n", station.name);
    let mut all = Vec::new();
    let mut dropped: Vec<String> = Vec::new();
    for class in &classes {
        let is_refused = class.fates[0].end.is_refused();
        *count += usize::from(!is_refused);
        let told = Told::new(&words, class, &[(rules, &program)], devices)?;
        let written = match &asked.write {
            Some(dir) => told.write(dir, &station.capture_name(*count))?,
            None => None,
        };
        match is_refused {
            true => dropped.push(told.fates[0].text("").trim_end().to_owned()),
            false => {
                let fate = told.fates[0].text("   ");
                let _ = write!(text, "\n{count}. {}   {fate}", told.packets_text());
                text.push_str(&told.example_text());
            }
        }
        all.push(json!({
            "packets": told.packets,
            "complete": !class.more_boxes,
            "share": class.share,
            "becomes": told.fates[0].json(),
            "depends": !class.depends.is_empty(),
            "example": told.example_json(written),
        }));
    }
    if !dropped.is_empty() {
        dropped.sort();
        let why: Vec<&str> =
            dropped.iter().map(|why| why.trim_start_matches("dropped: ")).collect();
        let _ = write!(text, "\nThe others are dropped before that: {}\n", why.join("; "));
    }
    let pass = classes.iter().any(passes);
    Ok(Some(Found { text, json: json!({ "hook": station.name, "classes": all }), pass }))
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
