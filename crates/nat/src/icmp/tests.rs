// SPDX-License-Identifier: Apache-2.0

use super::*;
use penstock_conntrack::tuple::address;
use penstock_testkit::build::*;

/// A client behind the translator, the address it is seen by, a server, and a router on the way.
const CLIENT: (&str, &str) = ("198.18.0.10", "2001:db8:1::10");
const SEEN_BY: (&str, &str) = ("198.19.0.1", "2001:db8:2::1");
const SERVER: (&str, &str) = ("198.19.0.2", "2001:db8:2::2");
const ROUTER: (&str, &str) = ("198.19.0.77", "2001:db8:2::77");
const LOCAL: (&str, &str) = ("198.18.0.88", "2001:db8:1::88");

const BOTH: u32 = status::NAT_DONE_MASK;

fn tuple(
    v6: bool,
    protocol: u8,
    src: (&str, &str),
    src_id: u16,
    dst: (&str, &str),
    dst_id: u16,
) -> Tuple {
    let pick = |e: (&str, &str)| address(if v6 { e.1 } else { e.0 }.parse().unwrap());
    let l3 = if v6 { tuple::IPV6 } else { tuple::IPV4 };
    Tuple { src: pick(src), dst: pick(dst), src_id, dst_id, zone: 0, l3, protocol }
}

/// A UDP or TCP packet, cut after `keep` bytes of its transport header and data.
fn quoted(
    v6: bool,
    tcp: bool,
    from: ((&str, &str), u16),
    to: ((&str, &str), u16),
    keep: usize,
) -> Vec<u8> {
    let upper: Frame = if tcp {
        Tcp::new(from.1, to.1).syn().into()
    } else {
        Udp::new(from.1, to.1) / payload([9; 30])
    };
    let (bytes, header) = if v6 {
        ((Ipv6::new(from.0.1, to.0.1) / upper).build(), 40)
    } else {
        ((Ipv4::new(from.0.0, to.0.0) / upper).build(), 20)
    };
    bytes[..bytes.len().min(header + keep)].to_vec()
}

fn error(v6: bool, from: (&str, &str), to: (&str, &str), inner: &[u8]) -> Vec<u8> {
    if v6 {
        (Ipv6::new(from.1, to.1) / Icmpv6::new(1, 4) / payload(inner)).build()
    } else {
        (Ipv4::new(from.0, to.0) / Icmp::new(3, 3) / payload(inner)).build()
    }
}

fn run(packet: &mut [u8], related: &Related<'_>) -> bool {
    let at = offset(packet, related.opposite.l3).unwrap();
    translate(packet, at, related)
}

#[test]
fn errors_about_a_masqueraded_flow_reach_the_client_with_its_own_packet_inside() {
    for v6 in [false, true] {
        for (tcp, keep) in [(false, 100), (true, 100), (true, 8), (false, 8)] {
            let kind = if tcp { protocol::TCP } else { protocol::UDP };
            // The flow: client:1000 -> server:53, seen as SEEN_BY:40000.
            let original = tuple(v6, kind, CLIENT, 1000, SERVER, 53);
            let reply = tuple(v6, kind, SERVER, 53, SEEN_BY, 40000);
            // A TCP packet that ends before its checksum keeps that of the other side.
            let seen = quoted(v6, tcp, (SEEN_BY, 40000), (SERVER, 53), keep);
            let sent = quoted(v6, tcp, (CLIENT, 1000), (SERVER, 53), keep);
            let mut packet = error(v6, ROUTER, SEEN_BY, &seen);
            let related = |manip, direction, opposite| Related {
                manip,
                direction,
                opposite,
                status: BOTH | status::SRC_NAT,
                check: true,
            };
            // The error goes in reply direction: at prerouting its destination becomes the client.
            assert!(run(&mut packet, &related(Manip::Destination, Direction::Reply, &original)));
            assert_eq!(packet, error(v6, ROUTER, CLIENT, &sent), "six {v6} tcp {tcp} {keep}");
            // Nothing at postrouting, since the destination of the flow was not translated.
            assert!(run(&mut packet, &related(Manip::Source, Direction::Reply, &original)));
            assert_eq!(packet, error(v6, ROUTER, CLIENT, &sent));

            // An error from the client's side about an answer leaves with the translator's address
            // outside and inside.
            let answer = quoted(v6, tcp, (SERVER, 53), (CLIENT, 1000), keep);
            let mut packet = error(v6, LOCAL, SERVER, &answer);
            assert!(run(&mut packet, &related(Manip::Destination, Direction::Original, &reply)));
            assert_eq!(packet, error(v6, LOCAL, SERVER, &answer));
            assert!(run(&mut packet, &related(Manip::Source, Direction::Original, &reply)));
            let answer = quoted(v6, tcp, (SERVER, 53), (SEEN_BY, 40000), keep);
            assert_eq!(packet, error(v6, SEEN_BY, SERVER, &answer));
        }
    }
}

#[test]
fn an_echo_inside_gets_its_identifier_back() {
    let original = tuple(false, protocol::ICMP, CLIENT, 7, SERVER, 0x0800);
    let echo = |from: (&str, &str), id| {
        (Ipv4::new(from.0, SERVER.0) / Icmp::echo_request(id, 1) / payload(b"ping")).build()
    };
    let mut packet = error(false, ROUTER, SEEN_BY, &echo(SEEN_BY, 777));
    let related = Related {
        manip: Manip::Destination,
        direction: Direction::Reply,
        opposite: &original,
        status: BOTH | status::SRC_NAT,
        check: true,
    };
    assert!(run(&mut packet, &related));
    assert_eq!(packet, error(false, ROUTER, CLIENT, &echo(CLIENT, 7)));
}

#[test]
fn wrong_checksums_and_redirects_of_translated_flows_are_dropped() {
    let original = tuple(false, protocol::UDP, CLIENT, 1000, SERVER, 53);
    let seen = quoted(false, false, (SEEN_BY, 40000), (SERVER, 53), 100);
    let related = |status, check| Related {
        manip: Manip::Destination,
        direction: Direction::Reply,
        opposite: &original,
        status,
        check,
    };
    let wrong = || {
        let mut packet = error(false, ROUTER, SEEN_BY, &seen);
        packet[22] ^= 1;
        packet
    };
    assert!(!run(&mut wrong(), &related(BOTH | status::SRC_NAT, true)));
    let mut packet = wrong();
    assert!(run(&mut packet, &related(BOTH | status::SRC_NAT, false)));
    assert!(icmp::Header::new(&packet[20..]).unwrap().checksum_ok(), "it is made anew");

    let redirect = || (Ipv4::new(ROUTER.0, SEEN_BY.0) / Icmp::new(5, 1) / payload(&seen)).build();
    for (status, ok) in
        [(BOTH, true), (BOTH | status::DST_NAT, false), (status::SRC_NAT_DONE, false), (0, false)]
    {
        assert_eq!(run(&mut redirect(), &related(status, true)), ok, "status {status:#x}");
    }
    let whole = error(false, ROUTER, SEEN_BY, &seen);
    for len in 20..48 {
        assert!(!translate(&mut whole[..len].to_vec(), 20, &related(BOTH, false)), "{len}");
    }
}
