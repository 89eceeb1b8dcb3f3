// SPDX-License-Identifier: Apache-2.0

//! The C interface, used by a program in C.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the shared library: this test is next to it.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let directory = test.parent().expect("a directory");
    let up = directory.parent().expect("a directory");
    let places = [directory, up];
    let found = places.into_iter().find(|place| place.join("libpenstock_c.so").exists());
    found.unwrap_or_else(|| panic!("no libpenstock_c.so in {}", directory.display())).to_owned()
}

#[test]
fn a_program_in_c_filters_packets() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no cc");
        return;
    }
    let library = library();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("program");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(here().join("tests/program.c"))
        .arg("-I")
        .arg(here().join("include"))
        .arg("-L")
        .arg(&library)
        .arg("-lpenstock_c")
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output()
        .expect("cc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().expect("the program runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(said, format!("penstock {}\n", env!("CARGO_PKG_VERSION")));
}

/// Words before `(` that begin with `penstock_`.
fn functions(text: &str) -> BTreeSet<String> {
    let word = |head: &str| {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        head.rsplit(word).next().unwrap_or_default().to_owned()
    };
    text.match_indices('(')
        .map(|(at, _)| word(&text[..at]))
        .filter(|name| name.starts_with("penstock_"))
        .collect()
}

/// `make header-check` compares every word; it needs cbindgen.
#[test]
fn the_header_has_the_functions_of_the_library() {
    let read = |path: &str| std::fs::read_to_string(here().join(path)).expect("a file");
    let sources = read("src/lib.rs") + &read("src/handles.rs");
    let exported =
        sources.split("pub unsafe extern \"C\" fn ").chain(sources.split("pub extern \"C\" fn "));
    let name = |text: &str| text.split('(').next().unwrap_or_default().to_owned();
    let exported: BTreeSet<String> = exported
        .map(name)
        .filter(|name| name.starts_with("penstock_") && !name.contains('\n'))
        .collect();
    assert!(exported.len() > 20, "{exported:?}");
    assert_eq!(functions(&read("include/penstock.h")), exported);
}
