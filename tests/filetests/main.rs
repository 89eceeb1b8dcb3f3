// SPDX-License-Identifier: Apache-2.0

//! Filetests: rulesets, their VM programs, packets and their results, in the files of `filetests/`.
//!
//! Every engine that a test names must agree with the file. The format is described in
//! `filetests/README.md`.
//!
//! Arguments: words that `FILE: TITLE` must contain. Environment: `UPDATE=1` writes what is
//! observed into the files, for review; `UPDATE=kernel` takes it from the kernel; `PENSTOCK_SEED`,
//! `PENSTOCK_ROUNDS`: of the random tests after the files.

mod computed;
mod format;
mod inner;
mod interpreter;
mod kernel;
mod language;
mod nfnetlink;
mod outcome;
mod packet;

// The comparison with the kernel has these; it uses all of them.
#[path = "../kernel/chance.rs"]
mod chance;
#[path = "../kernel/compare.rs"]
#[allow(dead_code)]
mod compare;
#[path = "../kernel/frame.rs"]
#[allow(dead_code)]
mod frame;
#[path = "../kernel/links.rs"]
mod links;
#[path = "../kernel/listeners.rs"]
mod listeners;
#[path = "../kernel/namespace.rs"]
#[allow(dead_code)]
mod namespace;
#[path = "../kernel/net.rs"]
#[allow(dead_code)]
mod net;
#[path = "../kernel/nfnl_socket.rs"]
mod nfnl_socket;
#[path = "../kernel/pppoe.rs"]
mod pppoe;
#[path = "../kernel/router.rs"]
#[allow(dead_code)]
mod router;
#[path = "../kernel/scenario.rs"]
#[allow(dead_code)]
mod scenario;
#[path = "../kernel/services.rs"]
#[allow(dead_code)]
mod services;
#[path = "../kernel/sockets.rs"]
#[allow(dead_code)]
mod sockets;
#[path = "../kernel/tools.rs"]
#[allow(dead_code)]
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use format::{Kind, Test};
use kernel::Kernel;
use net::NET;
use outcome::Observed;
use router::Unavailable;

/// What runs tests. Another one is a line here, a line in [`Engines::run`], and its name in the
/// files.
const ENGINES: [&str; 3] = ["interpreter", "kernel", "programs"];

struct Engines {
    /// `Err` says why there is none.
    kernel: Result<Kernel, String>,
}

impl Engines {
    fn new() -> Engines {
        let kernel = kernel::available().and_then(|()| {
            Kernel::new().map_err(|e| match e {
                Unavailable::Skip(reason) | Unavailable::Failed(reason) => reason,
            })
        });
        Engines { kernel }
    }

    /// `None`: this engine is not here.
    fn run(&mut self, engine: &str, test: &Test) -> Option<Result<Observed, String>> {
        Some(match engine {
            "interpreter" => interpreter::run(test),
            "kernel" => self.kernel.as_mut().ok()?.run(test, false),
            "programs" => self.kernel.as_mut().ok()?.run(test, true),
            other => Err(format!("{other}: no such engine, only {}", ENGINES.join(", "))),
        })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if std::env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let update = std::env::var("UPDATE").unwrap_or_default();
    let mut engines = Engines::new();
    if let Err(reason) = &engines.kernel {
        println!("SKIPPED: the kernel as an engine: {reason}");
    }
    let (mut passed, mut failed) = (0, 0);
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests")) {
        let mut file = match format::read(&path) {
            Ok(file) => file,
            Err(e) => {
                println!("{e}");
                failed += 1;
                continue;
            }
        };
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        for test in &mut file.tests {
            if !words.iter().all(|w| format!("{name}: {}", test.title).contains(w.as_str())) {
                continue;
            }
            let complaints = check(&mut engines, test, &path, &update);
            if complaints.is_empty() {
                passed += 1;
            } else {
                failed += 1;
                println!("FAILED {name}: {}\n{complaints}", test.title);
            }
        }
        if !update.is_empty()
            && let Err(e) = file.write()
        {
            println!("{}: {e}", path.display());
            failed += 1;
        }
    }
    if words.is_empty() {
        let (rules, wrong) = computed::compare(&mut engines);
        println!("filetests: {rules} random computed rules");
        failed += wrong;
        let (rules, wrong) = inner::compare(&mut engines);
        println!("filetests: {rules} random rules about what tunnels carry");
        failed += wrong;
    }
    println!("filetests: {passed} tests agree, {failed} do not");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All `.t` files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "t") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Runs a test on its engines. What they say is put into the test for `update`, else held against
/// it; returns what is wrong.
fn check(engines: &mut Engines, test: &mut Test, path: &Path, update: &str) -> String {
    let mut complaints = String::new();
    let place = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let names = test.engines.clone();
    if names.is_empty() {
        return format!("{place}:{}: no engines\n", test.line);
    }
    for engine in &names {
        if update == "kernel" && engine == "interpreter" {
            continue;
        }
        let observed = match engines.run(engine, test) {
            None => continue,
            Some(Ok(observed)) => observed,
            Some(Err(e)) if test.is_refused() => Observed { refusal: e, ..Observed::default() },
            Some(Err(e)) => {
                complaints.push_str(&format!("{place}:{}: {engine}:\n{e}\n", test.line));
                continue;
            }
        };
        let seen = observed.expectations(test);
        if (update == "1" && *engine == names[0]) || update == "kernel" {
            for (item, seen) in test.items.iter_mut().zip(seen) {
                item.expected = seen;
            }
            continue;
        }
        for (item, seen) in test.items.iter().zip(seen) {
            let expected: Vec<String> = match (engine.as_str(), &item.kind) {
                ("kernel" | "programs", Kind::Packet(_)) => {
                    item.expected.iter().map(|l| visible(l).to_string()).collect()
                }
                _ => item.expected.clone(),
            };
            if expected != seen {
                complaints.push_str(&format!("{place}:{}: {engine}: {}\n", item.line, item.text));
                complaints.push_str("  expected:\n");
                for line in &item.expected {
                    complaints.push_str(&format!("    {line}\n"));
                }
                complaints.push_str("  seen:\n");
                for line in &seen {
                    complaints.push_str(&format!("    {line}\n"));
                }
            }
        }
    }
    complaints
}

/// A result without what stands in parentheses: what only our engines tell.
fn visible(line: &str) -> &str {
    line.split_once(" (").map_or(line, |(seen, _)| seen)
}
