// SPDX-License-Identifier: Apache-2.0

//! Tunnels, VLANs and PPPoE against other implementations: frames built by scapy go in, the output
//! is compared with frames that scapy builds, and tshark must report no error in it. On the slow
//! path, and with flowtables.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's, which has scapy.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/encap/frames.py");

/// The rulesets: none for flows, and flowtables at both hooks.
fn rules(hook: Option<&str>) -> String {
    let (flowtable, add) = match hook {
        Some(hook) => (
            format!("flowtable f {{ hook {hook} priority 0; devices = {{ wan, lan }}; }}"),
            "meta l4proto udp flow add @f;",
        ),
        None => (String::new(), ""),
    };
    format!(
        "table inet t {{ {flowtable}
            chain f {{ type filter hook forward priority 0; {add} ct state invalid drop; }}
        }}"
    )
}

fn succeeds(command: &str, args: &[&str]) -> bool {
    Command::new(command).args(args).output().is_ok_and(|o| o.status.success())
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}{errors}");
    text
}

/// Runs all cases with all rulesets; returns the directory with what came out.
fn ran(test: &str) -> Option<(PathBuf, Vec<(String, String)>)> {
    if !succeeds(PYTHON, &["-c", "import scapy.all"]) {
        println!("skipped: {PYTHON} has no scapy");
        return None;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("encap").join(test);
    let _ = std::fs::remove_dir_all(&place);
    output(Command::new(PYTHON).args([SCRIPT, "make"]).arg(&place));
    let mut cases = Vec::new();
    for line in output(Command::new(PYTHON).args([SCRIPT, "protocols"])).lines() {
        let (case, layers) = line.split_once(' ').unwrap();
        for (name, hook) in
            [("normal", None), ("ingress", Some("ingress")), ("early", Some("early_ingress"))]
        {
            let case = place.join(case);
            std::fs::write(case.join("rules.nft"), rules(hook)).unwrap();
            let mut run = Command::new(env!("CARGO_BIN_EXE_penstock"));
            run.current_dir(&case).args([
                "run",
                "--net",
                "net.ip",
                "--rules",
                "rules.nft",
                "--read",
            ]);
            output(run.args(["lan=lan.pcap", "wan=wan.pcap", "--write-dir", name]));
        }
        cases.push((case.to_owned(), layers.to_owned()));
    }
    Some((place, cases))
}

#[test]
fn encapsulated_frames_equal_those_of_scapy() {
    let Some((place, cases)) = ran("scapy") else { return };
    assert!(cases.len() > 10);
    output(Command::new(PYTHON).args([SCRIPT, "check"]).arg(&place));
}

#[test]
fn tshark_finds_nothing_wrong() {
    if !succeeds("tshark", &["--version"]) {
        println!("skipped: there is no tshark");
        return;
    }
    let Some((place, cases)) = ran("tshark") else { return };
    for (case, layers) in cases {
        let (layers, versions) = layers.split_once(' ').unwrap();
        for way in ["normal", "ingress", "early"] {
            let file = place.join(&case).join(way).join("wan.pcap");
            let mut tshark = Command::new("tshark");
            let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
            tshark.arg("-r").arg(&file).args(checks).args([
                "-T",
                "fields",
                "-e",
                "frame.protocols",
            ]);
            tshark.args([
                "-e",
                "ip.checksum.status",
                "-e",
                "udp.checksum.status",
                "-e",
                "_ws.expert.message",
            ]);
            let text = output(&mut tshark);
            assert_eq!(text.lines().count(), 6 * versions.split(' ').count(), "{case} {way}");
            for line in text.lines() {
                let fields: Vec<&str> = line.split('\t').collect();
                let inside =
                    ["ip:udp:", "ipv6:udp:"].map(|inner| fields[0].contains(&format!(":{inner}")));
                let seen = fields[0].replace(":ethertype", "");
                assert!(
                    seen.contains(&format!("eth:{layers}:")) && inside.contains(&true),
                    "{case}: {line}"
                );
                // 1 is "good"; malformed packets have something to say in the last field.
                assert!(fields[1..3].iter().all(|f| !f.contains('0')), "{case} {way}: {line}");
                assert!(
                    !fields.get(3).unwrap_or(&"").to_lowercase().contains("malformed"),
                    "{case}: {line}"
                );
            }
        }
    }
}
