// SPDX-License-Identifier: Apache-2.0

//! Asking the dataplane of the network namespace.

use std::process::ExitCode;

use penstock_daemon::control::client::Client;
use penstock_daemon::control::protocol::Message;
use penstock_daemon::errln;
use penstock_lang::source::NoFiles;

/// Exit status where no dataplane can be asked.
pub const NO_DATAPLANE: u8 = 3;

/// What is said where there is none.
pub const NONE: &str = "Error: no dataplane is running in this network namespace";

/// Connects; says why not, and gives the exit status then.
pub fn connect() -> Result<Client, ExitCode> {
    match Client::connect() {
        Ok(Some(client)) => Ok(client),
        Ok(None) => {
            errln!("{NONE}");
            Err(ExitCode::from(NO_DATAPLANE))
        }
        Err(e) => {
            errln!("Error: {e}");
            Err(ExitCode::FAILURE)
        }
    }
}

/// Asks, prints what is said, and gives the exit status.
pub fn ask(message: &Message) -> ExitCode {
    let mut client = match connect() {
        Ok(client) => client,
        Err(status) => return status,
    };
    match client.ask(message, &NoFiles) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            errln!("Error: the dataplane does not answer: {e}");
            ExitCode::FAILURE
        }
    }
}
