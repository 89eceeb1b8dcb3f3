// SPDX-License-Identifier: Apache-2.0

//! The library, linked for the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The folder of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The archive that cargo has made last: it is next to this test.
fn archive() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let folder = test.parent().expect("a folder");
    let is_archive = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libpenstock_nftables") && name.ends_with(".a")
    };
    let all = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    all.filter(is_archive).max_by_key(changed).expect("an archive of this library")
}

/// Runs a program with that as its standard input.
pub fn run(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// What a program prints; `None` if it is not there, or fails.
pub fn succeeds(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A folder with the library and the program in C; `None` without a compiler.
pub fn made() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        if succeeds(Command::new("cc").arg("--version")).is_none() {
            println!("SKIPPED: there is no cc");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnftables");
        let linked = run(Command::new(here().join("link")).arg(archive()).arg(&folder), "");
        assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"]);
        compiler.arg(folder.join("calls")).arg(here().join("tests/clients/calls.c"));
        compiler.arg("-I").arg(here().join("include")).arg("-L").arg(&folder);
        let compiled = run(compiler.args(["-lnftables", "-ldl"]), "");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(folder)
    };
    MADE.get_or_init(make).as_deref()
}

/// A folder of a test, empty.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnftables-tests").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// Whether network namespaces can be made; says so if not.
pub fn has_namespaces() -> bool {
    let can = succeeds(Command::new("unshare").args(["--net", "nft", "list", "ruleset"])).is_some();
    if !can {
        println!("SKIPPED: no network namespace");
    }
    can
}
