// SPDX-License-Identifier: Apache-2.0

//! `penstock draw`: hooks, chains and jumps of a ruleset as SVG.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use lexopt::Arg::{Long, Short};
use penstock_daemon::errln;
use penstock_files::Access;
use penstock_lang::names::Names;
use penstock_net::Network;
use penstock_report::rules::Rules;
use penstock_system::{SystemFiles, SystemNames, words};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::recognise::{Given, hinted_by};
use crate::rules::{self, NetNames};
use crate::setup::{once, sentence};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("rules", "the ruleset, as for `nft -f`").takes("RULES", Values::Files),
    long("state", "in place of --rules: the ruleset that `penstock nft --state` keeps")
        .takes("FILE", Values::Files),
    long("net", "the network that names of `iif` and `oif` are of; default: this machine's")
        .takes("NET", Values::Files),
    long("write", "write to FILE instead of standard output").takes("FILE.svg", Values::Files),
    long("allow-exec", "let the ruleset run commands: define NAME = exec(\"COMMAND\")"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock draw --rules RULES [--net NET] [--write FILE.svg]\n\n\
         Draws the way of packets through the hooks with the base chains at each, and which chain\n\
         leads to which, as SVG.\n\n{}",
        usage_lines(OPTIONS, 18)
    )
}

/// What is drawn, and where to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    rules: Option<PathBuf>,
    state: Option<PathBuf>,
    net: Option<PathBuf>,
    write: Option<PathBuf>,
    allow_exec: bool,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options::default();
    while let Some(arg) = parser.next().map_err(sentence)? {
        let (slot, name) = match arg {
            Long("rules") => (&mut options.rules, "--rules"),
            Long("state") => (&mut options.state, "--state"),
            Long("net") => (&mut options.net, "--net"),
            Long("write") => (&mut options.write, "--write"),
            Long("allow-exec") => {
                options.allow_exec = true;
                continue;
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(sentence(other.unexpected())),
        };
        once(slot, name, parser.value().map_err(sentence)?.into())?;
    }
    match (&options.rules, &options.state) {
        (None, None) => Err("--rules is missing".to_owned()),
        (Some(_), Some(_)) => Err("--rules and --state exclude each other".to_owned()),
        _ => Ok(Some(options)),
    }
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("draw", parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match draw(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn draw(options: &Options) -> Result<(), String> {
    let net = match &options.net {
        None => None,
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|e| format!("Error: {}: {}", file.display(), words(&e)))?;
            let net = Network::from_batch(&file.display().to_string(), &text);
            let e = |e| hinted_by(&format!("Error: {e}"), file, text.as_bytes(), Given::Net);
            Some(net.map_err(e)?)
        }
    };
    let (own, of_net) = (SystemNames::default(), net.as_ref().map(NetNames::new));
    let names: &dyn Names = of_net.as_ref().map_or(&own as &dyn Names, |names| names);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    // What devices can do themselves is no matter of a drawing.
    let offloads = |_: &_| Ok(());
    let (file, ruleset) = match (&options.rules, &options.state) {
        (Some(file), _) => {
            let files = SystemFiles { allow_exec: options.allow_exec };
            (file, rules::load(file, &files, names, &offloads, now, false)?)
        }
        (None, Some(file)) => (file, rules::restore(file, &offloads, now)?),
        (None, None) => return Err("Error: --rules is missing".to_owned()),
    };
    let rules = Rules::new(&ruleset.generation(), names, now);
    let svg = penstock_report::draw(&title(file), &rules.uncounted());
    match &options.write {
        Some(file) => penstock_files::replace(file, svg.as_bytes(), Access::Umask)
            .map_err(|e| format!("Error: {}: {}", file.display(), words(&e))),
        None => match std::io::stdout().write_all(svg.as_bytes()) {
            // A reader that has seen enough is no error.
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(format!("Error: standard output: {}", words(&e)))
            }
            _ => Ok(()),
        },
    }
}

fn title(file: &Path) -> String {
    match file.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::assert_known;

    fn asked(line: &str) -> Result<Option<Options>, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn wrong_calls_are_refused_with_a_message() {
        for (line, message) in [
            ("", "--rules is missing"),
            ("--rules a --state b", "--rules and --state exclude each other"),
            ("--rules a --rules b", "--rules is given twice"),
            ("a", "unexpected argument \"a\""),
        ] {
            assert_eq!(asked(line), Err(message.to_owned()), "{line}");
        }
        assert_known(OPTIONS.iter(), asked);
    }
}
