// SPDX-License-Identifier: Apache-2.0

//! Linear rules, of which the last drops, and lists after ClassBench.

use std::fmt::Write;
use std::rc::Rc;

use penstock_testkit::build::*;
use penstock_testkit::classbench::{Header, Kind};

use crate::frames::{Frames, flow};
use crate::ingress::chain;
use crate::router::{Fate, sending};
use crate::{Scale, Variant};

/// `count` rules that do not match, then one that does.
pub(crate) fn linear(count: u32) -> String {
    let mut rules = String::new();
    for n in 0..count {
        let [_, b, c, d] = n.to_be_bytes();
        let _ = writeln!(rules, "ip saddr 10.{b}.{c}.{d} drop");
    }
    rules.push_str("udp dport 9 drop");
    chain(&rules)
}

/// A frame of 60 bytes with a header.
fn frame(header: &Header) -> Vec<u8> {
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:02");
    let ip = ether
        / Ipv4::new(
            std::net::Ipv4Addr::from(header.source),
            std::net::Ipv4Addr::from(header.destination),
        );
    let (source, destination) = (header.source_port, header.destination_port);
    match header.protocol {
        6 => (ip / Tcp::new(source, destination) / payload([0; 6])).build(),
        17 => (ip / Udp::new(source, destination) / payload([0; 18])).build(),
        _ => (ip / Icmp::new(8, 0) / payload([0; 18])).build(),
    }
}

/// A list after ClassBench, all kinds of it in turn, that drops what it meets and then everything.
fn classbench(name: &str, kinds: &[Kind], count: u32, headers: u32) -> Variant {
    let lists: Vec<_> = kinds
        .iter()
        .map(|k| penstock_testkit::classbench::rules(*k, count as usize / kinds.len(), 1))
        .collect();
    let rules = lists.concat();
    let headers = penstock_testkit::classbench::traffic(&rules, headers as usize, 2);
    let frames = Rc::new(Frames::hot(headers.iter().map(frame)));
    let mut text = String::new();
    for rule in &rules {
        let _ = writeln!(text, "{rule} drop");
    }
    text.push_str("drop");
    Variant::new(name, frames.len() as u64, sending(&chain(&text), &frames, Fate::Dropped))
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let frames = Rc::new(Frames::hot((0..256).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: String| {
        Variant::new(name, frames.len() as u64, sending(&rules, &frames, Fate::Dropped))
    };
    let list = |name: &str, kinds: &[Kind], count: u32| {
        classbench(name, kinds, scale.count(count), scale.count(16_384))
    };
    vec![
        variant("linear-10", linear(10)),
        variant("linear-100", linear(100)).against("linear-10"),
        variant("linear-1000", linear(scale.count(1000))).against("linear-10"),
        variant("linear-10000", linear(scale.count(10_000))).against("linear-10"),
        variant("linear-100000", linear(scale.count(100_000))).against("linear-10"),
        list("classbench-10000", &Kind::ALL, 10_000),
        list("classbench-100000", &Kind::ALL, 100_000),
        list("acl-100000", &[Kind::AccessControl], 100_000),
        list("fw-100000", &[Kind::Firewall], 100_000),
        list("ipc-100000", &[Kind::IpChain], 100_000),
    ]
}
