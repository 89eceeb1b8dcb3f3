// SPDX-License-Identifier: Apache-2.0

//! Traffic as a router at the edge of a network has it: frames of several lengths, TCP and UDP, IPv4
//! and IPv6, connections that begin among those that are established.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use penstock_conntrack::Tracker;
use penstock_dataplane::Settings;
use penstock_testkit::build::*;

use crate::frames::Frames;
use crate::router::{BURST, Router, ruleset, stateful};
use crate::{Scale, Variant};

/// Established connections.
const FLOWS: u32 = 10_000;
/// Frames of a pass.
const FRAMES: u32 = 100_000;
/// Of a hundred frames, those that begin a connection.
const NEW: u32 = 2;
/// Of ten flows, those of TCP, and those over IPv4.
const TCP_OF_TEN: u32 = 7;
const IPV4_OF_TEN: u32 = 6;
/// Lengths of frames, and how many of twelve have them: the simple Internet mix.
const LENGTHS: [(usize, u32); 3] = [(60, 7), (590, 4), (1514, 1)];
/// Nanoseconds between bursts: a million frames a second.
const STEP: u64 = BURST as u64 * 1000;

/// Whether a flow is of TCP, and whether it is over IPv4.
fn kind(n: u32) -> (bool, bool) {
    let kind = n.wrapping_mul(0x9e37_79b1) >> 16;
    (kind % 10 < TCP_OF_TEN, kind / 10 % 10 < IPV4_OF_TEN)
}

/// A frame of flow number `n`, as long as is asked or as its headers are.
fn frame(n: u32, len: usize, syn: bool) -> Vec<u8> {
    let (tcp, v4) = kind(n);
    let ports = (1024 + (n % 50_000) as u16, 443);
    let network = if v4 { 20 } else { 40 };
    let headers = 14 + network + if tcp { 20 } else { 8 };
    let body = payload(vec![0; len.saturating_sub(headers)]);
    let segment = Tcp::new(ports.0, ports.1).window(30_000);
    let segment = if syn { segment.syn() } else { segment.flags(0x18).seq(1).ack(1) };
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02");
    let [_, _, c, d] = (n % 60_000 + 256).to_be_bytes();
    if v4 {
        let ip = ether / Ipv4::new(Ipv4Addr::new(198, 18, c, d), Ipv4Addr::new(198, 19, 0, 7));
        match tcp {
            true => (ip / segment / body).build(),
            false => (ip / Udp::new(ports.0, ports.1) / body).build(),
        }
    } else {
        let source = Ipv6Addr::from(0x2001_0db8_0001 << 80 | u128::from(n % 60_000 + 256));
        let server = Ipv6Addr::from(0x2001_0db8_0002 << 80 | 7);
        let ip = ether / Ipv6::new(source, server);
        match tcp {
            true => (ip / segment / body).build(),
            false => (ip / Udp::new(ports.0, ports.1) / body).build(),
        }
    }
}

/// The frames of a pass, and how many of them begin a connection: those are of TCP.
fn frames(flows: u32, count: u32) -> (Frames, usize) {
    let mut rng = Rng::with_seed(0x6d_69_78);
    let mut others = (flows..).filter(|n| kind(*n).0);
    let mut new = 0;
    let one = |_| {
        if rng.u32(..100) < NEW {
            new += 1;
            return frame(others.next().unwrap_or(flows), 60, true);
        }
        let mut point = rng.u32(..12);
        let len = LENGTHS.iter().find(|(_, share)| match point.checked_sub(*share) {
            Some(rest) => {
                point = rest;
                false
            }
            None => true,
        });
        frame(rng.u32(..flows), len.map_or(60, |(len, _)| *len), false)
    };
    let frames = Frames::hot((0..count).map(one));
    (frames, new)
}

/// The variant, by a network of both families: connections of which nothing is heard again end
/// before their addresses come again.
pub(crate) fn variant(scale: Scale, net: String) -> Variant {
    let (flows, count) = (scale.count(FLOWS), scale.count(FRAMES));
    Variant::made("mix", count.into(), move || {
        let pass = u64::from(count).div_ceil(BURST as u64) * STEP;
        let life = Duration::from_nanos(pass / 5);
        let mut settings = Settings::default();
        settings.conntrack.set_timeout(Tracker::Tcp, "syn_sent", life);
        let router = Router::between(&net, settings, &ruleset(&stateful("inet"))).every(STEP);
        let of = |tcp| (0..flows).filter(move |n| kind(*n).0 == tcp).map(|n| frame(n, 60, false));
        let router = router.answered(&Frames::hot(of(false))).shaken(&Frames::hot(of(true)));
        let (frames, new) = frames(flows, count);
        router.opening(&Rc::new(frames), new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_has_the_shares_of_lengths_protocols_and_beginnings() {
        let (frames, new) = frames(1000, 20_000);
        let all: Vec<Vec<u8>> = frames.bursts(1000).flatten().map(<[u8]>::to_vec).collect();
        let share = |f: &dyn Fn(&[u8]) -> bool| {
            all.iter().filter(|frame| f(frame)).count() as f64 / all.len() as f64
        };
        let near = |value: f64, wanted: f64| (value - wanted).abs() < 0.05;
        assert!(near(new as f64 / 20_000.0, 0.02), "{new}");
        let tcp = |f: &[u8]| f[if f[12..14] == [8, 0] { 23 } else { 20 }] == 6;
        assert!(near(share(&tcp), 0.7));
        assert!(near(share(&|f| f[12..14] == [8, 0]), 0.6));
        assert!(near(share(&|f| f.len() == 1514), 1.0 / 12.0));
        assert!(near(share(&|f| f.len() == 590), 4.0 / 12.0));
    }
}
