// SPDX-License-Identifier: Apache-2.0

//! `penstock web`: the page of `penstock run --report` about the running dataplane, as it is now, or
//! about the ruleset of a state file.
//!
//! | file | is |
//! | --- | --- |
//! | `looking` | what the page shows: the dataplane or the file is asked |
//! | `serving` | who may ask for the page, and what else there is to ask for |
//! | `sending` | a described packet, and its way |

mod looking;
mod sending;
mod serving;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short};
use penstock_daemon::{errln, out};

use crate::dataplane::connect;
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::{once, sentence};
use looking::{Looking, Subject};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    long("state", "show the ruleset that `penstock nft --state` keeps instead of the dataplane")
        .takes("FILE", Values::Files),
    long("net", "the network for packets that are described; default: that of this namespace")
        .takes("NET", Values::Files),
    long("listen", "address and port, of the loopback device; default: 127.0.0.1 and a free port")
        .takes("ADDRESS:PORT", Values::Any),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock web [OPTIONS]\n\n\
         Serves a page about the dataplane of this network namespace to a browser on this machine, and\n\
         prints its address, which has a secret in it. The page can change nothing.\n\n{}",
        usage_lines(OPTIONS, 24)
    )
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    state: Option<PathBuf>,
    net: Option<PathBuf>,
    listen: Option<SocketAddr>,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options::default();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Long("state") => {
                once(&mut options.state, "--state", parser.value().map_err(sentence)?.into())?;
            }
            Long("net") => {
                once(&mut options.net, "--net", parser.value().map_err(sentence)?.into())?;
            }
            Long("listen") => {
                let word = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let address: Option<SocketAddr> = word.parse().ok();
                let address = address.filter(|address| address.ip().is_loopback()).ok_or_else(|| {
                    format!("--listen takes an address of the loopback device and a port, not `{word}`")
                })?;
                once(&mut options.listen, "--listen", address)?;
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(sentence(other.unexpected())),
        }
    }
    Ok(Some(options))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("web", parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let subject = match &options.state {
        Some(file) => Subject::State(file.clone()),
        None => match connect() {
            Ok(_) => Subject::Dataplane,
            Err(status) => return status,
        },
    };
    let served = Looking::new(subject, options.net).and_then(|looking| {
        let address = options.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        serving::Server::new(address, looking)
    });
    match served {
        Ok(server) => {
            out!("{}\n", server.address());
            server.serve();
            ExitCode::SUCCESS
        }
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
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
    fn only_addresses_of_the_loopback_device_are_listened_on() {
        for address in ["127.0.0.1:80", "127.9.9.9:0", "[::1]:8000"] {
            assert!(asked(&format!("--listen {address}")).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:80", "[::]:80", "198.18.0.1:80", "localhost:80", "127.0.0.1"] {
            assert_eq!(
                asked(&format!("--listen {address}")),
                Err(format!(
                    "--listen takes an address of the loopback device and a port, not `{address}`"
                ))
            );
        }
        assert_known(OPTIONS.iter(), asked);
    }
}
