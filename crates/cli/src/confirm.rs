// SPDX-License-Identifier: Apache-2.0

//! `penstock confirm`: confirms a change made with `nft --confirm`.

use std::ffi::OsString;
use std::process::ExitCode;

use penstock_daemon::control::protocol::Message;
use penstock_daemon::{err, out};

use crate::dataplane::ask;
use crate::options::{Opt, flag};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", &[flag('h', "help", "print this text")])];

const USAGE: &str = "Usage: penstock confirm\n\n\
    Confirms the pending change of `penstock nft --confirm`, which is rolled back otherwise. Run it from a new\n\
    connection, which shows that the new rules accept one.\n";

/// Runs the command with the arguments after its name.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    if let Some(arg) = args.next() {
        if arg == "-h" || arg == "--help" {
            out!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        err!("penstock confirm: it takes no arguments\n\n{USAGE}");
        return ExitCode::from(2);
    }
    ask(&Message::Confirm)
}
