// SPDX-License-Identifier: Apache-2.0

//! The nft language against recorded vectors: rules with their listings, JSON and VM programs, and
//! whole rulesets.
//!
//! The vectors and the two programs that run them are not part of this project. They are looked for
//! in the directory that `PENSTOCK_CONFORMANCE` names, else in `../shared/conformance` beside the
//! checkout; without them everything here is skipped, and says so. What fails must be what
//! `expected-failures.tsv` lists, no more and no less.

mod expected;
mod runners;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use expected::Expected;
use runners::Outcome;

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let directory = match find() {
        Ok(directory) => directory,
        Err(reason) => {
            println!("SKIPPED: conformance: {reason}");
            return ExitCode::SUCCESS;
        }
    };
    let mut expected = match Expected::parse(include_str!("expected-failures.tsv")) {
        Ok(expected) => expected,
        Err(problem) => {
            println!("expected-failures.tsv: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let directory = &directory;
    let outcomes = std::thread::scope(|s| {
        let threads = runners::ALL.map(|run| s.spawn(move || run(directory)));
        threads
            .map(|t| t.join().unwrap_or_else(|_| Outcome::Broken("a runner's thread ended".into())))
    });
    let (mut good, mut complete) = (true, true);
    for outcome in outcomes {
        match outcome {
            Outcome::Skipped(reason) => {
                println!("SKIPPED: conformance: {reason}");
                complete = false;
            }
            Outcome::Broken(problem) => {
                println!("conformance: {problem}");
                good = false;
            }
            Outcome::Ran { summary, failures } => {
                println!("{summary}");
                for failure in failures.into_iter().filter(|f| !expected.covers(f)) {
                    println!("FAILED {failure}");
                    good = false;
                }
            }
        }
    }
    // What was skipped may hold the failures that are missed.
    if complete {
        for line in expected.unused() {
            println!("PASSED, though expected-failures.tsv says it fails: {line}");
            good = false;
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The directory of the vectors, or why there is none to be used.
fn find() -> Result<PathBuf, String> {
    let directory = match std::env::var_os("PENSTOCK_CONFORMANCE") {
        Some(named) => PathBuf::from(named),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance"),
    };
    let lacks =
        ["nft_corpus.py", "nft_rulesets.py"].into_iter().find(|f| !directory.join(f).is_file());
    if let Some(file) = lacks {
        return Err(format!(
            "no {file} in {}; PENSTOCK_CONFORMANCE names the directory",
            directory.display()
        ));
    }
    match Command::new("python3").arg("--version").output() {
        Ok(_) => Ok(directory),
        Err(e) => Err(format!("no python3: {e}")),
    }
}
