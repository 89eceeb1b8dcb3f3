// SPDX-License-Identifier: Apache-2.0

//! Rulesets from text, random rulesets, and packets of their universes.
#![allow(dead_code)]

pub mod networks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::Network;
use penstock_program::Hook;
use penstock_ruleset::link::{Linked, LinkedBase};
use penstock_ruleset::{Generation, Ruleset};
use penstock_symbolic::{
    Base, Bound, Decided, Device, Field, Input, Limits, Place, Program, Region, Start, Universe,
    Way,
};

/// A ruleset, linked.
pub struct Rules {
    pub generation: Arc<Generation>,
    pub linked: Linked,
}

/// Loads a text; what is wrong with it.
pub fn load(text: &str) -> Result<Rules, String> {
    let mut ruleset = Ruleset::default();
    let origin = Origin::File { name: "rules.nft".to_owned(), from: None };
    let options = Options { runnable_only: true, ..Options::default() };
    let outcome =
        Session::new(options, &NoFiles, &NoNames).run(origin, text.to_owned(), &mut ruleset, 0);
    if !outcome.ok {
        return Err(outcome.stderr);
    }
    let generation = ruleset.generation();
    let linked = Linked::new(&generation).map_err(|e| e.to_string())?;
    Ok(Rules { generation, linked })
}

fn base_of(base: &LinkedBase) -> Base {
    let LinkedBase { chain, family, base, .. } = base;
    Base { chain: *chain, kind: base.kind, priority: base.priority, family: *family }
}

/// The whole way through a network, of which rules know the devices by its own indexes.
pub fn way<'a>(rules: &'a Rules, network: &'a Network, start: Start) -> Program<'a> {
    let devices: Vec<Device> = network
        .links()
        .iter()
        .map(|link| Device {
            index: link.index,
            link: link.index,
            interface: penstock_dataplane::interface(link),
        })
        .collect();
    let mut bases: Vec<_> = rules.linked.bases.iter().collect();
    bases.sort_by_key(|base| (base.base.priority, std::cmp::Reverse(base.base.registered)));
    let chains: Vec<Bound<'_>> = bases
        .iter()
        .map(|base| Bound {
            hook: base.base.hook,
            devices: &base.base.devices,
            base: base_of(base),
        })
        .collect();
    let way = Way::new(network, start, devices, &chains);
    let bases = way.bases();
    Program {
        image: &rules.linked.image,
        way: Some(way),
        bases,
        numbers: (0..rules.linked.image.rules.len() as u32).collect(),
        sets: HashMap::new(),
        listed: false,
        now: 0,
    }
}

/// All base chains of a hook in the order of their priority.
pub fn program(rules: &Rules, hook: Hook) -> Program<'_> {
    let mut bases: Vec<_> =
        rules.linked.bases.iter().filter(|base| base.base.hook == hook).collect();
    bases.sort_by_key(|base| (base.base.priority, std::cmp::Reverse(base.base.registered)));
    Program {
        image: &rules.linked.image,
        way: None,
        bases: bases.into_iter().map(base_of).collect(),
        numbers: (0..rules.linked.image.rules.len() as u32).collect(),
        sets: HashMap::new(),
        listed: false,
        now: 0,
    }
}

pub fn place(rules: &Rules, hook: Hook) -> Place {
    let base = rules.linked.bases.iter().find(|base| base.base.hook == hook);
    Place { family: base.expect("a base chain").family, hook }
}

pub fn limits() -> Limits {
    Limits { memory: 16 << 20, time: Duration::from_secs(120) }
}

/// A packet of a region: values out of a pool, or at random, as far as they are possible together.
pub fn sample(
    universe: &Universe,
    region: &Region,
    pool: &[u128],
    rng: &mut Rng,
) -> Decided<Option<Vec<bool>>> {
    let d = &universe.diagrams;
    let mut region = region.clone();
    let mut fields: Vec<Field> = universe.fields().to_vec();
    rng.shuffle(&mut fields);
    for field in fields {
        let variables = universe.variables(field);
        let value = match rng.u8(..4) {
            0 => rng.u128(..),
            1 => 0,
            _ => {
                let value = pool[rng.usize(..pool.len())];
                // A byte of a value that is longer.
                if variables.len() == 8 { value >> (8 * rng.u32(..4)) } else { value }
            }
        };
        let bytes = value.to_be_bytes();
        let bytes = bytes[16 - variables.len().div_ceil(8).min(16)..].to_vec();
        let wanted = d.and(&region, &universe.with_values(&[(field, bytes)])?)?;
        if !wanted.is_none() {
            region = wanted;
        }
    }
    Ok(d.packet_of(&region))
}

/// Values that random rules name, and those next to them.
pub fn pool() -> Vec<u128> {
    let mut all = Vec::new();
    for value in [
        0u128,
        1,
        2,
        3,
        5,
        6,
        7,
        17,
        22,
        53,
        80,
        443,
        1024,
        8080,
        40_000,
        65_535,
        0xc612_0001,
        0xc612_0000,
        0xc612_ffff,
        0xc613_0000,
        0xc613_0002,
        0x2001_0db8,
        8,
        4,
        64,
        10,
        20,
        58,
    ] {
        all.extend([value.saturating_sub(1), value, value + 1]);
    }
    all
}

fn address(rng: &mut Rng) -> String {
    match rng.u8(..5) {
        0 => "198.18.0.1".to_owned(),
        1 => "198.18.0.0/16".to_owned(),
        2 => "198.19.0.2-198.19.0.9".to_owned(),
        3 => format!("198.18.{}.0/24", rng.u8(..3)),
        _ => format!("198.18.0.{}", rng.u8(..4)),
    }
}

fn address6(rng: &mut Rng) -> String {
    match rng.u8(..3) {
        0 => "2001:db8::/32".to_owned(),
        1 => format!("2001:db8::{}", rng.u8(1..4)),
        _ => "2001:db8:1::1-2001:db8:1::9".to_owned(),
    }
}

fn port(rng: &mut Rng) -> String {
    match rng.u8(..6) {
        0 => "1024-65535".to_owned(),
        1 => "{ 22, 80, 443 }".to_owned(),
        2 => "{ 20-25, 8080 }".to_owned(),
        3 => "!= 80".to_owned(),
        4 => "> 1023".to_owned(),
        _ => ["22", "53", "80", "443"][rng.usize(..4)].to_owned(),
    }
}

/// One match.
fn matches(rng: &mut Rng) -> String {
    let not = if rng.u8(..5) == 0 { "!= " } else { "" };
    match rng.u8(..33) {
        0..3 => format!("ip saddr {not}{}", address(rng)),
        3..6 => format!("ip daddr {not}{}", address(rng)),
        6..9 => format!("tcp dport {}", port(rng)),
        9 => format!("udp dport {}", port(rng)),
        10 => format!("tcp sport {}", port(rng)),
        11 => format!("th dport {}", port(rng)),
        12 => {
            format!("meta l4proto {not}{}", ["tcp", "udp", "icmp", "{ tcp, udp }"][rng.usize(..4)])
        }
        13 => format!("ip6 saddr {not}{}", address6(rng)),
        14 => format!("ip6 daddr {}", address6(rng)),
        15 => format!(
            "ct state {}",
            ["established,related", "new", "invalid", "!= new"][rng.usize(..4)]
        ),
        16 => format!("iifname {not}\"{}\"", ["lan", "wan", "w*"][rng.usize(..3)]),
        17 => format!("meta mark {not}{}", rng.u8(..4)),
        18 => format!("meta mark & 0x{:x} == 0x{:x}", 6, 2 * rng.u8(..3)),
        19 => format!("ip saddr . tcp dport {not}{{ 198.18.0.1 . 80, 198.18.0.2 . 443 }}"),
        20 => "ip saddr . tcp dport { 198.18.0.0/16 . 20-30, 198.19.0.2 . 80 }".to_owned(),
        21 => format!("tcp flags {}", ["syn", "& (syn|ack) == syn", "! ack"][rng.usize(..3)]),
        22 => format!("ip ttl {}", ["< 5", "64", "> 64"][rng.usize(..3)]),
        23 => format!("ip protocol {not}{}", ["tcp", "udp", "icmp"][rng.usize(..3)]),
        24 => format!("meta length {}", ["> 100", "< 60", "40-80"][rng.usize(..3)]),
        25 => "ct direction reply".to_owned(),
        26 => format!("ct mark {}", rng.u8(..3)),
        27 => format!("ip dscp {}", ["cs1", "!= cs0", "{ cs1, cs2 }"][rng.usize(..3)]),
        28 => format!("icmp type {}", ["echo-request", "{ 0, 8 }"][rng.usize(..2)]),
        29..32 => exthdr(rng).to_owned(),
        _ => "limit rate 5/second".to_owned(),
    }
}

/// A match of an extension header or an option.
fn exthdr(rng: &mut Rng) -> &'static str {
    let all = [
        "exthdr frag exists",
        "exthdr frag missing",
        "frag nexthdr tcp",
        "frag more-fragments 1",
        "exthdr hbh exists",
        "hbh hdrlength 1",
        "dst nexthdr { 6, 44 }",
        "exthdr rt missing",
        "rt type 0",
        "exthdr mh exists",
        "tcp option maxseg exists",
        "tcp option maxseg missing",
        "tcp option maxseg size > 1000",
        "tcp option maxseg size 1460",
        "tcp option maxseg length 4",
        "tcp option window count { 3, 7 }",
        "tcp option timestamp tsval 1",
        "tcp option sack-perm exists",
        "tcp option nop exists",
        "ip option ra exists",
        "ip option rr missing",
        "ip option lsrr ptr 4",
        "@nh,0,8 & 0xf > 5",
        "tcp doff > 5",
    ];
    all[rng.usize(..all.len())]
}

fn action(rng: &mut Rng, chains: usize, effects: bool) -> String {
    match rng.u8(..if effects { 16 } else { 9 }) {
        0..3 => "accept".to_owned(),
        3..5 => "drop".to_owned(),
        5 => "counter".to_owned(),
        6 => "return".to_owned(),
        7 if chains > 0 => format!("jump c{}", rng.usize(..chains)),
        8 if chains > 0 => format!("goto c{}", rng.usize(..chains)),
        7 | 8 => "reject".to_owned(),
        9..12 => format!("meta mark set {}", rng.u8(..4)),
        12 => format!("meta mark set mark | {}", 1 << rng.u8(..3)),
        13 => "ct mark set 2".to_owned(),
        14 => "ip dscp set cs1".to_owned(),
        _ => "meta mark set tcp dport map { 22 : 1, 80 : 2, 1000-2000 : 3 }".to_owned(),
    }
}

/// One rule that nft takes: matches may contradict each other.
pub fn rule(rng: &mut Rng, chains: usize, effects: bool) -> String {
    loop {
        let rule = any_rule(rng, chains, effects);
        let called: String = (0..chains).map(|i| format!("chain c{i} {{ }}\n")).collect();
        if load(&format!("table inet t {{\n{called} chain x {{\n {rule}\n }}\n}}\n")).is_ok() {
            return rule;
        }
    }
}

fn any_rule(rng: &mut Rng, chains: usize, effects: bool) -> String {
    if rng.u8(..12) == 0 {
        let target = |rng: &mut Rng| match chains {
            0 => "drop".to_owned(),
            _ => format!("jump c{}", rng.usize(..chains)),
        };
        return match rng.u8(..3) {
            0 => format!("tcp dport vmap {{ 22 : accept, 80-90 : drop, 443 : {} }}", target(rng)),
            1 => {
                format!("ip saddr vmap {{ 198.18.0.0/24 : {}, 198.18.0.0/16 : drop }}", target(rng))
                    .replace("198.18.0.0/24", "198.20.0.0/24")
            }
            _ => format!(
                "meta l4proto vmap {{ tcp : {}, udp : continue, icmp : accept }}",
                target(rng)
            ),
        };
    }
    let mut text = String::new();
    for _ in 0..rng.u8(1..4) {
        text.push_str(&matches(rng));
        text.push(' ');
    }
    text.push_str(&action(rng, chains, effects));
    text
}

/// A table of a hook, as its rules: the chains that are called first.
#[derive(Clone)]
pub struct Draft {
    pub chains: Vec<Vec<String>>,
    pub base: Vec<String>,
    pub policy: &'static str,
    pub hook: &'static str,
}

impl Draft {
    pub fn random(rng: &mut Rng, effects: bool) -> Draft {
        // A chain calls those before it, so that there is no circle.
        let chains: Vec<Vec<String>> = (0..rng.usize(..3))
            .map(|i| (0..rng.usize(1..5)).map(|_| rule(rng, i, effects)).collect())
            .collect();
        let base = (0..rng.usize(1..9)).map(|_| rule(rng, chains.len(), effects)).collect();
        let policy = if rng.bool() { "accept" } else { "drop" };
        let hook = ["input", "forward"][rng.usize(..2)];
        Draft { chains, base, policy, hook }
    }

    pub fn text(&self) -> String {
        let mut text = String::from("table inet t {\n");
        for (i, rules) in self.chains.iter().enumerate() {
            text.push_str(&format!("  chain c{i} {{\n    {}\n  }}\n", rules.join("\n    ")));
        }
        let Draft { hook, policy, base, .. } = self;
        text.push_str(&format!(
            "  chain base {{\n    type filter hook {hook} priority filter; policy {policy};\n    {}\n  }}\n}}\n",
            base.join("\n    ")
        ));
        text
    }

    pub fn hook(&self) -> Hook {
        if self.hook == "input" { Hook::Input } else { Hook::Forward }
    }
}

/// Rounds of a random test: so many, or as the environment says.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("PENSTOCK_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// The seed of a random test.
pub fn seed() -> u64 {
    std::env::var("PENSTOCK_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(21)
}

/// An input's name, for messages.
pub fn input(input: Input) -> String {
    format!("{:?} of rule {}", input.what, input.rule)
}
