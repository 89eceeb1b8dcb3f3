// SPDX-License-Identifier: Apache-2.0

//! Texts with rules and elements skipped at first give the same result as texts read at once, valid
//! or not.

use std::sync::Arc;

use penstock_ruleset::Ruleset;
use penstock_syntax::names::NoNames;
use penstock_syntax::parse::Mode;
use penstock_syntax::source::{NoFiles, Origin};

use super::{Options, Session, Source};

/// What a text says, and what the ruleset is then.
fn outcome(text: &str, mode: Option<Mode>) -> (String, String, Vec<u8>) {
    let mut ruleset = Ruleset::default();
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let origin = Origin::File { name: "text".into(), from: None };
    let outcome = match mode {
        None => session.run(origin, text.into(), &mut ruleset, 1),
        Some(mode) => {
            let text = Arc::new(text.into());
            let source = Source { origin, text, now: 1, files: &NoFiles, mode };
            session.run_as(&source, &mut ruleset, &mut |_| Ok(())).unwrap_or_default()
        }
    };
    (outcome.stdout, outcome.stderr, ruleset.save(1))
}

const SETS: &[(&str, &str, &[&str])] = &[
    ("set", "type ipv4_addr", IP4),
    ("set", "type ipv4_addr; flags interval", IP4),
    ("set", "type ipv4_addr; flags interval; auto-merge", IP4),
    ("set", "type ipv6_addr", IP6),
    ("set", "type ipv6_addr; flags interval", IP6),
    (
        "set",
        "type ether_addr",
        &["00:11:22:33:44:55", "aa:BB:cc:dd:ee:ff", "1:2:3:4:5:6", "00:11:22:33:44:5"],
    ),
    ("set", "type inet_service", PORTS),
    ("set", "type inet_service; flags interval", PORTS),
    ("set", "type mark", &["1", "0x10", "010", "4294967295", "4294967296", "7"]),
    ("set", "type mark; flags interval", &["1", "5-9", "12-11", "20-4294967295"]),
    ("set", "type inet_proto", &["6", "tcp", "255", "256"]),
    (
        "set",
        "type ipv4_addr . inet_service",
        &["1.2.3.4 . 80", "1.2.3.4 . 81", "1.2.3.4 .80", "1.2.3.4"],
    ),
    (
        "set",
        "type ipv4_addr . inet_service . inet_proto; flags interval",
        &[
            "10.0.0.0/8 . 80-90 . 6",
            "1.2.3.4/32 . 1 . 17",
            "1.2.3.4-1.2.3.4 . 1 . 18",
            "1.2.3.9 . 5 . 6",
        ],
    ),
    (
        "map",
        "type ipv4_addr : inet_service",
        &["1.2.3.4 : 80", "1.2.3.5:80", "1.2.3.6 : http", "1.2.3.4 : 81"],
    ),
    (
        "map",
        "type inet_service : ipv6_addr",
        &["80 : ::1", "81: ::1", "82:abcd::", "80 : ::2", "83 : 1.2.3.4"],
    ),
    (
        "map",
        "type inet_service : verdict",
        &["80 : drop", "81 : accept", "82 : jump c", "83:drop", "84 : dropp"],
    ),
    (
        "map",
        "type ipv4_addr : verdict; flags interval",
        &["10.0.0.0/8 : drop", "11.0.0.0-11.0.0.9 : accept"],
    ),
    (
        "map",
        "type ipv4_addr : ipv4_addr . inet_service",
        &["1.2.3.4 : 1.2.3.5 . 80", "1.2.3.5 : 1.2.3.6"],
    ),
    (
        "map",
        "type ipv4_addr : interval ipv4_addr",
        &["1.2.3.4 : 10.0.0.0/8", "1.2.3.5 : 1.1.1.1-1.1.1.9"],
    ),
    (
        "set",
        "type ipv4_addr; flags timeout",
        &["1.2.3.4 timeout 1h", "1.2.3.5", "1.2.3.6 timeout 5s expires 1s"],
    ),
    ("set", "type ipv4_addr; counter", &["1.2.3.4", "1.2.3.5 counter packets 1 bytes 2"]),
];
const IP4: &[&str] = &[
    "198.18.0.1",
    "198.18.0.2",
    "198.18.0.3",
    "198.18.1.0/24",
    "198.18.1.77/24",
    "198.18.2.0-198.18.2.9",
    "198.18.2.4-198.18.2.19",
    "198.18.3.1-198.18.3.1",
    "198.18.3.9 - 198.18.3.11",
    "198.18.4.1/32",
    "0.0.0.0/0",
    "198.18.5.9/33",
    "198.18.05.1",
    "198.18.256.1",
    "198.18.5",
    "*",
    "198.18.6.1 comment \"a, b }\"",
    "localhost",
    "7",
];
const IP6: &[&str] = &[
    "::",
    "::1",
    "2001:db8::1",
    "2001:DB8::2",
    "2001:db8:1:2:3:4:5:6",
    "2001:db8:1:2:3:4:5::",
    "2001:db8::/32",
    "2001:db8::1-2001:db8::f",
    "::ffff:198.18.0.1",
    "[2001:db8::1]",
    "1:2:3:4:5:6:7:8:9",
    "2001:db8:::1",
    "fe80::1/10",
    "dead::beef/128",
    "abcd::-abcd::9",
    "2001:db8::12345",
];
const PORTS: &[&str] =
    &["80", "443", "0", "65535", "65536", "080", "1000-2000", "1500-1600", "http", "22/16"];

const RULES: &[&str] = &[
    "ip saddr 198.18.0.1 tcp dport { 22, 80 } accept",
    "ct state established,related accept # seen",
    "log prefix \"a;b } \" drop",
    "jump { counter; accept\n }",
    "ip saddr @s drop",
    "add @s { ip saddr }",
    "meter m { ip saddr limit rate 1/second } drop",
    "ip daddr $lan accept",
    "ip saddr 198.18.0.1 accept comment \"x\"",
    "tcp dport 80 nonsense",
    "ip6 saddr ::1 accept",
    "jump nowhere",
    "accept }",
    "tcp dport { 22, 80",
    "accept accept;",
    "",
];

fn random_set(rng: &mut fastrand::Rng) -> String {
    let (word, declaration, elements) = SETS[rng.usize(..SETS.len())];
    let few = rng.usize(1..=elements.len());
    let separators = [", ", ",", ",\n\t", "\n,", " , ", ", # x\n"];
    let mut list = String::new();
    for i in 0..rng.usize(1..7) {
        if i > 0 {
            list.push_str(
                separators[if rng.u8(..4) > 0 { 0 } else { rng.usize(..separators.len()) }],
            );
        }
        list.push_str(elements[rng.usize(..few)]);
    }
    let rest = ["", ",", "\n", ",,", " }"][if rng.u8(..4) > 0 { 0 } else { rng.usize(..5) }];
    let more = elements[rng.usize(..few)];
    format!(
        "table ip t {{\n\tchain c {{ }}\n\t{word} s {{\n\t\t{declaration}\n\t\telements = {{ {list}{rest} }}\n\t}}\n}}\n\
         add element ip t s {{ {more} }}\n"
    )
}

fn random_chain(rng: &mut fastrand::Rng) -> String {
    let few = rng.usize(1..=RULES.len());
    let rules: Vec<_> = (0..rng.usize(1..5)).map(|_| RULES[rng.usize(..few)]).collect();
    let separator = ["\n\t\t", "; ", "\n\n"][rng.usize(..3)];
    let rules = rules.join(separator);
    format!(
        "define lan = 198.18.0.0/15\ntable ip t {{\n\tset s {{ type ipv4_addr; size 9; }}\n\tchain c {{\n\t\t{rules}\n\t}}\n}}\n"
    )
}

#[test]
fn skipped_and_parsed_text_give_the_same_ruleset() {
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..4000 {
        let mut text = if round % 3 == 0 { random_chain(&mut rng) } else { random_set(&mut rng) };
        if rng.u8(..4) == 0 {
            // Some byte is another one.
            let at = rng.usize(..text.len());
            let other = [
                " ", "\n", "}", "{", ",", ".", ":", "-", "/", "\"", "#", "$", "\\", ";", "0", "f",
                "x", "",
            ];
            text.replace_range(at..=at, other[rng.usize(..other.len())]);
        }
        let read = outcome(&text, Some(Mode::Places));
        assert_eq!(outcome(&text, None), read, "{text}");
        *(if read.1.is_empty() { &mut right } else { &mut wrong }) += 1;
    }
    assert!(right > 300 && wrong > 300, "{right} {wrong}");
}

/// Texts that are right are not read twice: what is skipped shows in nothing but time.
#[test]
fn plain_elements_need_no_second_reading() {
    let text = "table ip t {\n\tset s {\n\t\ttype ipv4_addr\n\t\telements = { 198.18.0.1, 198.18.0.2 }\n\t}\n\
                \tchain c {\n\t\tip saddr @s accept\n\t}\n}\n";
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let source = Source {
        origin: Origin::CommandLine,
        text: Arc::new(text.into()),
        now: 1,
        files: &NoFiles,
        mode: Mode::Skip,
    };
    let first = session.run_as(&source, &mut Ruleset::default(), &mut |_| Ok(()));
    assert!(first.is_ok_and(|outcome| outcome.ok));
}
