// SPDX-License-Identifier: Apache-2.0

//! `penstock translate`: rules of iptables and sets of ipset as a ruleset of nft.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{errln, out};
use penstock_lang::session::{self, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;
use penstock_system::SystemNames;
use penstock_translate::{Family, Translation};

use crate::options::{Opt, flag, given, usage_lines};
use crate::setup::sentence;

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    flag('4', "ipv4", "rules are of iptables where the file does not say so"),
    flag('6', "ipv6", "rules are of ip6tables where the file does not say so"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock translate [OPTIONS] FILE...\n\n\
         Prints what `iptables-save`, `ip6tables-save` and `ipset save` printed as a ruleset for nft:\n\
         rules that treat packets alike. Rules without an equal are listed on standard error, with the\n\
         reason, and stand as comments in the ruleset. `-` is standard input.\n\n{}\n\
         The exit status is 0, or 1 if something was left out, or 2 if nothing could be translated.\n",
        usage_lines(OPTIONS, 18)
    )
}

/// The files, and the family of rules where they do not say.
type Given = (Vec<PathBuf>, Option<Family>);

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Given>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut files, mut family) = (Vec::new(), None);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('4') | Long("ipv4") => family = Some(Family::Ip4),
            Short('6') | Long("ipv6") => family = Some(Family::Ip6),
            Short('h') | Long("help") => return Ok(None),
            Value(file) => files.push(PathBuf::from(file)),
            other => return Err(sentence(other.unexpected())),
        }
    }
    if files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
        return Err("standard input can be read once only".to_owned());
    }
    match files.is_empty() {
        true => Err("a file is missing".to_owned()),
        false => Ok(Some((files, family))),
    }
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (files, family) = match given("translate", parse(args), usage) {
        Ok(given) => given,
        Err(status) => return status,
    };
    match translate(&files, family) {
        Ok(Translation { text, left_out }) => {
            out!("{text}");
            for line in &left_out {
                errln!("{line}");
            }
            if left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::from(2)
        }
    }
}

fn translate(files: &[PathBuf], family: Option<Family>) -> Result<Translation, String> {
    let mut texts = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let text = read(file).map_err(|e| format!("Error: {name}: {e}"))?;
        let text =
            String::from_utf8(text).map_err(|_| format!("Error: {name}: this is no text"))?;
        texts.push((name, text));
    }
    let texts: Vec<(&str, &str)> = texts.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let translation = penstock_translate::translate(&texts, family)?;
    check(&translation.text)?;
    Ok(translation)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut bytes).map(drop)?,
        false => bytes = std::fs::read(file)?,
    }
    Ok(bytes)
}

/// Loads what was translated: what is printed can be read.
fn check(text: &str) -> Result<(), String> {
    let names = SystemNames::default();
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name: "the translation".to_owned(), from: None };
    let options = session::Options::default();
    let outcome =
        Session::new(options, &NoFiles, &names).run(origin, text.to_owned(), &mut ruleset, 0);
    match outcome.ok {
        true => Ok(()),
        false => Err(outcome.stderr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_needed() {
        for (line, message) in [
            ("", "a file is missing"),
            ("-6", "a file is missing"),
            ("- -", "standard input can be read once only"),
            ("--ebtables x", "invalid option '--ebtables'"),
        ] {
            let parsed = parse(line.split_whitespace().map(OsString::from));
            assert_eq!(parsed.map(|_| ()), Err(message.to_owned()), "{line}");
        }
    }
}
