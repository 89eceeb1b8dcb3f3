// SPDX-License-Identifier: Apache-2.0

//! Rules with state, in the kernel and in the interpreter at the same times: verdicts, listings,
//! resets, and generations that follow each other.

mod pair;
mod rights;

use std::fmt::Write;

use fastrand::Rng;
use pair::{Pair, Step, random_runs};
use penstock_ebpf::rules::SharedStates;
use penstock_ruleset::Ruleset;
use penstock_testkit::build::*;

const SECOND: u64 = 1_000_000_000;

fn frame(port: u16, host: u8, len: usize) -> Vec<u8> {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let ip = Ipv4::new(&*format!("198.18.0.{host}"), "198.19.0.1");
    (link / ip / Udp::new(5000, port) / payload(vec![7; len])).build()
}

const RULESET: &str = "table netdev t {
    quota q { over 900 bytes }
    quota u { 5000 bytes used 1200 bytes }
    limit l { rate 3/second burst 2 packets }
    counter c { packets 5 bytes 500 }
    chain in { type filter hook ingress device \"lan\" priority 0; policy accept;
";

fn statement(rng: &mut Rng) -> String {
    let over = |rng: &mut Rng| if rng.bool() { "over " } else { "" };
    let unit = ["second", "minute", "hour", "day", "week"];
    match rng.u8(..9) {
        0 => format!("limit rate {}{}/{}", over(rng), rng.u32(1..9), rng.choice(unit).unwrap()),
        1 => format!(
            "limit rate {}{}/{} burst {} packets",
            over(rng),
            rng.u32(1..900),
            rng.choice(unit).unwrap(),
            rng.u32(1..6)
        ),
        2 => format!(
            "limit rate {}{} bytes/{} burst {} bytes",
            over(rng),
            rng.u32(1..2000),
            rng.choice(["second", "minute"]).unwrap(),
            rng.u32(1..3000)
        ),
        3 => format!("quota {}{} bytes", over(rng), rng.u32(1..6000)),
        4 => "last".into(),
        5 => "quota name \"q\"".into(),
        6 => "quota name \"u\"".into(),
        7 => "limit name \"l\"".into(),
        _ => "counter name \"c\"".into(),
    }
}

fn rule(rng: &mut Rng) -> String {
    let mut rule = String::new();
    for matching in [format!("udp dport {}", rng.u8(1..4)), "ip saddr 198.18.0.1-198.18.0.2".into()]
    {
        if rng.u8(..3) == 0 {
            write!(rule, "{matching} ").unwrap();
        }
    }
    for _ in 0..rng.u8(1..3) {
        write!(rule, "{} ", statement(rng)).unwrap();
    }
    rule.push_str(rng.choice(["counter", "counter drop", "counter accept", "drop"]).unwrap());
    rule
}

/// Random rules with state; between frames time goes on, rules come and go, and states are reset.
#[test]
fn states_are_those_of_the_interpreter() {
    if !rights::may_load() {
        return;
    }
    let text = |rng: &mut Rng| {
        let rules: String = (0..rng.u8(1..7)).map(|_| rule(rng) + "\n").collect();
        format!("{RULESET}{rules}}}\n}}\n")
    };
    let step = |pair: &mut Pair, rng: &mut Rng| {
        pair.now += match rng.u8(..12) {
            0 => rng.u64(..100_000 * SECOND),
            1..=3 => rng.u64(..3 * SECOND),
            4..=6 => rng.u64(..SECOND / 5),
            _ => 0,
        };
        match rng.u8(..40) {
            0 => drop(pair.command(&format!("add rule netdev t in {}", rule(rng)))),
            1 => drop(pair.command(&format!("insert rule netdev t in {}", rule(rng)))),
            2 => {
                let handle = rng.u8(6..14);
                pair.command(&format!("delete rule netdev t in handle {handle}"));
            }
            3 => drop(pair.command("reset quotas")),
            4 => drop(pair.command("reset rules")),
            5 => drop(pair.command("reset counters")),
            6 => drop(pair.listed()),
            _ => return Step::Frame(frame(rng.u16(1..5), rng.u8(1..5), rng.usize(..600))),
        }
        Step::Done
    };
    random_runs(120, Pair::new, text, step, |pair| drop(pair.listed()));
}

/// What a ruleset says to begin with is not lost, and is not counted twice.
#[test]
fn values_to_begin_with_go_on() {
    if !rights::may_load() {
        return;
    }
    let text =
        "quota name u; counter name c; quota 100 bytes used 50 bytes counter packets 7 bytes 9;";
    let mut pair =
        Pair::new(&format!("{RULESET}{}}}\n}}\n", text.replace("; ", "\n").replace(';', "\n")));
    for _ in 0..3 {
        pair.frame(&frame(9, 1, 0));
    }
    let listed = pair.listed();
    for wanted in
        ["5000 bytes used 1284 bytes", "quota 100 bytes used 100 bytes", "packets 8 bytes 37"]
    {
        assert!(listed.contains(wanted), "{wanted}: {listed}");
    }
}

/// More counters than a value of their map holds, in rules and in elements of a set, and programs
/// of the next generation, for which there was no room.
#[test]
fn many_counters_count_each_for_itself() {
    if !rights::may_load() {
        return;
    }
    let elements: String = (0..3000)
        .map(|n| format!("10.0.{}.{}, 198.18.0.{}, ", n / 250, n % 250, n % 200))
        .collect();
    let rules: String = (0..2500).map(|n| format!("udp dport {} counter\n", n % 900 + 1)).collect();
    let ruleset = |more: &str| {
        format!(
            "table netdev t {{ set s {{ type ipv4_addr; counter; elements = {{ {elements} }}; }}
             chain in {{ type filter hook ingress device \"lan\" priority 0;\n{more}{rules}ip saddr @s counter accept\n}}\n}}"
        )
    };
    let mut pair = Pair::new(&ruleset(""));
    for n in 0..40 {
        pair.frame(&frame(n % 7 * 140 + 1, n as u8, 3));
    }
    assert!(pair.listed().contains("198.18.0.39 counter packets 1 bytes 31"));
    let more: String =
        (0..2000).map(|n| format!("add rule netdev t in udp sport {n} counter\n")).collect();
    pair.command(&more);
    for n in 0..40 {
        pair.frame(&frame(n % 7 * 140 + 1, n as u8, 3));
    }
    assert!(pair.listed().contains("198.18.0.39 counter packets 2 bytes 62"));
}

/// Several processors share a bucket: of many packets at the same time as many are within the limit
/// as its burst says, and all are in the quota.
#[test]
fn processors_share_limits_and_quotas() {
    if !rights::may_load() {
        return;
    }
    let text = "table netdev t {
        quota q { 1000 mbytes; }
        chain in { type filter hook ingress device \"lan\" priority 0;
            quota name q
            limit rate 1/week burst 500 packets counter accept
            counter drop
        }
        }";
    let mut ruleset = Ruleset::default();
    pair::nft(&mut ruleset, text, 0).unwrap();
    let states = SharedStates::new().unwrap();
    let compiled = pair::compiled(&ruleset, &states).unwrap();
    let (program, mut counters) = compiled.load("rules").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| program.run(&frame(9, 1, 0), 0, 50_000).unwrap());
        }
    });
    states.sync(0).unwrap();
    counters.collect().unwrap();
    let listed = pair::nft(&mut ruleset, "list ruleset", 0).unwrap();
    assert!(listed.contains("counter packets 500 bytes 14000 accept"), "{listed}");
    assert!(listed.contains("counter packets 199500 bytes"), "{listed}");
    assert!(listed.contains("1000 mbytes used 5600000 bytes"), "{listed}");
}
