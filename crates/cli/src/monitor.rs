// SPDX-License-Identifier: Apache-2.0

//! `penstock monitor`: `penstock nft monitor`, with options before or after the operands.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::nft;
use crate::options::{Opt, Values, flag, given, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

/// What can be watched.
pub const WATCHED: Values = Values::OneOf(&[
    "trace", "new", "destroy", "ruleset", "tables", "chains", "sets", "rules", "elements",
]);

const OPTIONS: &[Opt] = &[
    flag('a', "handle", "print handles"),
    flag('j', "json", "print JSON, a line for each change"),
    flag('n', "numeric", "print numbers, not names"),
    flag('S', "service", "print names of ports, as in /etc/services"),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock monitor [new | destroy] [ruleset | tables | chains | sets | rules | elements] [OPTIONS]\n       \
         penstock monitor trace [OPTIONS]\n\n\
         Prints changes of the dataplane's ruleset as they happen, each transaction with its generation and the\n\
         process that made it; or the rules that packets with `meta nftrace set 1` meet.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 13));
    out
}

/// The arguments of nft, which wants options before commands.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Vec<String>>, String> {
    let (mut options, mut words) = (Vec::new(), vec!["monitor".to_owned()]);
    for arg in args {
        let arg = arg.to_string_lossy().into_owned();
        let known = |option: &&Opt| option.names().any(|name| name == arg);
        match OPTIONS.iter().find(known) {
            Some(option) if option.short == Some('h') => return Ok(None),
            Some(_) => options.push(arg),
            None if arg.starts_with('-') => return Err(format!("invalid option '{arg}'")),
            None => words.push(arg),
        }
    }
    options.extend(words);
    Ok(Some(options))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("monitor", parse(args), usage) {
        Ok(args) => nft::main(args.into_iter().map(OsString::from)),
        Err(status) => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_command_wherever_they_stand() {
        for (line, expected) in [
            ("", "monitor"),
            ("trace", "monitor trace"),
            ("-j new rules --handle", "-j --handle monitor new rules"),
        ] {
            let args = parse(line.split_whitespace().map(OsString::from));
            assert_eq!(args, Ok(Some(expected.split(' ').map(str::to_owned).collect())), "{line}");
        }
        assert_eq!(parse(["trace", "-h"].map(OsString::from).into_iter()), Ok(None));
        assert_eq!(
            parse(["-f"].map(OsString::from).into_iter()),
            Err("invalid option '-f'".into())
        );
    }
}
