// SPDX-License-Identifier: Apache-2.0

//! Rate of the one-rule program of `udp dport 9 drop` at netdev ingress, and of linear chains that
//! do not match.
//!
//! `cargo bench -p penstock-program`

use std::hint::black_box;
use std::time::Instant;

use penstock_packet::Packet;
use penstock_program::Family;
use penstock_program::image::ChainIndex;
use penstock_program::{Hook, Outcome, run};
use penstock_testkit::build::*;
use penstock_testkit::program::{MockEnv, Table, parse};

const DROP_PORT_9: &str = "[ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ immediate reg 0 drop ]";

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

fn measure(name: &str, rules: Vec<&str>, dport: u16, rounds: usize) {
    let programs = rules.iter().map(|text| parse::program(text).expect("a program")).collect();
    let (image, _) = Table::of(programs).link(Family::Netdev).expect("a linked table");
    let mut packets = packets(256, dport);
    let mut outside = MockEnv::at(Family::Netdev, Hook::Ingress);
    let mut best = f64::MAX;
    let mut drops = 0u64;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..rounds {
            for packet in &mut packets {
                let outcome = run(&image, ChainIndex(0), black_box(packet), &mut outside);
                drops += u64::from(matches!(outcome, Outcome::Drop(_)));
            }
        }
        let packets = (rounds * packets.len()) as f64;
        best = best.min(start.elapsed().as_secs_f64() / packets);
    }
    black_box(drops);
    println!("{name}: {:.1} ns per packet, {:.2} Mpps", best * 1e9, 1e-6 / best);
}

fn main() {
    measure("udp dport 9 drop, matching", vec![DROP_PORT_9], 9, 4000);
    measure("udp dport 9 drop, not matching", vec![DROP_PORT_9], 10, 4000);
    let counted = format!("[ counter pkts 0 bytes 0 ]\n{DROP_PORT_9}");
    measure("counter udp dport 9 drop", vec![&counted], 9, 4000);
    let source = "[ meta load protocol => reg 1 ]
        [ cmp eq reg 1 0x00000008 ]
        [ payload load 4b @ network header + 12 => reg 1 ]
        [ cmp eq reg 1 0x01010101 ]
        [ immediate reg 0 drop ]";
    for rules in [10, 100, 1000] {
        measure(
            &format!("ip saddr X drop, {rules} rules, none matching"),
            vec![source; rules],
            9,
            20_000 / rules,
        );
    }
}
