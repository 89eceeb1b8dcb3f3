//! Rules as nft lists them, and what is listed means the same when it is read again.

use std::net::IpAddr;

use penstock_lang::ast::CmdKind;
use penstock_lang::datatype::Format;
use penstock_lang::diag::Diagnostics;
use penstock_lang::names::Names;
use penstock_lang::print::Listing;
use penstock_lang::scope::Scope;
use penstock_lang::source::{Files, Inputs, Origin};
use penstock_lang::{eval, lower, parse};
use penstock_ruleset::{Generation, Ruleset};

/// Rules that nft 1.0.6 was given in a fresh chain, and how it listed them: `family | rule | listed`.
const LISTED_RULES: &str = include_str!("listed_rules.txt");

/// A machine with one device and the usual protocols.
struct Machine;

const PROTOCOLS: [(&str, u8); 17] = [
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("tcp", 6),
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
    let input = inputs.add(Origin::CommandLine, text);
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
    let rules: Vec<String> = table.chains[0].rules.iter().map(|rule| listing.rule(table, rule)).collect();
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
        let elements: Vec<String> =
            set.elements.iter().map(|e| format!("{:?} {:?} {:?}", e.key, e.key_end, e.value.data)).collect();
        text = text.replace(&format!("\"{}\"", set.name), &elements.join(";"));
    }
    text
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    LISTED_RULES.lines().filter_map(|line| {
        let mut parts = line.splitn(3, " | ");
        Some((parts.next()?, parts.next()?, parts.next()?))
    })
}

#[test]
fn rules_are_listed_as_nft_lists_them() {
    let mut wrong = Vec::new();
    for (family, rule, expected) in rows() {
        match load(&in_chain(family, rule)) {
            Ok(generation) => {
                let listed = only_rule(&generation);
                if listed != expected {
                    wrong.push(format!("{family} {rule}\n  expected {expected}\n  listed   {listed}"));
                }
            }
            Err(error) => wrong.push(format!("{family} {rule}\n  refused: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} rules are not listed as by nft:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rules whose listing by nft is not the whole of them, or is written back in other expressions that match the same.
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
fn what_is_listed_compiles_to_the_same_program() {
    let mut wrong = Vec::new();
    for (family, rule, listed) in rows() {
        if LISTED_OTHERWISE.contains(&rule) {
            continue;
        }
        let (Ok(first), Ok(second)) = (load(&in_chain(family, rule)), load(&in_chain(family, listed))) else {
            wrong.push(format!("{family} {listed}: refused"));
            continue;
        };
        let (first, second) = (programs(&first), programs(&second));
        if first != second {
            wrong.push(format!("{family} {rule}\n  as {listed}\n{first}  and then\n{second}"));
        }
    }
    assert!(wrong.is_empty(), "{} rules change when they are read again:\n{}", wrong.len(), wrong.join("\n"));
}
