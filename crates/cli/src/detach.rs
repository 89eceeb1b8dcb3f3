// SPDX-License-Identifier: Apache-2.0

//! `penstock detach`: the end of an attached ruleset.

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::control::client::Client;
use penstock_daemon::{Recovered, errln, recover};

use crate::dataplane::NO_DATAPLANE;
use crate::options::{Opt, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("if-attached", "it is no error if no ruleset is attached"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock detach [--if-attached]\n\n\
         Takes the attached ruleset of this network namespace away: its process ends, and nothing is left at\n\
         hooks and devices of the kernel. Also removes what `penstock attach --persist` has left there.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 15));
    out
}

/// Whether nothing to detach is no error. `None` if help is asked for.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<bool>, String> {
    let mut if_attached = false;
    for arg in args {
        match arg.to_str() {
            Some("--if-attached") => if_attached = true,
            Some("-h" | "--help") => return Ok(None),
            _ => return Err(format!("unexpected argument `{}`", arg.to_string_lossy())),
        }
    }
    Ok(Some(if_attached))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let if_attached = match given("detach", parse(args), usage) {
        Ok(if_attached) => if_attached,
        Err(status) => return status,
    };
    match detach(if_attached) {
        Ok(status) => status,
        Err(e) => {
            errln!("Error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn detach(if_attached: bool) -> Result<ExitCode, String> {
    if let Some(mut client) = Client::connect().map_err(|e| e.to_string())? {
        return client.detach().map(ExitCode::from).map_err(|e| e.to_string());
    }
    match recover()? {
        Recovered::Devices => Ok(ExitCode::SUCCESS),
        Recovered::Nothing if if_attached => Ok(ExitCode::SUCCESS),
        Recovered::Nothing => {
            errln!("Error: no ruleset is attached in this network namespace");
            Ok(ExitCode::from(NO_DATAPLANE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_knows_all_options() {
        let parse = |line: &str| parse(line.split(' ').map(OsString::from));
        crate::options::assert_known(OPTIONS.iter(), parse);
    }
}
