// SPDX-License-Identifier: Apache-2.0

//! Both sides of a comparison.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed in the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("penstock-clients-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Scratch(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The state file.
    pub fn state(&self) -> PathBuf {
        self.file("state")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a program left.
#[derive(Debug, PartialEq)]
pub struct Left {
    pub stdout: String,
    pub stderr: String,
    pub status: Option<i32>,
}

pub fn left(command: &mut Command) -> Left {
    let Output { stdout, stderr, status } =
        command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    Left {
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        status: status.code(),
    }
}

pub fn penstock() -> Command {
    Command::new(env!("CARGO_BIN_EXE_penstock"))
}

/// `penstock exec` with a state file; the command has yet to follow.
pub fn exec(state: &Path) -> Command {
    let mut command = penstock();
    command.args(["exec", "--state"]).arg(state).arg("--");
    command
}

/// A text with `N` for the numbers after a word.
pub fn without_numbers_after(word: &str, text: &str) -> String {
    let word = format!("{word} ");
    let mut parts = text.split(&word);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = if rest.len() < part.len() { "N" } else { "" };
        out.push_str(&format!("{word}{number}{rest}"));
    }
    out
}

/// Whether a program is there; says so if not.
pub fn has(program: &str) -> bool {
    let found = left(Command::new("sh").args(["-c", &format!("command -v {program}")]));
    if found.status != Some(0) {
        println!("SKIPPED: there is no {program}");
    }
    found.status == Some(0)
}

/// Whether network namespaces can be made; says so if not.
pub fn has_namespaces() -> bool {
    let made = left(Command::new("unshare").args(["--net", "nft", "list", "ruleset"]));
    if made.status != Some(0) {
        println!("SKIPPED: no network namespace: {}", made.stderr.trim());
    }
    made.status == Some(0)
}

/// What a script prints on the kernel, in its own namespace.
pub fn in_kernel(script: &str) -> Left {
    left(Command::new("unshare").args(["--net", "sh", "-c", script]))
}

/// What a script prints under `penstock exec`.
pub fn in_exec(state: &Path, script: &str) -> Left {
    left(exec(state).args(["sh", "-c", script]))
}

/// Runs a script on both sides, and compares. Returns what both printed, unless there is no
/// namespace.
pub fn both(script: &str) -> Option<Left> {
    if !has_namespaces() {
        return None;
    }
    let scratch = Scratch::new();
    let (ours, kernel) = (in_exec(&scratch.state(), script), in_kernel(script));
    let shown = |left: &Left| without_numbers_after("process", &left.stdout);
    assert_eq!(shown(&ours), shown(&kernel), "{script}\n{}{}", ours.stderr, kernel.stderr);
    assert_eq!(ours.stderr, kernel.stderr, "{script}");
    assert_eq!(ours.status, kernel.status, "{script}");
    Some(ours)
}
