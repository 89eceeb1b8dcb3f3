// SPDX-License-Identifier: Apache-2.0

//! Connections of a router that tracks them.

mod router;

use std::sync::Arc;

use penstock_conntrack::Direction;
use penstock_dataplane::{Dataplane, DropReason, Settings};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_ruleset::needs::PerFamily;
use penstock_testkit::build::*;
use router::*;

/// The router as if a rule asked for connections.
fn tracking(settings: Settings) -> Dataplane {
    let net = penstock_net::Network::from_batch("net.ip", NET).unwrap();
    let mut path = Dataplane::new(Arc::new(net), settings);
    let mut linked = Linked::new(&Ruleset::default().generation()).unwrap();
    let both = PerFamily { ip: true, ip6: true };
    (linked.needs.conntrack, linked.needs.defrag) = (both, both);
    path.set_rules(Arc::new(linked));
    path
}

fn flows(path: &Dataplane) -> Vec<String> {
    let tuples = path.conntrack().iter().map(|c| *c.tuple(Direction::Original));
    tuples
        .map(|t| {
            format!("{} {}:{} > {}:{}", t.protocol, t.source(), t.src_id, t.destination(), t.dst_id)
        })
        .collect()
}

#[test]
fn passing_connections_are_confirmed_and_dropped_ones_leave_no_entry() {
    let mut path = tracking(Settings::default());
    let udp = |to: &str, ttl: u8| {
        (from_wan() / Ipv4::new("198.18.0.7", to).ttl(ttl) / Udp::new(1000, 53) / payload(b"abc"))
            .build()
    };
    let lines: Vec<_> = ["198.18.1.7", "198.18.1.1", "198.19.1.1", "198.19.3.1", "192.0.2.1"]
        .iter()
        .flat_map(|to| receive(&mut path, "wan", &udp(to, 64)))
        .collect();
    assert_eq!(lines.iter().filter(|l| l.starts_with("drop")).count(), 3, "{lines:?}");
    receive(&mut path, "wan", &udp("198.18.1.9", 1));
    // The packet to an unknown neighbour came past the end of postrouting.
    receive(&mut path, "wan", &udp("198.18.1.8", 64));
    let mut flows = flows(&path);
    flows.sort();
    assert_eq!(
        flows,
        [
            "17 198.18.0.7:1000 > 198.18.1.1:53",
            "17 198.18.0.7:1000 > 198.18.1.7:53",
            "17 198.18.0.7:1000 > 198.18.1.8:53"
        ]
    );
    assert_eq!(path.conntrack().count(), 3);
}

#[test]
fn a_full_table_drops_new_connections() {
    let mut settings = Settings::default();
    settings.conntrack.max = 4;
    let mut path = tracking(settings);
    for port in 1..=20u16 {
        let frame =
            (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(port, 53)).build();
        let answer =
            (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / Udp::new(53, port)).build();
        for t in 0..2 {
            let time = START + (u64::from(port) * 4 + t * 3) * SECOND;
            receive_at(&mut path, "wan", &frame, time);
            receive_at(&mut path, "lan", &answer, time);
        }
    }
    assert!(path.conntrack().count() <= 4);
    assert!(path.counters().drops(DropReason::ConntrackFull) > 0);
}

#[test]
fn connections_expire_by_the_packet_clock() {
    let mut path = tracking(Settings::default());
    for port in 0..1000 {
        let frame =
            (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(port, 53)).build();
        receive_at(&mut path, "wan", &frame, START + u64::from(port));
    }
    assert_eq!(path.conntrack().count(), 1000);
    // Where much ends at once, it does so little by little.
    for _ in 0..10 {
        path.advance(START + 31 * SECOND, &mut Seen::default());
    }
    assert_eq!(path.conntrack().count(), 0);
}

#[test]
fn what_is_wrong_with_packets_is_logged_where_it_is_asked_for() {
    let syn_ack = |port| {
        (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Tcp::new(port, 80).syn().ack(1))
            .build()
    };
    let broken = (from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7")
        / Udp::new(1, 2).checksum(0xbad)
        / payload(b"x"))
    .build();
    const NEW: &str = "log nf_ct_proto_6: invalid new wan -";
    const CHECKSUM: &str = "log nf_ct_proto_17: bad checksum wan -";
    for (asked, want) in
        [(0, &[][..]), (6, &[NEW]), (17, &[CHECKSUM]), (255, &[NEW, CHECKSUM]), (1, &[])]
    {
        let mut settings = Settings::default();
        settings.conntrack.set("nf_conntrack_log_invalid", asked).unwrap();
        let mut path = tracking(settings);
        let lines = [syn_ack(1000), broken.clone()].map(|frame| receive(&mut path, "wan", &frame));
        let logged: Vec<_> =
            lines.concat().into_iter().filter(|line| line.starts_with("log")).collect();
        assert_eq!(logged, want, "{asked}");
    }
}
