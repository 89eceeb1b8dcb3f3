// SPDX-License-Identifier: Apache-2.0

//! `penstock diff`: for which packets a change of a ruleset matters, and how.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{now, out};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;
use crate::symbolic::change::Change;
use crate::symbolic::load::{Devices, Loaded, Source};
use crate::symbolic::watched::watched;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 3] = [
    ("", OPTIONS),
    (symbolic::NETWORK_TITLE, symbolic::NETWORK),
    (symbolic::TITLE, symbolic::OPTIONS),
];

const OPTIONS: &[Opt] = &[
    long("live", "OLD is the ruleset of the running dataplane"),
    long("net-old", "the network of OLD, in place of --net").takes("NET", Values::Files),
    long("net-new", "the network of NEW, in place of --net").takes("NET", Values::Files),
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
         {}\n{}:\n{}\n{}:\n{}\n\
         The exit status is 0 if nothing changes, 1 if something does, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::NETWORK_TITLE,
        usage_lines(symbolic::NETWORK, 28),
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
    /// Networks of both, in place of the one of the settings.
    nets: Option<[PathBuf; 2]>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut json, mut live, mut write) = (false, false, None);
    let (mut net_old, mut net_new) = (None, None);
    let mut files = Vec::new();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => json = true,
            Long("live") => live = true,
            Long("net-old") => net_old = Some(parser.value().map_err(sentence)?.into()),
            Long("net-new") => net_new = Some(parser.value().map_err(sentence)?.into()),
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
    // The one that is not given is that of --net.
    let net = || settings.net.clone();
    let nets = match (net_old, net_new) {
        (None, None) => None,
        (before, after) => match (before.or_else(net), after.or_else(net)) {
            (Some(before), Some(after)) => Some([before, after]),
            _ => return Err("--net-old and --net-new go together, or with --net".to_owned()),
        },
    };
    Ok(Some(Asked { old, new, json, write, nets, settings }))
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
    let [before, after] = match &asked.nets {
        None => {
            let net = asked.settings.network()?;
            [net.clone(), net]
        }
        Some([before, after]) => {
            let of = |file: &PathBuf| {
                Settings { net: Some(file.clone()), ..asked.settings.clone() }.network()
            };
            [of(before)?, of(after)?]
        }
    };
    let old = Loaded::new(&asked.old, &devices, now)?.on(before)?;
    let new = Loaded::new(&asked.new, &devices, now)?.on(after)?;
    symbolic::make_directory(asked.write.as_deref())?;
    let change =
        watched(|| Change::new(&old, &new, &devices, &asked.settings, asked.write.as_deref()))?;
    match asked.json {
        true => out!("{:#}\n", change.json()),
        false => out!("{}", change.text()),
    }
    Ok(change.matters())
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
