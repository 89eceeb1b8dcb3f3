// SPDX-License-Identifier: Apache-2.0

//! `penstock check`: whether a configuration file is right, and the rules that it names; or a state
//! file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{OnDeath, errln, out};
use penstock_lang::datatype::Format;
use penstock_state::Salvaged;
use penstock_system::SystemNames;

use crate::nft;
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::rules::list;
use crate::setup::sentence;
use crate::up::{file, read_config};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("state", "check a file of --state instead, and print what of its ruleset can be read")
        .takes("FILE", Values::Files),
    flag('h', "help", "print this text"),
];

/// Exit status for a file that is wrong.
const WRONG: u8 = 2;

fn usage() -> String {
    let mut out = format!(
        "Usage: penstock check [FILE]\n       penstock check --state FILE\n\n\
         Checks the configuration file of `penstock up --config` (default: {}), and the rules that it\n\
         names. Exit status 0: it is right; 2: it is not, and standard error has the place.\n\n",
        file::DEFAULT
    );
    out.push_str(&usage_lines(OPTIONS, 10));
    out
}

/// What is checked.
#[derive(Debug, PartialEq, Eq)]
enum Checked {
    Configuration(PathBuf),
    State(PathBuf),
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Checked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut checked = None;
    while let Some(arg) = parser.next().map_err(sentence)? {
        let next = match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("state") => Checked::State(parser.value().map_err(sentence)?.into()),
            Value(path) => Checked::Configuration(path.into()),
            other => return Err(sentence(other.unexpected())),
        };
        if checked.replace(next).is_some() {
            return Err("one file at a time".into());
        }
    }
    Ok(Some(checked.unwrap_or_else(|| Checked::Configuration(file::DEFAULT.into()))))
}

/// Says what of a state file can be read, and prints its ruleset as text.
fn check_state(path: &Path) -> Result<ExitCode, String> {
    let bytes =
        penstock_files::read(path).map_err(|e| format!("Error: {}: {e}", path.display()))?;
    let salvaged = Salvaged::from_bytes(&bytes);
    let Salvaged { broken, links, ruleset, connections, changed } = &salvaged;
    if let Some(ruleset) = ruleset {
        let generation = ruleset.generation();
        let names = SystemNames::default();
        out!("{}", list(&generation, &names, Format::default(), 0, false));
    }
    let Some(broken) = broken else { return Ok(ExitCode::SUCCESS) };
    errln!("Error: {}: {broken}", path.display());
    let words = |name: &str, there: Option<usize>| {
        let sum = if changed.contains(&name) { ", but its checksum is wrong" } else { "" };
        match there {
            Some(count) => errln!("{name}: {count} can be read{sum}"),
            None => errln!("{name}: cannot be read"),
        }
    };
    words("devices", links.as_ref().map(Vec::len));
    let tables = ruleset.as_ref().map(|ruleset| ruleset.generation().tables.len());
    match tables {
        Some(_) if changed.contains(&"ruleset") => {
            errln!(
                "ruleset: it can be read, but its checksum is wrong: look at it before it is used"
            )
        }
        Some(_) => errln!("ruleset: it can be read; load the text with --rules or `nft -f`"),
        None => errln!("ruleset: cannot be read"),
    }
    words("connections", connections.as_ref().map(|dump| dump.lines().skip(1).count()));
    Ok(ExitCode::from(WRONG))
}

/// Checks a file that the configuration names.
fn readable(setting: &str, path: &Path) -> Result<(), String> {
    let opened = std::fs::File::open(path).map(drop);
    opened.map_err(|e| format!("Error: {setting}: {}: {e}", path.display()))
}

fn check(path: &Path) -> Result<ExitCode, String> {
    let config = read_config(path)?;
    if let OnDeath::Ruleset(file) = &config.on_death {
        readable("on-death", file)?;
    }
    let Some(rules) = &config.rules else { return Ok(ExitCode::SUCCESS) };
    readable("rules", rules)?;
    let words = ["--offline", "-c", "-f"].map(OsString::from);
    let checked = nft::main(words.into_iter().chain([rules.clone().into_os_string()]));
    Ok(if checked == ExitCode::SUCCESS { checked } else { ExitCode::from(WRONG) })
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let checked = match given("check", parse(args), usage) {
        Ok(checked) => checked,
        Err(status) => return status,
    };
    let result = match &checked {
        Checked::Configuration(path) => check(path),
        Checked::State(path) => check_state(path),
    };
    result.unwrap_or_else(|message| {
        errln!("{message}");
        ExitCode::from(WRONG)
    })
}
