// SPDX-License-Identifier: Apache-2.0

use super::*;
use penstock_conntrack::tuple::address;
use penstock_conntrack::{Hook, PacketOwner, Settings, Shared, Verdict};
use penstock_packet::CtInfo;
use penstock_testkit::build::*;
use penstock_wire::ethernet;

const CLIENT: &str = "198.18.0.10";
const SERVER: &str = "198.19.0.2";
const ROUTER: &str = "198.19.0.1";

struct Nat {
    table: Conntrack,
    random: Random,
}

fn ranges(source: &str) -> Range {
    Range::address(address(source.parse().unwrap()))
}

impl Nat {
    fn new() -> Nat {
        Nat { table: Conntrack::with_seed(Settings::default(), 1), random: Random::seeded(1) }
    }

    /// A packet through prerouting and postrouting, with source NAT for new connections.
    fn pass(&mut self, bytes: &[u8], source: Option<&Range>) -> (Packet, bool) {
        let mut packet = Packet::new();
        packet.load(bytes, 0);
        packet.meta.time = 1_000_000_000;
        packet.meta.protocol = ethernet::IPV4;
        assert_eq!(self.table.track(&mut packet, Hook::Prerouting), Verdict::Accept);
        let ct = packet.meta.ct;
        for manip in [Manip::Destination, Manip::Source] {
            let n = self.table.resolve(&ct).unwrap();
            let status = self.table.connection(&ct).unwrap().status();
            if ct.info == CtInfo::New && !is_bound(status, manip) {
                let bound = match source.filter(|_| manip == Manip::Source) {
                    Some(range) => bind(&mut self.table, n, range, manip, &mut self.random),
                    None => bind_to_itself(&mut self.table, n, manip, &mut self.random),
                };
                assert!(bound);
            }
            assert!(follow(&self.table, &ct, &mut packet, manip));
        }
        let confirmed = self.table.confirm(&mut packet) == Verdict::Accept;
        (packet, confirmed)
    }
}

fn udp(from: (&str, u16), to: (&str, u16)) -> Vec<u8> {
    (Ipv4::new(from.0, to.0) / Udp::new(from.1, to.1) / payload(b"x")).build()
}

#[test]
fn a_flow_is_translated_both_ways_with_one_rule_evaluation() {
    let mut nat = Nat::new();
    let range = ranges(ROUTER);
    let there = udp((CLIENT, 1000), (SERVER, 53));
    let (packet, _) = nat.pass(&there, Some(&range));
    assert_eq!(packet.network(), udp((ROUTER, 1000), (SERVER, 53)));
    let (packet, _) = nat.pass(&udp((SERVER, 53), (ROUTER, 1000)), None);
    assert_eq!(packet.network(), udp((SERVER, 53), (CLIENT, 1000)));
    // Another rule would not matter now.
    let (packet, _) = nat.pass(&there, Some(&ranges("198.19.0.9")));
    assert_eq!(packet.network(), udp((ROUTER, 1000), (SERVER, 53)));
}

#[test]
fn an_untranslated_flow_gives_way_on_a_port_in_use() {
    let mut nat = Nat::new();
    nat.pass(&udp((CLIENT, 4000), (SERVER, 53)), Some(&ranges(ROUTER)));
    let (packet, confirmed) = nat.pass(&udp((ROUTER, 4000), (SERVER, 53)), None);
    assert!(confirmed);
    let port = u16::from_be_bytes([packet.network()[20], packet.network()[21]]);
    assert_ne!(port, 4000);
    assert_eq!(packet.network(), udp((ROUTER, port), (SERVER, 53)));
    let (packet, _) = nat.pass(&udp((SERVER, 53), (ROUTER, port)), None);
    assert_eq!(packet.network(), udp((SERVER, 53), (ROUTER, 4000)));
    let (packet, _) = nat.pass(&udp((SERVER, 53), (ROUTER, 4000)), None);
    assert_eq!(packet.network(), udp((SERVER, 53), (CLIENT, 4000)));
}

#[test]
fn many_clients_share_an_address_without_two_having_one_port() {
    let mut nat = Nat::new();
    let range = ranges(ROUTER);
    let mut seen = std::collections::HashSet::new();
    for client in 0..200u8 {
        let from = format!("198.18.0.{client}");
        let (packet, confirmed) = nat.pass(&udp((&from, 4000), (SERVER, 53)), Some(&range));
        assert!(confirmed);
        let port = u16::from_be_bytes([packet.network()[20], packet.network()[21]]);
        assert!(seen.insert(port));
        let (packet, _) = nat.pass(&udp((SERVER, 53), (ROUTER, port)), None);
        assert_eq!(packet.network(), udp((SERVER, 53), (&from, 4000)));
    }
}

#[test]
fn many_clients_of_several_workers_share_an_address_without_two_having_one_port() {
    let shared = Shared::new(2, &Settings::default(), 1);
    let mut workers = [0, 1].map(|worker| Nat {
        table: Conntrack::of_worker(Settings::default(), 1, &shared, worker),
        random: Random::seeded(1),
    });
    let range = ranges(ROUTER);
    let mut seen = std::collections::HashSet::new();
    for client in 0..200u8 {
        let from = format!("198.18.0.{client}");
        let there = udp((&from, 4000), (SERVER, 53));
        let PacketOwner::Worker(owner) = shared.packet_owner(&there, None) else {
            panic!("no fragment")
        };
        let (packet, confirmed) = workers[owner].pass(&there, Some(&range));
        assert!(confirmed);
        let port = u16::from_be_bytes([packet.network()[20], packet.network()[21]]);
        assert!(seen.insert(port));
        let back = udp((SERVER, 53), (ROUTER, port));
        assert_eq!(shared.packet_owner(&back, None), PacketOwner::Worker(owner));
        let (packet, _) = workers[owner].pass(&back, None);
        assert_eq!(packet.network(), udp((SERVER, 53), (&from, 4000)));
    }
}

#[test]
fn a_second_binding_is_refused() {
    let mut nat = Nat::new();
    let mut packet = Packet::new();
    packet.load(&udp((CLIENT, 1), (SERVER, 2)), 0);
    nat.table.track(&mut packet, Hook::Prerouting);
    let n = nat.table.resolve(&packet.meta.ct).unwrap();
    assert!(bind(&mut nat.table, n, &ranges(ROUTER), Manip::Source, &mut nat.random));
    assert!(!bind(&mut nat.table, n, &ranges(ROUTER), Manip::Source, &mut nat.random));
    nat.table.confirm(&mut packet);
    assert!(
        bind(&mut nat.table, n, &ranges(ROUTER), Manip::Source, &mut nat.random),
        "confirmed: left alone"
    );
}

#[test]
fn masqueraded_connections_end_with_their_device_or_address() {
    let mut nat = Nat::new();
    for (client, address, device) in
        [("198.18.0.10", ROUTER, 2), ("198.18.0.11", "198.19.0.9", 2), ("198.18.0.12", ROUTER, 3)]
    {
        nat.pass(&udp((client, 1000), (SERVER, 53)), Some(&ranges(address)));
        let n = nat.table.iter().last().unwrap().number();
        nat.table.set_masquerade(n, device);
    }
    nat.pass(&udp(("198.18.0.13", 1000), (SERVER, 53)), Some(&ranges(ROUTER)));
    let gone = address(ROUTER.parse().unwrap());
    assert_eq!(forget_masqueraded(&mut nat.table, 2, Some(gone)), 1);
    assert_eq!(forget_masqueraded(&mut nat.table, 2, None), 1);
    assert_eq!(nat.table.iter().count(), 2);
}

#[test]
fn a_closed_connection_frees_its_port_for_a_new_one() {
    let mut nat = Nat::new();
    let one_port =
        Range { flags: MAP_IPS | PROTO_SPECIFIED, min_id: 7, max_id: 8, ..ranges(ROUTER) };
    let syn = |client: &str, seq: u32| {
        (Ipv4::new(client, SERVER) / Tcp::new(1000, 80).syn().seq(seq)).build()
    };
    let port = |packet: &Packet| u16::from_be_bytes([packet.network()[20], packet.network()[21]]);
    let (first, _) = nat.pass(&syn("198.18.0.10", 100), Some(&one_port));
    let (second, _) = nat.pass(&syn("198.18.0.11", 100), Some(&one_port));
    assert_ne!(port(&first), port(&second));
    // Both ports are in use.
    assert!(!nat.pass(&syn("198.18.0.12", 5000), Some(&one_port)).1);
    // The first has been answered, and is reset.
    let back = Tcp::new(80, port(&first));
    nat.pass(&(Ipv4::new(SERVER, ROUTER) / back.clone().syn().seq(500).ack(101)).build(), None);
    nat.pass(&(Ipv4::new(SERVER, ROUTER) / back.rst().seq(501).ack(101)).build(), None);
    // Lower sequence numbers than the closed one: the peer could mistake it for that.
    assert!(!nat.pass(&syn("198.18.0.12", 50), Some(&one_port)).1);
    let (third, confirmed) = nat.pass(&syn("198.18.0.12", 5000), Some(&one_port));
    assert!(confirmed);
    assert_eq!(port(&third), port(&first));
}
