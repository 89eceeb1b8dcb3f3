// SPDX-License-Identifier: Apache-2.0

use super::*;
use penstock_conntrack::tuple::{IPV4, IPV6, address as bytes};
use std::collections::HashMap;

/// Connections by both tuples.
#[derive(Default)]
struct Double {
    /// Original tuple and reply tuple, oldest first.
    flows: Vec<(Tuple, Tuple)>,
    by_tuple: HashMap<Tuple, usize>,
    asked: u32,
    closing: Vec<Tuple>,
    master: bool,
}

impl Double {
    fn add(&mut self, original: Tuple, translated: Tuple) {
        let reply = inverse(&translated);
        self.by_tuple.insert(original, self.flows.len());
        self.by_tuple.insert(reply, self.flows.len());
        self.flows.push((original, reply));
    }
}

impl Flows for Double {
    fn is_taken(&mut self, reply: &Tuple) -> bool {
        self.asked += 1;
        self.by_tuple.contains_key(reply)
    }

    fn make_room(&mut self, reply: &Tuple) -> bool {
        if self.closing.contains(reply) {
            self.by_tuple.remove(reply);
        }
        self.is_taken(reply)
    }

    fn same_source(&mut self, original: &Tuple, accept: &mut dyn FnMut(&Tuple) -> bool) {
        let same = |t: &Tuple| {
            (t.src, t.src_id, t.protocol) == (original.src, original.src_id, original.protocol)
        };
        for (_, reply) in self.flows.iter().rev().filter(|(t, _)| same(t)) {
            if accept(reply) {
                return;
            }
        }
    }

    fn has_master(&self) -> bool {
        self.master
    }
}

fn flow(protocol: u8, from: &str, sport: u16, to: &str, dport: u16) -> Tuple {
    let (from, to): (std::net::IpAddr, std::net::IpAddr) =
        (from.parse().unwrap(), to.parse().unwrap());
    let l3 = if from.is_ipv4() { IPV4 } else { IPV6 };
    Tuple { src: bytes(from), dst: bytes(to), src_id: sport, dst_id: dport, zone: 0, l3, protocol }
}

fn to(first: &str, last: &str) -> Range {
    let a = |t: &str| bytes(t.parse().unwrap());
    Range { flags: MAP_IPS, min_address: a(first), max_address: a(last), ..Range::default() }
}

fn with_ports(range: Range, min_id: u16, max_id: u16) -> Range {
    Range { flags: range.flags | PROTO_SPECIFIED, min_id, max_id, ..range }
}

fn rng() -> Random {
    Random::seeded(7)
}

const UDP: u8 = protocol::UDP;
const TCP: u8 = protocol::TCP;

#[test]
fn a_free_port_is_kept_and_a_taken_one_is_replaced_within_its_class() {
    for (port, class) in
        [(500, 1..512), (511, 1..512), (512, 600..1024), (1023, 600..1024), (1024, 1024..65536)]
    {
        let mut flows = Double::default();
        let range = to("198.19.0.1", "198.19.0.1");
        let first = flow(UDP, "198.18.0.10", port, "198.19.0.2", 53);
        let got = unique_tuple(&first, &range, Manip::Source, &mut flows, &mut rng());
        assert_eq!((got.source().to_string(), got.src_id), ("198.19.0.1".to_owned(), port));
        flows.add(first, got);
        let second = flow(UDP, "198.18.0.11", port, "198.19.0.2", 53);
        let got = unique_tuple(&second, &range, Manip::Source, &mut flows, &mut rng());
        assert_ne!(got.src_id, port);
        assert!(class.contains(&u32::from(got.src_id)), "{port} became {}", got.src_id);
        // Towards another server the same port is free.
        let third = flow(UDP, "198.18.0.12", port, "198.19.0.3", 53);
        assert_eq!(
            unique_tuple(&third, &range, Manip::Source, &mut flows, &mut rng()).src_id,
            port
        );
    }
}

#[test]
fn a_source_keeps_its_mapping_towards_other_servers() {
    let mut flows = Double::default();
    let range = to("198.19.0.1", "198.19.0.1");
    let block = flow(UDP, "198.18.0.9", 4000, "198.19.0.2", 53);
    let got = unique_tuple(&block, &range, Manip::Source, &mut flows, &mut rng());
    flows.add(block, got);
    let first = flow(UDP, "198.18.0.10", 4000, "198.19.0.2", 53);
    let mapped = unique_tuple(&first, &range, Manip::Source, &mut flows, &mut rng());
    assert_ne!(mapped.src_id, 4000);
    flows.add(first, mapped);
    let second = flow(UDP, "198.18.0.10", 4000, "198.19.0.7", 53);
    let got = unique_tuple(&second, &range, Manip::Source, &mut flows, &mut rng());
    assert_eq!((got.src, got.src_id), (mapped.src, mapped.src_id));
    // Not with random ports.
    let random = Range { flags: range.flags | crate::range::PROTO_RANDOM_FULLY, ..range };
    let got = unique_tuple(&second, &random, Manip::Source, &mut flows, &mut Random::seeded(8));
    assert_ne!(got.src_id, mapped.src_id);
}

#[test]
fn addresses_of_a_range_are_spread_and_persistent_ones_do_not_depend_on_the_destination() {
    let range = to("198.19.0.0", "198.19.0.15");
    let persistent = Range { flags: range.flags | PERSISTENT, ..range };
    let mut seen = std::collections::HashSet::new();
    let mut stays = std::collections::HashSet::new();
    for n in 0..200 {
        let t = flow(UDP, "198.18.0.10", 4000, &format!("198.19.7.{n}"), 53);
        seen.insert(
            unique_tuple(&t, &range, Manip::Source, &mut Double::default(), &mut rng()).src,
        );
        stays.insert(
            unique_tuple(&t, &persistent, Manip::Source, &mut Double::default(), &mut rng()).src,
        );
    }
    assert_eq!((seen.len(), stays.len()), (16, 1));
    let v6 = to("2001:db8:5::", "2001:db8:5:ffff:ffff:ffff:ffff:ffff");
    let mut seen = std::collections::HashSet::new();
    for n in 0..200 {
        let t = flow(UDP, "2001:db8:1::10", 4000, &format!("2001:db8:2::{n}"), 53);
        let got = unique_tuple(&t, &v6, Manip::Source, &mut Double::default(), &mut rng());
        assert_eq!(got.src[..6], [0x20, 1, 0xd, 0xb8, 0, 5]);
        seen.insert(got.src);
    }
    assert!(seen.len() > 190);
}

#[test]
fn destinations_without_ports_keep_theirs_and_ports_are_taken_in_order() {
    let t = flow(TCP, "198.19.0.2", 4000, "198.19.0.1", 80);
    let to_server = to("198.18.5.20", "198.18.5.20");
    let mut flows = Double::default();
    let first = unique_tuple(&t, &to_server, Manip::Destination, &mut flows, &mut rng());
    assert_eq!((first.destination().to_string(), first.dst_id), ("198.18.5.20".to_owned(), 80));
    // Taken or not.
    flows.add(flow(TCP, "198.19.0.2", 4000, "198.18.5.20", 80), first);
    assert_eq!(unique_tuple(&t, &to_server, Manip::Destination, &mut flows, &mut rng()), first);
    // A single port is taken without asking.
    let single = with_ports(to_server, 8080, 8080);
    assert_eq!(unique_tuple(&t, &single, Manip::Destination, &mut flows, &mut rng()).dst_id, 8080);
    // A range from its beginning.
    let range = with_ports(to_server, 9000, 9003);
    for want in [9000, 9001, 9002, 9003] {
        let got = unique_tuple(&t, &range, Manip::Destination, &mut flows, &mut rng());
        assert_eq!(got.dst_id, want);
        flows.add(flow(TCP, "198.19.0.2", 4000, "198.19.9.9", want), got);
    }
}

#[test]
fn a_port_search_without_success_ends() {
    struct Full(u32);
    impl Flows for Full {
        fn is_taken(&mut self, _: &Tuple) -> bool {
            self.0 += 1;
            true
        }
        fn same_source(&mut self, _: &Tuple, _: &mut dyn FnMut(&Tuple) -> bool) {}
        fn has_master(&self) -> bool {
            false
        }
    }
    let t = flow(UDP, "198.18.0.10", 4000, "198.19.0.2", 53);
    let mut full = Full(0);
    unique_tuple(&t, &to("198.19.0.1", "198.19.0.1"), Manip::Source, &mut full, &mut rng());
    assert_eq!(full.0, 1 + 128 + 64 + 32 + 16 + 8);
    let mut full = Full(0);
    let few = with_ports(to("198.19.0.1", "198.19.0.1"), 10, 29);
    unique_tuple(&t, &few, Manip::Source, &mut full, &mut rng());
    assert_eq!(full.0, 20);
}

#[test]
fn closing_connections_make_room_in_the_last_attempts() {
    let range = with_ports(to("198.19.0.1", "198.19.0.1"), 1000, 1003);
    let mut flows = Double::default();
    for n in 0..4 {
        let client = flow(TCP, &format!("198.18.0.{}", 20 + n), 4000, "198.19.0.2", 80);
        let got = unique_tuple(&client, &range, Manip::Source, &mut flows, &mut rng());
        flows.add(client, got);
    }
    let late = flow(TCP, "198.18.0.40", 4000, "198.19.0.2", 80);
    let taken = unique_tuple(&late, &range, Manip::Source, &mut flows, &mut rng());
    assert!(flows.is_taken(&inverse(&taken)));
    let reply = flows.flows[2].1;
    flows.closing.push(reply);
    let got = unique_tuple(&late, &range, Manip::Source, &mut flows, &mut rng());
    assert_eq!(inverse(&got), reply);
}

#[test]
fn icmp_identifiers_and_gre_keys_are_chosen_from_their_range() {
    let mut flows = Double::default();
    let range = to("198.19.0.1", "198.19.0.1");
    let echo = |client: &str| flow(protocol::ICMP, client, 7, "198.19.0.2", 0x0800);
    let first = unique_tuple(&echo("198.18.0.10"), &range, Manip::Source, &mut flows, &mut rng());
    assert_eq!(first.src_id, 7);
    assert_eq!(inverse(&first).dst_id, 0x0000);
    flows.add(echo("198.18.0.10"), first);
    let second = unique_tuple(&echo("198.18.0.11"), &range, Manip::Source, &mut flows, &mut rng());
    assert_ne!(second.src_id, 7);
    assert_eq!(second.dst_id, 0x0800);

    let tunnel = |client: &str| flow(protocol::GRE, client, 5, "198.19.0.2", 6);
    let got = unique_tuple(&tunnel("198.18.0.10"), &range, Manip::Source, &mut flows, &mut rng());
    flows.add(tunnel("198.18.0.10"), got);
    let got = unique_tuple(&tunnel("198.18.0.11"), &range, Manip::Source, &mut flows, &mut rng());
    assert_eq!(got.src_id, 5, "only expected tunnels have keys that may change");
    flows.master = true;
    let got = unique_tuple(&tunnel("198.18.0.11"), &range, Manip::Source, &mut flows, &mut rng());
    assert_ne!(got.src_id, 5);
}
