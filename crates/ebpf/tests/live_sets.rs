// SPDX-License-Identifier: Apache-2.0

//! Sets that clients change, in the kernel and in the interpreter at the same times: verdicts and
//! loaded values after each command, and which commands need a new program.

mod pair;
mod rights;

use std::fmt::Write;

use fastrand::Rng;
use pair::{Pair, Step, random_runs};
use penstock_testkit::build::*;

const SECOND: u64 = 1_000_000_000;

fn frame(port: u16, host: u8) -> Vec<u8> {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let ip = Ipv4::new(&*format!("198.18.0.{host}"), "198.19.0.1");
    (link / ip / Udp::new(5000, port) / payload(vec![7; 20])).build()
}

fn frame6(port: u16, host: u8) -> Vec<u8> {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let ip = Ipv6::new(&*format!("2001:db8::{host:x}"), "2001:db8:1::1");
    (link / ip / Udp::new(5000, port) / payload(vec![7; 20])).build()
}

const SETS: &str = "table netdev t {
    set plain { type ipv4_addr; elements = { 198.18.0.1, 198.18.0.9 }; }
    set ports { type inet_service; }
    set spans { type inet_service; flags interval; elements = { 2-3 }; }
    set nets { type ipv4_addr; flags interval; elements = { 198.18.0.0/30, 198.18.0.9-198.18.0.11 }; }
    set nets6 { type ipv6_addr; flags interval; size 100; }
    set timed { type ipv4_addr; flags timeout; timeout 20s; elements = { 198.18.0.2, 198.18.0.3 timeout 1h }; }
    set spell { type ipv4_addr; flags interval,timeout; }
    set pairs { typeof ip saddr . udp dport; size 50; elements = { 198.18.0.1 . 2 }; }
    set areas { typeof ip saddr . udp dport; flags interval; size 200; elements = { 198.18.0.0/30 . 1-3 }; }
    set brief { typeof ip saddr . udp dport; flags interval,timeout; }
    set areas6 { typeof ip6 saddr . udp dport; flags interval; elements = { 2001:db8::2-2001:db8::5 . 2-4 }; }
    map lanes { typeof ip saddr . udp dport : meta mark; flags interval; elements = { 198.18.0.4 . 1-4 : 3 }; }
    map yards { typeof ip saddr . udp dport : verdict; flags interval; }
    map marks { type ipv4_addr : mark; elements = { 198.18.0.4 : 3, * : 4 }; }
    map wide { type ipv4_addr : mark; flags interval; elements = { 198.18.0.4-198.18.0.7 : 3 }; }
    map ways { type inet_service : verdict; elements = { 1 : drop, 2 : jump one, 3 : accept }; }
    map roads { type ipv4_addr : verdict; flags interval,timeout; }
    chain one { ip saddr @plain drop; counter; }
    chain two { udp dport @ports counter accept; }
";

fn pick(rng: &mut Rng, of: &[&'static str]) -> &'static str {
    rng.choice(of).unwrap()
}

fn address(rng: &mut Rng) -> String {
    format!("198.18.0.{}", rng.u8(1..12))
}

/// A piece of the addresses that overlaps others only as a whole.
fn net(rng: &mut Rng) -> String {
    let from = rng.u8(0..3) * 4;
    match rng.u8(..3) {
        0 => format!("198.18.0.{from}/30"),
        1 => format!("198.18.0.{from}-198.18.0.{}", from + 2),
        _ => format!("198.18.0.{}", from + 3),
    }
}

fn verdict(rng: &mut Rng) -> &'static str {
    pick(rng, &["drop", "accept", "jump one", "goto two", "continue", "return"])
}

fn condition(rng: &mut Rng) -> String {
    let inverse = pick(rng, &["", "", "!= "]);
    match rng.u8(..15) {
        11 | 12 => format!("ip saddr . udp dport {inverse}@areas"),
        13 => format!("ip saddr . udp dport {inverse}@brief"),
        14 => format!(
            "meta mark set ip saddr . udp dport map @lanes meta mark {inverse}{}",
            rng.u8(1..5)
        ),
        0 => format!("ip saddr {inverse}@plain"),
        1 => format!("udp dport {inverse}@ports"),
        2 => format!("udp dport {inverse}@spans"),
        3 => format!("ip saddr {inverse}@nets"),
        4 => format!("meta protocol {inverse}ip"),
        5 => format!("ip saddr {inverse}@timed"),
        6 => format!("ip saddr {inverse}@spell"),
        7 => format!("ip saddr . udp dport {inverse}@pairs"),
        8 => format!("meta mark set ip saddr map @marks meta mark {inverse}{}", rng.u8(1..5)),
        9 => format!("meta mark set ip saddr map @wide meta mark {inverse}{}", rng.u8(1..5)),
        _ => format!("udp dport {}", rng.u8(1..5)),
    }
}

fn rule(rng: &mut Rng) -> String {
    match rng.u8(..7) {
        6 => return "ip saddr . udp dport vmap @yards".into(),
        0 => return "udp dport vmap @ways".into(),
        1 => return "ip saddr vmap @roads".into(),
        _ => {}
    }
    let mut rule = String::new();
    if rng.u8(..6) == 0 {
        let of = pick(rng, &["ip6 saddr ", "ip6 saddr . udp dport "]);
        let set = if of.contains('.') { "@areas6" } else { "@nets6" };
        write!(rule, "{of}{}{set} ", pick(rng, &["", "!= "])).unwrap();
        return rule + "counter drop";
    }
    for _ in 0..rng.u8(1..3) {
        let condition = condition(rng);
        write!(rule, "{condition} ").unwrap();
    }
    rule + pick(rng, &["counter", "counter drop", "counter accept", "drop"])
}

/// An address or some, and a port or some. They may overlap others.
fn area(rng: &mut Rng) -> String {
    let host = rng.u8(1..12);
    let hosts = match rng.u8(..4) {
        0 => format!("198.18.0.{host}-198.18.0.{}", host + rng.u8(1..6)),
        1 => format!("198.18.0.{}/{}", host & 12, rng.u8(28..31)),
        _ => format!("198.18.0.{host}"),
    };
    let port = rng.u8(1..10);
    match rng.u8(..3) {
        0 => format!("{hosts} . {port}-{}", port + rng.u8(1..5)),
        _ => format!("{hosts} . {port}"),
    }
}

fn element(rng: &mut Rng) -> (&'static str, String) {
    match rng.u8(..19) {
        12..=14 => ("areas", area(rng)),
        15 => {
            let timeout = pick(rng, &["", " timeout 5s", " timeout 1m"]);
            ("brief", format!("{}{timeout}", area(rng)))
        }
        16 => ("lanes", format!("{} : {}", area(rng), rng.u8(1..5))),
        17 => ("yards", format!("{} : {}", area(rng), verdict(rng))),
        18 => {
            let (host, port) = (rng.u8(0..6), rng.u8(1..5));
            ("areas6", format!("2001:db8::{host:x}-2001:db8::{:x} . {port}", host + rng.u8(1..6)))
        }
        0 => ("plain", address(rng)),
        1 => ("ports", rng.u8(1..5).to_string()),
        2 => ("spans", pick(rng, &["1", "2-3", "4-9", "10"]).to_owned()),
        3 => ("nets", net(rng)),
        4 => ("nets6", format!("2001:db8::{:x}/127", rng.u8(0..6) * 2)),
        5 => {
            let timeout = pick(rng, &["", " timeout 5s", " timeout 1m"]);
            ("timed", format!("{}{timeout}", address(rng)))
        }
        6 => {
            let timeout = pick(rng, &["", " timeout 5s", " timeout 1m"]);
            ("spell", format!("{}{timeout}", net(rng)))
        }
        7 => ("pairs", format!("{} . {}", address(rng), rng.u8(1..5))),
        8 => {
            let key = if rng.u8(..5) == 0 { "*".into() } else { address(rng) };
            ("marks", format!("{key} : {}", rng.u8(1..5)))
        }
        9 => {
            let key = if rng.u8(..5) == 0 { "*".into() } else { net(rng) };
            ("wide", format!("{key} : {}", rng.u8(1..5)))
        }
        10 => ("ways", format!("{} : {}", rng.u8(1..5), verdict(rng))),
        _ => ("roads", format!("{} : {}", net(rng), verdict(rng))),
    }
}

fn command(rng: &mut Rng) -> String {
    let mut all = String::new();
    for _ in 0..rng.u8(1..4) {
        let (set, element) = element(rng);
        let word = pick(rng, &["add", "add", "add", "create", "delete", "destroy"]);
        let line = match rng.u8(..24) {
            0 => format!("flush set netdev t {}", pick(rng, &["plain", "nets", "pairs", "areas"])),
            1 => format!("add rule netdev t in {}", rule(rng)),
            2 => format!("insert rule netdev t in {}", rule(rng)),
            _ => format!("{word} element netdev t {set} {{ {element} }}"),
        };
        writeln!(all, "{line}").unwrap();
    }
    all
}

/// Random rules with sets; commands change elements and rules, several at once, and many of them
/// are refused.
#[test]
fn sets_are_those_of_the_interpreter() {
    if !rights::may_load() {
        return;
    }
    let text = |rng: &mut Rng| {
        let rules: String = (0..rng.u8(2..7)).map(|_| rule(rng) + "\n").collect();
        let base = "chain in { type filter hook ingress device \"lan\" priority 0; policy accept;";
        format!("{SETS}{base}\n{rules}}}\n}}\n")
    };
    let step = |pair: &mut Pair, rng: &mut Rng| {
        pair.now += match rng.u8(..12) {
            0 => rng.u64(..30 * SECOND),
            1..=3 => rng.u64(..SECOND),
            _ => 0,
        };
        match rng.u8(..30) {
            0..=7 => {
                let command = command(rng);
                println!("{command}");
                pair.command(&command);
            }
            8 => drop(pair.listed()),
            9..=12 => return Step::Frame(frame6(rng.u16(1..5), rng.u8(0..12))),
            _ => return Step::Frame(frame(rng.u16(1..12), rng.u8(0..12))),
        }
        Step::Done
    };
    random_runs(200, Pair::at_tcx, text, step, |pair| drop(pair.listed()));
}

/// After the first change of elements the same two programs serve all others.
#[test]
fn elements_change_without_a_new_program() {
    if !rights::may_load() {
        return;
    }
    let base = "chain in { type filter hook ingress device \"lan\" priority 0; policy accept;";
    let rules = "ip saddr @plain drop; ip saddr @nets drop; udp dport @ports drop; \
        ip saddr @timed drop; udp dport vmap @ways;";
    let mut pair = Pair::new(&format!("{SETS}{base}\n{rules}\n}}\n}}\n"));
    let drops = |pair: &mut Pair, host: u8| assert!(!pair.frame(&frame(9, host)), "{host}");
    let passes = |pair: &mut Pair, host: u8| assert!(pair.frame(&frame(9, host)), "{host}");
    drops(&mut pair, 1);
    passes(&mut pair, 20);
    for (command, host, passed) in [
        ("add element netdev t plain { 198.18.0.20 }", 20, false),
        ("delete element netdev t plain { 198.18.0.20 }", 20, true),
        ("add element netdev t nets { 198.18.0.16/28 }", 20, false),
        ("delete element netdev t nets { 198.18.0.16/28 }", 20, true),
        ("add element netdev t timed { 198.18.0.20 timeout 5s }", 20, false),
        ("add element netdev t ports { 9 }", 30, false),
        ("flush set netdev t ports", 30, true),
        ("add element netdev t ways { 9 : drop }", 30, false),
        ("delete element netdev t ways { 9 }\nadd element netdev t ways { 9 : accept }", 30, true),
        ("add element netdev t plain { 198.18.1.0-198.18.1.200 }", 30, true),
    ] {
        pair.command(command);
        if passed { passes(&mut pair, host) } else { drops(&mut pair, host) }
    }
    pair.now += 6 * SECOND;
    passes(&mut pair, 20);
    assert_eq!(pair.loaded, 2);
}

/// Many intervals, and concatenations of intervals, that come and go a few at a time: they are in the
/// same two maps, which fill and empty.
#[test]
fn many_intervals_come_and_go() {
    if !rights::may_load() {
        return;
    }
    let mut pair = Pair::at_tcx(
        "table netdev t {\n set i { type ipv4_addr; flags interval; size 6000; }\n\
         set c { typeof ip saddr . udp dport; flags interval; size 6000; }\n\
         chain in { type filter hook ingress device \"lan\" priority 0; policy accept;\n\
         ip saddr @i counter drop; ip saddr . udp dport @c counter drop; }\n}\n",
    );
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    // Each is in a piece of eight addresses of its own.
    let mut there = vec![[false; 2]; 2048];
    let text = |set: usize, n: usize| {
        let (a, b, from) = (n / 32 / 256, n / 32 % 256, n % 32 * 8);
        let (first, last) = (format!("198.{}.{b}.{}", 18 + a, from + n % 3), from + 3 + n % 5);
        match set {
            0 => format!("{first}-198.{}.{b}.{last}", 18 + a),
            _ => format!("{first}-198.{}.{b}.{last} . {}-{}", 18 + a, n % 7, n % 7 + n % 4),
        }
    };
    let mut dropped = 0;
    for round in 0..penstock_testkit::rounds(120) {
        // They grow in number, shrink, and grow again.
        let grows = round / 40 % 2 == 0;
        let mut commands = String::new();
        let few = if round % 10 == 0 { 300 } else { 12 };
        for set in 0..2 {
            let (mut new, mut gone) = (Vec::new(), Vec::new());
            for _ in 0..few {
                let n = rng.usize(..there.len());
                let is = &mut there[n][set];
                if *is == grows || rng.u8(..4) == 0 {
                    continue;
                }
                *is = grows;
                if grows { new.push(text(set, n)) } else { gone.push(text(set, n)) }
            }
            let name = ["i", "c"][set];
            for (word, all) in [("add", new), ("delete", gone)] {
                if !all.is_empty() {
                    let all = all.join(", ");
                    writeln!(commands, "{word} element netdev t {name} {{ {all} }}").unwrap();
                }
            }
        }
        pair.command(&commands);
        for _ in 0..20 {
            let (n, port) = (rng.usize(..there.len()), rng.u16(..12));
            let (a, b) = (n / 32 / 256, n / 32 % 256);
            let from = format!("198.{}.{b}.{}", 18 + a, n % 32 * 8 + rng.usize(..8));
            let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
            let packet = Ipv4::new(&*from, "198.19.0.1") / Udp::new(5000, port);
            dropped += usize::from(!pair.frame(&(link / packet / payload(vec![7; 20])).build()));
        }
    }
    assert!(dropped > 100, "seed {seed}: {dropped}");
    assert_eq!(pair.loaded, 2, "seed {seed}");
}

/// A set that outgrows its room gets another map, and one that is full gets no more.
#[test]
fn sets_grow() {
    if !rights::may_load() {
        return;
    }
    let mut pair = Pair::new(
        "table netdev t {\n set s { type ipv4_addr; }\n set i { type ipv4_addr; flags interval; }\n\
         chain c { type filter hook ingress device \"lan\" priority 0; policy accept;\n\
         ip saddr @s counter drop; ip daddr @i counter drop; }\n}\n",
    );
    for n in 0..40_u32 {
        let elements = |every: u32| -> String {
            let of = |m: u32| format!("198.18.{}.{}, ", n, m * every);
            (0..60).map(of).collect()
        };
        pair.command(&format!("add element netdev t s {{ {} }}", elements(1)));
        pair.command(&format!("add element netdev t i {{ {} }}", elements(2)));
        assert!(!pair.frame(&frame(1, n as u8 + 1)));
    }
    assert!((3..30).contains(&pair.loaded), "{}", pair.loaded);
}

/// Prints how long it takes to put one element of a set of so many into the kernel.
#[test]
#[ignore = "a measurement"]
fn time_of_a_change_of_one_element() {
    if !rights::may_load() {
        return;
    }
    let address = |n: u32| format!("198.{}.{}.{}", 18 + (n >> 16), n >> 8 & 255, n & 255);
    for (kind, of) in [
        ("addresses", "type ipv4_addr;"),
        ("intervals", "type ipv4_addr; flags interval;"),
        ("concatenations", "typeof ip saddr . udp dport; flags interval;"),
    ] {
        for count in [1_000, 100_000] {
            let element = |n: u32| match kind {
                "addresses" => address(n),
                "intervals" => format!("{}/31", address(n / 2 * 4 + 65_536 * (n % 2))),
                _ => format!("{} . {}", address(n), n % 60_000),
            };
            let key = if kind == "concatenations" { "ip saddr . udp dport" } else { "ip saddr" };
            let all: Vec<String> = (0..count).map(element).collect();
            let mut pair = Pair::new(&format!(
                "table netdev t {{ set s {{ {of} elements = {{ {} }}; }}\nchain in {{ type filter hook \
                 ingress device \"lan\" priority 0; {key} @s drop; }}\n}}\n",
                all.join(", ")
            ));
            let mut times: Vec<_> = (0..21)
                .map(|n| {
                    let word = if n % 2 == 0 { "delete" } else { "add" };
                    pair.timed(&format!("{word} element netdev t s {{ {} }}", element(count / 2)))
                })
                // The other generation has none yet.
                .skip(1)
                .collect();
            times.sort();
            println!("{kind}, {count}: least {:?}, median {:?}", times[0], times[times.len() / 2]);
        }
    }
}
