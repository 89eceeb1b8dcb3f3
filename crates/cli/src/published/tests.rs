// SPDX-License-Identifier: Apache-2.0

//! Tests that are published with a ruleset: `penstock test` runs them in a process of its own, with
//! limits of time and memory, in a directory that goes afterwards.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use penstock_fleet::canary::Node;
use penstock_fleet::tree::Tree;
use penstock_lang::datatype::Format;
use penstock_ruleset::Ruleset;
use penstock_system::SystemNames;

use super::evaluate::{TreeFiles, one_line, run};

/// All tests of a file have this time.
const TIME: Duration = Duration::from_secs(60);
/// Bytes of memory of the process.
const MEMORY: u64 = 4 << 30;
/// Bytes of what it prints that are looked at.
const OUTPUT: u64 = 64 << 10;
/// How soon it is noticed that it has ended.
const PULSE: Duration = Duration::from_millis(5);

/// Runs all tests of a tree, as the node has its ruleset.
///
/// # Errors
/// The first thing that is not as a test expects.
pub fn run_tests(tree: &Tree, node: &Node, elements: &str) -> Result<(), String> {
    let mut ruleset = Ruleset::default();
    let files = TreeFiles::new(tree, true, elements);
    run(&files, &tree.manifest.defines_of(node), &mut ruleset).map_err(|e| one_line(&e))?;
    // Definitions of the node, and files that are included by their absolute names, are in it.
    let names = SystemNames::default();
    let (generation, format) = (ruleset.generation(), Format::default());
    let main = crate::rules::list(&generation, &names, format, penstock_daemon::now(), false);
    let directory = Directory::new().map_err(|e| format!("no directory for tests: {e}"))?;
    tree.write(&directory.0, &main).map_err(|e| format!("files for tests: {e}"))?;
    tree.manifest.tests.iter().try_for_each(|file| run_file(&directory.0, file))
}

/// A directory of this process's own.
struct Directory(PathBuf);

impl Directory {
    fn new() -> std::io::Result<Directory> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("penstock-tests-{:016x}", penstock_random::Random::unknown().u64());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What stays is in a directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run_file(directory: &Path, file: &str) -> Result<(), String> {
    let told = |why: &dyn std::fmt::Display| format!("{file}: {why}");
    let program = std::env::current_exe().map_err(|e| told(&e))?;
    let mut command = Command::new(program);
    command.args(["test", file]).current_dir(directory).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // SAFETY: after fork(2) only setrlimit(2) is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
            match libc::setrlimit(libc::RLIMIT_AS, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = command.spawn().map_err(|e| told(&e))?;
    let out = child.stdout.take().map(drained);
    let err = child.stderr.take().map(drained);
    let ended = wait(&mut child);
    let text = |thread: Option<std::thread::JoinHandle<String>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    let (out, err) = (text(out), text(err));
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(_) => {
            let lines = err.lines().chain(out.lines()).filter(|line| !line.is_empty());
            let wrong =
                lines.clone().find(|line| line.contains("Error")).or(lines.clone().next_back());
            Err(told(&wrong.map_or("it fails".to_owned(), one_line)))
        }
        None => Err(told(&format_args!("the tests took more than {} s", TIME.as_secs()))),
    }
}

/// Reads a pipe to its end, and keeps the beginning: a process that prints more does not wait.
fn drained(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // What cannot be read is missing in a message.
        let _ = (&mut pipe).take(OUTPUT).read_to_end(&mut text);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits; ends the process after its time.
fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if begin.elapsed() > TIME {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(PULSE);
    }
}
