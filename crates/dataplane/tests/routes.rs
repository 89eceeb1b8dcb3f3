// SPDX-License-Identifier: Apache-2.0

//! Routing tables by chance: what a packet meets does not depend on the packets before it, whatever
//! was remembered of their routes.

mod router;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use fastrand::Rng;
use penstock_dataplane::{Engine, Frame};
use penstock_net::Network;
use penstock_testkit::build::*;
use router::{NET, START, Seen, from_wan, receive, router};

/// Few different numbers, so that prefixes and destinations meet.
fn some4(rng: &mut Rng) -> u32 {
    let first = [0, 10, 20, 100, 127, 172, 198, 223, 224, 239, 240, 255];
    let byte = |rng: &mut Rng| [0, 1, 18, 255][rng.usize(..4)];
    u32::from_be_bytes([first[rng.usize(..first.len())], byte(rng), byte(rng), byte(rng)])
}

fn some6(rng: &mut Rng) -> u128 {
    let first: [u128; 6] = [0x2001_0db8, 0x2001_0db9, 0x2600_0000, 0xfe80_0000, 0xff0e_0000, 0];
    let rest: [u128; 4] = [0, 1, 0x7 << 64, u128::MAX >> 32];
    first[rng.usize(..first.len())] << 96 | rest[rng.usize(..4)]
}

/// Routes over gateways and links, and some that refuse. None leads back, since redirects are
/// limited in number.
fn network(rng: &mut Rng) -> String {
    let mut net = NET.to_owned();
    if rng.bool() {
        net = net.replace("link set lo up\n", "");
    }
    for _ in 0..rng.u32(..14) {
        let (len4, len6) = (rng.u32(..=32), rng.u32(..=128));
        let mask4 = u32::MAX.checked_shl(32 - len4).unwrap_or(0);
        let mask6 = u128::MAX.checked_shl(128 - len6).unwrap_or(0);
        let prefix4 = Ipv4Addr::from(some4(rng) & mask4);
        let prefix6 = Ipv6Addr::from(some6(rng) & mask6);
        let to4 = [
            "via 198.18.1.7",
            "via 198.18.7.7",
            "via 198.18.1.7 mtu 700",
            "dev lan",
            "nexthop via 198.18.1.7 nexthop via 198.18.7.7",
        ];
        let to6 = ["via 2001:db8:1::7", "via 2001:db8:7::7", "dev lan"];
        let tos = if rng.u8(..8) == 0 { " tos 10" } else { "" };
        let refuses = ["blackhole", "unreachable", "throw"][rng.usize(..3)];
        let lines = [
            format!("route replace {prefix4}/{len4} {}{tos}\n", to4[rng.usize(..5)]),
            format!("-6 route replace {prefix6}/{len6} {}\n", to6[rng.usize(..3)]),
            format!("route replace {refuses} {prefix4}/{len4}\n"),
        ];
        // Some prefixes take the gateways of other routes away.
        let longer = net.clone() + &lines[rng.usize(..3)];
        if Network::from_batch("net.ip", &longer).is_ok() {
            net = longer;
        }
    }
    net
}

/// A packet to one of few destinations.
fn packet(rng: &mut Rng) -> Vec<u8> {
    let udp = Udp::new(1, 2) / payload([0; 700]);
    if rng.bool() {
        let tos = if rng.bool() { 0x10 } else { 0 };
        let ip = Ipv4::new("198.18.0.7", Ipv4Addr::from(some4(rng))).tos(tos);
        (from_wan() / ip / udp).build()
    } else {
        let ip = Ipv6::new("2001:db8::7", Ipv6Addr::from(some6(rng)));
        (from_wan() / ip / udp).build()
    }
}

#[test]
fn a_packet_meets_the_same_whatever_came_before() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    for _ in 0..40 {
        let net = network(&mut rng);
        let mut used = router(&net);
        used.set_engine(Engine::JitAtOnce);
        for _ in 0..30 {
            let frame = packet(&mut rng);
            let fresh = receive(&mut router(&net), "wan", &frame);
            assert_eq!(receive(&mut used, "wan", &frame), fresh, "{net}\n{:02x?}", &frame[..54]);
        }
    }
}

/// What comes of frames in bursts by an engine, with one network after the other.
fn outcome(
    engine: Engine,
    nets: &[String],
    frames: &[Vec<u8>],
    mut size: impl FnMut() -> usize,
) -> Vec<String> {
    let mut path = router(&nets[0]);
    path.set_engine(engine);
    let device = path.network().link_by_name("wan").unwrap().index;
    let mut seen = Seen::default();
    for (net, mut rest) in nets.iter().zip(frames.chunks(frames.len() / nets.len())) {
        path.set_network(Arc::new(Network::from_batch("net.ip", net).unwrap()), START, &mut seen);
        while !rest.is_empty() {
            let (burst, others) = rest.split_at(size().clamp(1, rest.len()));
            path.receive(burst.iter().map(|bytes| Frame { device, bytes, time: START }), &mut seen);
            rest = others;
        }
    }
    seen.lines.push(format!("{:?}", path.counters()));
    seen.lines
}

#[test]
fn bursts_meet_what_single_packets_meet_while_routes_change() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    for _ in 0..40 {
        let nets: Vec<_> = (0..3).map(|_| network(&mut rng)).collect();
        let frames: Vec<_> = (0..300).map(|_| packet(&mut rng)).collect();
        let single = outcome(Engine::Interpreter, &nets, &frames, || 1);
        let most = [2, 10, 64, 200][rng.usize(..4)];
        let bursts = outcome(Engine::JitAtOnce, &nets, &frames, || rng.usize(..most));
        assert_eq!(bursts, single, "{nets:#?}");
    }
}
