// SPDX-License-Identifier: Apache-2.0

//! What a change of a ruleset does to all packets: one comparison of two linked rulesets.
//!
//! `diff-acl-10000` are lists after ClassBench that differ in ten rules, `link-acl-10000` beside it
//! links one of them, and `cover-acl-10000` finds packets that meet its rules; `diff-set-1000000`
//! are sets of so many addresses, of which ten were exchanged.

use std::collections::HashMap;
use std::fmt::Write;
use std::hint::black_box;

use penstock_program::{ChainType, Family, Hook};
use penstock_ruleset::link::Linked;
use penstock_symbolic::{Base, Limits, Place, Program, Wanted, cover, diff};
use penstock_testkit::classbench::Kind;

use crate::router::ruleset;
use crate::{Scale, Variant};

/// A chain at `forward`.
fn forward(sets: &str, rules: &str) -> String {
    format!(
        "table ip t {{\n{sets}chain c {{\ntype filter hook forward priority filter\n{rules}\n}}\n}}\n"
    )
}

fn program(linked: &Linked) -> Program<'_> {
    Program {
        image: &linked.image,
        bases: vec![Base {
            chain: linked.bases[0].chain,
            kind: ChainType::Filter,
            priority: 0,
            family: Family::Ip,
        }],
        way: None,
        numbers: Vec::new(),
        sets: HashMap::new(),
        listed: false,
        now: 0,
    }
}

/// A list of rules, with ten of them exchanged for others of the same kind if it is the new one.
fn list(kind: Kind, count: usize, new: bool) -> String {
    let mut rules = penstock_testkit::classbench::rules(kind, count, 1);
    if new {
        let others = penstock_testkit::classbench::rules(kind, 10, 2);
        for (i, other) in others.into_iter().enumerate() {
            let at = (2 * i + 1) * rules.len() / 20;
            rules[at] = other;
        }
    }
    let mut text = String::new();
    for (i, rule) in rules.iter().enumerate() {
        let _ = writeln!(text, "{rule} {}", if i % 3 == 0 { "drop" } else { "accept" });
    }
    forward("", &text)
}

/// A set of addresses at random, with ten of them exchanged if it is the new one.
fn set(count: u32, new: bool) -> String {
    let address =
        |i: u32| std::net::Ipv4Addr::from(0x0a00_0000 | i.wrapping_mul(2_654_435_761) >> 8);
    let first = if new { 10 } else { 0 };
    let mut sets = String::from("set s {\ntype ipv4_addr\nelements = { ");
    for i in first..count + first {
        let _ = write!(sets, "{}, ", address(i));
    }
    sets.push_str("}\n}\n");
    forward(&sets, "ip saddr @s drop")
}

fn compare(name: String, old: &str, new: &str) -> Variant {
    let link = |text| Linked::new(&ruleset(text).generation()).expect("rules that run");
    let (old, new) = (link(old), link(new));
    Variant::new(name, 1, move || {
        let place = Place { family: Family::Ip, hook: Hook::Forward };
        let found = diff(place, &mut program(&old), &mut program(&new), Limits::default());
        // In a list with a rule that takes everything, later rules make no difference.
        let _ = black_box(found.map(|found| found.classes.len()));
    })
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let count = scale.count(10_000);
    let generation = ruleset(&list(Kind::AccessControl, count as usize, false)).generation();
    let mut all = vec![Variant::new("link-acl-10000", 1, move || {
        black_box(Linked::new(&generation).expect("rules that run"));
    })];
    let [old, new] = [false, true].map(|new| list(Kind::AccessControl, count as usize, new));
    all.push(compare("diff-acl-10000".to_owned(), &old, &new).against("link-acl-10000"));
    let linked = Linked::new(&ruleset(&old).generation()).expect("rules that run");
    let covered = Variant::new("cover-acl-10000", 1, move || {
        let place = Place { family: Family::Ip, hook: Hook::Forward };
        let found = cover(place, &program(&linked), Wanted::default(), Limits::default());
        let _ = black_box(found.map(|found| found.cases.len()));
    });
    all.push(covered.against("link-acl-10000"));
    let count = scale.count(1_000_000);
    let [old, new] = [false, true].map(|new| set(count, new));
    all.push(compare("diff-set-1000000".to_owned(), &old, &new).against("link-acl-10000"));
    all
}
