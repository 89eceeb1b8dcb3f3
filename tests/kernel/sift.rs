// SPDX-License-Identifier: Apache-2.0

//! Rules that chance made need not be rules: those that are refused are taken out of a text, so
//! that generators can put together whatever parts they like. That both sides refuse the same is
//! what `tests/nft` compares.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// The text without the lines that are blamed for errors, until nothing is refused.
pub fn sift(mut rules: String) -> String {
    for _ in 0..40 {
        let blamed = blamed(&rules);
        if blamed.is_empty() {
            break;
        }
        let kept = rules.lines().enumerate().filter(|(n, _)| !blamed.contains(&(n + 1)));
        rules = kept.map(|(_, line)| format!("{line}\n")).collect();
    }
    rules
}

/// The lines, from 1 on, that errors of a dry run speak of.
fn blamed(rules: &str) -> BTreeSet<usize> {
    let child = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .args(["nft", "--offline", "-c", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("penstock starts");
    child.stdin.take().expect("a pipe").write_all(rules.as_bytes()).expect("it reads all");
    let said = child.wait_with_output().expect("it ends").stderr;
    let text = String::from_utf8_lossy(&said).into_owned();
    // `/dev/stdin:LINE:FROM-TO: Error: …`
    let place = |line: &str| line.split_once(": Error: ")?.0.rsplit(':').nth(1)?.parse().ok();
    text.lines().filter_map(place).collect()
}
