// SPDX-License-Identifier: Apache-2.0

//! `penstock show`: what the dataplane does. [`penstock_print::show`] has its listings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value as Word};
use penstock_daemon::control::protocol::{Message, Show};
use penstock_daemon::errln;
use penstock_files::Access;
use penstock_print::show::{About, Form, Listing, WORDS};

use crate::dataplane::{ask, connect};
use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    flag(
        'j',
        "json",
        "print JSON, with rules that have counters, named counters, and the flows with the most bytes",
    ),
    long("metrics", "print OpenMetrics, for Prometheus"),
    long("metrics-file", "write OpenMetrics to a file, which is replaced atomically")
        .takes("FILE", Values::Files),
    long("proc", "print `conntrack` in the form of /proc/net/nf_conntrack"),
    long("time", "how long `stages` counts; default: 2 seconds").takes("SECONDS", Values::Any),
    flag('h', "help", "print this text"),
];

/// All listings but the state.
fn listings() -> impl Iterator<Item = &'static About> {
    Listing::ALL.iter().map(|listing| listing.about()).filter(|about| !about.word.is_empty())
}

fn usage() -> String {
    let mut out = format!(
        "Usage: penstock show [-j | --metrics | --metrics-file FILE]\n       penstock show {} [--time SECONDS] [-j | --proc]\n\n\
         Shows ports, packets and drops by reason of the dataplane of this network namespace; or one of these:\n\n",
        WORDS.join(" | ")
    );
    for about in listings() {
        out.push_str(&format!("  {:<20}{}\n", about.word, about.lists));
    }
    out.push_str(
        "\nRules and stages are counted for some seconds; packets cost more meanwhile.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 20));
    out
}

/// Words as a sentence has them: `a, b and c`.
fn joined(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What is asked for, and the file that the answer goes to, if not to standard output.
type Wanted = (Show, Option<PathBuf>);

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Wanted>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut form, mut listing, mut file, mut time) = (None, None, None, None);
    let sentence = |e: lexopt::Error| e.to_string();
    let of_word = |word: &OsString| {
        let is_it = |listing: &&Listing| {
            let about = listing.about();
            !about.word.is_empty() && word == about.word
        };
        Listing::ALL.iter().find(is_it).copied()
    };
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('j') | Long("json") if form.is_none() => form = Some(Form::Json),
            Long("metrics") if form.is_none() => form = Some(Form::Metrics),
            Long("metrics-file") if form.is_none() => {
                form = Some(Form::Metrics);
                file = Some(parser.value().map_err(sentence)?.into());
            }
            Long("proc") if form.is_none() => form = Some(Form::Proc),
            Long("time") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let seconds = text.parse().ok().filter(|s: &f64| (0.1..=600.0).contains(s));
                let seconds = seconds
                    .ok_or_else(|| format!("--time takes seconds up to 600, not `{text}`"))?;
                time = Some((seconds * 1e3) as u32);
            }
            Short('h') | Long("help") => return Ok(None),
            Word(word) if listing.is_none() && of_word(&word).is_some() => {
                listing = of_word(&word);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if listing.is_some() && form == Some(Form::Metrics) {
        return Err(format!("{} have no metrics", joined(&WORDS)));
    }
    if form == Some(Form::Proc) && listing != Some(Listing::Connections) {
        return Err("--proc is for `conntrack`".into());
    }
    let form = form.unwrap_or(Form::Text);
    let mut show = Show::new(listing.unwrap_or(Listing::State), form);
    if let Some(time) = time {
        if show.listing.about().milliseconds.is_none() {
            let timed: Vec<String> = listings()
                .filter(|about| about.milliseconds.is_some())
                .map(|about| format!("`{}`", about.word))
                .collect();
            let timed: Vec<&str> = timed.iter().map(String::as_str).collect();
            return Err(format!("--time is for {}", joined(&timed)));
        }
        show.milliseconds = time;
    }
    Ok(Some((show, file)))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("show", parse(args), usage) {
        Ok((show, None)) => ask(&Message::Show(show)),
        Ok((show, Some(file))) => to_file(&Message::Show(show), &file),
        Err(status) => status,
    }
}

/// Puts the answer in the place of a file. Programs that read the file find the old one or the new
/// one; the umask decides which users may, since a collector of metrics is another user.
fn to_file(message: &Message, file: &Path) -> ExitCode {
    let mut client = match connect() {
        Ok(client) => client,
        Err(status) => return status,
    };
    let written = client
        .text(message)
        .and_then(|text| penstock_files::replace(file, text.as_bytes(), Access::Umask));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            errln!("Error: {}: {e}", file.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Option<Wanted>, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn listing_requests_carry_their_output_format() {
        let show = |listing, form| Show::new(listing, form);
        for (line, expected) in [
            ("", show(Listing::State, Form::Text)),
            ("--metrics", show(Listing::State, Form::Metrics)),
            ("conntrack", show(Listing::Connections, Form::Text)),
            ("conntrack --proc", show(Listing::Connections, Form::Proc)),
            ("-j flows", show(Listing::Flows, Form::Json)),
            ("stages", Show { milliseconds: 2000, ..show(Listing::Stages, Form::Text) }),
            (
                "stages --time 0.5 --json",
                Show { milliseconds: 500, ..show(Listing::Stages, Form::Json) },
            ),
        ] {
            assert_eq!(asked(line), Ok(Some((expected, None))), "{line}");
        }
        assert_eq!(asked("-h"), Ok(None));
        let (_, file) = asked("--metrics-file x").unwrap().unwrap();
        assert_eq!(file, Some("x".into()));
    }

    #[test]
    fn wrong_calls_are_refused_with_a_message() {
        for (line, message) in [
            ("conntrack --metrics", "conntrack, flows and stages have no metrics"),
            ("--proc", "--proc is for `conntrack`"),
            ("flows --proc", "--proc is for `conntrack`"),
            ("--time 3", "--time is for `stages`"),
            ("stages --time 601", "--time takes seconds up to 600, not `601`"),
            ("conntrack flows", "unexpected argument \"flows\""),
            ("-j --metrics", "invalid option '--metrics'"),
            ("ports", "unexpected argument \"ports\""),
        ] {
            assert_eq!(asked(line), Err(message.to_owned()), "{line}");
        }
    }
}
