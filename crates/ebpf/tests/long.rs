// SPDX-License-Identifier: Apache-2.0

//! Lists of ten thousand rules in the style of ClassBench: programs that search them agree with the
//! interpreter, which walks, on verdicts and on all counters.

mod rights;
mod spots;

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use penstock_bpf::Next;
use penstock_bpf::netfilter::{InetFamily, InetHook, NetfilterHook};
use penstock_ebpf::rules::{Entry, Job, compile, compile_with};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_program::State;
use penstock_program::image::Image;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use penstock_testkit::classbench::{self, Header, Kind};
use spots::{Spot, device, interpreted, values};

const FORWARD: Spot =
    Spot::Netfilter(NetfilterHook { family: InetFamily::V4, hook: InetHook::Forward });

/// A generation of rules as users write them, without the lookups that the interpreter would use.
fn linked(text: String) -> Linked {
    let mut ruleset = Ruleset::default();
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text, &mut ruleset, 0);
    assert!(outcome.ok, "{}", outcome.stderr);
    let mut linked = Linked::new(&ruleset.generation()).unwrap();
    linked.image.chains.iter_mut().for_each(|chain| chain.lookup = None);
    linked
}

/// A table with a base chain at a place, and others.
fn table(spot: Spot, rules: &str, others: &str) -> String {
    let (family, hook) = match spot {
        Spot::Xdp | Spot::TcxIngress => ("netdev", "ingress device \"lan\""),
        Spot::TcxEgress => ("netdev", "egress device \"lan\""),
        Spot::Netfilter(_) => ("inet", "forward"),
    };
    format!(
        "table {family} t {{\n{others}\n\
         chain c {{ type filter hook {hook} priority 0; policy accept;\n{rules}\n}}\n}}\n"
    )
}

fn entries(linked: &Linked, spot: Spot) -> Vec<Entry> {
    let entry = |chain| match spot {
        Spot::Netfilter(_) => Entry::Ip(chain),
        Spot::Xdp | Spot::TcxIngress | Spot::TcxEgress => Entry::Netdev(chain),
    };
    linked.bases.iter().map(|base| entry(base.chain)).collect()
}

fn counters(image: &Image) -> Vec<Arc<State>> {
    image.ops.iter().filter_map(|op| op.counter().cloned()).collect()
}

/// What a rule does with packets that match.
fn end(rng: &mut Rng) -> &'static str {
    rng.choice([
        "drop",
        "counter drop",
        "counter drop",
        "counter drop",
        "accept",
        "counter accept",
        "counter",
        "counter",
        "counter continue",
        "counter counter",
        "counter jump more",
        "jump more",
        "counter goto few",
        "jump few",
        "counter return",
        // What is not known before it is run.
        "meta length > 60 counter drop",
        "ip ttl != 64 counter drop",
        "ip id { 1, 5 } counter",
        "counter meta length vmap { 0-30 : drop, 31-60 : accept, 61-65535 : jump few }",
    ])
    .unwrap()
}

/// An address of IPv6 that has one of IPv4 in its upper half.
fn upper(address: u32) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(address) << 64)
}

/// A rule in text, with an end; some have addresses of IPv6.
fn text(rng: &mut Rng, rule: &classbench::Rule) -> String {
    let text = format!("{rule} {}", end(rng));
    if rng.u8(..3) > 0 {
        return text;
    }
    let word = |word: &str| {
        let (address, len) = word.split_once('/').unwrap_or((word, "32"));
        match address.parse::<Ipv4Addr>() {
            Ok(address) => {
                // Addresses of hosts are single values, and those of networks intervals.
                let len = len.parse::<u8>().unwrap();
                let len = if len == 32 { 128 } else { 32 + len };
                format!("{}/{len}", upper(address.into()))
            }
            Err(_) if word == "ip" => "ip6".into(),
            Err(_) => word.into(),
        }
    };
    let text = text.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.replace("ip6 ttl", "ip6 hoplimit").replace("ip6 id { 1, 5 }", "ip6 nexthdr { 6, 58 }")
}

/// Lists that call each other: `c` calls `more`, which is long as well, and both call `few`.
fn lists(rng: &mut Rng, kind: Kind, count: usize, spot: Spot) -> (String, Vec<classbench::Rule>) {
    let rules = classbench::rules(kind, count, rng.u64(..));
    let some: Vec<_> = (0..300).map(|_| *rng.choice(&rules).unwrap()).collect();
    let mut all = String::from("ip saddr 198.18.0.0/15 counter\ncounter\n");
    for rule in &rules {
        writeln!(all, "{}", text(rng, rule)).unwrap();
    }
    let mut others = String::from("chain few { tcp dport 1-1000 counter return; counter; }\n");
    others.push_str("chain more {\n");
    for rule in &some {
        writeln!(others, "{}", text(rng, rule).replace("more", "few")).unwrap();
    }
    others.push('}');
    (table(spot, &all, &others), rules)
}

fn frame(rng: &mut Rng, header: &Header, v6: bool) -> Vec<u8> {
    let (source, destination) = (header.source_port, header.destination_port);
    let ether = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let ip = if v6 {
        // A part of the host's own only where the list is not about hosts.
        let host = u128::from(rng.u8(..2));
        let of = |address| Ipv6Addr::from(u128::from(upper(address)) | host);
        ether / Ipv6::new(of(header.source), of(header.destination))
    } else {
        let of = Ipv4Addr::from;
        let ip = Ipv4::new(of(header.source), of(header.destination))
            .ttl(*rng.choice(&[64, 64, 3]).unwrap());
        // Rules that ask for ports meet packets without, too.
        ether / if rng.u8(..10) == 0 { ip.fragment(2, true) } else { ip }
    };
    match header.protocol {
        6 => (ip / Tcp::new(source, destination) / payload([0; 6])).build(),
        17 => (ip / Udp::new(source, destination) / payload([0; 18])).build(),
        _ => (ip / Icmp::new(8, 0) / payload([0; 18])).build(),
    }
}

fn agree(rng: &mut Rng, kind: Kind, count: usize, spot: Spot, frames: usize) {
    let (text, rules) = lists(rng, kind, count, spot);
    let linked = linked(text);
    let entries = entries(&linked, spot);
    let device = device();
    let place = spot.place(&device);
    let image = &linked.image;
    let job =
        Job { image, entries: &entries, place, next: &Next::Pass, shared: None, routes: None };
    let compiled = compile(job).unwrap_or_else(|e| panic!("{kind:?} {spot:?}: {e}"));
    let (program, mut counts) =
        compiled.load("rules").unwrap_or_else(|e| panic!("{kind:?} {spot:?}: {e}"));
    let states = counters(image);
    let (pass, drop) = spot.verdicts();
    for (n, header) in classbench::traffic(&rules, frames, rng.u64(..)).iter().enumerate() {
        let v6 = rng.u8(..3) == 0;
        let frame = frame(rng, header, v6);
        if !spot.suits(&frame) {
            continue;
        }
        let before = values(&states);
        let Ok(ran) = spot.run(&program, &frame, 1) else { continue };
        counts.collect().unwrap();
        let after = values(&states);
        let accepted = interpreted(image, &entries, &frame, spot);
        let told = || format!("{kind:?} {spot:?} frame {n} {header:?}");
        assert_eq!(ran.verdict, if accepted { pass } else { drop }, "{}", told());
        let again = values(&states);
        let differences = |from: &[(u64, u64)], to: &[(u64, u64)]| -> Vec<_> {
            let all = from.iter().zip(to).enumerate();
            all.filter(|(_, (a, b))| a != b).map(|(i, (a, b))| (i, b.0 - a.0, b.1 - a.1)).collect()
        };
        assert_eq!(differences(&before, &after), differences(&after, &again), "{}", told());
    }
}

#[test]
fn long_lists_mean_the_same() {
    if !rights::may_load() {
        return;
    }
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    println!("seed {seed}");
    for (kind, spot) in [
        (Kind::AccessControl, Spot::Xdp),
        (Kind::Firewall, Spot::TcxIngress),
        (Kind::IpChain, Spot::TcxEgress),
        (Kind::IpChain, FORWARD),
    ] {
        agree(&mut rng, kind, 10_000, spot, penstock_testkit::rounds(200));
    }
}

/// What a packet costs in lists of all lengths, walked and searched.
#[test]
#[ignore = "a measurement"]
fn threshold() {
    if !rights::may_load() {
        return;
    }
    let spot = Spot::Xdp;
    for kind in Kind::ALL {
        for count in [8, 16, 24, 32, 48, 64, 96, 128, 256, 1000, 10_000] {
            let rules = classbench::narrow_first(classbench::rules(kind, count, 1));
            let text: String = rules.iter().map(|rule| format!("{rule} counter drop\n")).collect();
            let linked = linked(table(spot, &text, ""));
            let entries = entries(&linked, spot);
            let device = device();
            let place = spot.place(&device);
            let image = &linked.image;
            let job = Job {
                image,
                entries: &entries,
                place,
                next: &Next::Pass,
                shared: None,
                routes: None,
            };
            let mut rng = Rng::with_seed(2);
            let frames: Vec<_> = classbench::traffic(&rules, 64, 3)
                .iter()
                .map(|h| frame(&mut rng, h, false))
                .collect();
            let mut line = format!("{} {count}:", kind.name());
            for long in [usize::MAX, 1] {
                let begin = Instant::now();
                let Ok(compiled) = compile_with(job, long) else {
                    line.push_str(" refused;");
                    continue;
                };
                let made = begin.elapsed();
                let begin = Instant::now();
                let (program, _) = match compiled.load("rules") {
                    Ok(loaded) => loaded,
                    Err(e) => {
                        write!(line, " not loaded ({e});").unwrap();
                        continue;
                    }
                };
                let loaded = begin.elapsed();
                let time = |frame: &Vec<u8>| {
                    let runs = (0..3).map(|_| spot.run(&program, frame, 2000).unwrap().nanoseconds);
                    runs.min().unwrap()
                };
                let sum: u32 = frames.iter().map(time).sum();
                let mean = f64::from(sum) / frames.len() as f64;
                let len = compiled.code.len();
                write!(line, " {mean:.0} ns, {len} instructions, {made:.1?} + {loaded:.1?};")
                    .unwrap();
            }
            println!("{line}");
        }
    }
}
