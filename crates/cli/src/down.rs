// SPDX-License-Identifier: Apache-2.0

//! `penstock down`: the end of the dataplane.

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::control::client::Client;
use penstock_daemon::errln;
use penstock_daemon::{Recovered, finish, open_all, recover};

use crate::dataplane::{NO_DATAPLANE, NONE};
use crate::options::{Opt, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("force", "also open devices that a dead dataplane left closed (`up --on-death`)"),
    long("if-running", "it is no error if no dataplane is running"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock down [--force] [--if-running]\n\n\
         Stops the dataplane of this network namespace, and waits until its devices are returned. Also\n\
         returns the devices of a dataplane that was killed together with its guardian.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 12));
    out
}

/// What is to be done.
#[derive(Default)]
struct Asked {
    /// Open devices.
    force: bool,
    /// Nothing to end is no error.
    if_running: bool,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut asked = Asked::default();
    for arg in args {
        match arg.to_str() {
            Some("--force") => asked.force = true,
            Some("--if-running") => asked.if_running = true,
            Some("-h" | "--help") => return Ok(None),
            _ => return Err(format!("unexpected argument `{}`", arg.to_string_lossy())),
        }
    }
    Ok(Some(asked))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let Asked { force, if_running } = match given("down", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    let result = match Client::connect() {
        Ok(Some(mut client)) => match client.down() {
            Ok(0) => finish(force).map(|()| ExitCode::SUCCESS),
            Ok(status) => Ok(ExitCode::from(status)),
            Err(e) => Err(e.to_string()),
        },
        Ok(None) => match if force { open_all() } else { recover() } {
            Ok(Recovered::Devices) => Ok(ExitCode::SUCCESS),
            Ok(Recovered::Nothing) if if_running => Ok(ExitCode::SUCCESS),
            Ok(Recovered::Nothing) => {
                errln!("{NONE}");
                Ok(ExitCode::from(NO_DATAPLANE))
            }
            Err(e) => Err(e),
        },
        Err(e) => Err(e.to_string()),
    };
    result.unwrap_or_else(|e| {
        errln!("Error: {e}");
        ExitCode::FAILURE
    })
}
