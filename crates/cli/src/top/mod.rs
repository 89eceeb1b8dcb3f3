// SPDX-License-Identifier: Apache-2.0

//! `penstock top`: rates of ports, rules, flows and drops, as they are or as a file has them.
//!
//! | file | is |
//! | --- | --- |
//! | `snapshot` | what is there at a moment, and what passed between two |
//! | `history` | rates of the last minutes |
//! | `screen` | what is chosen of it, and what keys do |
//! | `drawing` | the widgets of the screen |
//! | `terminal` | the screen on a terminal, until the user has seen enough |

mod drawing;
mod history;
mod screen;
mod snapshot;
mod terminal;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Short};
use penstock_daemon::control::protocol::{Message, Show};
use penstock_daemon::errln;
use penstock_print::show::{Form, Listing};
use penstock_system::words;

use crate::dataplane::connect;
use crate::options::{Opt, Values, flag, given, long, usage_lines};
use screen::Screen;
use snapshot::{Row, Snapshot, View};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const VIEWS: [&str; 4] = ["ports", "rules", "flows", "drops"];

const OPTIONS: &[Opt] = &[
    long(
        "read",
        "read a file that `penstock show --json` has printed to, once or several times, instead of live data",
    )
    .takes("FILE", Values::Files),
    long("view", "the view to start with; without a terminal, the only view to print")
        .takes("VIEW", Values::OneOf(&VIEWS)),
    long("interval", "seconds between two updates; default: 1").takes("SECONDS", Values::Any),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock top [OPTIONS]\n\n\
         Shows rates of the dataplane of this network namespace: ports, rules, flows and connections, drops.\n\
         `?` shows the keys. Without a terminal it prints one page.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 20));
    out
}

struct Options {
    read: Option<PathBuf>,
    view: Option<View>,
    interval: Duration,
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut options = Options { read: None, view: None, interval: Duration::from_secs(1) };
    let mut parser = lexopt::Parser::from_args(args);
    let text = |parser: &mut lexopt::Parser| match parser.value() {
        Ok(value) => Ok(value.to_string_lossy().into_owned()),
        Err(e) => Err(e.to_string()),
    };
    while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
        match arg {
            Long("read") => options.read = Some(text(&mut parser)?.into()),
            Long("view") => {
                let word = text(&mut parser)?;
                let view = View::ALL.into_iter().find(|v| v.name() == word);
                options.view = Some(view.ok_or_else(|| format!("there is no view `{word}`"))?);
            }
            Long("interval") => {
                let word = text(&mut parser)?;
                let seconds = word.parse().ok().filter(|s: &f64| (0.1..=3600.0).contains(s));
                let seconds =
                    seconds.ok_or_else(|| format!("--interval takes seconds, not `{word}`"))?;
                options.interval = Duration::from_secs_f64(seconds);
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(options))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("top", parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Said(status)) => status,
        Err(Failed::Not(message)) => {
            errln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is nothing to show.
enum Failed {
    /// It was said already.
    Said(ExitCode),
    Not(String),
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Self {
        Failed::Not(e.to_string())
    }
}

/// The moment now.
fn look() -> Result<Snapshot, Failed> {
    let mut client = connect().map_err(Failed::Said)?;
    let json = client.text(&Message::Show(Show::new(Listing::State, Form::Json)))?;
    Snapshot::read(&json).map(|(_, now)| now).map_err(Failed::Not)
}

fn run(options: &Options) -> Result<(), Failed> {
    let from_stdin = options.read.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let full = !from_stdin && io::stdin().is_terminal() && io::stdout().is_terminal();
    let (before, now) = match &options.read {
        Some(path) => {
            let text = match path.as_os_str() == "-" {
                true => io::read_to_string(io::stdin()),
                false => std::fs::read_to_string(path),
            };
            let text =
                text.map_err(|e| Failed::Not(format!("{}: {}", path.display(), words(&e))))?;
            Snapshot::read(&text).map_err(|e| Failed::Not(format!("{}: {e}", path.display())))?
        }
        None if full => {
            let now = look()?;
            (now.beginning(), now)
        }
        None => {
            let before = look()?;
            std::thread::sleep(options.interval);
            (before, look()?)
        }
    };
    if !full {
        let views = options.view.map_or(View::ALL.to_vec(), |view| vec![view]);
        let mut out = io::stdout().lock();
        for (i, view) in views.into_iter().enumerate() {
            let lines = page(view, &before, &now);
            for line in lines.into_iter().skip(usize::from(i > 0)) {
                // A reader that has seen enough is no error.
                if writeln!(out, "{line}").is_err() {
                    return Ok(());
                }
            }
        }
        return Ok(());
    }
    let is_live = options.read.is_none();
    let screen = Screen::new(before, now, options.view.unwrap_or(View::Ports));
    terminal::show(screen, options.interval, is_live, &mut look)
}

/// A view in lines, sorted by its first column.
fn page(view: View, before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let columns = view.columns().iter().enumerate().map(|(i, (name, _))| match i {
        0 => format!("{:>12}", format!("*{name}")),
        _ => format!("{name:>12}"),
    });
    let head: String = columns.collect();
    let mut out = vec![format!("penstock: {}", now.headline(before)), String::new()];
    out.push(format!("{head}{:>12}  {}", "packets", view.name()));
    for Row { name, rates, totals } in now.rows(before, view, 0) {
        let mut line: String = rates.iter().map(|rate| format!("{:>12}", scaled(*rate))).collect();
        let packets: f64 = totals.iter().step_by(2).sum();
        line.push_str(&format!("{:>12}  {name}", scaled(packets)));
        out.push(line);
    }
    out
}

/// A number in four digits or less, with a prefix.
fn scaled(number: f64) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut number, mut prefix) = (number, 0);
    while number >= 9999.5 && prefix + 1 < PREFIXES.len() {
        number /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 || number >= 100.0 { 0 } else { 1 };
    format!("{number:.digits$}{}", PREFIXES[prefix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_abbreviated() {
        for (number, expected) in [
            (0.0, "0"),
            (12.4, "12"),
            (9999.0, "9999"),
            (10_000.0, "10.0k"),
            (123_456.0, "123k"),
            (2.5e9, "2500M"),
            (1e15, "1000T"),
        ] {
            assert_eq!(scaled(number), expected);
        }
    }
}
