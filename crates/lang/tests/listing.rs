// SPDX-License-Identifier: Apache-2.0

//! Rules as nft lists them, and what is listed means the same when it is read again.

use std::net::IpAddr;

use penstock_lang::datatype::Format;
use penstock_lang::listing::{Listing, json};
use penstock_lang::names::Names;
use penstock_lang::release::Release;
use penstock_lang::source::{Files, Inputs, Origin};
use penstock_lang::{eval, lower};
use penstock_ruleset::{Generation, Ruleset};
use penstock_syntax::ast::CmdKind;
use penstock_syntax::diag::Diagnostics;
use penstock_syntax::parse;
use penstock_syntax::scope::Scope;

/// Rules that nft 1.0.6 was given in a fresh chain, and how it listed them:
/// `family | rule | listed`.
const LISTED_RULES: &str = include_str!("listed_rules.txt");

/// What later releases have: `family || rule || listed`.
const LATER_RULES: &str = include_str!("later_rules.txt");

/// A machine with one device and the usual protocols.
struct Machine;

const PROTOCOLS: [(&str, u8); 21] = [
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("st", 5),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ipcomp", 108),
    ("sctp", 132),
    ("mobility-header", 135),
    ("udplite", 136),
];

impl Names for Machine {
    fn interface_index(&self, name: &str) -> Option<u32> {
        (name == "lo").then_some(1)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        (index == 1).then(|| "lo".into())
    }
    fn service_port(&self, name: &str, _: Option<&str>) -> Option<u16> {
        (name == "ssh").then_some(22)
    }
    fn service_name(&self, port: u16, _: Option<&str>) -> Option<String> {
        (port == 22).then(|| "ssh".into())
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        PROTOCOLS.iter().find(|(_, v)| *v == number).map(|(n, _)| (*n).into())
    }
    fn user_id(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
    fn user_name(&self, id: u32) -> Option<String> {
        (id == 0).then(|| "root".into())
    }
    fn group_id(&self, name: &str) -> Option<u32> {
        (name == "root").then_some(0)
    }
    fn group_name(&self, id: u32) -> Option<String> {
        (id == 0).then(|| "root".into())
    }
    fn host_addresses(&self, name: &str) -> Vec<IpAddr> {
        if name == "localhost" { vec![IpAddr::from([127, 0, 0, 1])] } else { Vec::new() }
    }
    fn table_value(&self, table: &str, name: &str) -> Option<u32> {
        matches!((table, name), ("rt_realms", "cosmos") | ("group", "default")).then_some(0)
    }
    fn table_name(&self, table: &str, value: u32) -> Option<String> {
        match (table, value) {
            ("rt_realms", 0) => Some("cosmos".into()),
            ("group", 0) => Some("default".into()),
            _ => None,
        }
    }
}

struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("No such file or directory".into())
    }
    fn glob(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

const NOW: u64 = 1_700_000_000_000_000_000;

/// Runs commands on an empty ruleset: the generation they make, or what nft would say.
fn load(text: &str) -> Result<Generation, String> {
    let mut inputs = Inputs::default();
    let input = inputs.add(Origin::CommandLine, text.to_string());
    let mut diags = Diagnostics::default();
    let cmds = parse::parse(&mut inputs, input, &NoFiles, &[], &mut Scope::default(), &mut diags);
    if diags.has_errors() {
        return Err(diags.render(&inputs));
    }
    let ruleset = Ruleset::default();
    let mut transaction = ruleset.begin_at(NOW);
    let mut ctx = eval::Context::new(transaction.working(), &Machine);
    ctx.now = NOW;
    for mut cmd in eval::expand(cmds) {
        assert!(!matches!(cmd.kind, CmdKind::List { .. }));
        if !eval::evaluate(&mut cmd, &mut ctx, &mut diags) {
            return Err(diags.render(&inputs));
        }
        for lowered in lower::lower(&cmd, &ctx) {
            transaction.apply(lowered.change).map_err(|e| e.errno.text().to_owned())?;
        }
    }
    Ok(transaction.working().clone())
}

fn listing(generation: &Generation, format: Format) -> Listing<'_> {
    Listing { generation, format, names: &Machine, now: NOW }
}

fn in_chain(family: &str, rule: &str) -> String {
    format!(
        "add table {family} t\nadd chain {family} t c\nadd chain {family} t d\nadd rule {family} t c {rule}\n"
    )
}

/// The only rule of the first chain, as it is listed.
fn only_rule(generation: &Generation) -> String {
    let listing = listing(generation, Format::default());
    let table = &generation.tables[0];
    let rules: Vec<String> =
        table.chains[0].rules.iter().map(|rule| listing.rule(table, rule)).collect();
    rules.join("\n")
}

/// Programs of the first chain, names of anonymous sets replaced by what is in them.
fn programs(generation: &Generation) -> String {
    let table = &generation.tables[0];
    let mut text = String::new();
    for rule in &table.chains[0].rules {
        for expr in &rule.exprs {
            text.push_str(&format!("{expr:?}\n"));
        }
    }
    for set in table.sets.iter().filter(|s| s.anonymous) {
        let elements: Vec<String> = set
            .elements()
            .iter()
            .map(|e| format!("{:?} {:?} {:?}", e.key, e.key_end, e.value.data))
            .collect();
        text = text.replace(&format!("\"{}\"", set.name), &elements.join(";"));
    }
    text
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let columns = |text: &'static str, separator| {
        text.lines().filter_map(move |line| {
            let mut parts = line.splitn(3, separator);
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
    };
    columns(LISTED_RULES, " | ").chain(columns(LATER_RULES, " || "))
}

#[test]
fn rules_are_listed_as_nft_lists_them() {
    let mut wrong = Vec::new();
    for (family, rule, expected) in rows() {
        match load(&in_chain(family, rule)) {
            Ok(generation) => {
                let listed = only_rule(&generation);
                if listed != expected {
                    wrong.push(format!(
                        "{family} {rule}\n  expected {expected}\n  listed   {listed}"
                    ));
                }
            }
            Err(error) => wrong.push(format!("{family} {rule}\n  refused: {error}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rules are not listed as by nft:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Rules that nft lists incompletely, or as other expressions with the same meaning.
const LISTED_OTHERWISE: &[&str] = &[
    // The header is asked for by another of its names.
    "ether type ip ip saddr 1.2.3.4",
    "ether type ip udp dport 8",
    "meta protocol ip icmp type 8",
    "meta iiftype ether ip saddr 1.2.3.4",
    "ip protocol tcp tcp dport 22",
    "ip saddr 1.2.3.4 ip protocol udp udp dport 5",
    "ip protocol icmp icmp type echo-request",
    // The match stands where the field is that needs it.
    "meta nfproto ipv4 tcp dport 22 ip saddr 1.2.3.4",
    // One load does for both bounds.
    "tcp dport >= 22 tcp dport <= 80",
    // The kernel has a key with the address family in it, and one without.
    "ct original saddr 1.2.3.4",
    "ct reply daddr ::1",
    // The kernel forgets the direction.
    "ct original protocol 250",
    "ct original protocol 6",
    // nft drops what it takes for implied.
    "meta l4proto 250 th dport 22",
    "meta l4proto tcp tcp option maxseg size 5",
    // nft writes what it reads as something else.
    "ct state == 9",
    "meta hour 100000",
    "ip6 nexthdr set 1",
];

#[test]
fn listed_rules_compile_to_the_same_program() {
    let mut wrong = Vec::new();
    for (family, rule, listed) in rows() {
        if LISTED_OTHERWISE.contains(&rule) {
            continue;
        }
        let (Ok(first), Ok(second)) =
            (load(&in_chain(family, rule)), load(&in_chain(family, listed)))
        else {
            wrong.push(format!("{family} {listed}: refused"));
            continue;
        };
        let (first, second) = (programs(&first), programs(&second));
        if first != second {
            wrong.push(format!("{family} {rule}\n  as {listed}\n{first}  and then\n{second}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rules change when they are read again:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Listed by nft from one file that has every kind of set, object and chain in it.
const LISTED_RULESET: &str = include_str!("listed_ruleset.nft");

/// Tunnel objects of each kind, and what refers to them, as nft 1.1.6 lists them.
const LISTED_TUNNELS: &str = include_str!("listed_tunnels.nft");

#[test]
fn a_listed_ruleset_reloads_to_the_same_listing() {
    for ruleset in [LISTED_RULESET, LISTED_TUNNELS] {
        let generation = load(ruleset).unwrap_or_else(|e| panic!("{e}"));
        let listed = listing(&generation, Format::default()).ruleset(None);
        for (line, (listed, expected)) in listed.lines().zip(ruleset.lines()).enumerate() {
            assert_eq!(listed, expected, "line {}", line + 1);
        }
        assert_eq!(listed.len(), ruleset.len());
    }
}

#[test]
fn invalid_tunnel_objects_are_refused() {
    for (lines, expected) in [
        ("id 5", "Invalid argument"),
        ("ip daddr 198.18.0.1; ip daddr 198.18.0.2", "You can only specify this once"),
        ("ip daddr 198.18.0.1; ip6 saddr 2001:db8::1", "specify either ip or ip6 for address"),
        ("ip6 daddr 198.18.0.1", "Could not resolve hostname"),
        ("ip daddr $net", "an end of a tunnel has one address"),
        ("ip daddr 198.18.0.1; sport 65536", "exceeds valid range 0-65535"),
        ("ip daddr 198.18.0.1; erspan { version 3; }", "there is no version 3 of ERSPAN"),
        (
            "ip daddr 198.18.0.1; vxlan { gbp 5; }; geneve { class 1 opt-type 1 data \"0x12345678\"; }",
            "Cannot create new geneve section inside another tunnel",
        ),
        (
            "ip daddr 198.18.0.1; geneve { class 1 opt-type 1 data \"12345678\"; }",
            "Invalid data array 12345678",
        ),
        (
            "ip daddr 198.18.0.1; geneve { class 1 opt-type 1 data \"0x1234567x\"; }",
            "Invalid data array",
        ),
        // Geneve has options of whole words, and not too many.
        ("ip daddr 198.18.0.1; geneve { class 1 opt-type 1 data \"0x1234\"; }", "Invalid argument"),
    ] {
        let text =
            format!("define net = 198.18.0.0/24\ntable netdev t {{ tunnel y {{ {lines}; }}\n}}");
        let message = load(&text).err().unwrap_or_default();
        assert!(message.contains(expected), "{lines}: {message:?}");
    }
    for (rule, expected) in [
        ("tunnel name \"none\"", "No such file or directory"),
        ("tunnel id \"five\"", "Could not parse integer"),
    ] {
        let message =
            load(&format!("add table ip t; add chain ip t c; add rule ip t c {rule}")).err();
        let message = message.unwrap_or_default();
        assert!(message.contains(expected), "{rule}: {message:?}");
    }
}

/// Statements that go with any other.
const ANYWHERE: &[&str] = &[
    "counter",
    "meta mark 5",
    "meta mark & 0xff == 3",
    "meta mark set ct mark or 0x10",
    "iifname \"eth*\"",
    "iif { 5, 7-9 }",
    "ct mark 1-7",
    "ct state new,established",
    "limit rate 5/second burst 9 packets",
    "quota over 5 mbytes",
    "log prefix \"x\"",
    "meta skuid { 0, 5 }",
    "meta pkttype broadcast",
    "fib daddr type local",
    "jhash meta mark . meta cpu mod 5 3",
    "meta hour \"10:00\"-\"11:00\"",
    "meta priority set 1:2",
];

#[test]
fn rules_mixed_with_other_statements_survive_listing() {
    let seed = penstock_testkit::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let rows: Vec<_> = rows()
        .filter(|(_, rule, _)| !rule.contains("comment") && !LISTED_OTHERWISE.contains(rule))
        .filter(|(family, _, _)| matches!(*family, "inet" | "ip" | "ip6"))
        // nft puts what a reject depends on at the head of the rule.
        .filter(|(_, rule, _)| !rule.contains("reject with icmpv6"))
        .collect();
    for _ in 0..2000 {
        let (family, rule, _) = rows[random.usize(..rows.len())];
        let mut parts = vec![rule];
        for _ in 0..random.usize(1..4) {
            let place = random.usize(..=parts.len());
            parts.insert(place, ANYWHERE[random.usize(..ANYWHERE.len())]);
        }
        let rule = parts.join(" ");
        // Nothing goes after a verdict.
        let Ok(made) = load(&in_chain(family, &rule)) else { continue };
        let listed = only_rule(&made);
        let again = load(&in_chain(family, &listed))
            .unwrap_or_else(|e| panic!("seed {seed}: {family} {rule}\nas {listed}: {e}"));
        assert_eq!(only_rule(&again), listed, "seed {seed}: {family} {rule}");
    }
}

/// A ruleset as nft 1.1.3 lists it, as text and as JSON (`--compat 1.1`).
#[test]
fn listings_have_the_form_of_nft_1_1_if_it_is_asked_for() {
    let generation = load(include_str!("forms/ruleset.nft")).expect("a ruleset");
    let listing = listing(&generation, Format { release: Release::V1_1, ..Format::default() });
    assert_eq!(listing.ruleset(None), include_str!("forms/1.1.nft"));
    let all = json::ruleset(&listing, None);
    let listed = all["nftables"].as_array().unwrap();
    let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
    let expected = include_str!("forms/1.1.json").lines();
    let expected = expected.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(listed, expected.map(|value| value.to_string()).collect::<Vec<_>>());
}
