// SPDX-License-Identifier: Apache-2.0

//! Programs in the interpreter and as machine code, and what compiling takes.
//!
//! `cargo bench -p penstock-jit`
//!
//! Each figure is the best of some rounds over 256 packets in cache, all of one list: the
//! interpreter, compiled code called for each packet, compiled code called for a burst.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use penstock_jit::{Bursts, Compiled, Entry, Helpers, List, Options, PackedDecision, compile};
use penstock_packet::Packet;
use penstock_program::Family;
use penstock_program::image::{
    ChainIndex, Image, LinkedData, LinkedElements, LinkedSet, LinkedValue,
};
use penstock_program::{Expr, Hook, Outcome, run};
use penstock_sets::{Description, Element, Set};
use penstock_testkit::build::*;
use penstock_testkit::program::{MockEnv, Table, parse};

const UDP_DPORT: &str = "[ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]";
const IP_SADDR: &str = "[ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 12 => reg 1 ]";
const IP_DADDR: &str = "[ meta load protocol => reg 1 ]
    [ cmp eq reg 1 0x00000008 ]
    [ payload load 4b @ network header + 16 => reg 1 ]";
const DROP: &str = "[ immediate reg 0 drop ]";

fn packets(count: u16, dport: u16) -> Vec<Packet> {
    let packet = |n| {
        let mut packet = Packet::new();
        let ip = Ipv4::new("198.18.0.1", "198.18.0.2");
        let frame =
            Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02") / ip / Udp::new(n, dport);
        packet.load(&frame.build(), 14);
        packet.meta.protocol = 0x0800;
        packet.find_transport_checked();
        packet
    };
    (0..count).map(packet).collect()
}

fn program(text: &str) -> Vec<Expr> {
    parse::program(text).expect("a program")
}

/// `ip saddr` or `ip daddr` in turn against addresses that no packet has.
fn mixed(n: usize) -> Vec<Vec<Expr>> {
    let rule = |i: usize| {
        let load = if i.is_multiple_of(2) { IP_SADDR } else { IP_DADDR };
        program(&format!("{load}\n[ cmp eq reg 1 0x{:08x} ]\n{DROP}", 0x0101_0000 + i))
    };
    (0..n).map(rule).collect()
}

/// `ip saddr` against addresses that no packet has.
fn linear(n: usize) -> Vec<Vec<Expr>> {
    let rule = |i: usize| {
        program(&format!("{IP_SADDR}\n[ cmp eq reg 1 0x{:08x} ]\n{DROP}", 0x0101_0000 + i))
    };
    (0..n).map(rule).collect()
}

/// `ip saddr` against prefixes and `udp dport` against ranges.
fn ranges(n: usize) -> Vec<Vec<Expr>> {
    let rule = |i: usize| {
        let port = format!("{:04x}", ((100 + i % 30000) as u16).swap_bytes());
        program(&format!(
            "{IP_SADDR}\n[ bitwise reg 1 = ( reg 1 & 0x00ffffff ) ^ 0x00000000 ]
            [ cmp eq reg 1 0x{:08x} ]\n{UDP_DPORT}\n[ range eq reg 1 0x0000{port} 0x0000ffff ]\n{DROP}",
            i % 0xffff
        ))
    };
    (0..n).map(rule).collect()
}

fn ports(count: u16) -> LinkedSet {
    let mut set = Set::new(Description { key_len: 2, ..Description::default() }).expect("a set");
    for port in 0..count {
        let value = LinkedValue { data: LinkedData::None, statements: Box::default() };
        let key = (1000 + port).to_be_bytes().to_vec().into();
        set.insert(Element { key, key_end: None, value, expires_at: None }, 0).expect("an element");
    }
    set.commit();
    LinkedSet { elements: LinkedElements::Fixed(Arc::new(set)), key_len: 2, value_len: None }
}

/// A table and how many of its chains are in the list.
fn linked(table: &Table, lookups: bool) -> Arc<Image> {
    let (mut image, _) = table.link(Family::Netdev).expect("a linked table");
    if lookups {
        image.force_lookups(8);
    }
    Arc::new(image)
}

fn best(rounds: usize, packets: usize, mut once: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..9 {
        let start = Instant::now();
        for _ in 0..rounds {
            once();
        }
        best = best.min(start.elapsed().as_secs_f64() / (rounds * packets) as f64);
    }
    best * 1e9
}

fn compiled(image: &Arc<Image>, lists: &[List]) -> Compiled {
    compile(image.clone(), lists, Helpers::of::<MockEnv>(), Options::default())
        .expect("machine code")
}

fn measure(name: &str, table: &Table, bases: u32, dport: u16, rounds: usize) {
    let mut packets = packets(256, dport);
    let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
    let (plain, looking) = (linked(table, false), linked(table, true));
    let entries: Vec<_> =
        (0..bases).map(|i| Entry::Chain { chain: ChainIndex(i), family: Family::Netdev }).collect();
    let mut interpret = |image: &Image| {
        best(rounds, packets.len(), || {
            for packet in &mut packets {
                for chain in 0..bases {
                    if matches!(
                        run(image, ChainIndex(chain), black_box(packet), &mut outside),
                        Outcome::Drop(_)
                    ) {
                        break;
                    }
                }
            }
        })
    };
    let interpreted = interpret(&plain);
    let looked_up = interpret(&looking);
    let list = List { entries, bursts: Bursts::Always, ..List::default() };
    let start = Instant::now();
    let compiled = compiled(&looking, std::slice::from_ref(&list));
    let took = start.elapsed().as_secs_f64() * 1e3;
    let code = compiled.bind::<MockEnv>().expect("this host");
    let single = best(rounds, packets.len(), || {
        for packet in &mut packets {
            black_box(code.run(0, black_box(packet), &mut outside));
        }
    });
    let mut decisions = vec![PackedDecision::default(); packets.len()];
    let bursts = best(rounds, packets.len(), || {
        code.run_burst(0, black_box(&mut packets), &mut outside, &mut decisions);
    });
    println!(
        "{name:34} {interpreted:9.1} {looked_up:9.1} {single:9.1} {bursts:9.2}   x{:<6.1} {:8.1} KiB {took:8.2} ms",
        interpreted / bursts,
        compiled.size() as f64 / 1024.0
    );
}

fn main() {
    println!(
        "nanoseconds per packet            interpreter   lookups  compiled     burst   ratio     code  compiling"
    );
    let one =
        || Table::of(vec![program(&format!("{UDP_DPORT}\n[ cmp eq reg 1 0x00000900 ]\n{DROP}"))]);
    measure("udp dport 9 drop, matching", &one(), 1, 9, 2000);
    measure("udp dport 9 drop, not matching", &one(), 1, 10, 2000);
    let counted = program(&format!(
        "{UDP_DPORT}\n[ cmp eq reg 1 0x00000900 ]\n[ counter pkts 0 bytes 0 ]\n{DROP}"
    ));
    measure("udp dport 9 counter drop", &Table::of(vec![counted]), 1, 9, 2000);
    let mut three = one();
    three.chains = (0..3).map(|i| (format!("c{i}").into(), three.chains[0].1.clone())).collect();
    measure("3 chains, udp dport 9 drop, none", &three, 3, 10, 2000);
    for elements in [4, 384] {
        let mut table =
            Table::of(vec![program(&format!("{UDP_DPORT}\n[ lookup reg 1 set s ]\n{DROP}"))]);
        table.sets.insert("s".into(), ports(elements));
        measure(&format!("udp dport of {elements} drop, none"), &table, 1, 9, 2000);
    }
    for n in [10, 100, 1000] {
        measure(&format!("{n} ip saddr"), &Table::of(linear(n)), 1, 9, 20_000 / n);
        measure(&format!("{n} ip saddr or ip daddr"), &Table::of(mixed(n)), 1, 9, 20_000 / n);
        measure(&format!("{n} prefixes and port ranges"), &Table::of(ranges(n)), 1, 9, 20_000 / n);
    }
    measure("10000 ip saddr", &Table::of(linear(10_000)), 1, 9, 3);
    measure("10000 ip saddr or ip daddr", &Table::of(mixed(10_000)), 1, 9, 3);
    measure("10000 prefixes and port ranges", &Table::of(ranges(10_000)), 1, 9, 3);
}
