// SPDX-License-Identifier: Apache-2.0

//! `penstock diff`: for which packets a change of a ruleset matters, and how.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::out;
use penstock_io::{CaptureWriter, LinkType};
use penstock_program::image::RuleIndex;
use penstock_symbolic::{
    Class, Decider, Difference, Example, Failure, Program, Side, check, diff, parts,
};
use serde_json::{Value as Json, json};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use crate::symbolic::hooks::{Station, stations};
use crate::symbolic::load::{Devices, Loaded};
use crate::symbolic::words::Words;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (symbolic::TITLE, symbolic::OPTIONS)];

const OPTIONS: &[Opt] = &[
    flag('j', "json", "print JSON"),
    long("write", "write an example of each class to DIR, as captures for `penstock run --read`")
        .takes("DIR", Values::Directories),
    flag('h', "help", "print this text"),
];

/// Pairs of rules that are printed of a class.
const DECIDERS: usize = 3;

fn usage() -> String {
    format!(
        "Usage: penstock diff [OPTIONS] OLD NEW\n\n\
         Shows for which packets it matters whether they meet the ruleset OLD or NEW: classes of\n\
         packets, the largest first, with what becomes of them, the rules that decide, and an example.\n\
         OLD and NEW are rulesets, as for `nft -f`, or state files. Each hook is looked at by itself.\n\n\
         {}\n{}:\n{}\n\
         The exit status is 0 if nothing changes, 1 if something does, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::TITLE,
        usage_lines(symbolic::OPTIONS, 28)
    )
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    old: PathBuf,
    new: PathBuf,
    json: bool,
    write: Option<PathBuf>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut asked = Asked::default();
    let mut files = Vec::new();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => asked.json = true,
            Long("write") => asked.write = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !asked.settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(file) => files.push(PathBuf::from(file)),
            other => return Err(sentence(other.unexpected())),
        }
    }
    let [old, new]: [PathBuf; 2] =
        files.try_into().map_err(|_| "it takes two files: OLD and NEW".to_owned())?;
    if old.as_os_str() == "-" && new.as_os_str() == "-" {
        return Err("standard input can be read once only".to_owned());
    }
    Ok(Some(Asked { old, new, ..asked }))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("diff", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    symbolic::status(compare(&asked).map(|differs| !differs))
}

/// Whether something changes; prints what.
fn compare(asked: &Asked) -> Result<bool, String> {
    let devices = Devices::default();
    let now = SystemTime::now();
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let old = Loaded::new(&asked.old, &devices, now)?;
    let new = Loaded::new(&asked.new, &devices, now)?;
    let mut sides = Sides { old, new, devices, count: 0 };
    if let Some(dir) = &asked.write {
        std::fs::create_dir_all(dir).map_err(|e| format!("Error: {}: {e}", dir.display()))?;
    }
    let mut texts = Vec::new();
    let mut all = Vec::new();
    for station in stations(&[&sides.old, &sides.new], &asked.settings)? {
        let (text, json) = sides.station(&station, asked)?;
        texts.extend(text);
        all.extend(json);
    }
    match asked.json {
        true => out!("{:#}\n", json!({ "changes": all })),
        false if texts.is_empty() => out!("Nothing changes.\n"),
        false => out!("{}", texts.join("\n")),
    }
    Ok(sides.count > 0)
}

struct Sides {
    old: Loaded,
    new: Loaded,
    devices: Devices,
    /// Classes so far.
    count: usize,
}

impl Sides {
    /// Compares the chains of a hook; text and JSON of what differs.
    fn station(
        &mut self,
        station: &Station,
        asked: &Asked,
    ) -> Result<(Option<String>, Option<Json>), String> {
        let Sides { old, new, devices, count } = self;
        let mut sets = HashMap::new();
        let mut before = station.program(old, &asked.settings, &mut sets);
        let mut after = station.program(new, &asked.settings, &mut sets);
        let found = diff(station.place, &mut before, &mut after, asked.settings.limits);
        let difference = found.map_err(|(side, failure)| {
            let side = if side == Side::Old { &*old } else { &*new };
            failed(station, side, devices, &failure)
        })?;
        if difference.classes.is_empty() {
            return Ok((None, None));
        }
        let Difference { universe, classes, .. } = &difference;
        let rule_name = |number: u32| {
            let of = |side: &Loaded, program: &Program<'_>| {
                let at = program.numbers.iter().position(|known| *known == number)?;
                Some(place(side, Some(RuleIndex(at as u32)), devices))
            };
            of(new, &after).or_else(|| of(old, &before)).unwrap_or_else(|| "a rule".to_owned())
        };
        let listing = new.listing(&new.generation, devices);
        let words = Words::new(listing, station.place, universe, &rule_name);
        let classes_word = if classes.len() == 1 { "class" } else { "classes" };
        let mut text = format!("{}: {} {classes_word}\n", station.name, classes.len());
        let mut all = Vec::new();
        for class in classes {
            *count += 1;
            let example = verified(universe, class, &before, &after)?;
            let name = format!("{}-{count}", station.name.replace(' ', "-"));
            let written = match (&asked.write, &example) {
                (Some(dir), Some(example)) => Some(write(dir, &name, example, now_of(new))?),
                _ => None,
            };
            let packets: Vec<String> = class.boxes.iter().map(|one| words.packets(one)).collect();
            let deciders = |side: &Loaded, of: fn(&(Decider, Decider)) -> Decider| {
                let mut names: Vec<String> = Vec::new();
                for pair in &class.deciders {
                    let decider = of(pair);
                    let name = match decider.rule {
                        Some(rule) => rule_text(side, rule, devices),
                        None => {
                            format!("policy of chain {}", side.chain_name(decider.base))
                        }
                    };
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                names
            };
            let (of_old, of_new) = (deciders(old, |pair| pair.0), deciders(new, |pair| pair.1));
            let such =
                words.example(&class.example, &parts(universe, &class.example), &class.depends);
            let _ = write!(text, "\n{count}. {}\n", packets.join("\n   or "));
            if class.more_boxes {
                text.push_str("   or other packets like these\n");
            }
            for (word, fate, names) in [("was", &class.old, &of_old), ("now", &class.new, &of_new)]
            {
                let _ = writeln!(text, "   {word}:     {}", words.fate(fate));
                for name in names.iter().take(DECIDERS) {
                    let _ = writeln!(text, "            {name}");
                }
                if names.len() > DECIDERS {
                    let _ = writeln!(text, "            and {} more", names.len() - DECIDERS);
                }
            }
            match &example {
                Some(_) => {
                    let _ = writeln!(text, "   such as: {such}");
                }
                None => text.push_str("   (no example could be made)\n"),
            }
            all.push(json!({
                "packets": packets,
                "complete": !class.more_boxes,
                "share": class.share,
                "was": { "fate": words.fate(&class.old), "by": of_old },
                "now": { "fate": words.fate(&class.new), "by": of_new },
                "depends": !class.depends.is_empty(),
                "example": example.as_ref().map(|example| json!({
                    "packet": such,
                    "frame": hex(&example.frame()),
                    "file": written,
                })),
            }));
        }
        let json = json!({
            "hook": station.name,
            "rules_changed": { "old": difference.changed.0, "new": difference.changed.1 },
            "classes": all,
        });
        Ok((Some(text), Some(json)))
    }
}

fn now_of(side: &Loaded) -> u64 {
    side.now
}

/// The example of a class, after the interpreter has said the same of it.
fn verified<'u>(
    universe: &'u penstock_symbolic::Universe,
    class: &Class,
    before: &Program<'_>,
    after: &Program<'_>,
) -> Result<Option<Example<'u>>, String> {
    let Some(example) = Example::new(universe, &class.example) else { return Ok(None) };
    let (old, new): (Vec<Decider>, Vec<Decider>) = class.deciders.iter().copied().unzip();
    for (program, fate, deciders) in [(before, &class.old, old), (after, &class.new, new)] {
        if let Err(wrong) = check(&example, program, fate, &deciders) {
            debug_assert!(false, "{wrong}");
            return Err(format!(
                "Error: this is a bug: an example does not do what was found for its class: {wrong}"
            ));
        }
    }
    Ok(Some(example))
}

/// Place and text of a rule.
pub fn rule_text(side: &Loaded, rule: RuleIndex, devices: &Devices) -> String {
    match side.rule(rule, devices) {
        Some(written) => {
            let text = written.shown();
            match &written.origin {
                Some(origin) => format!("{origin}: {text}"),
                None => {
                    let name = side.linked.image.rule_name(rule);
                    let chain = name.map_or_else(String::new, |name| side.chain_name(name.chain));
                    format!("{chain}: {text}")
                }
            }
        }
        None => "a rule".to_owned(),
    }
}

/// Where a rule is.
fn place(side: &Loaded, rule: Option<RuleIndex>, devices: &Devices) -> String {
    let written = rule.and_then(|rule| side.rule(rule, devices));
    match written {
        Some(written) => match &written.origin {
            Some(origin) => origin.to_string(),
            None => format!("`{}`", written.shown()),
        },
        None => "a rule".to_owned(),
    }
}

/// What is printed of a ruleset that could not be evaluated.
pub fn failed(station: &Station, side: &Loaded, devices: &Devices, failure: &Failure) -> String {
    match failure {
        Failure::NoMeaning { rule, reason } => {
            let rule = rule_text(side, *rule, devices);
            format!("Error: {}: {rule}\n       cannot be evaluated: {reason}", station.name)
        }
        Failure::Undecided { .. } => {
            format!("Error: {}: {failure} (--memory, --timeout)", station.name)
        }
    }
}

/// Writes an example as a capture; the name of the file.
fn write(dir: &Path, name: &str, example: &Example<'_>, now: u64) -> Result<String, String> {
    let file = dir.join(format!("{name}.pcap"));
    let link = if example.packet.has_link() { LinkType::Ethernet } else { LinkType::Raw };
    CaptureWriter::create(&file, link)
        .and_then(|mut writer| {
            writer.write(now, &example.frame())?;
            writer.finish()
        })
        .map_err(|e| format!("Error: {}: {e}", file.display()))?;
    Ok(file.display().to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
