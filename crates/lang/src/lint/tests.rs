// SPDX-License-Identifier: Apache-2.0

//! What is warned of, and what is not.

use penstock_ruleset::Ruleset;
use penstock_syntax::names::NoNames;
use penstock_syntax::source::{NoFiles, Origin};

use crate::session::{Options, Session};

/// First lines of what is said about a text: line of the place, and message.
fn said(text: &str) -> Vec<String> {
    let options = Options { lint: true, check: true, ..Options::default() };
    let origin = Origin::File { name: "f".into(), from: None };
    let mut ruleset = Ruleset::default();
    let outcome =
        Session::new(options, &NoFiles, &NoNames).run(origin, text.into(), &mut ruleset, 0);
    let place = |line: &str| {
        let (place, message) = line.split_once(": ")?;
        Some(format!("{}: {message}", place.strip_prefix("f:")?.split_once(':')?.0))
    };
    outcome.stderr.lines().filter_map(place).collect()
}

/// What is said about rules of a chain; the first is in line 1.
fn of_rules(family: &str, rules: &[&str]) -> Vec<String> {
    let rules = rules.join("\n");
    said(&format!("table {family} t {{ set s {{ type ipv4_addr; }}; chain quiet {{ }}; chain c {{ type filter hook input priority 0; {rules}\nip daddr @s jump quiet\n}}\n}}\n"))
        .into_iter()
        .filter(|s| s.contains("this rule"))
        .collect()
}

#[test]
fn unreachable_rules_are_reported() {
    let never = |line: u32, by: u32| {
        vec![format!(
            "{line}: Warning: this rule never matches: the rule in line {by} takes all of its packets"
        )]
    };
    let excluded = |first: &str, second: &str| {
        vec![format!(
            "1: Warning: this rule never matches: ‘{first}’ and ‘{second}’ exclude each other"
        )]
    };
    for (rules, expected) in [
        (&["tcp dport 22 accept", "tcp dport 22 drop"][..], never(2, 1)),
        (
            &["tcp dport 1-100 accept", "counter", "ip saddr 1.1.1.1 tcp dport { 3, 7-9 } drop"],
            never(3, 1),
        ),
        (&["ip saddr 10.0.0.0/8 log counter drop", "ip saddr 10.1.0.0/16 accept"], never(2, 1)),
        (&["tcp dport { 1-5, 6-9 } reject", "tcp dport 4-7 accept"], never(2, 1)),
        (&["tcp dport != 22 drop", "tcp dport 23 accept"], never(2, 1)),
        (&["meta length > 100 drop", "meta length 200-300 accept"], never(2, 1)),
        (
            &["ct state established,related accept", "ct state related tcp dport 5 drop"],
            never(2, 1),
        ),
        (&["tcp flags syn,ack drop", "tcp flags syn accept"], never(2, 1)),
        (&["iifname \"et*\" drop", "iifname \"eth*\" accept"], never(2, 1)),
        (
            &[
                "ip saddr . tcp dport { 1.0.0.0/8 . 1-5 } drop",
                "ip saddr . tcp dport { 1.1.1.1 . 3 } accept",
            ],
            never(2, 1),
        ),
        (&["ip saddr @s drop", "ip saddr @s tcp dport 1 accept"], never(2, 1)),
        // Ports say which protocol it is.
        (&["meta l4proto tcp accept", "tcp dport 22 drop"], never(2, 1)),
        (
            &["meta l4proto { tcp, udp } accept", "udp sport . udp dport { 1 . 2 } drop"],
            never(2, 1),
        ),
        (&["ip protocol icmp accept", "icmp type echo-request drop"], never(2, 1)),
        (
            &["tcp dport 22 tcp dport 80 accept", "udp dport 1 accept"],
            excluded("tcp dport 22", "tcp dport 80"),
        ),
        (
            &["ip saddr 10.0.0.0/8 counter ip saddr { 1.1.1.1, 2.2.2.2 } drop"],
            excluded("ip saddr 10.0.0.0/8", "ip saddr { 1.1.1.1, 2.2.2.2 }"),
        ),
        (
            &["ct state new ct state established accept"],
            excluded("ct state new", "ct state established"),
        ),
        (
            &["counter drop", "tcp dport 1 accept", "tcp dport 2 accept"],
            vec![
                "2: Warning: this rule is never reached: the rule in line 1 ends the chain"
                    .to_string(),
            ],
        ),
    ] {
        assert_eq!(of_rules("ip", rules), expected, "{rules:?}");
    }
}

#[test]
fn reachable_rules_are_not_reported() {
    for rules in [
        &["tcp dport 22 accept", "udp dport 22 drop"][..],
        &["tcp dport 22 ip saddr 1.1.1.1 accept", "tcp dport 22 drop"],
        &["tcp dport 2-5 accept", "tcp dport 5-6 drop"],
        &["tcp dport 22 limit rate 1/second accept", "tcp dport 22 drop"],
        &["tcp dport 22 counter", "tcp dport 22 drop"],
        &["tcp dport 22 jump quiet", "tcp dport 22 drop"],
        // What lies between may make another packet of it.
        &["meta mark 1 accept", "meta mark set 1", "meta mark 1 drop"],
        &["meta mark 1 accept", "meta mark 2 jump quiet", "meta mark 1 drop"],
        &["meta mark 1 accept", "meta mark set 1 meta mark 1 drop"],
        &["tcp flags syn drop", "tcp flags syn,ack accept"],
        &["tcp flags == syn drop", "tcp flags syn accept"],
        &["numgen inc mod 2 0 accept", "numgen inc mod 2 0 drop"],
        &["iifname \"eth*\" drop", "iifname \"et*\" accept"],
        &["ip saddr @s tcp dport 1 drop", "ip saddr @s accept"],
        &["tcp dport 5 reject with tcp reset", "tcp dport 5 drop"],
        &["meta l4proto udp accept", "tcp dport 22 drop"],
        &["meta l4proto tcp accept", "meta l4proto { tcp, udp } th dport 22 drop"],
        &["tcp dport 1-100 tcp dport 50-200 accept"],
        &["ip saddr != 1.1.1.1 ip saddr != 2.2.2.2 accept"],
        &["meta mark 1 meta mark set 2 meta mark 2 accept"],
        &["tcp flags syn tcp flags ack accept"],
        &[
            "ip saddr . tcp dport { 1.0.0.0/8 . 1-5 } drop",
            "ip saddr . tcp dport { 1.1.1.1 . 6 } accept",
        ],
    ] {
        assert_eq!(of_rules("ip", rules), Vec::<String>::new(), "{rules:?}");
    }
    let tagged = ["ip saddr 198.18.0.1 drop", "vlan id 5 ip saddr 198.18.0.1 accept"];
    let text = format!("table netdev t {{ chain c {{\n{}\n}}\n}}\n", tagged.join("\n"));
    assert_eq!(said(&text), ["1: Warning: chain ‘c’ is never jumped to"], "a tag moves the header");
}

/// What is said about rules of a chain for address translation.
fn of_nat_rules(family: &str, hook: &str, rules: &[&str]) -> Vec<String> {
    let rules = rules.join("\n");
    said(&format!("table {family} t {{ map m {{ type ipv4_addr : ipv4_addr; }}; chain c {{ type nat hook {hook} priority 0; {rules}\n}}\n}}\n"))
        .into_iter()
        .filter(|s| s.contains("this rule"))
        .collect()
}

#[test]
fn rules_after_a_translation_of_all_packets_are_never_reached() {
    let ends = "2: Warning: this rule is never reached: the rule in line 1 ends the chain";
    for (family, hook, rules, expected) in [
        (
            "ip",
            "postrouting",
            &["masquerade", "ip saddr 10.0.0.1 snat to 10.0.0.2"][..],
            Some(ends),
        ),
        ("inet", "postrouting", &["masquerade", "snat ip to 10.0.0.2"], Some(ends)),
        ("ip", "postrouting", &["counter snat to 10.0.0.2", "masquerade"], Some(ends)),
        ("inet", "prerouting", &["redirect", "dnat ip to 10.0.0.2"], Some(ends)),
        (
            "ip",
            "prerouting",
            &["tcp dport 80 dnat to 10.0.0.2:8080", "tcp dport { 80 } redirect to :1"],
            Some(
                "2: Warning: this rule never matches: the rule in line 1 takes all of its packets",
            ),
        ),
        // IPv6 passes by.
        ("inet", "postrouting", &["snat ip to 10.0.0.2", "masquerade"], None),
        ("ip", "postrouting", &["oifname \"wan\" masquerade", "snat to 10.0.0.2"], None),
        // An address that the map does not have passes by.
        ("ip", "postrouting", &["snat to ip saddr map @m", "masquerade"], None),
    ] {
        let expected: Vec<String> = expected.map(str::to_owned).into_iter().collect();
        let told: Vec<String> = of_nat_rules(family, hook, rules);
        assert_eq!(told.first(), expected.first(), "{family} {hook} {rules:?}: {told:?}");
    }
}

#[test]
fn devices_that_a_hook_does_not_have_are_reported() {
    let none = |word: &str, hook: &str| {
        Some(format!("1: Warning: a packet has no {word} device at hook ‘{hook}’"))
    };
    for (family, hook, rule, expected) in [
        ("inet", "input", "oifname \"lan\" drop", none("output", "input")),
        ("inet", "prerouting", "oif 1 drop", none("output", "prerouting")),
        ("ip", "input", "iifname . oifname { \"a\" . \"b\" } drop", none("output", "input")),
        ("ip", "input", "tcp dport 1 jump { meta oifgroup 5 drop; }", none("output", "input")),
        ("ip6", "output", "iifname \"lan\" drop", none("input", "output")),
        ("bridge", "output", "meta ibrname \"br\" drop", none("input", "output")),
        ("inet", "input", "iifname \"lan\" drop", None),
        ("inet", "forward", "iifname \"lan\" oifname \"wan\" drop", None),
        ("inet", "postrouting", "iifname \"lan\" drop", None),
        ("inet", "output", "oifname \"lan\" drop", None),
    ] {
        let chain = format!("chain c {{ type filter hook {hook} priority 0;");
        let text = format!("table {family} t {{ {chain} {rule}\n}}\n}}\n");
        let added =
            format!("add table {family} t; add {chain} }}; add rule {family} t c {rule}\n",)
                .replacen("add chain c", &format!("add chain {family} t c"), 1);
        for text in [text, added] {
            let told: Vec<String> =
                said(&text).into_iter().filter(|s| s.contains(" device at hook")).collect();
            assert_eq!(told, expected.clone().into_iter().collect::<Vec<_>>(), "{text}");
        }
    }
}

#[test]
fn unused_names_are_reported_in_text_order() {
    let text = "define a = 1
define b = 2
define c = { $b, 3 }
table inet t {
	counter used {
	}
	counter spare {
	}
	set s {
		type ipv4_addr
	}
	set seen {
		type ipv4_addr
		flags dynamic
	}
	map m {
		type inet_service : verdict
		elements = { 1 : jump by_map }
	}
	map objects {
		type ipv4_addr : counter
		elements = { 1.1.1.1 : \"used\" }
	}
	chain by_map {
	}
	chain lost {
		tcp dport $c accept
	}
	chain in {
		type filter hook input priority 0
		tcp dport vmap @m
		counter name ip saddr map @objects
		add @seen { ip saddr }
	}
}
";
    assert_eq!(
        said(text),
        [
            "1: Warning: definition ‘a’ is not used",
            "7: Warning: counter ‘spare’ is not used",
            "9: Warning: set ‘s’ is not used",
            "26: Warning: chain ‘lost’ is never jumped to",
        ]
    );
}

#[test]
fn a_misspelt_word_is_suggested_after_the_message_of_nft() {
    for (rule, note) in [
        ("ip sadr 1.1.1.1 accept", "did you mean ‘saddr’ instead of ‘sadr’?"),
        ("meta iifnam \"lo\" accept", "did you mean ‘iifname’ instead of ‘iifnam’?"),
        ("counter acept", "did you mean ‘accept’ instead of ‘acept’?"),
        ("tcp dprt 22 accept", "did you mean ‘dport’ instead of ‘dprt’?"),
        ("tcp flags synn accept", "did you mean ‘syn’ instead of ‘synn’?"),
        ("icmp type ecko-request", "did you mean ‘echo-request’ instead of ‘ecko-request’?"),
        ("ct state { new, estabilshed }", "did you mean ‘established’ instead of ‘estabilshed’?"),
        ("contuer accept", "did you mean ‘counter’ instead of ‘contuer’?"),
    ] {
        let line = format!("add rule t c {rule}");
        let run = |lint| {
            let options = Options { lint, ..Options::default() };
            let mut session = Session::new(options, &NoFiles, &NoNames);
            session.run(Origin::CommandLine, line.clone(), &mut Ruleset::default(), 0).stderr
        };
        assert_eq!(run(true), format!("{}{note}\n", run(false)), "{rule}");
    }
}
