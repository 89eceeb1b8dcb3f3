// SPDX-License-Identifier: Apache-2.0

//! Tables of several workers: owners of packets, and what at most one of them has.

use penstock_conntrack::{
    Conntrack, Direction, ExpectError, Expectation, Hook, PacketOwner, Settings, Shared, Tuple,
    Verdict, tuple,
};
use penstock_packet::Packet;
use penstock_testkit::build::*;
use std::sync::Arc;

const START: u64 = 1_700_000_000_000_000_000;
const WORKERS: usize = 3;
const A: &str = "198.18.0.1";
const B: &str = "198.18.0.2";
const NAT: &str = "198.19.0.1";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8::2";

fn shared() -> Arc<Shared> {
    Shared::new(WORKERS, &Settings::default(), 7)
}

fn owned_by(shared: &Shared, packet: impl Into<Frame>) -> usize {
    match shared.packet_owner(&packet.into().build(), None) {
        PacketOwner::Worker(worker) => worker,
        PacketOwner::Fragment { .. } => panic!("a fragment"),
    }
}

fn table(shared: &Arc<Shared>, worker: usize) -> Conntrack {
    Conntrack::of_worker(Settings::default(), worker as u64, shared, worker)
}

fn tracked(table: &mut Conntrack, packet: impl Into<Frame>) -> Packet {
    let mut p = Packet::new();
    p.load(&packet.into().build(), 0);
    p.meta.time = START;
    assert_eq!(table.track(&mut p, Hook::Output), Verdict::Accept);
    p
}

fn pass(table: &mut Conntrack, packet: impl Into<Frame>) -> (u32, Verdict) {
    let mut p = tracked(table, packet);
    let n = p.meta.ct.entry;
    (n, table.confirm(&mut p))
}

fn source_translated(
    table: &mut Conntrack,
    packet: impl Into<Frame>,
    to: &str,
    port: u16,
) -> Verdict {
    let mut p = tracked(table, packet);
    let n = table.resolve(&p.meta.ct).unwrap();
    let reply = *table.connection(&p.meta.ct).unwrap().tuple(Direction::Reply);
    let dst = tuple::address(to.parse().unwrap());
    assert!(table.alter_reply(n, &Tuple { dst, dst_id: port, ..reply }));
    table.confirm(&mut p)
}

#[test]
fn both_directions_have_one_worker_and_flows_spread() {
    let shared = shared();
    let mut counts = [0; WORKERS];
    for port in 1000..1600 {
        let there = owned_by(&shared, Ipv4::new(A, B) / Udp::new(port, 53));
        assert_eq!(there, owned_by(&shared, Ipv4::new(B, A) / Udp::new(53, port)));
        let tcp = owned_by(&shared, Ipv6::new(A6, B6) / Tcp::new(port, 80).syn());
        assert_eq!(tcp, owned_by(&shared, Ipv6::new(B6, A6) / Tcp::new(80, port).syn().ack(1)));
        let ping = owned_by(&shared, Ipv4::new(A, B) / Icmp::echo_request(port, 1));
        assert_eq!(ping, owned_by(&shared, Ipv4::new(B, A) / Icmp::echo_reply(port, 1)));
        counts[there] += 1;
        counts[tcp] += 1;
        counts[ping] += 1;
    }
    assert!(counts.iter().all(|n| (450..750).contains(n)), "{counts:?}");
}

#[test]
fn a_new_connection_belongs_to_its_receiver_and_others_hand_over() {
    let shared = shared();
    let there = || (Ipv4::new(A, B) / Udp::new(1000, 53)).build();
    let back = || (Ipv4::new(B, A) / Udp::new(53, 1000)).build();
    for receiver in 0..WORKERS {
        assert_eq!(shared.packet_owner(&there(), Some(receiver)), PacketOwner::Worker(receiver));
        let mut table = table(&shared, receiver);
        let (n, _) = pass(&mut table, Ipv4::new(A, B) / Udp::new(1000, 53));
        for other in 0..WORKERS {
            assert_eq!(shared.packet_owner(&there(), Some(other)), PacketOwner::Worker(receiver));
            assert_eq!(shared.packet_owner(&back(), Some(other)), PacketOwner::Worker(receiver));
            let new = (Ipv4::new(A, B) / Udp::new(1001, 53)).build();
            assert_eq!(shared.packet_owner(&new, Some(other)), PacketOwner::Worker(other));
        }
        table.kill(n);
    }
    assert_eq!(shared.packet_owner(b"no packet", Some(2)), PacketOwner::Worker(2));
    assert_eq!(shared.packet_owner(b"no packet", None), PacketOwner::Worker(0));
}

#[test]
fn an_icmp_error_goes_to_the_worker_of_the_quoted_packet() {
    let shared = shared();
    for port in 1000..1100 {
        let flow = Ipv4::new(A, B) / Udp::new(port, 53) / payload([1; 20]);
        let own = owned_by(&shared, flow.clone());
        let router = "198.18.7.7";
        assert_eq!(
            own,
            owned_by(&shared, Ipv4::new(router, A) / Icmp::new(3, 4).rest_of_header(1400) / flow)
        );
        let flow = Ipv6::new(A6, B6) / Tcp::new(port, 80) / payload([1; 20]);
        let own = owned_by(&shared, flow.clone());
        let error = Ipv6::new("2001:db8::7", A6) / Icmpv6::new(2, 0).rest_of_header(1300) / flow;
        assert_eq!(own, owned_by(&shared, error));
    }
}

#[test]
fn the_first_fragment_decides_the_worker_of_a_datagram() {
    let shared = shared();
    for port in 1000..1100 {
        let link = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
        let whole4 = Ipv4::new(A, B).id(port) / Udp::new(port, 53) / payload([2; 3000]);
        let whole6 = Ipv6::new(A6, B6) / Udp::new(port, 53) / payload([2; 3000]);
        for (frame, owner) in [
            ((link() / whole4.clone()).build(), owned_by(&shared, whole4)),
            ((link() / whole6.clone()).build(), owned_by(&shared, whole6)),
        ] {
            let all: Vec<PacketOwner> = fragments(&frame, 1400, port.into())
                .iter()
                .map(|f| shared.packet_owner(&f[14..], None))
                .collect();
            assert!(all.len() > 2);
            let PacketOwner::Fragment { datagram: expected, finder: at, first, .. } = all[0] else {
                panic!("{all:?}")
            };
            assert_eq!(first, Some(owner));
            let mut end = 0;
            for (n, part) in all.iter().enumerate() {
                let PacketOwner::Fragment { datagram, span, finder, first } = *part else {
                    panic!("{all:?}")
                };
                assert_eq!(
                    (datagram, finder, first.is_some(), span.offset),
                    (expected, at, n == 0, end)
                );
                end += span.len;
                assert_eq!(span.is_last, n + 1 == all.len());
            }
            assert_eq!(end, 3008);
        }
    }
}

#[test]
fn replies_to_translated_connections_reach_their_worker() {
    let shared = shared();
    let mut tables: Vec<Conntrack> = (0..WORKERS).map(|worker| table(&shared, worker)).collect();
    let mut strays = 0;
    for port in 1000..1200 {
        let out = || Ipv4::new(A, B) / Udp::new(port, 53);
        let back = || Ipv4::new(B, NAT) / Udp::new(53, port);
        let error = || {
            Ipv4::new("198.18.7.7", NAT)
                / Icmp::new(11, 0)
                / (Ipv4::new(NAT, B) / Udp::new(port, 53))
        };
        let (owner, home) = (owned_by(&shared, out()), owned_by(&shared, back()));
        assert_eq!(source_translated(&mut tables[owner], out(), NAT, port), Verdict::Accept);
        strays += u32::from(home != owner);
        assert_eq!(
            (owned_by(&shared, back()), owned_by(&shared, out()), owned_by(&shared, error())),
            (owner, owner, owner)
        );
        let (n, _) = pass(&mut tables[owner], back());
        tables[owner].kill(n);
        assert_eq!(owned_by(&shared, back()), home);
    }
    assert!(strays > 50, "{strays}");
}

#[test]
fn a_tuple_has_at_most_one_worker() {
    let shared = shared();
    let (mut one, mut other) = (table(&shared, 0), table(&shared, 1));
    assert_eq!(
        source_translated(&mut one, Ipv4::new(A, B) / Udp::new(7, 53), NAT, 7),
        Verdict::Accept
    );
    let third = || Ipv4::new("198.18.0.3", B) / Udp::new(7, 53);
    let reply = Tuple {
        src: tuple::address(B.parse().unwrap()),
        dst: tuple::address(NAT.parse().unwrap()),
        src_id: 53,
        dst_id: 7,
        zone: 0,
        l3: 2,
        protocol: 17,
    };
    assert!(other.is_taken(&reply, u32::MAX));
    assert!(!other.is_taken(&Tuple { dst_id: 8, ..reply }, u32::MAX));
    assert_eq!(source_translated(&mut other, third(), NAT, 7), Verdict::Drop);
    assert_eq!(other.statistics().insert_failed, 1);
    assert_eq!(source_translated(&mut other, third(), NAT, 8), Verdict::Accept);
    // The host's own connection from there.
    assert_eq!(pass(&mut other, Ipv4::new(NAT, B) / Udp::new(7, 53)).1, Verdict::Drop);
}

#[test]
fn limits_apply_to_all_workers_together() {
    let settings = Settings { max: 10, expect_max: 3, ..Settings::default() };
    let shared = Shared::new(2, &settings, 1);
    let mut tables =
        [0, 1].map(|worker| Conntrack::of_worker(settings.clone(), 1, &shared, worker));
    for port in 0..10 {
        assert_eq!(
            pass(&mut tables[usize::from(port % 2)], Ipv4::new(A, B) / Udp::new(port, 53)).1,
            Verdict::Accept
        );
    }
    let mut p = Packet::new();
    p.load(&(Ipv4::new(A, "198.18.3.3") / Udp::new(99, 53)).build(), 0);
    p.meta.time = START;
    // What is there is dropped early only where it is near in the same table.
    let full = tables[0].track(&mut p, Hook::Output) == Verdict::Drop;
    let dropped = tables[0].statistics().early_drop as u32;
    assert_eq!(full, dropped == 0);
    assert_eq!(tables[0].count() + tables[1].count(), 10 + u32::from(!full) - dropped);
    let master = |table: &Conntrack| table.iter().next().unwrap().reference();
    let expectation = |table: &Conntrack, port| {
        let to = tuple::address(B.parse().unwrap());
        Expectation::new(master(table), 2, 6, None, to, port)
    };
    for (which, port, expected) in [
        (0, 1, Ok(())),
        (1, 1, Err(ExpectError::Busy)),
        (1, 2, Ok(())),
        (0, 3, Ok(())),
        (1, 4, Err(ExpectError::TableFull)),
    ] {
        let expectation = expectation(&tables[which], port);
        assert_eq!(tables[which].expect(expectation, 0), expected, "{which} {port}");
    }
}

#[test]
fn new_connections_of_a_translated_client_go_to_the_worker_with_its_others() {
    let shared = shared();
    let mut tables: Vec<Conntrack> = (0..WORKERS).map(|worker| table(&shared, worker)).collect();
    let to = |server: &'static str, port| Ipv4::new(A, server) / Udp::new(port, 53);
    let mut first = tracked(&mut tables[2], to(B, 1000));
    let n = tables[2].resolve(&first.meta.ct).unwrap();
    tables[2].link_source(n);
    assert_eq!(tables[2].confirm(&mut first), Verdict::Accept);
    let at = |packet: Frame, receiver| shared.packet_owner(&packet.build(), Some(receiver));
    for receiver in 0..WORKERS {
        assert_eq!(at(to("198.18.7.7", 1000), receiver), PacketOwner::Worker(2));
        assert_eq!(at(to("198.18.7.7", 1001), receiver), PacketOwner::Worker(receiver));
        assert_eq!(
            at(Ipv4::new(A, "198.18.7.7") / Tcp::new(1000, 53), receiver),
            PacketOwner::Worker(receiver)
        );
    }
    tables[2].kill(n);
    assert_eq!(at(to("198.18.7.7", 1000), 1), PacketOwner::Worker(1));
}

#[test]
fn expected_connections_go_to_the_worker_of_the_expectation() {
    let shared = shared();
    let mut tables: Vec<Conntrack> = (0..WORKERS).map(|worker| table(&shared, worker)).collect();
    for port in 1000..1060u16 {
        let worker = usize::from(port) % WORKERS;
        let (n, _) = pass(&mut tables[worker], Ipv4::new(A, B) / Tcp::new(port, 21).syn());
        let master = tables[worker].reference(n);
        let expectation = Expectation::new(
            master,
            2,
            6,
            Some(tuple::address(B.parse().unwrap())),
            tuple::address(A.parse().unwrap()),
            port,
        );
        let data = || Ipv4::new(B, A) / Tcp::new(20, port).syn();
        let home = owned_by(&shared, data());
        assert_eq!(tables[worker].expect(expectation, 0), Ok(()));
        assert_eq!(owned_by(&shared, data()), worker);
        let elsewhere = Ipv4::new("198.18.9.9", A) / Tcp::new(20, port).syn();
        assert_eq!(owned_by(&shared, elsewhere.clone()), {
            let fresh = Shared::new(WORKERS, &Settings { max: 1000, ..Settings::default() }, 7);
            owned_by(&fresh, elsewhere)
        });
        // It continues there after the expectation has ended.
        let (child, _) = pass(&mut tables[worker], data());
        assert_eq!(owned_by(&shared, data()), worker);
        tables[worker].kill(child);
        assert_eq!(owned_by(&shared, data()), home);
    }
}
