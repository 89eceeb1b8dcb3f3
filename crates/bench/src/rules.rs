// SPDX-License-Identifier: Apache-2.0

//! Linear rules, of which the last drops, and lists after ClassBench.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

use penstock_testkit::build::*;
use penstock_testkit::classbench::{Header, Kind, covered, narrow_first};

use crate::frames::{Frames, Later, flow};
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

/// A list after ClassBench, all kinds of it in turn, that drops what it meets. Of nested rules the
/// narrower comes first; what no rule takes meets a default rule at the end.
fn classbench(name: &str, kinds: &'static [Kind], count: u32, headers: u32) -> Variant {
    let dead = Rc::new(Cell::new(0));
    let counted = dead.clone();
    let variant = Variant::made(name, headers.into(), move || {
        let lists: Vec<_> = kinds
            .iter()
            .map(|k| penstock_testkit::classbench::rules(*k, count as usize / kinds.len(), 1))
            .collect();
        let rules = narrow_first(lists.concat());
        counted.set(covered(&rules));
        let headers = penstock_testkit::classbench::traffic(&rules, headers as usize, 2);
        let frames = Rc::new(Frames::hot(headers.iter().map(frame)));
        let mut text = String::new();
        for rule in &rules {
            let _ = writeln!(text, "{rule} drop");
        }
        text.push_str("drop");
        sending(&chain(&text), &frames, Fate::Dropped)
    });
    variant.noting(move || format!("an earlier rule covers {} of {count} rules", dead.get()))
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    let frames = Later::hot(256, |n| flow(n, 9));
    let linear = |name: &str, count: u32| {
        let frames = frames.clone();
        Variant::made(name, frames.len(), move || {
            sending(&linear(scale.count(count)), &frames, Fate::Dropped)
        })
    };
    let list = |name: &str, kinds: &'static [Kind], count: u32| {
        classbench(name, kinds, scale.count(count), scale.count(16_384))
    };
    vec![
        linear("linear-10", 10),
        linear("linear-100", 100).against("linear-10"),
        linear("linear-1000", 1000).against("linear-10"),
        linear("linear-10000", 10_000).against("linear-10"),
        linear("linear-100000", 100_000).against("linear-10"),
        list("classbench-10000", &Kind::ALL, 10_000),
        list("classbench-100000", &Kind::ALL, 100_000),
        list("acl-100000", &[Kind::AccessControl], 100_000),
        list("fw-100000", &[Kind::Firewall], 100_000),
        list("ipc-100000", &[Kind::IpChain], 100_000),
    ]
}
