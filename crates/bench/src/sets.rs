//! Each set backend with 1000 elements; half of the packets find theirs.

use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::ingress::ports;
use crate::router::{Fate, sending};

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

pub(crate) fn variants() -> Vec<Variant> {
    // Ports 9, 11, 13…: with every port from 9 on, half of the packets are in the set.
    let by_port = Rc::new(Frames::hot((0..2000u16).map(|n| flow(0, 9 + n))));
    let by_address = Rc::new(Frames::hot((0..2000).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: String, frames: &Rc<Frames>| {
        Variant::new(name, frames.len() as u64, sending(&rules, frames, Fate::Dropped)).against("bitmap-1000")
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
        ("rhash-1000", "type ipv4_addr", addresses(1000, |n| address(2 * n)), "ip saddr", &by_address),
        (
            "dynamic-1000",
            "type ipv4_addr; flags dynamic; size 2000",
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
    sets.into_iter()
        .map(|(name, kind, elements, lookup, frames)| {
            variant(name, counting(&format!("{kind}; elements = {{ {elements} }}"), lookup), frames)
        })
        .collect()
}
