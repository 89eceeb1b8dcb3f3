// SPDX-License-Identifier: Apache-2.0

//! `penstock failover`: what a firewall of a pair does when the addresses move.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value as Word};
use penstock_ctsync::secure::{PrivateKey, PublicKey};
use penstock_daemon::control::protocol::Message;
use penstock_daemon::{err, out};

use crate::dataplane::ask;
use crate::options::{Opt, flag, given, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] =
    &[flag('j', "json", "print `status` as JSON"), flag('h', "help", "print this text")];

/// What can be asked for.
pub const WORDS: [&str; 5] = ["primary", "backup", "fault", "status", "key"];

/// What a call is.
#[derive(Debug)]
enum Call {
    /// The dataplane is asked.
    Ask(Message),
    /// The file of a private key is read, or made.
    Key(PathBuf),
}

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock failover primary | backup | fault\n       penstock failover status [-j]\n       \
         penstock failover key FILE\n\n\
         Tells the dataplane that was started with --sync what became of this firewall of a pair, as\n\
         conntrackd's script for keepalived does:\n\n  \
         primary   it has the addresses: take over the connections of the peer, and tell it all own ones\n  \
         backup    the peer has them: ask it for its connections, and end own ones in a while\n  \
         fault     it cannot have them: end own connections in a while\n  \
         status    print how the exchange with the peer is\n  \
         key       print the public key of the private key in FILE, which is made if it is not there\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 12));
    out
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Call>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let sentence = |e: lexopt::Error| e.to_string();
    let (mut words, mut json, mut file) = (Vec::new(), false, None);
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
            Word(path) if words == ["key"] && file.is_none() => file = Some(path.into()),
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
    match file {
        Some(file) => Ok(Some(Call::Key(file))),
        None if words == ["key"] => Err("the file of the key is missing".into()),
        None => Ok(Some(Call::Ask(Message::Failover(words)))),
    }
}

/// The public key of the private key in a file, which is made if it is not there.
fn public_key(path: &Path) -> Result<PublicKey, String> {
    let failed = |e: &dyn Display| format!("{}: {e}", path.display());
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => {
            let key = PrivateKey::generate()?;
            let written = file.write_all(key.to_text().as_bytes()).and_then(|()| file.sync_all());
            written.map_err(|e| failed(&e))?;
            Ok(key.public())
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
            PrivateKey::from_text(&text).map(|key| key.public()).map_err(|e| failed(&e))
        }
        Err(e) => Err(failed(&e)),
    }
}

fn print_key(path: &Path) -> ExitCode {
    match public_key(path) {
        Ok(key) => {
            out!("{key}\n");
            ExitCode::SUCCESS
        }
        Err(e) => {
            err!("Error: {e}\n");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("failover", parse(args), usage) {
        Ok(Call::Ask(message)) => ask(&message),
        Ok(Call::Key(path)) => print_key(&path),
        Err(status) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Vec<String>, String> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Some(Call::Ask(Message::Failover(words))) => Ok(words),
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
            ("", "one of primary, backup, fault, status, key is missing"),
            ("master", "there is no `failover master`: primary, backup, fault, status, key"),
            ("key", "the file of the key is missing"),
            ("key a b", "unexpected argument \"b\""),
            ("backup -j", "--json is for `status`"),
            ("backup fault", "unexpected argument \"fault\""),
        ] {
            assert_eq!(asked(line), Err(message.into()), "{line}");
        }
    }
}
