// SPDX-License-Identifier: Apache-2.0

//! The command line of `penstock cover`.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::Arg::{Long, Short};

use crate::options::{Opt, Values, flag, long, usage_lines};
use crate::setup::sentence;
use crate::symbolic::load::Source;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 2] = [("", OPTIONS), (symbolic::TITLE, symbolic::OPTIONS)];

const OPTIONS: &[Opt] = &[
    symbolic::RULES,
    symbolic::LIVE,
    long(
        "write",
        "write the packets to DIR, for each hook: captures, a network that brings them to\n\
         it, and a file for `penstock test` that expects what becomes of them now",
    )
    .takes("DIR", Values::Directories),
    long("elements", "packets for each element of each verdict map, too"),
    flag('j', "json", "print JSON, with each packet"),
    flag('h', "help", "print this text"),
];

/// What is printed for `--help`.
pub fn usage() -> String {
    format!(
        "Usage: penstock cover [OPTIONS] --rules RULES\n\n\
         Finds, for each hook, packets that together meet every rule of RULES that can be met, and\n\
         says of the others why no packet can meet them.\n\n\
         {}\n{}:\n{}\n\
         The exit status is 0 if each rule can be met, 1 if one cannot, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::TITLE,
        usage_lines(symbolic::OPTIONS, 28)
    )
}

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// The ruleset.
    pub rules: Source,
    /// The directory for packets and tests.
    pub write: Option<PathBuf>,
    /// Elements of verdict maps, too.
    pub elements: bool,
    /// Print JSON.
    pub json: bool,
    /// How rulesets are evaluated.
    pub settings: Settings,
}

/// Reads the command line; `None` for `--help`.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut rules, mut live, mut elements, mut json) = (None, false, false, false);
    let mut write: Option<PathBuf> = None;
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('j') | Long("json") => json = true,
            Long("live") => live = true,
            Long("elements") => elements = true,
            Long("rules") => rules = Some(PathBuf::from(parser.value().map_err(sentence)?)),
            Long("write") => write = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            other => return Err(sentence(other.unexpected())),
        }
    }
    if settings.net.is_some() || !settings.sysctls.is_empty() {
        return Err("packets of --write have a network of their own: no --net".to_owned());
    }
    let rules = Source::given(rules, live)?;
    let is_file = matches!(&rules, Source::File(file) if file.as_os_str() != "-");
    if write.is_some() && !is_file {
        return Err("--write needs a file of rules, which its tests name".to_owned());
    }
    Ok(Some(Asked { rules, write, elements, json, settings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_are_known() {
        let all = SECTIONS.iter().flat_map(|(_, options)| options.iter());
        crate::options::assert_known(all, |line| {
            parse(line.split(' ').map(OsString::from)).map(|_| ())
        });
    }
}
