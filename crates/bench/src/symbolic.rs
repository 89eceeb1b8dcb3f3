// SPDX-License-Identifier: Apache-2.0

//! What a change of a ruleset does to all packets: one comparison of two linked rulesets.
//!
//! `diff-acl-10000` are lists after ClassBench that differ in ten rules, `link-acl-10000` beside it
//! links one of them, and `cover-acl-10000` finds packets that meet its rules; `diff-acl-100000` are
//! lists of ten times as many rules; `diff-set-1000000` are sets of so many addresses, of which ten
//! were exchanged. `prove-way-1000` proves 100 claims of a router with 1,000 rules, translation and
//! 1,000 routes, on the whole way of packets.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::hint::black_box;

use penstock_net::Network;
use penstock_program::{ChainType, Family, Hook};
use penstock_ruleset::link::Linked;
use penstock_symbolic::{
    Base, Bound, Claim, Claimed, Device, Limits, Outcome, Place, Program, Proof, Start, Wanted,
    Way, cover, diff, prove,
};
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

/// Devices of the router, each with a network of its own: the first one leads to everything else.
const DEVICES: [&str; 4] = ["wan", "lan", "dmz", "vpn"];

/// A router: its network, its ruleset, and claims of it.
struct Router {
    network: Network,
    rules: Linked,
    claims: Vec<(Linked, Claimed)>,
}

impl Router {
    fn new(rules: usize, routes: usize, claims: usize) -> Router {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut lines = String::from("link set lo up\n");
        for (number, name) in (1..).zip(DEVICES) {
            let _ = write!(
                lines,
                "link add name {name} address 02:00:00:00:00:0{number} type veth\n\
                 link set {name} up\naddr add 198.18.{number}.1/24 dev {name}\n"
            );
        }
        lines.push_str("route add default via 198.18.1.254\n");
        let mut prefixes = BTreeSet::new();
        while prefixes.len() < routes {
            let len = [24, 25, 26, 28][rng.usize(..4)];
            let address = (0xc613_0000 | u32::from(rng.u16(..))) & (u32::MAX << (32 - len));
            let prefix = format!("{}/{len}", std::net::Ipv4Addr::from(address));
            if prefixes.insert(prefix.clone()) {
                let (by, via) = (rng.u8(2..5), rng.u8(2..250));
                let _ = writeln!(lines, "route add {prefix} via 198.18.{by}.{via}");
            }
        }
        let prefixes: Vec<String> = prefixes.into_iter().collect();
        let device = |rng: &mut fastrand::Rng| DEVICES[rng.usize(..4)];
        let network = |rng: &mut fastrand::Rng| &*prefixes[rng.usize(..prefixes.len())];
        let port = |rng: &mut fastrand::Rng| [22, 25, 53, 80, 443, rng.u16(1024..)][rng.usize(..6)];
        let mut text = String::from(
            "table inet filter {\nchain input {\n\
             type filter hook input priority filter; policy drop;\n\
             ct state established,related accept\nct state invalid drop\n\
             iifname lan tcp dport 22 accept\nip protocol icmp accept\n}\n\
             chain forward {\ntype filter hook forward priority filter; policy drop;\n\
             ct state established,related accept\nct state invalid drop\n\
             iifname lan oifname wan accept\n",
        );
        for _ in 0..rules {
            let (from, to, port) = (device(&mut rng), device(&mut rng), port(&mut rng));
            let (a, b) = (network(&mut rng), network(&mut rng));
            let protocol = ["tcp", "udp"][rng.usize(..2)];
            let _ = match rng.u8(..4) {
                0 => writeln!(text, "iifname {from} ip daddr {a} {protocol} dport {port} accept"),
                1 => writeln!(
                    text,
                    "iifname {from} oifname {to} ip saddr {a} {protocol} dport {port} accept"
                ),
                2 => writeln!(text, "ip saddr {a} ip daddr {b} drop"),
                _ => writeln!(
                    text,
                    "iifname {from} ip daddr {a} {protocol} dport {{ {port}, 8080 }} accept"
                ),
            };
        }
        text.push_str(
            "}\n}\ntable ip nat {\nchain prerouting {\n\
             type nat hook prerouting priority dstnat;\n",
        );
        for number in 0..30 {
            let to = std::net::Ipv4Addr::from(0xc613_0000 | u32::from(rng.u16(..)));
            let port = 2000 + number;
            let _ =
                writeln!(text, "iifname wan ip daddr 198.18.1.1 tcp dport {port} dnat to {to}:80");
        }
        text.push_str(
            "}\nchain postrouting {\ntype nat hook postrouting priority srcnat;\n\
             oifname wan ip saddr 198.18.0.0/15 masquerade\n}\n}\n",
        );
        let link = |text: &str| Linked::new(&ruleset(text).generation()).expect("rules that run");
        let claims = (0..claims).map(|_| {
            let (from, to, port) = (device(&mut rng), device(&mut rng), port(&mut rng));
            let a = network(&mut rng);
            let never = Claimed::Never(Outcome::Accept);
            let (matches, claimed) = match rng.u8(..4) {
                0 => (format!("iifname {from} oifname {to} ct state new tcp dport {port}"), never),
                1 => (format!("iifname {from} ct state new ip daddr {a} udp dport {port}"), never),
                2 => (format!("iifname {from} ct state invalid"), never),
                _ => (
                    format!("ct state new ip saddr {a} tcp dport {port}"),
                    Claimed::NeverLeaves(rng.u32(2..6)),
                ),
            };
            let chain = format!("type filter hook forward priority 0\n{matches} accept\n");
            (link(&format!("table inet t {{\nchain c {{\n{chain}}}\n}}\n")), claimed)
        });
        let claims = claims.collect();
        let network = Network::from_batch("router", &lines).expect("a network");
        Router { network, rules: link(&text), claims }
    }

    /// How many of the claims hold.
    fn proved(&self) -> usize {
        let devices = self.network.links().iter().map(|link| Device {
            index: link.index,
            link: link.index,
            interface: penstock_dataplane::interface(link),
        });
        let mut bases: Vec<_> = self.rules.bases.iter().collect();
        bases.sort_by_key(|base| base.base.priority);
        let chains: Vec<Bound<'_>> = bases
            .into_iter()
            .map(|base| Bound {
                hook: base.base.hook,
                devices: &base.base.devices,
                base: Base {
                    chain: base.chain,
                    kind: base.base.kind,
                    priority: base.base.priority,
                    family: base.family,
                },
            })
            .collect();
        let way = Way::new(&self.network, Start::Arrival, devices.collect(), &chains);
        let of_way = Program { bases: way.bases(), way: Some(way), ..program(&self.rules) };
        let matches: Vec<(Program<'_>, Claimed)> =
            self.claims.iter().map(|(linked, claimed)| (program(linked), *claimed)).collect();
        let claims: Vec<Claim<'_>> =
            matches.iter().map(|(matches, what)| Claim { matches, what: *what }).collect();
        let proofs = prove(Start::Arrival.place(), &of_way, &claims, Limits::default());
        let proofs = proofs.map(|proofs| proofs.proofs).unwrap_or_default();
        proofs.iter().filter(|proof| matches!(proof, Proof::Holds)).count()
    }
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
    let count = scale.count(100_000);
    let [old, new] = [false, true].map(|new| list(Kind::AccessControl, count as usize, new));
    all.push(compare("diff-acl-100000".to_owned(), &old, &new).against("link-acl-10000"));
    let count = scale.count(1000) as usize;
    let router = Router::new(count, count, 100);
    let proved = Variant::new("prove-way-1000", 1, move || {
        black_box(router.proved());
    });
    all.push(proved.against("link-acl-10000"));
    let count = scale.count(1_000_000);
    let [old, new] = [false, true].map(|new| set(count, new));
    all.push(compare("diff-set-1000000".to_owned(), &old, &new).against("link-acl-10000"));
    all
}
