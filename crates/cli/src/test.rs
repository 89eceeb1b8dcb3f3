// SPDX-License-Identifier: Apache-2.0

//! `penstock test`: packets, and what is to become of them, in files.

mod expect;
pub mod line;
pub mod options;
pub mod record;
mod report;
pub mod run;
pub mod suite;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use penstock_daemon::{errln, out};
use penstock_files::Access;
use penstock_lang::diag::Diagnostic;
use penstock_lang::source::Loc;

use crate::input::Captures;
use crate::options::given;
use crate::recognise::{Given, hinted};
use crate::rules::NetNames;
use crate::setup::Setup;
use crate::trace::told::Told;
use options::{Form, Wanted};
use record::Recorded;
use report::{Finding, TestResult};
use run::{Failure, Host};
use suite::{Action, Suite};

/// Exit status for what cannot be run.
const BROKEN: u8 = 2;

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (setup, wanted) = match given("test", options::parse(args), options::usage) {
        Ok(wanted) => wanted,
        Err(status) => return status,
    };
    let recorded = match wanted {
        Wanted::Run { files, form, junit } => return run_files(&setup, &files, form, junit),
        Wanted::Record(file) => read(&file, &setup).and_then(|suite| record(&suite)),
        Wanted::RecordCaptures(captures) => setup.network(&captures).and_then(|net| {
            let text = record::suite_of(&captures, &setup, &net)?;
            record(&Suite::read(Path::new("recorded.test"), text, &Setup::default())?)
        }),
    };
    match recorded {
        Ok(text) => {
            out!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            errln!("{}", message.trim_end());
            ExitCode::from(BROKEN)
        }
    }
}

fn read(file: &Path, setup: &Setup) -> Result<Suite, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|e| format!("Error: {}: {e}", file.display()))?;
    let suite = Suite::read(file, text, setup)?;
    if suite.tests.is_empty() {
        return Err(format!("Error: {}: there are no tests in it", file.display()));
    }
    Ok(suite)
}

fn run_files(setup: &Setup, files: &[PathBuf], form: Form, junit: Option<PathBuf>) -> ExitCode {
    let mut results: Vec<TestResult> = Vec::new();
    let mut broken = false;
    if form == Form::Tap {
        out!("TAP version 14\n");
    }
    for file in files {
        let suite = read(file, setup).map_err(|e| hinted(&e, file, Given::Other));
        let ran = suite.and_then(|suite| {
            run_suite(file, &suite, &mut |result| {
                results.push(result);
                let (number, last) = (results.len(), results.last());
                match (form, last) {
                    (Form::Text, Some(last)) => out!("{}", last.text()),
                    (Form::Tap, Some(last)) => out!("{}", last.tap(number)),
                    (_, None) => {}
                }
            })
        });
        if let Err(message) = ran {
            errln!("{}", message.trim_end());
            broken = true;
        }
    }
    match form {
        Form::Text => out!("{}", report::totals(&results)),
        Form::Tap => out!("1..{}\n", results.len()),
    }
    if let Some(file) = junit {
        let written = penstock_files::create(&file, Access::Owner).and_then(|mut out| {
            std::io::Write::write_all(&mut out, report::junit(&results).as_bytes())
        });
        if let Err(e) = written {
            errln!("Error: {}: {e}", file.display());
            broken = true;
        }
    }
    if broken || results.iter().any(TestResult::is_error) {
        return ExitCode::from(BROKEN);
    }
    match results.iter().all(|result| result.wrong.is_empty()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs the tests of a file.
fn run_suite(file: &Path, suite: &Suite, done: &mut dyn FnMut(TestResult)) -> Result<(), String> {
    let net = Arc::new(suite.setup.network(&Captures::default())?);
    let names = NetNames::new(&net);
    let host = Host::load(suite, &net, &names)?;
    let mut tracer = host.tracer();
    for test in &suite.tests {
        let mut told = Told::new(tracer);
        let mut wrong = Vec::new();
        let ran = host.run(test, &mut told, &mut |step, passed| {
            for (n, (expected, message)) in passed.wrong.into_iter().enumerate() {
                let place = step.expected.get(expected).map_or(step.loc, |e| e.loc);
                // The trace is the same for all of them.
                let trace = if n == 0 { passed.trace.clone() } else { String::new() };
                wrong.push(finding(suite, place, format!("not so: {message}"), trace, false));
            }
            true
        });
        match ran {
            Ok(()) => {}
            Err(Failure::Whole(message)) => return Err(message),
            Err(Failure::At(place, message)) => {
                wrong.push(finding(suite, place, message, String::new(), true));
            }
        }
        done(TestResult { title: test.title.clone(), file: file.display().to_string(), wrong });
        tracer = told.into_tracer();
    }
    Ok(())
}

/// What is wrong at a place.
fn finding(suite: &Suite, place: Loc, message: String, trace: String, is_error: bool) -> Finding {
    let message = message.trim_end().trim_start_matches("Error: ").to_owned();
    let rendered = Diagnostic::error(place, message.clone()).render(&suite.inputs);
    let message = message.lines().next().unwrap_or_default().to_owned();
    Finding { is_error, message, rendered, trace }
}

/// The text of a suite, with what comes out now as expectations of packets that have none.
fn record(suite: &Suite) -> Result<String, String> {
    let net = Arc::new(suite.setup.network(&Captures::default())?);
    let names = NetNames::new(&net);
    let host = Host::load(suite, &net, &names)?;
    let mut tracer = host.tracer();
    let rules = host.tracer();
    let mut recorded = Recorded::new();
    for test in &suite.tests {
        let of_one = |action: &Action| match action {
            Action::Packet { .. } => true,
            Action::Frames { numbers, .. } => numbers.start() == numbers.end(),
            Action::Known(_) | Action::Wait(_) => false,
        };
        let steps = test.steps.iter().filter(|s| s.expected.is_empty() && of_one(&s.action));
        recorded.extend(steps.map(|step| (record::key(step.loc), None)));
        let mut told = Told::new(tracer);
        let ran = host.run(test, &mut told, &mut |step, passed| {
            if let Some(lines) = recorded.get_mut(&record::key(step.loc)) {
                *lines = Some(record::expectations(&passed.outcome, rules.rules()));
            }
            true
        });
        match ran {
            Ok(()) => {}
            Err(Failure::Whole(message)) => return Err(message),
            Err(Failure::At(place, message)) => {
                return Err(finding(suite, place, message, String::new(), true).rendered);
            }
        }
        tracer = told.into_tracer();
    }
    Ok(record::written(suite, &recorded))
}
