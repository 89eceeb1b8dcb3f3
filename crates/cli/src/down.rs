//! `penstock down`: the end of the dataplane.

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::control::client::Client;

use crate::dataplane::{NO_DATAPLANE, NONE};
use crate::options::{Opt, flag};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", &[flag('h', "help", "this text")])];

const USAGE: &str = "Usage: penstock down\n\n\
    Ends the dataplane of the network namespace, and waits until its devices are given back. Devices of a\n\
    dataplane that was killed together with its guardian are given back, too.\n";

/// Runs the command with the arguments after its name.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    if let Some(arg) = args.next() {
        if arg == "-h" || arg == "--help" {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        eprint!("penstock down: it takes no arguments\n\n{USAGE}");
        return ExitCode::from(2);
    }
    let result = match Client::connect() {
        Ok(Some(mut client)) => client.down().map(ExitCode::from).map_err(|e| e.to_string()),
        Ok(None) => match penstock_daemon::recover() {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => {
                eprintln!("{NONE}");
                Ok(ExitCode::from(NO_DATAPLANE))
            }
            Err(e) => Err(e),
        },
        Err(e) => Err(e.to_string()),
    };
    result.unwrap_or_else(|e| {
        eprintln!("Error: {e}");
        ExitCode::FAILURE
    })
}
