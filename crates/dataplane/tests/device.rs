// SPDX-License-Identifier: Apache-2.0

//! What only live devices bring: super-packets, neighbours that are found out, networks that
//! change, frames of the host's own stack.

mod router;

use std::net::IpAddr;
use std::sync::Arc;

use penstock_dataplane::{Dataplane, DropEvent, DropReason, Frame, LogRecord, Settings, Sink};
use penstock_net::{Link, Network};
use penstock_packet::{Gso, GsoKind, Meta, Packet};
use penstock_program::Hook;
use penstock_program::expr::*;
use penstock_ruleset::Family;
use penstock_testkit::build::*;
use router::*;

/// A sink that finds neighbours out, and notes super-packets.
#[derive(Default)]
struct Live {
    seen: Seen,
    asked: Vec<IpAddr>,
    supers: Vec<Option<Gso>>,
}

impl Sink for Live {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.supers.push(meta.gso);
        self.seen.transmit(device, frame, meta);
    }
    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.seen.deliver(device, packet);
    }
    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        self.seen.drop(drop, packet);
    }
    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet) {
        self.seen.log(record, packet);
    }
    fn resolve(&mut self, _device: &Link, next_hop: IpAddr) -> bool {
        self.asked.push(next_hop);
        true
    }
}

fn device(path: &Dataplane, name: &str) -> u32 {
    path.network().link_by_name(name).unwrap().index
}

fn with(lines: &str) -> Arc<Network> {
    Arc::new(Network::from_batch("net.ip", &format!("{NET}{lines}")).unwrap())
}

fn log(text: &str) -> Vec<Expr> {
    vec![Expr::Log(Log { prefix: Some(text.into()), group: Some(0), ..Log::default() })]
}

fn to(address: &str) -> Vec<u8> {
    (from_wan() / Ipv4::new("198.18.0.7", address) / Udp::new(1, 2)).build()
}

#[test]
fn packets_wait_for_a_neighbour_and_leave_when_it_is_resolved() {
    let mut path = router(NET);
    let wan = device(&path, "wan");
    let mut sink = Live::default();
    for i in 0..3 {
        path.receive([Frame { device: wan, bytes: &to("198.18.1.9"), time: START + i }], &mut sink);
    }
    assert_eq!(sink.asked, ["198.18.1.9".parse::<IpAddr>().unwrap()]);
    assert!(sink.seen.lines.is_empty(), "{:?}", sink.seen.lines);
    let net = with("neigh add 198.18.1.9 lladdr 02:00:00:00:00:b9 dev lan\n");
    path.set_network(net, START + SECOND, &mut sink);
    assert_eq!(sink.seen.lines, ["lan: to b9 198.18.0.7 > 198.18.1.9 ttl 63 len 28 udp"; 3]);
}

#[test]
fn unresolved_neighbours_cause_icmp_errors() {
    let mut path = router(NET);
    let wan = device(&path, "wan");
    let mut sink = Live::default();
    path.receive([Frame { device: wan, bytes: &to("198.18.1.9"), time: START }], &mut sink);
    path.advance(START + SECOND, &mut sink);
    assert!(sink.seen.lines.is_empty());
    path.advance(START + 4 * SECOND, &mut sink);
    assert_eq!(sink.seen.lines.len(), 2, "{:?}", sink.seen.lines);
    assert!(
        sink.seen.lines[0].starts_with("wan: to a7 198.18.0.1 > 198.18.0.7"),
        "{:?}",
        sink.seen.lines
    );
    assert_eq!(sink.seen.lines[1], "drop: no neighbour");
}

#[test]
fn an_address_scan_queues_a_bounded_number_of_packets() {
    let mut path = router(
        "link add wan address 02:00:00:00:00:01 type veth\nlink set wan up\naddr add 198.18.0.1/24 dev wan\n\
         link add lan address 02:00:00:00:00:02 type veth\nlink set lan up\naddr add 198.19.0.1/16 dev lan\n",
    );
    let wan = device(&path, "wan");
    let mut sink = Live::default();
    for i in 0..3000u32 {
        let address = format!("198.19.{}.{}", 1 + i / 250, 1 + i % 250);
        path.receive([Frame { device: wan, bytes: &to(&address), time: START }], &mut sink);
    }
    for _ in 0..200 {
        path.receive([Frame { device: wan, bytes: &to("198.19.1.1"), time: START }], &mut sink);
    }
    assert_eq!(path.counters().drops(DropReason::NoNeighbour), 3000 - 1024 + 200 - 100);
}

#[test]
fn a_super_packet_passes_whole_where_its_segments_fit() {
    let data = vec![7; 5000];
    let gso = Gso { size: 1300, kind: GsoKind::Tcp };
    let frame = (from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7").df()
        / Tcp::new(1, 2).ack(9)
        / payload(&data))
    .build();
    let mut path = router(NET);
    let wan = device(&path, "wan");
    let mut sink = Live::default();
    path.receive_super(Frame { device: wan, bytes: &frame, time: START }, gso, &mut sink);
    assert_eq!(sink.supers, [Some(gso)]);
    // 1400 is the way's MTU: these do not fit.
    let gso = Gso { size: 1380, kind: GsoKind::Tcp };
    let mut sink = Live::default();
    path.receive_super(Frame { device: wan, bytes: &frame, time: START }, gso, &mut sink);
    assert!(sink.seen.lines[0].contains("> 198.18.0.7"), "{:?}", sink.seen.lines);
    assert_eq!(sink.seen.lines[1], "drop: packet too big");
    // Without DF each segment is cut.
    let frame = (from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7")
        / Tcp::new(1, 2).ack(9)
        / payload(&data))
    .build();
    let mut sink = Live::default();
    path.receive_super(Frame { device: wan, bytes: &frame, time: START }, gso, &mut sink);
    assert_eq!(sink.supers, [None; 7]);
}

#[test]
fn a_bridge_passes_super_packets_whole_and_drops_oversized_frames() {
    let mut path = router(
        "link add br0 type bridge
         link add p0 type veth
         link add p1 type veth
         link set p0 master br0
         link set p1 master br0
         link set br0 up
         link set p0 up
         link set p1 up",
    );
    let frame = (from_wan()
        / Ipv4::new("198.18.0.7", "198.18.0.8")
        / Tcp::new(1, 2).ack(9)
        / payload([7; 5000]))
    .build();
    let (p0, mut sink) = (device(&path, "p0"), Live::default());
    let gso = Gso { size: 1460, kind: GsoKind::Tcp };
    path.receive_super(Frame { device: p0, bytes: &frame, time: START }, gso, &mut sink);
    path.receive([Frame { device: p0, bytes: &frame, time: START }], &mut sink);
    assert_eq!((sink.supers, path.counters().drops(DropReason::TooBig)), (vec![Some(gso)], 1));
}

#[test]
fn rules_follow_devices_that_come_and_go() {
    let mut path = router(NET);
    load(
        &mut path,
        vec![Base::new(Family::Netdev, "in", Hook::Ingress, vec![log("in ")]).on(&["wan", "new*"])],
    );
    let mut sink = Live::default();
    path.set_network(
        with(
            "link add new0 address 02:00:00:00:00:09 type veth\nlink set new0 up\naddr add 198.18.2.1/24 dev new0\n",
        ),
        START,
        &mut sink,
    );
    let new = device(&path, "new0");
    let frame = (Ethernet::new("02:00:00:00:00:d7", "02:00:00:00:00:09")
        / Ipv4::new("198.18.2.7", "198.18.1.7")
        / Udp::new(1, 2))
    .build();
    path.receive([Frame { device: new, bytes: &frame, time: START }], &mut sink);
    assert_eq!(
        sink.seen.lines,
        ["log in new0 -", "lan: to b7 198.18.2.7 > 198.18.1.7 ttl 63 len 28 udp"]
    );
    path.set_network(with(""), START, &mut sink);
    sink.seen.lines.clear();
    path.receive([Frame { device: new, bytes: &frame, time: START }], &mut sink);
    assert_eq!(sink.seen.lines, ["drop: device down"]);
}

#[test]
fn packets_of_the_host_pass_the_hooks_of_their_family() {
    let mut path = router(NET);
    load(
        &mut path,
        vec![
            Base::new(Family::Inet, "out", Hook::Output, vec![log("output ")]),
            Base::new(Family::Inet, "post", Hook::Postrouting, vec![log("post ")]),
            Base::new(Family::Arp, "arp", Hook::Output, vec![log("arp ")]),
            Base::new(Family::Netdev, "eg", Hook::Egress, vec![log("egress ")]).on(&["wan", "lan"]),
        ],
    );
    let wan = device(&path, "wan");
    let host = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:a7");
    let ip = ["log output - wan", "log post - wan", "log egress - wan"];
    let raw = ["log egress - wan"];
    for (frame, hooks, what) in [
        (host() / Ipv4::new("198.18.0.1", "198.18.0.9") / Udp::new(1, 2), &ip[..], "its own"),
        (
            host() / Ipv4::new("198.18.1.1", "198.19.9.9") / Udp::new(1, 2),
            &ip[..],
            "of another device's address",
        ),
        (
            host() / Ipv6::new("2001:db8::1", "2001:db8::9") / Udp::new(1, 2),
            &ip[..],
            "its own IPv6",
        ),
        (
            host() / Ipv6::new("::", "ff02::1:ff00:1") / Icmpv6::new(135, 0),
            &ip[..],
            "whose address is this",
        ),
        (
            host() / Ipv4::new("0.0.0.0", "255.255.255.255") / Udp::new(68, 67),
            &raw[..],
            "of a DHCP client",
        ),
        (
            host() / Ipv4::new("198.18.5.5", "198.18.0.9") / Udp::new(1, 2),
            &raw[..],
            "of who knows whom",
        ),
        (
            host() / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.9"),
            &["log arp - wan", "log egress - wan"][..],
            "ARP",
        ),
    ] {
        let mut sink = Live::default();
        let frame = frame.build();
        path.send_from_host(Frame { device: wan, bytes: &frame, time: START }, None, &mut sink);
        let (sent, passed) = sink.seen.lines.split_last().unwrap();
        assert_eq!(passed, hooks, "{what}");
        assert!(sent.starts_with("wan: "), "{what}: {sent}");
        assert_eq!(sink.seen.frames[0].1, frame, "{what}");
    }
}

#[test]
fn multicast_goes_to_a_host_with_its_own_stack() {
    let net = Network::from_batch("net.ip", NET).unwrap();
    let mut path =
        Dataplane::new(Arc::new(net), Settings { host_stack: true, ..Settings::unlimited() });
    let frame = (Ethernet::new("02:00:00:00:00:a7", "01:00:5e:00:00:05")
        / Ipv4::new("198.18.0.7", "224.0.0.5").ttl(1)
        / Udp::new(1, 2))
    .build();
    assert_eq!(
        receive(&mut path, "wan", &frame),
        ["host from wan: 198.18.0.7 > 224.0.0.5 ttl 1 len 28 udp"]
    );
}
