// SPDX-License-Identifier: Apache-2.0

//! `penstock port`: ports of the running dataplane are added, removed and listed.

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::Driver;
use penstock_daemon::control::protocol::Message;

use crate::dataplane::ask;
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::setup::sentence;

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

/// What can be done.
pub const WORDS: [&str; 3] = ["add", "del", "list"];

const DRIVERS: [&str; 5] = ["auto", "packet", "xdp", "xdp-generic", "tap"];

const OPTIONS: &[Opt] = &[
    long("driver", "how frames of added ports are received and sent, as for `penstock up`")
        .takes("DRIVER", Values::OneOf(&DRIVERS)),
    flag('j', "json", "print JSON"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock port add DEV[=NAME]... [--driver DRIVER]\n       penstock port del NAME...\n       \
         penstock port list [-j]\n\n\
         Adds devices to the running dataplane of this network namespace, as `penstock up` does at its start,\n\
         returns them, or lists ports and the devices that are waited for. Packets of other ports are not\n\
         concerned. If one of several devices cannot be added, none is.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 17));
    out
}

/// What is asked of the dataplane.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Message>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut words, mut driver, mut json) = (Vec::new(), None, false);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => json = true,
            Long("driver") => {
                let word = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                if Driver::NAMES.iter().all(|(name, _)| *name != word) {
                    return Err(format!("--driver: there is no driver `{word}`"));
                }
                driver = Some(word);
            }
            Value(value) => words.push(value.to_string_lossy().into_owned()),
            other => return Err(sentence(other.unexpected())),
        }
    }
    let mut words = words.into_iter();
    let what = words.next().ok_or("`add`, `del` or `list` is missing")?;
    let rest: Vec<String> = words.collect();
    if json && what != "list" {
        return Err("--json is for `list`".into());
    }
    if driver.is_some() && what != "add" {
        return Err("--driver is for `add`".into());
    }
    let said = match (what.as_str(), rest.as_slice()) {
        ("add" | "del", []) => return Err("no device is given".into()),
        ("add", devices) => {
            let driver = driver.unwrap_or_else(|| "auto".to_owned());
            let mut said = Vec::new();
            for device in devices {
                let (device, name) = device.split_once('=').unwrap_or((device, device));
                if device.is_empty() || name.is_empty() {
                    return Err(format!("`{device}={name}` is not DEV or DEV=NAME"));
                }
                said.extend([device, name, &driver].map(str::to_owned));
            }
            said
        }
        ("del", _) => rest,
        ("list", []) => json.then(|| "json".to_owned()).into_iter().collect(),
        ("list", [more, ..]) => return Err(format!("unexpected argument `{more}`")),
        _ => return Err(format!("there is no `port {what}`: `add`, `del` or `list`")),
    };
    Ok(Some(Message::Port([vec![what], said].concat())))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("port", parse(args), usage) {
        Ok(message) => ask(&message),
        Err(status) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Vec<String>, String> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Some(Message::Port(words)) => Ok(words),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn calls_are_words_for_the_dataplane() {
        for (line, expected) in [
            ("add eth0", "add eth0 eth0 auto"),
            ("add eth0 eth1=lan --driver packet", "add eth0 eth0 packet eth1 lan packet"),
            ("del eth0 lan", "del eth0 lan"),
            ("list", "list"),
            ("list -j", "list json"),
        ] {
            assert_eq!(asked(line).map(|words| words.join(" ")), Ok(expected.into()), "{line}");
        }
        for (line, message) in [
            ("", "`add`, `del` or `list` is missing"),
            ("add", "no device is given"),
            ("add =x", "`=x` is not DEV or DEV=NAME"),
            ("remove eth0", "there is no `port remove`: `add`, `del` or `list`"),
            ("list eth0", "unexpected argument `eth0`"),
            ("del eth0 -j", "--json is for `list`"),
            ("del eth0 --driver xdp", "--driver is for `add`"),
            ("add eth0 --driver dpdk", "--driver: there is no driver `dpdk`"),
        ] {
            assert_eq!(asked(line), Err(message.into()), "{line}");
        }
        assert_eq!(Driver::NAMES.map(|(name, _)| name), DRIVERS);
    }
}
