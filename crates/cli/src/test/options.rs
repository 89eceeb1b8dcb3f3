// SPDX-License-Identifier: Apache-2.0

//! The command line of `penstock test`.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::Arg::{Long, Short, Value};

use crate::input::{Captures, Read};
use crate::options::{Opt, Values, flag, long, usage_lines};
use crate::setup::{self, Setup, once, sentence};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (TITLE, setup::OPTIONS)];

const TITLE: &str = "The host, in place of what the files say";

const OPTIONS: &[Opt] = &[
    long("tap", "print the results as TAP, version 14"),
    long("junit", "write the results to FILE as JUnit XML").takes("FILE", Values::Files),
    long("record", "print the file with what is found expected, where it expects nothing"),
    long(
        "read",
        "with --record and no file: a test of the frames of captures, as for `penstock run`",
    )
    .takes("[DEV=]FILE...", Values::Any),
    flag('h', "help", "print this text"),
];

/// What `--help` prints, and what follows a usage error.
pub fn usage() -> String {
    format!(
        "Usage: penstock test [OPTIONS] FILE...\n\
         \x20      penstock test --record [OPTIONS] FILE\n\
         \x20      penstock test --record --net NET --rules RULES --read [DEV=]FILE...\n\n\
         Sends the packets of test files through a ruleset, and holds what becomes of them against what the\n\
         files expect. penstock-test(1) describes the files.\n\n\
         Options:\n{}\n{TITLE}:\n{}",
        usage_lines(OPTIONS, 21),
        usage_lines(setup::OPTIONS, 21)
    )
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    Tap,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Run the tests of files.
    Run { files: Vec<PathBuf>, form: Form, junit: Option<PathBuf> },
    /// Write the expectations of a file.
    Record(PathBuf),
    /// Write a file about captures.
    RecordCaptures(Captures),
}

/// Reads the arguments after `test`; `None` for help. The error is a sentence for the user.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<(Setup, Wanted)>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut setup, mut files) = (Setup::default(), Vec::new());
    let (mut form, mut junit, mut record) = (Form::Text, None, false);
    let mut captures = Captures::default();
    while let Some(arg) = parser.next().map_err(sentence)? {
        let name = match arg {
            Long(name) => name.to_owned(),
            Short('h') => "help".to_owned(),
            Value(file) => {
                files.push(PathBuf::from(file));
                continue;
            }
            other @ Short(_) => return Err(sentence(other.unexpected())),
        };
        if setup.take(&name, &mut parser)? {
            continue;
        }
        match &*name {
            "tap" => form = Form::Tap,
            "junit" => {
                let file = parser.value().map(PathBuf::from).map_err(sentence)?;
                once(&mut junit, "--junit", file)?;
            }
            "record" => record = true,
            "read" => {
                for value in parser.values().map_err(sentence)? {
                    captures.reads.push(Read::parse(&value)?);
                }
            }
            "help" => return Ok(None),
            _ => return Err(format!("invalid option '--{name}'")),
        }
    }
    let wanted = match (record, captures.reads.is_empty(), &files[..]) {
        (true, ..) if form == Form::Tap || junit.is_some() => {
            return Err("--record runs no tests: it excludes --tap and --junit".to_owned());
        }
        (false, false, _) => return Err("--read is for --record".to_owned()),
        (_, true, []) => return Err("a file of tests is missing".to_owned()),
        (true, false, [_, ..]) => {
            return Err("--record takes a file of tests or --read, not both".to_owned());
        }
        (true, true, [file]) => Wanted::Record(file.clone()),
        (true, true, [_, _, ..]) => return Err("--record takes one file of tests".to_owned()),
        (true, false, []) => {
            setup.names_net()?;
            setup.check(&captures)?;
            Wanted::RecordCaptures(captures)
        }
        (false, true, [_, ..]) => Wanted::Run { files, form, junit },
    };
    Ok(Some((setup, wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::assert_known;

    #[test]
    fn wrong_command_lines_are_refused_with_a_message() {
        for (line, message) in [
            ("", "a file of tests is missing"),
            ("f --read a=b", "--read is for --record"),
            ("--record", "a file of tests is missing"),
            ("--record a b", "--record takes one file of tests"),
            ("f --record --read a=b", "--record takes a file of tests or --read, not both"),
            ("--record --read a=b", "--net is missing, or --net-out for the one that is learned"),
            ("--record --tap f", "--record runs no tests: it excludes --tap and --junit"),
            ("--junit a --junit b f", "--junit is given twice"),
            ("--speed", "invalid option '--speed'"),
        ] {
            let parsed = parse(line.split_whitespace().map(OsString::from));
            assert_eq!(parsed, Err(message.to_owned()), "{line}");
        }
    }

    #[test]
    fn every_option_in_the_usage_text_is_accepted() {
        assert_known(OPTIONS.iter().chain(setup::OPTIONS), |line| {
            parse(line.split_whitespace().map(OsString::from))
        });
    }
}
