// SPDX-License-Identifier: Apache-2.0

//! `penstock prove`: whether what is claimed of all packets holds.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::{errln, now, out};

use crate::options::{Opt, Values, flag, given, long, usage_lines};
use crate::recognise::{self, hinted};
use crate::setup::sentence;
use crate::symbolic::claims::Claims;
use crate::symbolic::judge::{Decided, decide};
use crate::symbolic::load::{Devices, Loaded, Source};
use crate::symbolic::watched::watched;
use crate::symbolic::{self, Settings};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 3] = [
    ("", OPTIONS),
    (symbolic::NETWORK_TITLE, symbolic::NETWORK),
    (symbolic::TITLE, symbolic::OPTIONS),
];

const OPTIONS: &[Opt] = &[
    symbolic::RULES,
    symbolic::LIVE,
    long("junit", "write the results to FILE, as CI systems read them")
        .takes("FILE", Values::Files),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    format!(
        "Usage: penstock prove [OPTIONS] --rules RULES CLAIMS\n\n\
         Proves of all packets what the file CLAIMS says of a hook, or shows a packet for which it\n\
         does not hold. A claim is a line, `#` begins a comment:\n\n  \
           never accept MATCHES...\n  \
           always accept MATCHES...\n  \
           same FILE\n\n\
         In place of accept: drop, reject, queue. MATCHES are matches of rules; `same` says that the\n\
         ruleset of FILE does the same with all packets. Where there are several hooks, a line says\n\
         which one the claims after it are about:\n\n  \
           hook [FAMILY] HOOK [on DEVICE]\n  \
           chain FAMILY TABLE CHAIN\n\n\
         or that they are about the whole way through a network, as with --net, and may be:\n\n  \
           net FILE [NAME=VALUE...]\n  \
           never leave DEVICE MATCHES...\n  \
           always leave DEVICE MATCHES...\n  \
           reach FROM -> TO MATCHES...\n\n\
         {}\n{}:\n{}\n{}:\n{}\n\
         The exit status is 0 if all claims hold, 1 if one does not, and 2 after an error.\n",
        usage_lines(OPTIONS, 28),
        symbolic::NETWORK_TITLE,
        usage_lines(symbolic::NETWORK, 28),
        symbolic::TITLE,
        usage_lines(symbolic::OPTIONS, 28)
    )
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rules: Source,
    claims: PathBuf,
    junit: Option<PathBuf>,
    settings: Settings,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    let (mut rules, mut live, mut claims, mut junit) = (None, false, None, None);
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("live") => live = true,
            Long("rules") => rules = Some(parser.value().map_err(sentence)?.into()),
            Long("junit") => junit = Some(parser.value().map_err(sentence)?.into()),
            Long(name) => {
                let name = name.to_owned();
                if !settings.take(&name, &mut parser)? {
                    return Err(format!("invalid option '--{name}'"));
                }
            }
            Value(file) if claims.is_none() => claims = Some(PathBuf::from(file)),
            other => return Err(sentence(other.unexpected())),
        }
    }
    let rules = Source::given(rules, live)?;
    let claims = claims.ok_or("the file of claims is missing")?;
    Ok(Some(Asked { rules, claims, junit, settings }))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match given("prove", parse(args), usage) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    symbolic::status(all(&asked))
}

/// Whether all claims hold; prints which do.
fn all(asked: &Asked) -> Result<bool, String> {
    let claims = Claims::of_file(&asked.claims)
        .map_err(|e| hinted(&e, &asked.claims, recognise::Given::Other))?;
    let devices = Devices::of(&[&asked.rules]);
    let rules = Loaded::new(&asked.rules, &devices, now())?.on(asked.settings.network()?)?;
    let decided = watched(|| decide(&claims, &rules, &devices, &asked.settings))?;
    for Decided { line, is_empty, wrong } in &decided {
        let place = format!("{}:{}", claims.file, line.number);
        if *is_empty {
            errln!("note: {place}: no packet can match this");
        }
        match wrong {
            None => out!("holds     {place}: {}\n", line.text),
            Some(wrong) => out!("refuted   {place}: {}\n{wrong}", line.text),
        }
    }
    if let Some(file) = &asked.junit {
        let text = junit(&claims.file, &decided);
        std::fs::write(file, text).map_err(|e| format!("Error: {}: {e}", file.display()))?;
    }
    Ok(decided.iter().all(|claim| claim.wrong.is_none()))
}

fn junit(file: &str, all: &[Decided<'_>]) -> String {
    let escaped = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let failures = all.iter().filter(|claim| claim.wrong.is_some()).count();
    let name = escaped(file);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n<testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">\n",
        all.len()
    );
    for claim in all {
        let case = escaped(&claim.line.text);
        text.push_str(&format!("<testcase classname=\"{name}\" name=\"{case}\""));
        match &claim.wrong {
            None => text.push_str("/>\n"),
            Some(wrong) => text.push_str(&format!(
                "><failure message=\"refuted\">{}</failure></testcase>\n",
                escaped(wrong)
            )),
        }
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
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
