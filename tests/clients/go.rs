// SPDX-License-Identifier: Apache-2.0

//! A program in Go, linked statically, with the Go library for nf_tables.

use std::path::Path;
use std::process::Command;

use crate::side::{Scratch, both, has, left};

#[test]
fn a_static_go_program_sees_the_same() {
    if !has("go") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/go");
    let scratch = Scratch::new();
    let program = scratch.file("client");
    let mut build = Command::new("go");
    build
        .arg("build")
        .arg("-C")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local");
    let built = left(&mut build);
    if built.status != Some(0) {
        // The modules come from the network, once.
        println!("SKIPPED: the program cannot be built: {}", built.stderr.trim());
        return;
    }
    let Some(said) = both(&program.display().to_string()) else { return };
    assert_eq!(said.status, Some(0), "{said:?}");
    for part in
        ["set ports inet_service false false [0016 false 01bb false]", "refused: ", "left: 0"]
    {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
}
