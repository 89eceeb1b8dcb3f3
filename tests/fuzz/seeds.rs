// SPDX-License-Identifier: Apache-2.0

//! What fuzzing starts from: the rulesets and packets of the filetests, captures made of them,
//! network files.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use penstock_io::{CaptureWriter, LinkType};

use crate::format::{self, Kind, Test};
use crate::language;
use crate::network::{NET, net};

/// The project's directory: this file is compiled in the test of a crate and in the fuzzing
/// workspace.
fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let up = here.ancestors().find(|a| a.join("filetests").is_dir());
    up.unwrap_or(here).to_owned()
}

fn tests() -> &'static [Test] {
    static TESTS: OnceLock<Vec<Test>> = OnceLock::new();
    TESTS.get_or_init(|| {
        let mut found = vec![];
        for entry in std::fs::read_dir(project().join("filetests")).into_iter().flatten().flatten()
        {
            if entry.path().extension().is_some_and(|e| e == "t")
                && let Ok(file) = format::read(&entry.path())
            {
                found.extend(file.tests.into_iter().filter(|t| !t.is_refused()));
            }
        }
        // The order of a directory is not always the same.
        found.sort_by(|a, b| (&a.title, a.ruleset()).cmp(&(&b.title, b.ruleset())));
        found
    })
}

/// Texts for `nft -f`.
pub fn rulesets() -> &'static [String] {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let mut texts: Vec<_> = tests().iter().map(Test::ruleset).collect();
        texts.extend(
            read_all("ruleset").into_iter().map(|b| String::from_utf8_lossy(&b).into_owned()),
        );
        texts
    })
}

/// These rulesets as `nft -j list ruleset` has them.
pub fn json() -> &'static [String] {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let net = crate::network::net();
        let loaded = rulesets().iter().filter_map(|text| crate::language::load(text, &net, 0).ok());
        loaded.map(|mut ruleset| crate::language::list_json(&mut ruleset, &net, 0)).collect()
    })
}

/// All rules of the filetests, each test's in its own table, without verdicts: every packet
/// meets all of them.
pub fn all_rules() -> String {
    let mut all = String::new();
    for (i, test) in tests().iter().enumerate() {
        let mut test = test.clone();
        test.policy = "accept".into();
        for item in &mut test.items {
            if let Kind::Rule(text) | Kind::With(text) = &mut item.kind {
                *text = text.replace(": drop", ": continue").replace(": accept", ": continue");
                *text = text.replace(" drop", "").replace(" accept", "");
                for word in [" reject", " fwd ", "reject", "fwd "] {
                    if let Some((before, _)) = text.split_once(word) {
                        *text = format!("{before} counter");
                    }
                }
            }
        }
        let text = test.ruleset().replacen(" t {", &format!(" t{i} {{"), 1);
        if language::load(&text, &net(), 0).is_ok() {
            all.push_str(&text);
        }
    }
    all
}

/// The packets of the filetests, as [`crate::send::send`] takes frames.
pub fn frames() -> &'static [Vec<u8>] {
    static FRAMES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        let mut frames: Vec<Vec<u8>> = tests()
            .iter()
            .flat_map(|t| t.packets())
            .map(|packet| {
                let device = packet.source.trim_start_matches("host:");
                let links = net();
                let at = links.links().iter().position(|l| &*l.name == device).unwrap_or(0);
                let how = match packet.source.as_str() {
                    "host" => 0,
                    source if source.starts_with("host:") => 1,
                    _ => 2,
                };
                let len = (packet.bytes.len() as u16).to_be_bytes();
                [&[(at << 2) as u8 | how, 20, len[0], len[1]], &packet.bytes[..]].concat()
            })
            .collect();
        frames.sort();
        frames.dedup();
        frames
    })
}

/// Capture files: pcap of both link types, pcapng by hand, the beginnings of recorded ones.
pub fn captures() -> Vec<Vec<u8>> {
    let mut files = vec![];
    for link in [LinkType::Ethernet, LinkType::Raw] {
        let mut file = vec![];
        if let Ok(mut writer) = CaptureWriter::new(&mut file, link) {
            for (i, frame) in frames().iter().take(8).enumerate() {
                let _ = writer.write(1_700_000_000_000_000_000 + i as u64, &frame[4..]);
            }
            let _ = writer.finish();
        }
        files.push(file);
    }
    for big in [false, true] {
        files.push(pcapng(big));
    }
    for entry in
        std::fs::read_dir(project().join("examples/router")).into_iter().flatten().flatten()
    {
        if let Ok(bytes) = std::fs::read(entry.path())
            && entry.path().to_string_lossy().contains("pcap")
        {
            files.push(bytes[..bytes.len().min(2000)].to_vec());
        }
    }
    files
}

/// A section, an interface with options, an enhanced and a simple packet block.
fn pcapng(big: bool) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let block = |kind: u32, body: Vec<u8>| {
        let len = word(12 + body.len() as u32);
        [&word(kind)[..], &len, &body, &len].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let resolution = [&half(9)[..], &half(1), &[9, 0, 0, 0], &half(0), &half(0)].concat();
    let interface = [&half(1)[..], &half(0), &word(0), &resolution].concat();
    let enhanced = [&word(0)[..], &word(5), &word(6), &word(60), &word(60), &[7; 60]].concat();
    let simple = [&word(60)[..], &[8; 60]].concat();
    [block(0x0a0d_0d0a, section), block(1, interface), block(6, enhanced), block(3, simple)]
        .concat()
}

/// Lines for `ip -batch`.
pub fn configs() -> Vec<Vec<u8>> {
    vec![NET.into()]
}

/// Bytes for programs: they mean something wherever they are cut.
pub fn programs(rng: &mut fastrand::Rng) -> Vec<u8> {
    (0..rng.usize(20..400)).map(|_| rng.u8(..)).collect()
}

/// The files of a directory of `tests/fuzz/corpus`.
pub fn read_all(directory: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(project().join("tests/fuzz/corpus").join(directory));
    let mut paths: Vec<_> = entries.into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.iter().filter_map(|p| std::fs::read(p).ok()).collect()
}
