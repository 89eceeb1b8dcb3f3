// SPDX-License-Identifier: Apache-2.0

//! Tables and chains of iptables as those of nft.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::LeftOut;
use crate::context::Place;
use crate::ipset::IpSets;
use crate::rule::translate;
use crate::save::{Chain, Line, Table};

/// The tables in the order of the files. Writing to a String does not fail.
pub fn tables(tables: &[Table], sets: &IpSets, left_out: &mut Vec<LeftOut>) -> String {
    let mut out = String::new();
    for one in tables {
        table(one, sets, &shared(tables, one), left_out, &mut out);
    }
    out
}

/// Names of hashlimit that several rules of a table's family have: they share one memory, across
/// tables.
fn shared(tables: &[Table], of: &Table) -> BTreeSet<String> {
    let (mut once, mut several) = (BTreeSet::new(), BTreeSet::new());
    let rules = tables.iter().filter(|t| t.family == of.family).flat_map(|t| &t.chains);
    for words in rules.flat_map(|chain| &chain.rules).map(|rule| &rule.words) {
        for pair in words.windows(2).filter(|pair| pair[0].text == "--hashlimit-name") {
            if !once.insert(pair[1].text.clone()) {
                several.insert(pair[1].text.clone());
            }
        }
    }
    several
}

fn table(
    table: &Table,
    sets: &IpSets,
    shared: &BTreeSet<String>,
    left_out: &mut Vec<LeftOut>,
    out: &mut String,
) {
    let names = names(table);
    let (family, name) = (table.family, &table.name);
    let place = Place { family, chains: &names, sets, shared };
    let mut declared: BTreeMap<String, String> = BTreeMap::new();
    let mut chains = String::new();
    let mut number = 0;
    // Chains are declared before rules jump to them, wherever they stand: a block is one batch.
    for chain in &table.chains {
        let hook = hook(name, &chain.name);
        let _ = writeln!(chains, "\tchain {} {{", names[&chain.name]);
        if let Some((hook, kind, priority)) = hook {
            let policy = match chain.policy.as_deref() {
                Some("DROP") => "drop",
                _ => "accept",
            };
            let _ = writeln!(
                chains,
                "\t\ttype {kind} hook {hook} priority {priority}; policy {policy};"
            );
        }
        for line in &chain.rules {
            number += 1;
            match translate(line, &place, &chain.name, number) {
                Ok(translated) => {
                    for text in translated.texts {
                        let _ = writeln!(chains, "\t\t{text}");
                    }
                    declared.extend(translated.sets);
                }
                Err(reason) => leave_out(line, chain, &reason, left_out, &mut chains),
            }
        }
        chains.push_str("\t}\n");
    }
    let _ = writeln!(out, "table {} {name} {{", family.name());
    for text in declared.values() {
        out.push_str(text);
    }
    let _ = writeln!(out, "{chains}}}");
}

fn leave_out(
    line: &Line,
    chain: &Chain,
    reason: &str,
    left_out: &mut Vec<LeftOut>,
    out: &mut String,
) {
    let Line { file, number, text, .. } = line;
    let _ = writeln!(out, "\t\t# {} line {number} is left out: {reason}", chain.name);
    let _ = writeln!(out, "\t\t#   {text}");
    let (file, text, reason) = (file.clone(), text.clone(), reason.to_owned());
    left_out.push(LeftOut { file, line: *number, text, reason });
}

/// Hook, type and priority of a chain that has a hook (`ip_tables.h`, `iptables/nft.c`).
fn hook(table: &str, chain: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let hook = match chain {
        "PREROUTING" => "prerouting",
        "INPUT" => "input",
        "FORWARD" => "forward",
        "OUTPUT" => "output",
        "POSTROUTING" => "postrouting",
        _ => return None,
    };
    let (kind, priority) = match (table, hook) {
        ("filter", "input" | "forward" | "output") => ("filter", "filter"),
        ("security", "input" | "forward" | "output") => ("filter", "security"),
        ("raw", "prerouting" | "output") => ("filter", "raw"),
        ("mangle", "output") => ("route", "mangle"),
        ("mangle", _) => ("filter", "mangle"),
        ("nat", "prerouting") => ("nat", "dstnat"),
        ("nat", "output") => ("nat", "-100"),
        ("nat", "input" | "postrouting") => ("nat", "srcnat"),
        _ => return None,
    };
    Some((hook, kind, priority))
}

/// Names of chains that nft takes: others get the characters that it refuses replaced.
fn names(table: &Table) -> BTreeMap<String, String> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = BTreeMap::new();
    for chain in &table.chains {
        let mut name: String = chain
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
            .collect();
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !begins || penstock_syntax::is_reserved(&name) {
            name.insert_str(0, "chain-");
        }
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        names.insert(chain.name.clone(), name);
    }
    names
}
