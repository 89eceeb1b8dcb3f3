//! Asking the dataplane of the network namespace.

use std::process::ExitCode;

use penstock_daemon::control::client::Client;
use penstock_daemon::control::protocol::Message;
use penstock_lang::source::NoFiles;

/// Exit status where no dataplane can be asked.
pub const NO_DATAPLANE: u8 = 3;

/// What is said where there is none.
pub const NONE: &str = "Error: no dataplane is running in this network namespace";

/// Asks, prints what is said, and gives the exit status.
pub fn ask(message: &Message) -> ExitCode {
    match Client::connect() {
        Ok(Some(mut client)) => match client.ask(message, &NoFiles) {
            Ok(status) => ExitCode::from(status),
            Err(e) => {
                eprintln!("Error: the dataplane does not answer: {e}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            eprintln!("{NONE}");
            ExitCode::from(NO_DATAPLANE)
        }
        Err(e) => {
            eprintln!("Error: {e}");
            ExitCode::FAILURE
        }
    }
}
