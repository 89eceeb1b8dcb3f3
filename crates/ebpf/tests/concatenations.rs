// SPDX-License-Identifier: Apache-2.0

//! Many concatenations of intervals that a program is made with, in the kernel and in the
//! interpreter: in a rule, in a map whose elements overlap, and with counters.

mod pair;
mod rights;

use fastrand::Rng;
use pair::{Pair, compiled, nft};
use penstock_ebpf::rules::SharedStates;
use penstock_ruleset::Ruleset;
use penstock_testkit::build::*;

fn frame(from: &str, port: u16) -> Vec<u8> {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    (link / Ipv4::new(from, "198.19.0.1") / Udp::new(5000, port) / payload(vec![7; 20])).build()
}

/// Elements in pieces of eight addresses each.
fn elements(rng: &mut Rng, count: usize) -> Vec<String> {
    let element = |n: usize, rng: &mut Rng| {
        let (net, from) = (n / 32, n % 32 * 8);
        let hosts = match rng.u8(..3) {
            0 => format!("198.18.{net}.{}-198.18.{net}.{}", from + 1, from + rng.usize(2..8)),
            1 => format!("198.18.{net}.{from}/30"),
            _ => format!("198.18.{net}.{}", from + rng.usize(..8)),
        };
        let port = rng.u16(1..9);
        match rng.bool() {
            true => format!("{hosts} . {port}-{}", port + rng.u16(1..6)),
            false => format!("{hosts} . {port}"),
        }
    };
    (0..count).map(|n| element(n, rng)).collect()
}

#[test]
fn many_concatenations_of_intervals_are_those_of_the_interpreter() {
    if !rights::may_load() {
        return;
    }
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    let [first, second] = [(); 2].map(|()| elements(&mut rng, 400).join(", "));
    // Of those that overlap, the first counts.
    let crossing: Vec<String> = (0..70)
        .flat_map(|n| {
            [
                format!("198.18.{n}.1-198.18.{n}.9 . 5 : {}", n % 3 + 1),
                format!("198.18.{n}.4 . 1-9 : {}", n % 4 + 1),
            ]
        })
        .collect();
    let mut pair = Pair::at_tcx(&format!(
        "table netdev t {{\n\
         set counted {{ typeof ip saddr . udp dport; flags interval; counter; elements = {{ {second} }}; }}\n\
         chain in {{ type filter hook ingress device \"lan\" priority 0; policy accept;\n\
         meta mark set ip saddr . udp dport map {{ {} }} meta mark 2 counter drop\n\
         ip saddr . udp dport @counted counter\n\
         ip saddr . udp dport {{ {first} }} counter drop\n}}\n}}\n",
        crossing.join(", ")
    ));
    let mut dropped = 0;
    for _ in 0..1500 {
        let from = format!("198.18.{}.{}", rng.u8(..14), rng.u8(..12) + rng.u8(..32) / 4 * 8);
        dropped += usize::from(!pair.frame(&frame(&from, rng.u16(1..12))));
    }
    drop(pair.listed());
    assert!((100..1400).contains(&dropped), "seed {seed}: {dropped}");
}

/// What is too varied for a hash, and for comparisons.
#[test]
fn too_many_lengths_of_prefixes_are_refused() {
    if !rights::may_load() {
        return;
    }
    // Two arbitrary ranges are up to 30 by 14 lengths of prefixes.
    let apart = |n: u32| {
        // From 1 to 23 free bits on, and ports from 1 to 14 free bits on.
        let (bits, net) = (n % 23, 20 + n % 200);
        let last = (1_u32 << bits) + 1;
        let (b, c, d) = (last >> 16 & 255, last >> 8 & 255, last & 255);
        let ports = n / 200 * 32_000;
        format!("{net}.0.0.1-{net}.{b}.{c}.{d} . {}-{}", ports + 1, ports + 2 + (1 << (n % 14)))
    };
    let all: Vec<String> = (0..400).map(apart).collect();
    let mut ruleset = Ruleset::default();
    let text = format!(
        "table netdev t {{ chain in {{ type filter hook ingress device \"lan\" priority 0;\n\
         ip saddr . udp dport {{ {} }} drop\n}}\n}}\n",
        all.join(", ")
    );
    nft(&mut ruleset, &text, 0).unwrap();
    let refused = compiled(&ruleset, &SharedStates::new().unwrap()).unwrap_err();
    assert!(refused.reason.contains("combinations of prefix lengths"), "{refused}");
}
