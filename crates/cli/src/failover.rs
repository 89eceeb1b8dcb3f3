// SPDX-License-Identifier: Apache-2.0

//! `penstock failover`: what a firewall of a pair does when the addresses move.

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value as Word};
use penstock_daemon::control::protocol::Message;

use crate::dataplane::ask;
use crate::options::{Opt, flag, given, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] =
    &[flag('j', "json", "print `status` as JSON"), flag('h', "help", "print this text")];

/// What can be asked for.
pub const WORDS: [&str; 4] = ["primary", "backup", "fault", "status"];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock failover primary | backup | fault\n       penstock failover status [-j]\n\n\
         Tells the dataplane that was started with --sync what became of this firewall of a pair, as\n\
         conntrackd's script for keepalived does:\n\n  \
         primary   it has the addresses: take over the connections of the peer, and tell it all own ones\n  \
         backup    the peer has them: ask it for its connections, and end own ones in a while\n  \
         fault     it cannot have them: end own connections in a while\n  \
         status    print how the exchange with the peer is\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 12));
    out
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Message>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let sentence = |e: lexopt::Error| e.to_string();
    let (mut words, mut json) = (Vec::new(), false);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('j') | Long("json") => json = true,
            Short('h') | Long("help") => return Ok(None),
            Word(word) if words.is_empty() => {
                let word = word.to_string_lossy().into_owned();
                if !WORDS.contains(&word.as_str()) {
                    return Err(format!("there is no `failover {word}`: {}", WORDS.join(", ")));
                }
                words.push(word);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if words.is_empty() {
        return Err(format!("one of {} is missing", WORDS.join(", ")));
    }
    if json {
        if words != ["status"] {
            return Err("--json is for `status`".into());
        }
        words.push("json".into());
    }
    Ok(Some(Message::Failover(words)))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("failover", parse(args), usage) {
        Ok(message) => ask(&message),
        Err(status) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Vec<String>, String> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Some(Message::Failover(words)) => Ok(words),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn calls_are_words_for_the_dataplane() {
        for (line, expected) in
            [("primary", "primary"), ("status", "status"), ("-j status", "status json")]
        {
            assert_eq!(asked(line).map(|words| words.join(" ")), Ok(expected.into()), "{line}");
        }
        for (line, message) in [
            ("", "one of primary, backup, fault, status is missing"),
            ("master", "there is no `failover master`: primary, backup, fault, status"),
            ("backup -j", "--json is for `status`"),
            ("backup fault", "unexpected argument \"fault\""),
        ] {
            assert_eq!(asked(line), Err(message.into()), "{line}");
        }
    }
}
