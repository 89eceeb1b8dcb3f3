// SPDX-License-Identifier: Apache-2.0

//! Runs the programs that come with the vectors, and reads what they found.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::expected::Failure;

/// What came of one run.
pub enum Outcome {
    /// Not possible here, and why.
    Skipped(String),
    /// The run itself went wrong, so that it says nothing.
    Broken(String),
    /// It ran.
    Ran {
        /// Its last line: how many of how many passed on each level.
        summary: String,
        /// What did not pass.
        failures: Vec<Failure>,
    },
}

/// All runs; they do not disturb one another.
pub const ALL: [fn(&Path) -> Outcome; 3] = [rules, rules_from_json, rulesets];

/// The rules of the corpus, everything in one process per lot.
fn rules(directory: &Path) -> Outcome {
    corpus(directory, "parse,list,json,payload", &["--stateless"], &nft(&["--offline"]))
}

/// The rules of the corpus as JSON. For these the runner wants a program with a memory, and a
/// network namespace.
fn rules_from_json(directory: &Path) -> Outcome {
    let state = temporary("jsonin.state");
    let _ = std::fs::remove_file(&state);
    let outcome =
        corpus(directory, "jsonin", &["--jobs", "1"], &nft(&["--state", &quoted(&state)]));
    let _ = std::fs::remove_file(&state);
    outcome
}

fn corpus(directory: &Path, levels: &str, arguments: &[&str], nft: &str) -> Outcome {
    let found = temporary(&format!("{levels}.tsv"));
    let _ = std::fs::remove_file(&found);
    let mut command = Command::new("python3");
    command
        .arg(directory.join("nft_corpus.py"))
        .args(["--quiet", "--levels", levels])
        .args(arguments);
    let output = match run(command.args(["--nft", nft]).arg("--write-fails").arg(&found)) {
        Ok(output) => output,
        Err(problem) => return Outcome::Broken(problem),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if String::from_utf8_lossy(&output.stderr).contains("cannot make a network namespace") {
        return Outcome::Skipped(format!("{levels}: no right to make a network namespace"));
    }
    let summary = match summary(&output, "corpus: ") {
        Ok(summary) => summary,
        Err(problem) => return Outcome::Broken(problem),
    };
    if !said.contains(", not run 0,") {
        return Outcome::Broken(format!("{levels}: not all files were run:\n{said}"));
    }
    let Ok(text) = std::fs::read_to_string(&found) else {
        return Outcome::Broken(format!("{levels}: the runner wrote no list of failures"));
    };
    let _ = std::fs::remove_file(&found);
    let mut failures = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let mut fields = line.splitn(5, '\t').map(String::from);
        let mut next = || fields.next().unwrap_or_default();
        let (levels, file, family, rule, got) = (next(), next(), next(), next(), next());
        failures.extend(levels.split(',').map(|level| Failure {
            level: level.into(),
            file: file.clone(),
            family: family.clone(),
            rule: rule.clone(),
            got: got.clone(),
        }));
    }
    Outcome::Ran { summary, failures }
}

/// The recorded rulesets, loaded and listed again.
fn rulesets(directory: &Path) -> Outcome {
    let mut command = Command::new("python3");
    command
        .arg(directory.join("nft_rulesets.py"))
        .arg("-v")
        .args(["--nft", &nft(&["--state", "{state}"])]);
    let output = match run(&mut command) {
        Ok(output) => output,
        Err(problem) => return Outcome::Broken(problem),
    };
    let summary = match summary(&output, "rulesets: ") {
        Ok(summary) => summary,
        Err(problem) => return Outcome::Broken(problem),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let mut failures: Vec<Failure> = Vec::new();
    for line in said.lines().take_while(|l| !l.starts_with("rulesets: ")) {
        let head = ["list", "json"].into_iter().find_map(|level| {
            let (file, got) = line.split_once(&format!(".nft: {level}: "))?;
            Some((level, format!("{file}.nft"), got))
        });
        match (head, failures.last_mut()) {
            (Some((level, file, got)), _) => failures.push(Failure {
                level: level.into(),
                file,
                family: "*".into(),
                rule: "*".into(),
                got: got.into(),
            }),
            (None, Some(last)) => last.got = format!("{}\n{line}", last.got),
            (None, None) => {}
        }
    }
    Outcome::Ran { summary, failures }
}

fn run(command: &mut Command) -> Result<Output, String> {
    command.stdin(Stdio::null()).output().map_err(|e| format!("python3 does not start: {e}"))
}

/// The last line, which must tell of at least one vector on each level and on none a crash of the
/// runner.
fn summary(output: &Output, start: &str) -> Result<String, String> {
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().filter(|l| l.starts_with(start) && !l.contains("/0"));
    match last {
        Some(line) if output.status.success() => Ok(line.into()),
        _ => Err(format!("{start}no result:\n{said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// `penstock nft` with these arguments, for a shell.
fn nft(arguments: &[&str]) -> String {
    format!("{} nft {}", quoted(Path::new(env!("CARGO_BIN_EXE_penstock"))), arguments.join(" "))
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// A file for this process only.
fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("conformance-{}-{name}", std::process::id()))
}
