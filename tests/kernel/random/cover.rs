// SPDX-License-Identifier: Apache-2.0

//! Packets that `penstock cover` finds for rulesets: they meet rules that frames by chance seldom
//! meet.

use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_io::{Capture, Merge};

use super::filtering;
use crate::scenario::Scenario;

/// Rulesets of the examples and of hosts as people have them, with the packets of each hook.
pub fn examples() -> Vec<Scenario> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for file in [
        "examples/router/rules.nft",
        "examples/host/rules.nft",
        "examples/prove/new.nft",
        "examples/prove/refactored.nft",
        "tests/captures/cases/docker-host.nft",
        "tests/captures/cases/home-router.nft",
        "tests/captures/cases/kube-proxy-node.nft",
        "tests/captures/cases/openwrt.nft",
        "tests/captures/cases/web-server.nft",
        "tests/captures/cases/workstation.nft",
    ] {
        let name = format!("cover_{}", file.trim_end_matches(".nft").replace('/', "_"));
        all.extend(scenarios(&name, &root.join(file)));
    }
    all
}

/// A ruleset by chance, with the packets of one of its hooks. Where there are none, the ruleset has
/// frames by chance.
pub fn scenario(seed: u64) -> Scenario {
    let name = format!("random_cover_{seed}");
    let by_chance = filtering::scenario(seed.wrapping_mul(31).wrapping_add(7));
    let directory = directory(&name);
    let file = directory.join("rules.nft");
    std::fs::create_dir_all(&directory).expect("a directory for rules");
    std::fs::write(&file, &by_chance.rules).expect("a file of rules");
    let mut all = scenarios(&name, &file);
    match all.len() {
        0 => Scenario { name, ..by_chance },
        count => Scenario { name, ..all.swap_remove(seed as usize % count) },
    }
}

fn directory(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cover").join(name)
}

/// What `penstock cover` writes for a ruleset: a scenario for each hook with packets.
fn scenarios(name: &str, rules: &Path) -> Vec<Scenario> {
    let written = directory(name).join("written");
    let _ = std::fs::remove_dir_all(&written);
    let output = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .args(["cover", "--timeout", "30", "--rules"])
        .arg(rules)
        .arg("--write")
        .arg(&written)
        .output()
        .expect("penstock");
    // Rules that have no symbolic meaning are refused; a bug is not.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("bug") && !said.contains("panicked"), "{name}: {said}");
    let Ok(entries) = std::fs::read_dir(&written) else { return Vec::new() };
    let mut tests: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "test"))
        .collect();
    tests.sort();
    tests.iter().map(|file| read(name, rules, file)).collect()
}

/// The scenario of a file of tests.
fn read(name: &str, rules: &Path, file: &Path) -> Scenario {
    let directory = file.parent().unwrap_or(Path::new(""));
    let hook = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = |file: &Path| std::fs::read_to_string(file).expect("a file of penstock cover");
    let net = text(&file.with_extension("ip"));
    let mut scenario = Scenario::new(&format!("{name}_{hook}"), &net, &text(rules)).at_once();
    for line in text(file).lines() {
        let Some((capture, number)) =
            line.trim().strip_prefix("frame ").and_then(|frame| frame.split_once(' '))
        else {
            continue;
        };
        let (source, capture) = capture.split_once('=').expect("DEV=FILE");
        let number: usize = number.parse().expect("the number of a frame");
        let capture = Capture::open(&directory.join(capture)).expect("a capture");
        let mut merge = Merge::new(vec![capture]);
        for _ in 1..number {
            merge.next_frame();
        }
        let (_, frame) = merge.next_frame().expect("a frame").expect("a whole frame");
        let bytes = frame.bytes.to_vec();
        scenario.frames.push((source.to_owned(), bytes));
    }
    scenario
}
