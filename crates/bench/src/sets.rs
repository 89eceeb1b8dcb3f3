// SPDX-License-Identifier: Apache-2.0

//! Each set backend with 1000 elements, two with a million; half of the packets find theirs.

use std::rc::Rc;

use crate::frames::{Frames, flow, udp};
use crate::ingress::ports;
use crate::router::{Fate, sending};
use crate::{Scale, Variant};

/// A chain that counts what is in the set, then drops everything.
fn counting(set: &str, lookup: &str) -> String {
    format!(
        "table netdev t {{ set s {{ {set}; }}; chain c {{ type filter hook ingress device lan priority 0; \
         {lookup} @s drop; drop; }}; }}"
    )
}

fn addresses(count: u32, each: impl Fn(u32) -> String) -> String {
    (0..count).map(|n| each(n) + ", ").collect()
}

/// The address that [`flow`] gives to a number.
fn address(n: u32) -> String {
    let [_, _, c, d] = (n + 256).to_be_bytes();
    format!("198.18.{c}.{d}")
}

/// Addresses without order, all different, no two of which follow each other.
fn far_address(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b1)
}

/// A set that packets may change: a rule in a chain that is never called adds to it, which makes it
/// dynamic.
fn dynamic() -> String {
    let elements = addresses(1000, |n| address(2 * n));
    format!(
        "table netdev t {{ set s {{ type ipv4_addr; flags dynamic; size 2000; elements = {{ {elements} }}; }}; \
         chain learn {{ add @s {{ ip saddr }}; }}; \
         chain c {{ type filter hook ingress device lan priority 0; ip saddr @s drop; drop; }}; }}"
    )
}

pub(crate) fn variants(scale: Scale) -> Vec<Variant> {
    // Ports 9, 11, 13…: with every port from 9 on, half of the packets are in the set.
    let by_port = Rc::new(Frames::hot((0..2000u16).map(|n| flow(0, 9 + n))));
    let by_address = Rc::new(Frames::hot((0..2000).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: String, frames: &Rc<Frames>| {
        Variant::new(name, frames.len() as u64, sending(&rules, frames, Fate::Dropped))
            .against("bitmap-1000")
    };
    let sets = [
        ("bitmap-1000", "type inet_service", ports(1000), "udp dport", &by_port),
        (
            "hash-1000",
            "type ipv4_addr; size 1000",
            addresses(1000, |n| address(2 * n)),
            "ip saddr",
            &by_address,
        ),
        (
            "rhash-1000",
            "type ipv4_addr",
            addresses(1000, |n| address(2 * n)),
            "ip saddr",
            &by_address,
        ),
        (
            "interval-1000",
            "type ipv4_addr; flags interval",
            addresses(1000, |n| address(2 * n)),
            "ip saddr",
            &by_address,
        ),
        (
            "ranges-1000",
            "type ipv4_addr . inet_service; flags interval",
            addresses(1000, |n| format!("{} . 5-20", address(2 * n))),
            "ip saddr . udp dport",
            &by_address,
        ),
    ];
    let mut variants: Vec<Variant> = sets
        .into_iter()
        .map(|(name, kind, elements, lookup, frames)| {
            variant(name, counting(&format!("{kind}; elements = {{ {elements} }}"), lookup), frames)
        })
        .collect();
    variants.insert(3, variant("dynamic-1000", dynamic(), &by_address));
    // Keys all over a set of which no core's own cache holds much.
    let far = Rc::new(Frames::hot((0..scale.count(65_536)).map(|n| {
        let [a, b, c, d] = far_address(n * 31).to_be_bytes();
        udp([a, b, c, d], 1024, [198, 19, 0, 7], 9)
    })));
    for (name, kind) in [
        ("hash-1000000", "type ipv4_addr; size 1000000"),
        ("interval-1000000", "type ipv4_addr; flags interval"),
    ] {
        let count = scale.count(1_000_000);
        let elements =
            addresses(count, |n| std::net::Ipv4Addr::from(far_address(2 * n)).to_string());
        let rules = counting(&format!("{kind}; elements = {{ {elements} }}"), "ip saddr");
        variants.push(variant(name, rules, &far));
    }
    variants
}
