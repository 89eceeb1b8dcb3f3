// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change, in the kernel and in the interpreter at the same times: verdicts,
//! elements with their expiry and statements, commands, and generations that follow each other.

mod pair;
mod rights;

use std::fmt::Write;

use fastrand::Rng;
use pair::{Pair, Step, random_runs};
use penstock_testkit::build::*;

const SECOND: u64 = 1_000_000_000;

fn frame(port: u16, host: u8, len: usize) -> Vec<u8> {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let ip = Ipv4::new(&*format!("198.18.0.{host}"), "198.19.0.1");
    (link / ip / Udp::new(5000, port) / payload(vec![7; len])).build()
}

const SETS: &str = "table netdev t {
    set plain { type ipv4_addr; flags dynamic; size 100; elements = { 198.18.0.1, 198.18.0.9 }; }
    set timed { type ipv4_addr; flags dynamic,timeout; timeout 20s; size 100; elements = { 198.18.0.2, 198.18.0.3 timeout 1h expires 50m }; }
    set small { type inet_service; flags dynamic; size 2; }
    set counted { type ipv4_addr . inet_service; flags dynamic,timeout; size 100; counter; elements = { 198.18.0.1 . 2 counter packets 3 bytes 300 }; }
    set rated { type ipv4_addr; flags dynamic,timeout; size 100; timeout 1m; }
    set names { typeof ether saddr . ip saddr; flags dynamic; size 100; quota 900 bytes last; }
    map marks { type ipv4_addr : inet_service; flags dynamic,timeout; size 100; elements = { 198.18.0.4 : 3 }; }
    map long { type ipv4_addr : ipv6_addr; flags dynamic; size 100; counter; }
    chain unused {
        add @plain { ip saddr }
        add @timed { ip saddr }
        add @small { udp dport }
        add @counted { ip saddr . udp dport }
        add @rated { ip saddr }
        add @names { ether saddr . ip saddr }
        add @marks { ip saddr : udp dport }
        add @long { ip saddr : 2001:db8::7 }
    }
    chain in { type filter hook ingress device \"lan\" priority 0; policy accept;
";

fn statement(rng: &mut Rng) -> String {
    let timeouts = ["", "", " timeout 1s", " timeout 30s", " timeout 2h"];
    let timeout = |rng: &mut Rng| -> &str { rng.choice(timeouts).unwrap() };
    let change = |rng: &mut Rng| -> &str { rng.choice(["add", "update"]).unwrap() };
    match rng.u8(..14) {
        0 => format!("{} @plain {{ ip saddr }}", rng.choice(["add", "update", "delete"]).unwrap()),
        1 => format!("{} @timed {{ ip saddr{} }}", change(rng), timeout(rng)),
        2 => "delete @timed { ip saddr }".into(),
        3 => "add @small { udp dport }".into(),
        4 => format!("{} @counted {{ ip saddr . udp dport{} }}", change(rng), timeout(rng)),
        5 => format!(
            "{} @rated {{ ip saddr{} limit rate {}{}/{} burst {} packets }}",
            change(rng),
            timeout(rng),
            rng.choice(["", "over "]).unwrap(),
            rng.u8(1..9),
            rng.choice(["second", "minute"]).unwrap(),
            rng.u8(1..5),
        ),
        6 => format!(
            "{} @rated {{ ip saddr counter quota over {} bytes }}",
            change(rng),
            rng.u16(1..2000)
        ),
        7 => format!("{} @names {{ ether saddr . ip saddr }}", change(rng)),
        8 => format!("{} @marks {{ ip saddr{} : udp dport }}", change(rng), timeout(rng)),
        9 => "add @long { ip saddr : 2001:db8::7 }".into(),
        10 => format!("ip saddr {}@plain", rng.choice(["", "!= "]).unwrap()),
        11 => format!("ip saddr {}@timed", rng.choice(["", "!= "]).unwrap()),
        12 => "ip saddr . udp dport @counted".into(),
        _ => "ip saddr @rated".into(),
    }
}

fn rule(rng: &mut Rng) -> String {
    let mut rule = String::new();
    if rng.u8(..4) == 0 {
        write!(rule, "udp dport {} ", rng.u8(1..4)).unwrap();
    }
    for _ in 0..rng.u8(1..3) {
        let statement = statement(rng);
        write!(rule, "{statement} ").unwrap();
    }
    rule.push_str(rng.choice(["counter", "counter drop", "counter accept", "drop"]).unwrap());
    rule
}

fn command(rng: &mut Rng) -> String {
    let host = rng.u8(1..12);
    match rng.u8(..13) {
        0 => format!("add element netdev t plain {{ 198.18.0.{host} }}"),
        1 => format!("delete element netdev t plain {{ 198.18.0.{host} }}"),
        2 => format!("add element netdev t timed {{ 198.18.0.{host} timeout 5m }}"),
        3 => format!("destroy element netdev t timed {{ 198.18.0.{host} }}"),
        4 => format!("add element netdev t marks {{ 198.18.0.{host} : {} }}", rng.u8(1..5)),
        5 => format!("add element netdev t counted {{ 198.18.0.{host} . {} }}", rng.u8(1..5)),
        6 => "flush set netdev t counted".into(),
        7 => "reset set netdev t names".into(),
        8 => "reset set netdev t counted".into(),
        9 => format!(
            "destroy element netdev t marks {{ 198.18.0.{host} }}\n\
             add element netdev t marks {{ 198.18.0.{host} : {} }}",
            rng.u8(1..5)
        ),
        10 => format!("delete rule netdev t in handle {}", rng.u8(18..26)),
        _ => format!("add rule netdev t in {}", rule(rng)),
    }
}

/// Lines of a listing, with elements in one order.
fn sorted(listed: &str) -> Vec<String> {
    let mut words: Vec<_> = listed.split([',', '\n']).map(|s| s.trim().to_owned()).collect();
    words.sort();
    words
}

/// Random rules with sets; between frames time goes on, and commands change rules and elements.
#[test]
fn sets_are_those_of_the_interpreter() {
    if !rights::may_load() {
        return;
    }
    let text = |rng: &mut Rng| {
        let rules: String = (0..rng.u8(1..7)).map(|_| rule(rng) + "\n").collect();
        format!("{SETS}{rules}}}\n}}\n")
    };
    let step = |pair: &mut Pair, rng: &mut Rng| {
        pair.now += match rng.u8(..12) {
            0 => rng.u64(..4000 * SECOND),
            1..=2 => rng.u64(..30 * SECOND),
            3..=6 => rng.u64(..SECOND),
            _ => 0,
        };
        match rng.u8(..30) {
            0..=2 => {
                let command = command(rng);
                println!("{command}");
                pair.command(&command);
            }
            3 => drop(pair.listed_by(sorted)),
            _ => return Step::Frame(frame(rng.u16(1..5), rng.u8(1..12), rng.usize(..600))),
        }
        Step::Done
    };
    random_runs(150, Pair::new, text, step, |pair| drop(pair.listed_by(sorted)));
}

/// What a packet has put into a map is loaded by the next, and a full set breaks the rule.
#[test]
fn packets_find_what_packets_have_added() {
    if !rights::may_load() {
        return;
    }
    let text = "table netdev t {
        map marks { type ipv4_addr : mark; flags dynamic; size 2; elements = { 198.18.0.1 : 3 }; }
        chain in { type filter hook ingress device \"lan\" priority 0;
            meta mark set ip saddr map @marks
            meta mark 3 drop
            add @marks { ip saddr : 3 } accept
            drop
        }
        }";
    let mut ruleset = penstock_ruleset::Ruleset::default();
    pair::nft(&mut ruleset, text, 0).unwrap();
    let states = penstock_ebpf::rules::SharedStates::new().unwrap();
    let compiled = pair::compiled_at_tcx(&ruleset, &states).unwrap();
    let (program, _) = compiled.load("rules").unwrap_or_else(|e| panic!("{e}\n{}", e.log));
    states.sync(0).unwrap();
    let dropped = |host| {
        let ran = program.run(&frame(9, host, 0), 0, 1).unwrap();
        ran.verdict == penstock_bpf::tcx::DROP
    };
    // The first is there, the second is added, for the third there is no place.
    assert_eq!([1, 2, 2, 3, 1].map(dropped), [true, false, true, true, true]);
    states.sync(0).unwrap();
    let listed = pair::nft(&mut ruleset, "list ruleset", 0).unwrap();
    assert!(listed.contains("198.18.0.2 : 0x00000003"), "{listed}");
    assert!(!listed.contains("198.18.0.3"), "{listed}");
    // What a client deletes makes place.
    pair::nft(&mut ruleset, "delete element netdev t marks { 198.18.0.1 }", 0).unwrap();
    states.sync(0).unwrap();
    assert_eq!([3, 3, 1].map(dropped), [false, true, true]);
}

/// Of packets of several processors each counts for the element, whoever has added it.
#[test]
fn processors_share_elements() {
    if !rights::may_load() {
        return;
    }
    let text = "table netdev t {
        set s { type ipv4_addr; flags dynamic; size 10; }
        chain in { type filter hook ingress device \"lan\" priority 0;
            add @s { ip saddr counter limit rate 1/week burst 500 packets } counter accept
            counter drop
        }
        }";
    let mut ruleset = penstock_ruleset::Ruleset::default();
    pair::nft(&mut ruleset, text, 0).unwrap();
    let states = penstock_ebpf::rules::SharedStates::new().unwrap();
    let (program, mut counters) = pair::compiled(&ruleset, &states).unwrap().load("rules").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| program.run(&frame(9, 1, 0), 0, 50_000).unwrap());
        }
    });
    states.sync(0).unwrap();
    counters.collect().unwrap();
    let listed = pair::nft(&mut ruleset, "list ruleset", 0).unwrap();
    assert!(listed.contains("198.18.0.1 counter packets 200000 bytes 5600000"), "{listed}");
    assert!(listed.contains("counter packets 500 bytes 14000 accept"), "{listed}");
}

/// A set that takes the place of another with its name is another.
#[test]
fn a_set_made_anew_has_another_program() {
    if !rights::may_load() {
        return;
    }
    let text = "table netdev t {
        set s { type ipv4_addr; flags dynamic; size 10; }
        chain in { type filter hook ingress device \"lan\" priority 0;
            add @s { ip saddr } drop
        }
        }";
    let mut ruleset = penstock_ruleset::Ruleset::default();
    pair::nft(&mut ruleset, text, 0).unwrap();
    let states = penstock_ebpf::rules::SharedStates::new().unwrap();
    let first = pair::compiled(&ruleset, &states).unwrap();
    assert!(first.is_same(&pair::compiled(&ruleset, &states).unwrap()));
    pair::nft(&mut ruleset, &format!("delete table netdev t\n{text}"), 0).unwrap();
    assert!(!first.is_same(&pair::compiled(&ruleset, &states).unwrap()));
}
