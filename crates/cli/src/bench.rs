// SPDX-License-Identifier: Apache-2.0

//! `penstock bench`: how fast the packet path is on this machine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use penstock_bench::{BENCHES, Bench, Effort, Outcome, plot, report};
use penstock_daemon::{errln, out};
use penstock_files::Access;

use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

/// What can be measured.
pub const NAMES: [&str; BENCHES.len()] = {
    let mut names = [""; BENCHES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = BENCHES[i].name;
        i += 1;
    }
    names
};

const OPTIONS: &[Opt] = &[
    flag('j', "json", "print JSON lines instead of a table"),
    long("plot", "also write a bar chart of each benchmark to DIR/NAME.svg")
        .takes("DIR", Values::Directories),
    long("rounds", "number of rounds; the result is their median (default: 15)")
        .takes("N", Values::Any),
    long("slice", "minimum milliseconds per variant and round (default: 20)")
        .takes("MS", Values::Any),
    long("vpp", "the VPP for the benchmark of that name (default: vpp)")
        .takes("PROGRAM", Values::Files),
    flag('h', "help", "print this text"),
];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock bench [OPTIONS] NAME[/VARIANT]...\n\n\
         Measures the packet path in memory, on one core, with frames of 60 bytes, and the kernel's over\n\
         veth for comparison. The variants of a benchmark run in turn.\n\nBenchmarks:\n",
    );
    for bench in &BENCHES {
        out.push_str(&format!("  {:<10} {}\n", bench.name, bench.about));
    }
    out.push_str("\nOptions:\n");
    out.push_str(&usage_lines(OPTIONS, 14));
    out
}

/// What the command line asks for.
struct Options {
    benches: Vec<(&'static Bench, Option<String>)>,
    effort: Effort,
    json: bool,
    plot: Option<PathBuf>,
}

/// `None` for help. The error is a sentence for the user.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options =
        Options { benches: Vec::new(), effort: Effort::default(), json: false, plot: None };
    let sentence = |e: lexopt::Error| e.to_string();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('j') | Long("json") => options.json = true,
            Long("rounds") => options.effort.rounds = number(&mut parser, "--rounds")? as usize,
            Long("slice") => {
                options.effort.slice = Duration::from_millis(number(&mut parser, "--slice")?)
            }
            Long("vpp") => options.effort.vpp = parser.value().map_err(sentence)?.into(),
            Long("plot") => options.plot = Some(parser.value().map_err(sentence)?.into()),
            Short('h') | Long("help") => return Ok(None),
            Value(name) => {
                let text = name.to_str().unwrap_or_default();
                let (bench, variant) =
                    text.split_once('/').map_or((text, None), |(b, v)| (b, Some(v.to_owned())));
                match Bench::find(bench) {
                    Some(bench) => options.benches.push((bench, variant)),
                    None => return Err(format!("there is no benchmark `{}`", name.display())),
                }
            }
            other => return Err(sentence(other.unexpected())),
        }
    }
    if options.benches.is_empty() {
        return Err("which benchmark?".into());
    }
    Ok(Some(options))
}

fn number(parser: &mut lexopt::Parser, option: &str) -> Result<u64, String> {
    let value = parser.value().map_err(|e| e.to_string())?;
    let number = value.to_str().and_then(|v| v.parse().ok()).filter(|n| *n > 0);
    number.ok_or_else(|| format!("{option} takes a number from 1 on, not `{}`", value.display()))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match given("bench", parse(args), usage) {
        Ok(options) => options,
        Err(status) => return status,
    };
    if let Some(directory) = &options.plot
        && let Err(e) = std::fs::create_dir_all(directory)
    {
        errln!("Error: {}: {e}", directory.display());
        return ExitCode::FAILURE;
    }
    for (i, (bench, variant)) in options.benches.iter().enumerate() {
        let Outcome { figures, notes } = match bench.run(variant.as_deref(), &options.effort) {
            Ok(outcome) => outcome,
            Err(what) => {
                errln!("Error: {}: {what}", bench.name);
                return ExitCode::FAILURE;
            }
        };
        if figures.is_empty() {
            errln!(
                "Error: {} has no variant `{}`",
                bench.name,
                variant.as_deref().unwrap_or_default()
            );
            return ExitCode::FAILURE;
        }
        for note in notes {
            errln!("{}: {note}", bench.name);
        }
        if options.json {
            out!("{}", report::json_lines(bench.name, &figures));
        } else {
            out!("{}{}", if i > 0 { "\n" } else { "" }, report::table(bench.name, &figures));
        }
        if let Some(directory) = &options.plot {
            let file = directory.join(format!("{}.svg", bench.name));
            if let Err(e) = penstock_files::replace(
                &file,
                plot::svg(bench.name, &figures).as_bytes(),
                Access::Umask,
            ) {
                errln!("Error: {}: {e}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use penstock_bench::Scale;

    use super::*;

    #[test]
    fn wrong_command_lines_are_refused_with_a_message() {
        for (line, message) in [
            ("", "which benchmark?"),
            ("speed", "there is no benchmark `speed`"),
            ("ingress --rounds none", "--rounds takes a number from 1 on, not `none`"),
            ("ingress --slice 0", "--slice takes a number from 1 on, not `0`"),
            ("-q", "invalid option '-q'"),
        ] {
            let args = line.split_whitespace().map(OsString::from);
            assert_eq!(parse(args).err().as_deref(), Some(message), "{line}");
        }
    }

    /// Benchmarks that take root, and the program itself.
    const ROOT: [&str; 7] = ["kernel", "netfilter", "attach", "live", "peers", "yardstick", "vpp"];

    #[test]
    fn every_benchmark_runs() {
        let effort =
            Effort { rounds: 1, slice: Duration::ZERO, scale: Scale::Reduced, ..Effort::default() };
        for bench in &BENCHES {
            let figures = match bench.run(None, &effort) {
                Ok(outcome) => outcome.figures,
                Err(what) if ROOT.contains(&bench.name) => {
                    println!("skipped: {what}");
                    continue;
                }
                Err(what) => panic!("{}: {what}", bench.name),
            };
            let measured = |f: &penstock_bench::Figure| f.bytes.unwrap_or(f.ns) > 0.0;
            assert!(!figures.is_empty() && figures.iter().all(measured), "{}", bench.name);
        }
    }
}
