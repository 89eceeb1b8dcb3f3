// SPDX-License-Identifier: Apache-2.0

//! Small universes, packet by packet: classes have exactly the packets that end otherwise.

mod support;

use penstock_program::Hook;
use penstock_symbolic::{Base, Example, Field, HeaderBase, Place, Program, check, diff};
use support::*;

fn chain(rules: &str) -> String {
    format!(
        "table ip t {{\nchain a {{\n}}\nchain c {{\ntype filter hook forward priority 0\n{rules}\n}}\n}}\n"
    )
}

/// The packets of two rulesets that ask for one byte of a header, of all values of the other fields
/// that go together.
fn differing(old: &str, new: &str, at: u16) -> (Vec<u8>, Vec<u8>) {
    let (old_rules, new_rules) = (load(&chain(old)).unwrap(), load(&chain(new)).unwrap());
    let (mut a, mut b) = (program(&old_rules, Hook::Forward), program(&new_rules, Hook::Forward));
    let place: Place = place(&old_rules, Hook::Forward);
    let found = diff(place, &mut a, &mut b, limits()).unwrap_or_else(|e| panic!("{e:?}"));
    let field = Field::Header { base: HeaderBase::Network, at };
    let possible = found.universe.possible().unwrap();
    let d = &found.universe.diagrams;
    let (mut classed, mut ran) = (Vec::new(), Vec::new());
    for byte in 0..=u8::MAX {
        let with = found.universe.with_values(&[(field, vec![byte])]).unwrap();
        let region = d.and(&possible, &with).unwrap();
        let Some(point) = d.packet_of(&region) else { continue };
        let Some(example) = Example::new(&found.universe, &point) else {
            panic!("no packet with byte {byte}");
        };
        if example.run(&a).end != example.run(&b).end {
            ran.push(byte);
        }
        if found.classes.iter().any(|class| class.region.contains(&point)) {
            classed.push(byte);
        }
    }
    (classed, ran)
}

#[test]
fn classes_have_exactly_the_bytes_that_end_otherwise() {
    for (old, new, at, expected) in [
        ("ip ttl 5 drop", "ip ttl 6 drop", 8, (5..=6).collect::<Vec<u8>>()),
        ("ip ttl < 5 drop", "ip ttl < 9 drop", 8, (5..9).collect()),
        ("ip ttl != 7 drop", "ip ttl != { 7, 9 } drop", 8, vec![9]),
        ("ip ttl 1-5 drop\nip ttl 3-9 accept\ndrop", "ip ttl 3-9 accept\ndrop", 8, vec![3, 4, 5]),
        ("ip ttl vmap { 1 : drop, 2-9 : accept }\ndrop", "ip ttl 2-8 accept\ndrop", 8, vec![9]),
        ("ip ttl & 3 == 2 drop", "ip ttl & 1 == 0 ip ttl & 2 == 2 drop", 8, vec![]),
        (
            "ip ttl & 7 == 2 drop",
            "ip ttl & 3 == 2 drop",
            8,
            (0..64).map(|n| n * 4 + 2).filter(|n| n & 4 != 0).collect(),
        ),
        ("ip dscp cs1 drop", "ip dscp { cs1, cs2 } drop", 1, (64..68).collect()),
        ("ip protocol tcp drop", "ip protocol { tcp, udp } drop", 9, vec![17]),
        (
            "meta mark set 1 ip ttl 9\nmeta mark 1 drop",
            "meta mark set 1\nmeta mark 1 drop",
            8,
            vec![],
        ),
    ] {
        let (classed, ran) = differing(old, new, at);
        assert_eq!(classed, ran, "{old}\n---\n{new}");
        assert_eq!(classed, expected, "{old}\n---\n{new}");
    }
}

#[test]
fn what_has_no_meaning_is_refused_with_its_rule() {
    for (rules, at, reason) in [
        ("ip ttl 1 accept\ndccp option 1 exists drop", 1, "a chunk of SCTP or an option of DCCP"),
        ("ct zone set 5", 0, "it sets a zone"),
    ] {
        let text = chain(rules).replace("hook forward priority 0", "hook prerouting priority -300");
        let rules = load(&text).unwrap();
        let program: Program<'_> = program(&rules, Hook::Prerouting);
        let place = place(&rules, Hook::Prerouting);
        let mut universe = penstock_symbolic::Universe::new(
            place,
            limits(),
            penstock_symbolic::asked(place, &program),
        );
        let all = universe.diagrams.all();
        let failure = penstock_symbolic::evaluate(&mut universe, &program, &all).err();
        let Some(penstock_symbolic::Failure::NoMeaning { rule, reason: said }) = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(rule.0, at);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn examples_have_the_headers_and_options_that_rules_ask() {
    for (family, rule, built) in [
        ("ip6", "exthdr frag exists", true),
        ("ip6", "exthdr frag exists tcp dport 22", true),
        ("ip6", "frag nexthdr udp frag more-fragments 1 frag id 7", true),
        ("ip6", "exthdr hbh exists exthdr dst exists exthdr rt exists udp dport 53", true),
        ("ip6", "exthdr hbh missing exthdr mh exists", true),
        ("ip6", "exthdr frag missing ip6 nexthdr tcp", true),
        ("inet", "exthdr frag exists", true),
        ("inet", "tcp option maxseg size 500-600", true),
        ("inet", "tcp option maxseg size 1460 tcp option window count 7 tcp dport 80", true),
        ("inet", "tcp option sack-perm exists tcp option timestamp tsval 5", true),
        ("inet", "tcp option maxseg missing tcp dport 80", true),
        ("ip", "ip option ra exists", true),
        ("ip", "ip option rr exists tcp dport 80", true),
        ("ip", "ip option lsrr ptr 4", true),
        ("netdev", "exthdr frag exists", true),
        // What no packet is.
        ("inet", "meta l4proto udp tcp option maxseg exists", false),
        ("ip6", "exthdr frag exists ip6 nexthdr tcp", false),
        ("ip6", "exthdr frag missing ip6 nexthdr 44", false),
        ("ip6", "exthdr mh exists tcp dport 22", false),
        ("ip6", "frag frag-off 8 tcp dport 22", false),
        ("inet", "tcp doff 5 tcp option maxseg exists", false),
        ("ip", "ip hdrlength 5 ip option ra exists", false),
        ("inet", "tcp option maxseg length 3 tcp option maxseg size 5", false),
    ] {
        let (hook, of) = match family {
            "netdev" => ("ingress device lan", Hook::Ingress),
            _ => ("forward", Hook::Forward),
        };
        let text = |rule: &str| {
            format!(
                "table {family} t {{\nchain c {{\ntype filter hook {hook} priority 0\n{rule}\n}}\n}}\n"
            )
        };
        let (old, new) = (load(&text("")).unwrap(), load(&text(&format!("{rule} drop"))));
        let new = new.unwrap_or_else(|e| panic!("{rule}: {e}"));
        let (mut a, mut b) = (program(&old, of), program(&new, of));
        let found = diff(place(&new, of), &mut a, &mut b, limits());
        let found = found.unwrap_or_else(|e| panic!("{rule}: {e:?}"));
        assert_eq!(!found.classes.is_empty(), built, "{rule}");
        for class in &found.classes {
            let example = Example::new(&found.universe, &class.example);
            let example = example.unwrap_or_else(|| panic!("no example of {rule}"));
            let (of_old, of_new): (Vec<_>, Vec<_>) =
                class.deciders.iter().map(|pair| (pair[0], pair[1])).unzip();
            check(&example, &a, &class.fates[0], &of_old).unwrap_or_else(|e| panic!("{rule}: {e}"));
            check(&example, &b, &class.fates[1], &of_new).unwrap_or_else(|e| panic!("{rule}: {e}"));
        }
    }
}

#[test]
fn a_change_of_the_router_is_one_class_with_an_example() {
    let old = include_str!("../../../examples/router/rules.nft").replace("iif lo", "iifname lo");
    let new = old.replace("exthdr frag exists counter accept", "exthdr frag exists counter drop");
    let (old, new) = (load(&old).unwrap(), load(&new).unwrap());
    let (mut a, mut b) = (program(&old, Hook::Forward), program(&new, Hook::Forward));
    let found = diff(place(&old, Hook::Forward), &mut a, &mut b, limits());
    let found = found.unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(found.classes.len(), 1);
    let example = Example::new(&found.universe, &found.classes[0].example).expect("a packet");
    assert_ne!(example.run(&a).end, example.run(&b).end);
}

#[test]
fn limits_are_said_and_nothing_is_guessed() {
    let rules: String = (0..400)
        .map(|i| {
            format!(
                "ip saddr & 0x{:x} == 0x{:x} tcp dport {} drop\n",
                0x8001_0101u32 << (i % 7),
                1 << (i % 7),
                i * 7
            )
        })
        .collect();
    let rules = load(&chain(&rules)).unwrap();
    let program = program(&rules, Hook::Forward);
    let place = place(&rules, Hook::Forward);
    let mut few = limits();
    few.memory = 1 << 12;
    let mut universe =
        penstock_symbolic::Universe::new(place, few, penstock_symbolic::asked(place, &program));
    let all = universe.diagrams.all();
    let failure = penstock_symbolic::evaluate(&mut universe, &program, &all).err();
    let Some(penstock_symbolic::Failure::Undecided { done: (done, all), .. }) = failure else {
        panic!("{failure:?}");
    };
    assert!(done < all && all == 400, "{done} of {all}");
    let _: Option<Base> = program.bases.first().copied();
}
