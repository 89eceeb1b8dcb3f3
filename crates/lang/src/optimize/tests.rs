// SPDX-License-Identifier: Apache-2.0

//! What is merged, into what, and what is left alone. nft 1.0.6 gives the same results for the
//! rules in `nft` cases.

use penstock_ruleset::Ruleset;
use penstock_syntax::names::NoNames;
use penstock_syntax::source::{NoFiles, Origin};

use crate::session::{Options, Session};

/// Merges that rules of a chain lead to, one line each.
fn merges(rules: &str) -> Vec<String> {
    let text = format!(
        "table inet t {{\nchain quiet {{ counter; }}\nchain loud {{ meta mark set 1; }}\nchain y {{\n{rules}\n}}\n}}\n"
    );
    let options = Options { optimize: true, ..Options::default() };
    let mut ruleset = Ruleset::default();
    let outcome =
        Session::new(options, &NoFiles, &NoNames).run(Origin::CommandLine, text, &mut ruleset, 0);
    assert_eq!(outcome.stderr, "", "{rules}");
    outcome.merges.into_iter().map(|m| m.into).collect()
}

#[test]
fn adjacent_rules_that_differ_in_values_only_are_merged() {
    for (rules, expected) in [
        (
            "ip daddr 1.1.1.1 counter accept\nip daddr 1.1.1.2 counter accept",
            "ip daddr { 1.1.1.1, 1.1.1.2 } counter accept",
        ),
        (
            "udp dport 51820 iifname \"foo\" accept\nudp dport { 67, 514 } iifname \"bar\" accept",
            "udp dport . iifname { 51820 . foo, 67 . bar, 514 . bar } accept",
        ),
        (
            "ip saddr 1.1.1.1 tcp dport 22 accept\ntcp dport 23 ip saddr 1.1.1.0/24 accept",
            "ip saddr . tcp dport { 1.1.1.1 . 22, 1.1.1.0/24 . 23 } accept",
        ),
        (
            "ct state invalid drop\nct state established,related accept",
            "ct state vmap { invalid : drop, established : accept, related : accept }",
        ),
        ("tcp dport { 1 } accept\ntcp dport 2-3 drop", "tcp dport vmap { 1 : accept, 2-3 : drop }"),
        (
            "ip saddr 1.1.1.1 jump quiet\nip saddr 1.1.1.2 goto loud",
            "ip saddr vmap { 1.1.1.1 : jump quiet, 1.1.1.2 : goto loud }",
        ),
        (
            "tcp flags == syn accept\ntcp flags == ack drop",
            "tcp flags vmap { syn : accept, ack : drop }",
        ),
        (
            "meta mark & 0xff == 1 accept\nmeta mark & 0xff == 2 drop",
            "meta mark & 255 vmap { 1 : accept, 2 : drop }",
        ),
        ("tcp dport 3 reject\ntcp dport 4 reject", "tcp dport { 3, 4 } reject"),
        (
            "tcp dport 3 log prefix \"x\" accept\ntcp dport 4 log prefix \"x\" accept",
            "tcp dport { 3, 4 } log prefix \"x\" accept",
        ),
        ("iifname \"eth*\" accept\niifname \"lo\" accept", "iifname { eth*, lo } accept"),
        (
            "ip saddr 1.1.1.1 accept\nip saddr 1.1.1.1 accept",
            "ip saddr { 1.1.1.1, 1.1.1.1 } accept",
        ),
        (
            "tcp dport vmap { 80 : accept }\ntcp dport vmap { 81 : drop }",
            "tcp dport vmap { 80 : accept,\n\t\t\t     81 : drop }",
        ),
        (
            "ip daddr 1.1.1.1 snat ip to 1.1.2.1\nip daddr 1.1.1.2 snat ip to 1.1.2.2",
            "snat ip to ip daddr map { 1.1.1.1 : 1.1.2.1, 1.1.1.2 : 1.1.2.2 }",
        ),
        (
            "tcp dport 80 dnat ip to 1.1.1.1:8001\ntcp dport 81 dnat ip to 2.2.2.2:9001",
            "dnat ip to tcp dport map { 80 : 1.1.1.1 . 8001, 81 : 2.2.2.2 . 9001 }",
        ),
    ] {
        assert_eq!(merges(rules), [expected], "{rules}");
    }
}

#[test]
fn rules_that_nft_merges_wrongly_keep_their_meaning() {
    for (rules, expected) in [
        // Each rule's counter goes with its elements, and what they counted is not lost.
        (
            "ip saddr 1.1.1.1 counter accept\nip saddr 1.1.1.2 counter drop",
            Some("ip saddr vmap { 1.1.1.1 counter : accept, 1.1.1.2 counter : drop }"),
        ),
        // Tests of flags stay next to the set when all rules have them.
        (
            "tcp flags syn tcp dport 1 accept\ntcp flags syn tcp dport 2 accept",
            Some("tcp flags syn tcp dport { 1, 2 } accept"),
        ),
        // Every combination.
        (
            "tcp dport { 1, 2 } ip saddr 1.1.1.1 accept\ntcp dport 3 ip saddr { 1.1.1.2 } drop",
            Some(
                "tcp dport . ip saddr vmap { 1 . 1.1.1.1 : accept, 2 . 1.1.1.1 : accept, 3 . 1.1.1.2 : drop }",
            ),
        ),
        ("tcp flags syn accept\ntcp flags ack drop", None),
        ("ip saddr 1.1.1.1 accept\nip saddr 1.1.1.1 drop", None),
        ("ip saddr 1.1.1.0/24 accept\nip saddr 1.1.1.1 drop", None),
        ("tcp dport 1 log accept\ntcp dport 2 log drop", None),
        ("counter tcp dport 1 accept\ncounter tcp dport 2 accept", None),
        ("numgen inc mod 2 0 accept\nnumgen inc mod 2 1 drop", None),
        ("meta mark 1 jump loud\nmeta mark 2 jump loud", None),
        ("ip saddr 1.1.1.0/24 counter\nip saddr 1.1.1.1 counter", None),
        ("ct state new notrack\nct state untracked notrack", None),
        ("tcp dport 1 tcp dport 2 accept\ntcp dport 3 tcp dport 4 accept", None),
        (
            "ip saddr 1.1.1.1 tcp dport vmap { 1 : accept }\nip saddr 1.1.1.2 tcp dport vmap { 2 : accept }",
            None,
        ),
        ("tcp dport vmap { 80 : accept }\ntcp dport vmap { 80 : drop }", None),
        // nft leaves these, too.
        ("tcp dport != 3 accept\ntcp dport != 4 accept", None),
        ("tcp dport 1 limit rate 1/second accept\ntcp dport 2 limit rate 1/second accept", None),
        ("tcp dport 1 meta mark set 1\ntcp dport 2 meta mark set 1", None),
        ("tcp dport 1 accept\nudp dport 1 accept", None),
        ("define a = 1\ntcp dport $a accept\ntcp dport 2 accept", None),
    ] {
        assert_eq!(merges(rules), Vec::from_iter(expected), "{rules}");
    }
}

#[test]
fn a_rule_that_cannot_join_begins_the_next_merge() {
    let rules = "tcp dport 1 accept\ntcp dport 2 accept\ntcp dport 1 drop\ntcp dport 3 accept";
    assert_eq!(
        merges(rules),
        ["tcp dport { 1, 2 } accept", "tcp dport vmap { 1 : drop, 3 : accept }"]
    );
}

#[test]
fn merges_are_reported_with_the_lines_of_the_rules() {
    let text =
        "table ip x {\n\tchain y {\n\t\tip ttl 1 drop comment \"one\"\n\t\tip ttl 2 drop\n\t}\n}\n";
    let options = Options { optimize: true, check: true, ..Options::default() };
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name: "f.nft".into(), from: None };
    let outcome =
        Session::new(options, &NoFiles, &NoNames).run(origin, text.into(), &mut ruleset, 0);
    assert!(outcome.ok);
    assert_eq!(
        outcome.merges[0].rules,
        "Merging:\nf.nft:3:3-15: \t\tip ttl 1 drop comment \"one\"\nf.nft:4:3-15: \t\tip ttl 2 drop\n"
    );
    assert!(ruleset.generation().tables.is_empty(), "-c loads nothing");
}
