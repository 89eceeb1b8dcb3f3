// SPDX-License-Identifier: Apache-2.0

//! `penstock diff`: for which packets a change of a ruleset matters, and how.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{now, out};
use penstock_symbolic::{Difference, Side, diff};
use serde_json::{Value as Json, json};

use crate::options::{Opt, flag, given, long, usage_lines};
use crate::setup::sentence;
use crate::symbolic::hooks::{Station, stations};
use crate::symbolic::load::{Devices, Loaded, Source};
use crate::symbolic::told::{Told, rule_of};
use crate::symbolic::words::Words;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (symbolic::TITLE, symbolic::OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("live", "OLD is the ruleset of the running dataplane"),
    flag('j', "json", "print JSON"),
    symbolic::WRITE,
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock diff [OPTIONS] OLD NEW\n       \
         penstock diff [OPTIONS] --live NEW\n\n\
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

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    old: Source,
    new: Source,
    json: bool,
    write: Option<PathBuf>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut json, mut live, mut write) = (false, false, None);
    let mut files = Vec::new();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => json = true,
            Long("live") => live = true,
            Long("write") => write = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(file) => files.push(PathBuf::from(file)),
            other => return Err(sentence(other.unexpected())),
        }
    }
    if files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
        return Err("standard input can be read once only".to_owned());
    }
    let mut sources: Vec<Source> = files.into_iter().map(Source::File).collect();
    if live {
        sources.insert(0, Source::Live);
    }
    let [old, new]: [Source; 2] = sources.try_into().map_err(|_| match live {
        true => "with --live it takes one file: NEW".to_owned(),
        false => "it takes two files: OLD and NEW".to_owned(),
    })?;
    Ok(Some(Asked { old, new, json, write, settings }))
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
    let devices = Devices::of(&[&asked.old, &asked.new]);
    let now = now();
    let old = Loaded::new(&asked.old, &devices, now)?;
    let new = Loaded::new(&asked.new, &devices, now)?;
    let mut sides = Sides { old, new, devices, count: 0 };
    symbolic::make_directory(asked.write.as_deref())?;
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
            station.failed(side, devices, &failure)
        })?;
        if difference.classes.is_empty() {
            return Ok((None, None));
        }
        let Difference { universe, classes, .. } = &difference;
        let sides = [(&*old, &before), (&*new, &after)];
        let rule_name = |number: u32| rule_of(number, &sides, devices);
        let listing = new.listing(&new.generation, devices);
        let words = Words::new(listing, station.place, universe, &rule_name);
        let classes_word = if classes.len() == 1 { "class" } else { "classes" };
        let mut text = format!("{}: {} {classes_word}\n", station.name, classes.len());
        let mut all = Vec::new();
        for class in classes {
            *count += 1;
            let told = Told::new(&words, class, &sides, devices)?;
            let written = match &asked.write {
                Some(dir) => told.write(dir, &station.capture_name(*count))?,
                None => None,
            };
            let _ = write!(text, "\n{count}. {}", told.packets_text());
            for (word, fate) in ["was", "now"].into_iter().zip(&told.fates) {
                let _ = write!(text, "   {word}:     {}", fate.text("            "));
            }
            text.push_str(&told.example_text());
            all.push(json!({
                "packets": told.packets,
                "complete": !class.more_boxes,
                "share": class.share,
                "was": told.fates[0].json(),
                "now": told.fates[1].json(),
                "depends": !class.depends.is_empty(),
                "example": told.example_json(written),
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
