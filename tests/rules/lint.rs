// SPDX-License-Identifier: Apache-2.0

//! Warnings of `penstock nft --lint` that take all packets into account.

use std::io::Write;
use std::process::{Command, Stdio};

/// What it warns of, a line each: the line of the text, and the warning.
fn warnings(rules: &str) -> Vec<String> {
    let text = format!("table inet t {{\n{rules}\n}}\n");
    let mut child = Command::new(env!("CARGO_BIN_EXE_penstock"))
        .args(["nft", "--offline", "-c", "--lint", "-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}{said}");
    let warning = |line: &str| {
        let (place, warning) = line.split_once(": Warning: ")?;
        let line: u32 = place.split(':').nth(1)?.parse().ok()?;
        // The first line is that of the table.
        Some(format!("{}: {warning}", line - 1))
    };
    said.lines().filter_map(warning).collect()
}

const INPUT: &str = "chain c { type filter hook input priority 0; policy drop;";

#[test]
fn rules_that_make_no_difference_are_told() {
    let mut wrong = String::new();
    for (rules, expected) in [
        // Several rules take together what none of them takes alone.
        (
            "tcp dport < 1024 counter accept
             tcp dport >= 1024 counter accept
             tcp dport 1000-2000 drop",
            &[
                "4: this rule never matches: the rules in lines 3 and 4 together take all of its packets",
            ][..],
        ),
        ("iifname wan tcp dport 22 accept", &[]),
        (
            "ct state new tcp dport 22 accept\nct state new tcp dport 22 counter",
            &["3: this rule never matches: the rule in line 3 takes all of its packets"],
        ),
        // A jump takes none, but what comes back does.
        (
            "tcp dport 80 jump d
             tcp dport 80 counter
             }\nchain d { tcp dport { 80, 443 } counter accept",
            &[
                "3: this rule never matches: the rule in line 3 takes all of its packets",
                "5: no packet meets this rule by its element tcp dport 443",
            ],
        ),
        (
            "tcp dport 22 accept\ntcp dport { 22, 80 } counter accept",
            &[
                "2: without this rule the same becomes of each packet",
                "3: no packet meets this rule by its element tcp dport 22",
            ],
        ),
        // What is accepted later, or dropped by the policy, need not be before.
        (
            "tcp dport 22 accept\ntcp dport 20-30 accept",
            &["2: without this rule the same becomes of each packet"],
        ),
        ("tcp dport 22 drop", &["2: without this rule the same becomes of each packet"]),
        ("counter reject", &["1: the policy of this chain is never reached"]),
        // Counters, logs and limits are there for something else.
        ("tcp dport 22 counter\ntcp dport 23 log\ntcp dport 24 counter drop", &[]),
        // Without the first rule packets would use up the limit of others.
        (
            "iifname lan accept\nlimit rate 5/second accept\niifname lan accept",
            &["4: this rule never matches: the rule in line 3 takes all of its packets"],
        ),
        // Sets without elements are there to be filled.
        ("ip saddr @s accept\n}\nset s { type ipv4_addr;", &[]),
        (
            "tcp dport 22 accept\nip saddr @s drop\naccept\n}\nset s { type ipv4_addr;",
            &["1: the policy of this chain is never reached"],
        ),
        // A rule that is met at another hook is not useless.
        (
            "jump d\n}\nchain f { type filter hook forward priority 0; policy drop;\njump d\n}\n\
             chain d { iifname lan oifname wan accept",
            &["2: without this rule the same becomes of each packet"],
        ),
        (
            "meta mark set 1\nmeta mark set 2\naccept",
            &[
                "1: the policy of this chain is never reached",
                "2: without this rule the same becomes of each packet",
            ],
        ),
    ] {
        let lines: Vec<&str> = rules.lines().map(str::trim).collect();
        let said = warnings(&format!("{INPUT}\n{}\n}}", lines.join("\n")));
        if said != expected {
            wrong.push_str(&format!("{rules}\n  {said:?}\n"));
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn what_is_not_known_is_said() {
    let rules = format!("{INPUT}\nsctp chunk init flags 1 accept\ndrop\n}}");
    let said = warnings(&rules);
    assert!(said[0].starts_with("2: this rule cannot be evaluated for all packets"), "{said:?}");
    assert_eq!(said.len(), 1, "{said:?}");
}
