// SPDX-License-Identifier: Apache-2.0

//! From text to rulesets and back, by the language crate.

use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_lang::names::Names;
use penstock_lang::session::{Debug, Options, Session};
use penstock_lang::source::{Files, Origin};
use penstock_net::Network;
use penstock_ruleset::Ruleset;

/// No files.
struct Alone;

impl Files for Alone {
    fn read(&self, _path: &str) -> Result<String, String> {
        Err("No such file or directory".into())
    }
    fn glob(&self, _pattern: &str) -> Vec<String> {
        vec![]
    }
}

/// Loads a ruleset on an empty one; the error is what nft would print.
pub fn load(text: &str, net: &Network, now: u64) -> Result<Ruleset, String> {
    load_with(text, net, now, false)
}

/// [`load`] that also refuses rules that cannot run.
#[allow(dead_code)]
pub fn load_runnable(text: &str, net: &Network, now: u64) -> Result<Ruleset, String> {
    load_with(text, net, now, true)
}

/// [`load`] with `nft -o`; also returns the number of merges.
#[allow(dead_code)]
pub fn load_optimized(text: &str, net: &Network, now: u64) -> Result<(Ruleset, usize), String> {
    let names = Devices(net);
    let mut ruleset = Ruleset::default();
    let options = Options { optimize: true, ..Options::default() };
    let outcome = Session::new(options, &Alone, &names).run(
        Origin::CommandLine,
        text.to_string(),
        &mut ruleset,
        now,
    );
    if outcome.ok { Ok((ruleset, outcome.merges.len())) } else { Err(outcome.stderr) }
}

/// The lines of rules that lint says are left no packet.
#[allow(dead_code)]
pub fn dead_rules(text: &str, net: &Network, now: u64) -> Vec<usize> {
    let names = Devices(net);
    let options = Options { lint: true, check: true, ..Options::default() };
    let origin = Origin::File { name: "rules".into(), from: None };
    let outcome = Session::new(options, &Alone, &names).run(
        origin,
        text.to_string(),
        &mut Ruleset::default(),
        now,
    );
    let told = outcome.stderr.lines().filter(|l| l.contains("Warning: this rule"));
    told.filter_map(|l| l.strip_prefix("rules:")?.split(':').next()?.parse().ok()).collect()
}

fn load_with(text: &str, net: &Network, now: u64, runnable_only: bool) -> Result<Ruleset, String> {
    let names = Devices(net);
    let mut ruleset = Ruleset::default();
    // What could not run is refused with its place.
    let options = Options { runnable_only, ..Options::default() };
    let mut session = Session::new(options, &Alone, &names);
    let origin = Origin::File { name: "rules".into(), from: None };
    let outcome = session.run(origin, text.to_string(), &mut ruleset, now);
    if outcome.ok { Ok(ruleset) } else { Err(outcome.stderr) }
}

/// [`load`] with `nft -j`, which reads JSON.
#[allow(dead_code)]
pub fn load_json(text: &str, net: &Network, now: u64) -> Result<Ruleset, String> {
    let names = Devices(net);
    let mut ruleset = Ruleset::default();
    let options = Options { json: true, ..Options::default() };
    let mut session = Session::new(options, &Alone, &names);
    let outcome = session.run(Origin::CommandLine, text.to_string(), &mut ruleset, now);
    if outcome.ok { Ok(ruleset) } else { Err(outcome.stderr) }
}

/// `nft -j list ruleset`
#[allow(dead_code)]
pub fn list_json(ruleset: &mut Ruleset, net: &Network, now: u64) -> String {
    let names = Devices(net);
    let options = Options { json: true, ..Options::default() };
    let mut session = Session::new(options, &Alone, &names);
    session.run(Origin::CommandLine, "list ruleset\n".to_string(), ruleset, now).stdout
}

/// Runs a text with all optional output: debug text, echo, JSON of everything.
#[allow(dead_code)]
pub fn run_loudly(text: &str, net: &Network, now: u64) {
    let names = Devices(net);
    for json in [false, true] {
        let mut ruleset = Ruleset::default();
        let options =
            Options { echo: true, json, debug: Debug { netlink: true }, ..Options::default() };
        let mut session = Session::new(options, &Alone, &names);
        for text in [text, "list ruleset\nreset counters\n"] {
            let outcome = session.run(Origin::CommandLine, text.to_string(), &mut ruleset, now);
            std::hint::black_box(outcome);
        }
    }
}

/// Names of `/etc/protocols`.
const PROTOCOLS: [(&str, u8); 13] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("comp", 108),
    ("sctp", 132),
    ("udplite", 136),
];

/// The devices of a network, some protocols, and no other names.
struct Devices<'a>(&'a Network);

impl Names for Devices<'_> {
    fn interface_index(&self, name: &str) -> Option<u32> {
        self.0.link_by_name(name).map(|l| l.index)
    }
    fn interface_name(&self, index: u32) -> Option<String> {
        self.0.link(index).map(|l| l.name.to_string())
    }
    fn protocol_number(&self, name: &str) -> Option<u8> {
        PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, number)| *number)
    }
    fn protocol_name(&self, number: u8) -> Option<String> {
        PROTOCOLS.iter().find(|(_, n)| *n == number).map(|(name, _)| name.to_string())
    }
}

/// What the language knows of names where a network is.
#[allow(dead_code)]
pub fn names(net: &Network) -> impl Names + '_ {
    Devices(net)
}

/// Lists a ruleset with its counters at a time (ns), as `nft list ruleset` does.
pub fn list(ruleset: &Ruleset, net: &Network, now: u64) -> String {
    let names = Devices(net);
    Listing { generation: &ruleset.generation(), format: Format::default(), names: &names, now }
        .ruleset(None)
}

/// The programs of all rules, a line for each VM expression.
#[allow(dead_code)]
pub fn programs(ruleset: &Ruleset) -> String {
    let generation = ruleset.generation();
    let rules = generation.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
    rules.flat_map(|r| &r.exprs).map(|e| format!("{e}\n")).collect()
}
