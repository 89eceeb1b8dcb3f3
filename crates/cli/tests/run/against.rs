// SPDX-License-Identifier: Apache-2.0

//! `penstock run --against OLD` as its users see it.

use penstock_io::LinkType;

use crate::place::{T, TestDir, frame, text};

const RUN: &str = "--net net.ip --read lan=lan.pcap --against rules.nft --rules";

/// Exit status and standard output of a comparison of the usual rules with others.
fn compared(place: &TestDir, rules: &str, more: &str) -> (Option<i32>, String) {
    place.write("new.nft", rules.as_bytes());
    let out = place.run(&format!("{RUN} new.nft {more}"));
    assert_eq!(text(&out.stderr), "", "{rules}");
    (out.status.code(), text(&out.stdout))
}

fn captured(name: &str) -> TestDir {
    let place = TestDir::new(name);
    let frames = [53, 9, 53, 53, 7, 9].map(|port| (T, frame(port)));
    place.capture("lan.pcap", LinkType::Ethernet, &frames);
    place
}

/// A flow as it is printed.
fn flow(packets: u32, kind: &str, port: u16, old: &str, new: &str) -> String {
    let flow =
        format!("lan ip saddr 198.18.0.10 ip daddr 198.19.0.2 udp sport 5000 udp dport {port}");
    format!("{packets:>10}  {kind}: {flow}\n{:>10}  old: {old}\n{:>10}  new: {new}\n", "", "")
}

#[test]
fn flows_that_end_otherwise_are_listed_with_the_rules_that_decide() {
    let place = captured("against");
    let chain = |rules: &str| {
        format!(
            "table inet t {{\nchain f {{\ntype filter hook forward priority 0; policy drop;\n\
             {rules}\n}}\n}}\n"
        )
    };
    let old = |port: u16| match port {
        53 => "sent on wan by inet t f at rules.nft:4: udp dport 53 counter accept",
        9 => "dropped: rule by inet t f at rules.nft:5: udp dport 9 counter drop",
        _ => "dropped: policy by policy of inet t f",
    };
    let others = "udp dport 53 counter accept\nudp dport 9 counter drop";
    for (rules, flows) in [
        // Another line is no difference, and neither is what decides nothing.
        (format!("counter\n{others}"), vec![]),
        (
            "udp dport 53 counter drop\nudp dport 9 counter accept".to_owned(),
            vec![
                flow(
                    3,
                    "verdict",
                    53,
                    old(53),
                    "dropped: rule by inet t f at new.nft:4: udp dport 53 counter drop",
                ),
                flow(
                    2,
                    "verdict",
                    9,
                    old(9),
                    "sent on wan by inet t f at new.nft:5: udp dport 9 counter accept",
                ),
            ],
        ),
        (
            "udp dport { 9, 53 } accept".to_owned(),
            vec![
                flow(
                    2,
                    "verdict",
                    9,
                    old(9),
                    "sent on wan by inet t f at new.nft:4: udp dport { 9, 53 } accept",
                ),
                flow(
                    3,
                    "rule",
                    53,
                    old(53),
                    "sent on wan by inet t f at new.nft:4: udp dport { 9, 53 } accept",
                ),
            ],
        ),
        (
            format!("{others}\nudp dport 7 reject"),
            vec![flow(
                1,
                "verdict",
                7,
                old(7),
                "dropped: reject, sent on lan by inet t f at new.nft:6: udp dport 7 reject",
            )],
        ),
        (
            format!(
                "{others}\n}}\nchain n {{\ntype nat hook postrouting priority 100;\nudp dport 53 snat ip to 198.19.0.9"
            ),
            vec![flow(
                3,
                "translation",
                53,
                "sent on wan ip saddr 198.18.0.10 ip daddr 198.19.0.2 udp sport 5000 udp dport 53 \
                 by inet t f at rules.nft:4: udp dport 53 counter accept",
                "sent on wan ip saddr 198.19.0.9 ip daddr 198.19.0.2 udp sport 5000 udp dport 53 \
                 by inet t f at new.nft:4: udp dport 53 counter accept; \
                 inet t n at new.nft:9: udp dport 53 snat ip to 198.19.0.9",
            )],
        ),
    ] {
        let (status, told) = compared(&place, &chain(&rules), "");
        assert_eq!(status, Some(i32::from(!flows.is_empty())), "{rules}: {told}");
        if flows.is_empty() {
            assert_eq!(told, "6 packets: all end with new.nft as with rules.nft\n");
            continue;
        }
        for flow in &flows {
            assert!(told.contains(flow), "{rules}:\n{told}is without\n{flow}");
        }
        assert_eq!(told.matches("old: ").count(), flows.len(), "{rules}: {told}");
    }
}

#[test]
fn a_comparison_is_printed_as_json() {
    let place = captured("against-json");
    let (status, told) = compared(&place, "table ip t {\n}\n", "-j");
    assert_eq!(status, Some(1));
    let json: serde_json::Value = serde_json::from_str(&told).expect("is JSON");
    assert_eq!((&json["old"], &json["new"]), (&"rules.nft".into(), &"new.nft".into()));
    assert_eq!((&json["packets"], &json["differing"]), (&6.into(), &6.into()));
    assert_eq!(json["flows"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["flows"][0]["packets"], 3);
    assert_eq!(json["flows"][0]["differs"], "rule");
}

#[test]
fn errors_of_a_comparison_are_no_answers() {
    let place = captured("against-errors");
    for (line, message) in [
        ("none.nft", "none.nft"),
        ("rules.nft --write-dir out", "--against prints the comparison only"),
        ("rules.nft --trace", "--against prints the comparison only"),
    ] {
        let out = place.run(&format!("{RUN} {line}"));
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert!(text(&out.stderr).contains(message), "{line}: {}", text(&out.stderr));
    }
}
