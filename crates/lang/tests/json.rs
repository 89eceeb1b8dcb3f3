//! JSON in the form of libnftables-json(5), held against what nft 1.0.6 printed.

use std::net::IpAddr;

use penstock_lang::datatype::Format;
use penstock_lang::diag::Diagnostics;
use penstock_lang::eval::{Context, evaluate, expand};
use penstock_lang::json;
use penstock_lang::lower::lower;
use penstock_lang::names::{Names, NoNames};
use penstock_lang::parse::parse;
use penstock_lang::print::listing::Listing;
use penstock_lang::scope::Scope;
use penstock_lang::source::{Files, Inputs, Origin};
use penstock_ruleset::Ruleset;
use serde_json::Value;

/// Names of a small system, at UTC.
struct System;

const PROTOCOLS: [(&str, u8); 14] = [
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("comp", 108),
    ("sctp", 132),
    ("udplite", 136),
    ("ipv6", 41),
];

impl Names for System {
    fn interface_index(&self, name: &str) -> Option<u32> {
        (name == "lo").then_some(1)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        (index == 1).then(|| "lo".into())
    }
    fn service_port(&self, _name: &str, _protocol: Option<&str>) -> Option<u16> {
        None
    }
    fn service_name(&self, _port: u16, _protocol: Option<&str>) -> Option<String> {
        None
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        PROTOCOLS.iter().find(|(_, p)| *p == number).map(|(n, _)| (*n).into())
    }
    fn user_id(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
    fn user_name(&self, id: u32) -> Option<String> {
        (id == 0).then(|| "root".into())
    }
    fn group_id(&self, name: &str) -> Option<u32> {
        self.user_id(name)
    }
    fn group_name(&self, id: u32) -> Option<String> {
        self.user_name(id)
    }
    fn host_addresses(&self, name: &str) -> Vec<IpAddr> {
        NoNames.host_addresses(name)
    }
    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        ((table, name) == ("group", "default")).then_some(0)
    }
    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        ((table, value) == ("group", 0)).then(|| "default".into())
    }
}

struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Result<String, String> {
        Err("No such file or directory".into())
    }
    fn glob(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A time at which the tests run.
const NOW: u64 = 1_700_000_000_000_000_000;

/// Runs a text, or JSON, on a ruleset as one transaction.
fn run(ruleset: &mut Ruleset, text: &str) -> Result<(), String> {
    let mut inputs = Inputs::default();
    let mut diags = Diagnostics::default();
    let input = inputs.add(Origin::File { name: "test".into(), from: None }, text);
    let commands = match json::read(text, input, &mut diags) {
        Some(commands) => commands,
        None => parse(&mut inputs, input, &NoFiles, &[], &mut Scope::default(), &mut diags),
    };
    let mut context = Context::new(&ruleset.generation(), &System);
    context.now = NOW;
    let mut changes = Vec::new();
    for mut command in expand(commands) {
        if evaluate(&mut command, &mut context, &mut diags) {
            changes.extend(lower(&command, &context));
        }
    }
    if diags.has_errors() {
        return Err(diags.render(&inputs));
    }
    let mut transaction = ruleset.begin_at(NOW);
    for lowered in changes {
        transaction
            .apply(lowered.change)
            .map_err(|e| format!("Could not process rule: {}\n", e.errno.text()))?;
    }
    ruleset.commit(transaction).map_err(|e| e.errno.text().to_owned())
}

fn load(text: &str) -> Result<Ruleset, String> {
    let mut ruleset = Ruleset::default();
    run(&mut ruleset, text)?;
    Ok(ruleset)
}

fn text_of(ruleset: &Ruleset) -> String {
    let generation = ruleset.generation();
    Listing { generation: &generation, format: Format::default(), names: &System, now: NOW }.ruleset(None)
}

fn json_of(ruleset: &Ruleset) -> Value {
    let generation = ruleset.generation();
    let listing = Listing { generation: &generation, format: Format::default(), names: &System, now: NOW };
    json::ruleset(&listing, None)
}

/// Objects that rules of the tables refer to.
const OBJECTS: &str = r#"
    counter c1 { }
    quota q1 { 10 mbytes }
    limit l1 { rate 400/minute }
    synproxy sp { mss 1460; wscale 7; timestamp sack-perm; }
    ct helper h { type "ftp" protocol tcp; l3proto ip; }
    ct timeout to { protocol tcp; l3proto ip; policy = { established : 100, close_wait : 20 }; }
    ct expectation ex { protocol tcp; dport 5432; timeout 1h; size 12; l3proto ip; }
    set s { type ipv4_addr; flags dynamic,timeout; }
    set s2 { type ipv4_addr; size 65535; flags dynamic; }
    map m { type ipv4_addr : ipv4_addr; flags dynamic; size 65535; }
    map vm { type ipv4_addr : verdict; }
"#;

/// The cases of `json/rules.txt`: the text of a ruleset with one rule, the rule, and the JSON of its statements.
fn rule_cases() -> Vec<(String, &'static str, &'static str)> {
    let mut cases = Vec::new();
    let mut head = String::new();
    let mut lines = include_str!("json/rules.txt").lines().filter(|l| !l.starts_with('#'));
    while let Some(line) = lines.next() {
        if let Some(place) = line.strip_prefix("== ") {
            let [family, kind, hook] = place.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let device = if family == "netdev" { "device lo " } else { "" };
            let objects = if matches!(family, "ip" | "inet") { OBJECTS } else { "" };
            head = format!(
                "table {family} t {{\n{objects}\nchain d {{ }}\n\
                 chain c {{ type {kind} hook {hook} {device}priority 0; }}\n}}\nadd rule {family} t c "
            );
            continue;
        }
        let expected = lines.next().unwrap_or_default().trim();
        cases.push((format!("{head}{line}"), line, expected));
    }
    cases
}

fn statements(ruleset: &Ruleset) -> String {
    let value = json_of(ruleset);
    let objects = value["nftables"].as_array().cloned().unwrap_or_default();
    let rule = objects.iter().find_map(|o| o.get("rule"));
    rule.map(|r| json::to_text(&r["expr"])).unwrap_or_default()
}

#[test]
fn statements_are_listed_as_nft_lists_them() {
    let mut wrong = String::new();
    for (text, rule, expected) in rule_cases() {
        let got = match load(&text) {
            Ok(ruleset) => statements(&ruleset),
            Err(message) => message,
        };
        if got != expected {
            wrong += &format!("{rule}\n  is       {got}\n  nft has  {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn text_to_json_to_text_is_the_identity() {
    let mut wrong = String::new();
    for (text, rule, _) in rule_cases() {
        // The schema has no form for chains within rules.
        if rule.contains("jump {") {
            continue;
        }
        let Ok(before) = load(&text) else { continue };
        let json = json::to_text(&json_of(&before));
        match load(&json) {
            Ok(after) if text_of(&after) == text_of(&before) => {}
            Ok(after) => wrong += &format!("{rule}\n{}\n", difference(&text_of(&before), &text_of(&after))),
            Err(message) => wrong += &format!("{rule}\n  {}  {message}", statements(&before)),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The lines in which two texts differ.
fn difference(before: &str, after: &str) -> String {
    let missing = before.lines().filter(|l| !after.lines().any(|o| o == *l)).map(|l| format!("  - {l}\n"));
    let new = after.lines().filter(|l| !before.lines().any(|o| o == *l)).map(|l| format!("  + {l}\n"));
    missing.chain(new).collect()
}
