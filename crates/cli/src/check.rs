// SPDX-License-Identifier: Apache-2.0

//! `penstock check`: whether a configuration file is right, and the rules that it names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use penstock_daemon::{OnDeath, errln};

use crate::nft;
use crate::options::{Opt, flag, given, usage_lines};
use crate::up::{file, read_config};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[flag('h', "help", "print this text")];

/// Exit status for a file that is wrong.
const WRONG: u8 = 2;

fn usage() -> String {
    let mut out = format!(
        "Usage: penstock check [FILE]\n\n\
         Checks the configuration file of `penstock up --config` (default: {}), and the rules that it\n\
         names. Exit status 0: it is right; 2: it is not, and standard error has the place.\n\n",
        file::DEFAULT
    );
    out.push_str(&usage_lines(OPTIONS, 10));
    out
}

/// The file.
fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Option<PathBuf>, String> {
    let path = match args.next() {
        None => return Ok(Some(file::DEFAULT.into())),
        Some(arg) if arg == "-h" || arg == "--help" => return Ok(None),
        Some(arg) if arg.to_string_lossy().starts_with('-') => {
            return Err(format!("invalid option '{}'", arg.to_string_lossy()));
        }
        Some(arg) => arg,
    };
    match args.next() {
        Some(more) => Err(format!("unexpected argument `{}`", more.to_string_lossy())),
        None => Ok(Some(path.into())),
    }
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
    let path = match given("check", parse(args), usage) {
        Ok(path) => path,
        Err(status) => return status,
    };
    check(&path).unwrap_or_else(|message| {
        errln!("{message}");
        ExitCode::from(WRONG)
    })
}
