// SPDX-License-Identifier: Apache-2.0

//! What programs mean: programs in nft's debug text, packets, verdicts and effects.

use penstock_packet::{Packet, PacketType, VlanTag};
use penstock_program::Family;
use penstock_program::Hook;
use penstock_program::env::{Interface, Rejection, Route};
use penstock_program::expr::{Expr, FIB_MARK, FIB_SADDR, Fib, FibResult, Log};
use penstock_program::image::{
    ChainIndex, LinkedData, LinkedSet, LinkedValue, LinkedVerdict, RuleIndex, Stateful,
};
use penstock_program::{Outcome, Register, State, run};
use penstock_sets::{Description, Element, Set};
use penstock_testkit::build::*;
use penstock_testkit::program::{Event, MockEnv, Table, parse};
use penstock_wire::{ipv4, tcp};
use std::sync::Arc;

const A: &str = "02:00:00:00:00:01";
const B: &str = "02:00:00:00:00:02";
const SECOND: u64 = 1_000_000_000;

fn link() -> Ethernet {
    Ethernet::new(A, B)
}

fn packet(frame: impl AsRef<[u8]>) -> Packet {
    let mut packet = Packet::new();
    packet.receive_ethernet(frame.as_ref(), B.parse().unwrap());
    let _ = packet.untag();
    packet.find_transport_checked();
    packet.meta.iif = 2;
    packet
}

fn udp() -> Packet {
    packet(
        (link()
            / Ipv4::new("198.18.0.1", "198.18.0.2").tos(0xb8)
            / Udp::new(1000, 9)
            / payload(b"hello"))
        .build(),
    )
}

fn syn() -> Packet {
    let tcp = Tcp::new(1000, 80).seq(7).syn().mss(1460).nop().window_scale(7).sack_permitted();
    packet((link() / Ipv4::new("198.18.0.1", "198.18.0.2") / tcp).build())
}

fn syn6() -> Packet {
    let ip = Ipv6::new("2001:db8::1", "2001:db8::2").traffic_class(0x20);
    packet(
        (link() / ip / HopByHop::new().option(5, &[0, 0]) / Tcp::new(1000, 80).syn().mss(1440))
            .build(),
    )
}

fn family(packet: &Packet) -> Family {
    if packet.meta.protocol == 0x86dd { Family::Ip6 } else { Family::Ip }
}

fn outside(packet: &Packet) -> MockEnv {
    let mut outside = MockEnv::at(family(packet), Hook::Prerouting);
    let padded = |text: &str| {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    };
    outside
        .interfaces
        .insert(2, Interface { name: padded("wan"), kind: padded("veth"), arphrd: 1, group: 3 });
    outside
}

/// Runs one rule: `Accept` for a program that reached its end, since that is what follows it.
fn matches(program: &str, packet: &mut Packet) -> bool {
    let mut outside = outside(packet);
    matches_in(program, packet, &mut outside)
}

fn matches_in(program: &str, packet: &mut Packet, outside: &mut MockEnv) -> bool {
    let text = format!("{program}\n[ immediate reg 0 accept ]");
    let table = Table::of(vec![parse::program(&text).unwrap()]);
    let (image, _) = table.link(outside.context.family).unwrap();
    match run(&image, ChainIndex(0), packet, outside) {
        Outcome::Accept => true,
        Outcome::Policy => false,
        other => panic!("{other:?} of {program}"),
    }
}

#[track_caller]
fn table(packet: impl Fn() -> Packet, cases: &[(&str, bool)]) {
    for (program, expected) in cases {
        assert_eq!(matches(program, &mut packet()), *expected, "{program}");
    }
}

#[test]
fn loads_see_the_headers_of_the_packet() {
    table(
        udp,
        &[
            (
                "[ payload load 2b @ transport header + 2 => reg 1 ]\n[ cmp eq reg 1 0x00000900 ]",
                true,
            ),
            (
                "[ payload load 2b @ transport header + 2 => reg 1 ]\n[ cmp neq reg 1 0x00000900 ]",
                false,
            ),
            (
                "[ payload load 4b @ network header + 12 => reg 1 ]\n[ cmp eq reg 1 0x010012c6 ]",
                true,
            ),
            (
                "[ payload load 1b @ network header + 1 => reg 9 ]\n[ cmp eq reg 9 0x000000b8 ]",
                true,
            ),
            (
                "[ payload load 6b @ link header + 6 => reg 1 ]\n[ cmp eq reg 1 0x00000002 0x00000100 ]",
                true,
            ),
            (
                "[ payload load 5b @ inner header + 0 => reg 1 ]\n[ cmp eq reg 1 0x6c6c6568 0x0000006f ]",
                true,
            ),
            // Past the end a load breaks, also in front of a negation.
            (
                "[ payload load 2b @ inner header + 4 => reg 1 ]\n[ cmp neq reg 1 0x00000000 ]",
                false,
            ),
            (
                "[ payload load 4b @ network header + 200 => reg 1 ]\n[ cmp neq reg 1 0x00000000 ]",
                false,
            ),
            ("[ meta load l4proto => reg 1 ]\n[ cmp eq reg 1 0x00000011 ]", true),
            ("[ meta load protocol => reg 1 ]\n[ cmp eq reg 1 0x00000008 ]", true),
            ("[ meta load nfproto => reg 1 ]\n[ cmp eq reg 1 0x00000002 ]", true),
            ("[ meta load len => reg 1 ]\n[ cmp eq reg 1 0x00000021 ]", true),
        ],
    );
}

/// Loads of `flags` from a tunnel, and whether what follows them matches.
#[track_caller]
fn in_tunnel(kind: &str, frame: impl Into<Frame>, cases: &[(&str, &str, bool)]) {
    let frame = frame.into().build();
    let programs: Vec<String> = cases
        .iter()
        .map(|(load, cmp, _)| format!("[ inner type {kind} [ {load} => reg 1 ] ]\n[ cmp {cmp} ]"))
        .collect();
    for (program, (_, _, expected)) in programs.iter().zip(cases) {
        assert_eq!(matches(program, &mut packet(&frame)), *expected, "{program}");
    }
}

const VXLAN: &str = "1 hdrsize 8 flags f";
const GENEVE: &str = "2 hdrsize 8 flags f";
const GRE: &str = "3 hdrsize 4 flags c";
const GRETAP: &str = "4 hdrsize 4 flags e";

const VNI: &str = "payload load 3b @ tunnel header + 4";
const PROTOCOL: &str = "meta load protocol";
const L4PROTO: &str = "meta load l4proto";
const DPORT: &str = "payload load 2b @ transport header + 2";
const SADDR: &str = "payload load 4b @ network header + 12";
const ETHER_SADDR: &str = "payload load 6b @ link header + 6";

fn outer() -> Frame {
    link() / Ipv4::new("198.18.0.1", "198.18.0.2")
}

/// A frame from another host, with a TCP segment to port 80.
fn carried() -> Frame {
    Ethernet::new("02:00:00:00:00:11", "02:00:00:00:00:12") / carried_packet()
}

fn carried_packet() -> Frame {
    Ipv4::new("198.19.0.1", "198.19.0.2") / Tcp::new(1000, 80).syn()
}

#[test]
fn inner_frames_are_found_after_the_tunnel_header_and_its_options() {
    let cases = [
        (VNI, "eq reg 1 0x000a0000", true),
        (PROTOCOL, "eq reg 1 0x00000008", true),
        (L4PROTO, "eq reg 1 0x00000006", true),
        (SADDR, "eq reg 1 0x010013c6", true),
        (SADDR, "neq reg 1 0x010013c6", false),
        (DPORT, "eq reg 1 0x00005000", true),
        (ETHER_SADDR, "eq reg 1 0x00000002 0x00001100", true),
        // Past the end.
        ("payload load 2b @ transport header + 20", "neq reg 1 0x00000000", false),
    ];
    in_tunnel(VXLAN, outer() / Udp::new(1, 4789) / Vxlan::new(10) / carried(), &cases);
    in_tunnel(GENEVE, outer() / Udp::new(1, 6081) / Geneve::new(10) / carried(), &cases);
    let options = Geneve::new(10).option(1, 2, &[0; 8]).option(1, 3, &[]);
    in_tunnel(GENEVE, outer() / Udp::new(1, 6081) / options / carried(), &cases);
    in_tunnel(GRETAP, outer() / Gre::new() / carried(), &cases[1..]);
    in_tunnel(
        GRETAP,
        outer() / Gre::new().key(7).sequence(9).with_checksum() / carried(),
        &cases[1..],
    );
}

#[test]
fn packets_in_gre_are_seen_whatever_fields_its_header_has() {
    let cases = [
        (PROTOCOL, "eq reg 1 0x00000008", true),
        (L4PROTO, "eq reg 1 0x00000006", true),
        (SADDR, "eq reg 1 0x010013c6", true),
        (DPORT, "eq reg 1 0x00005000", true),
        // There is neither a link header nor one of the tunnel's own.
        (ETHER_SADDR, "neq reg 1 0x00000000 0x00000000", false),
        (VNI, "neq reg 1 0x00000000", false),
    ];
    in_tunnel(GRE, outer() / Gre::new() / carried_packet(), &cases);
    in_tunnel(GRE, outer() / Gre::new().key(7) / carried_packet(), &cases);
    let v6 = Ipv6::new("2001:db8::1", "2001:db8::2") / HopByHop::new() / Udp::new(1, 80);
    let cases = [
        (PROTOCOL, "eq reg 1 0x0000dd86", true),
        (L4PROTO, "eq reg 1 0x00000011", true),
        (DPORT, "eq reg 1 0x00005000", true),
    ];
    in_tunnel(GRE, outer() / Gre::new() / v6, &cases);
}

#[test]
fn a_tagged_inner_frame_has_the_protocol_of_its_tag() {
    let frame =
        Ethernet::new("02:00:00:00:00:11", "02:00:00:00:00:12") / Vlan::new(5) / carried_packet();
    let cases = [
        (PROTOCOL, "eq reg 1 0x00000081", true),
        ("payload load 2b @ link header + 14", "eq reg 1 0x00000500", true),
        (SADDR, "eq reg 1 0x010013c6", true),
        (DPORT, "eq reg 1 0x00005000", true),
    ];
    in_tunnel(VXLAN, outer() / Udp::new(1, 4789) / Vxlan::new(10) / frame, &cases);
}

#[test]
fn a_missing_inner_header_breaks_the_rule() {
    let vxlan = || outer() / Udp::new(1, 4789) / Vxlan::new(10);
    let frame = || Ethernet::new("02:00:00:00:00:11", "02:00:00:00:00:12");
    let ip = || Ipv4::new("198.19.0.1", "198.19.0.2");
    let udp = || Udp::new(1, 2);
    let all = [
        (VNI, "neq reg 1 0x00000000", false),
        (PROTOCOL, "neq reg 1 0x00000000", false),
        (L4PROTO, "neq reg 1 0x000000ff", false),
        (SADDR, "neq reg 1 0x00000000", false),
        (DPORT, "neq reg 1 0x00000000", false),
        (ETHER_SADDR, "neq reg 1 0x00000000 0x00000000", false),
    ];
    // Not over UDP, a later fragment outside, other protocols inside, headers that are cut or
    // wrong.
    in_tunnel(VXLAN, outer() / Tcp::new(1, 4789) / Vxlan::new(10) / carried(), &all);
    let fragment = link() / Ipv4::new("198.18.0.1", "198.18.0.2").fragment(3, true);
    in_tunnel(VXLAN, fragment / Udp::new(1, 4789) / Vxlan::new(10) / carried(), &all);
    in_tunnel(
        VXLAN,
        vxlan() / frame() / Arp::request("02:00:00:00:00:11", "198.19.0.1", "198.19.0.2"),
        &all,
    );
    in_tunnel(VXLAN, vxlan() / frame() / ip().version(5) / udp(), &all);
    in_tunnel(VXLAN, vxlan() / frame() / ip().header_len(16) / udp(), &all);
    in_tunnel(VXLAN, vxlan() / payload(b"short"), &all);
    in_tunnel(GRE, outer() / Gre::new() / payload(b"not IP"), &all);
    // A later fragment inside has a network header but no transport header.
    let later = [
        (SADDR, "eq reg 1 0x010013c6", true),
        (L4PROTO, "neq reg 1 0x000000ff", false),
        (DPORT, "neq reg 1 0x00000000", false),
    ];
    in_tunnel(VXLAN, vxlan() / frame() / ip().fragment(3, true) / udp(), &later);
}

#[test]
fn an_out_of_band_tag_is_loaded_as_if_in_the_frame() {
    let tagged = || {
        packet(
            (link()
                / Vlan::new(5).priority(3)
                / Ipv4::new("198.18.0.1", "198.18.0.2")
                / Udp::new(1, 2))
            .build(),
        )
    };
    assert_eq!(tagged().meta.vlan, Some(VlanTag { protocol: 0x8100, tci: 0x6005 }));
    table(
        tagged,
        &[
            ("[ payload load 2b @ link header + 12 => reg 1 ]\n[ cmp eq reg 1 0x00000081 ]", true),
            ("[ payload load 2b @ link header + 14 => reg 1 ]\n[ cmp eq reg 1 0x00000560 ]", true),
            ("[ payload load 2b @ link header + 16 => reg 1 ]\n[ cmp eq reg 1 0x00000008 ]", true),
            (
                "[ payload load 8b @ link header + 12 => reg 1 ]\n[ cmp eq reg 1 0x05600081 0x00450008 ]",
                true,
            ),
            ("[ payload load 1b @ link header + 18 => reg 1 ]\n[ cmp eq reg 1 0x00000045 ]", true),
            (
                "[ payload load 1b @ network header + 0 => reg 1 ]\n[ cmp eq reg 1 0x00000045 ]",
                true,
            ),
        ],
    );
    let mut p = tagged();
    let set = "[ immediate reg 1 0x00000700 ]\n\
               [ payload write reg 1 => 2b @ link header + 14 csum_type 0 csum_off 0 csum_flags 0x0 ]";
    assert!(matches(set, &mut p));
    assert_eq!(p.meta.vlan, Some(VlanTag { protocol: 0x8100, tci: 7 }));
}

#[test]
fn packets_without_a_link_header_have_none_to_load() {
    let mut p = Packet::new();
    p.load_network(&(Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2)).build());
    assert!(!matches("[ payload load 1b @ link header + 0 => reg 1 ]", &mut p));
}

#[test]
fn metadata_that_is_absent_breaks_but_names_are_empty() {
    table(
        udp,
        &[
            (
                "[ meta load iifname => reg 1 ]\n[ cmp eq reg 1 0x006e6177 0x00000000 0x00000000 0x00000000 ]",
                true,
            ),
            ("[ meta load iifkind => reg 1 ]", true),
            ("[ meta load iifgroup => reg 1 ]\n[ cmp eq reg 1 0x00000003 ]", true),
            ("[ meta load iiftype => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]", true),
            (
                "[ meta load oifname => reg 1 ]\n[ cmp eq reg 1 0x00000000 0x00000000 0x00000000 0x00000000 ]",
                true,
            ),
            ("[ meta load oif => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]", true),
            ("[ meta load oiftype => reg 1 ]", false),
            ("[ meta load oifgroup => reg 1 ]", false),
            ("[ meta load oifkind => reg 1 ]", false),
            ("[ meta load skuid => reg 1 ]", false),
            ("[ meta load cgroup => reg 1 ]", false),
            ("[ meta load rtclassid => reg 1 ]", false),
            ("[ meta load secpath => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]", true),
            ("[ meta load sdif => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]", true),
        ],
    );
    let sunday = || {
        let mut p = udp();
        // 2023-02-05 01:02:03 UTC
        p.meta.time = 1_675_558_923 * SECOND;
        p.meta.owner = Some((1000, 100));
        p
    };
    table(
        sunday,
        &[
            ("[ meta load day => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]", true),
            ("[ meta load hour => reg 1 ]\n[ cmp eq reg 1 0x00000e8b ]", true),
            ("[ meta load time => reg 1 ]\n[ cmp eq reg 1 0x00000000 0x00000000 ]", false),
            ("[ meta load skuid => reg 1 ]\n[ cmp eq reg 1 0x000003e8 ]", true),
            ("[ meta load skgid => reg 1 ]\n[ cmp eq reg 1 0x00000064 ]", true),
        ],
    );
}

#[test]
fn looped_back_packets_count_as_what_they_were_sent_as() {
    let looped = |dst: &'static str| {
        let mut p = packet((link() / Ipv4::new("198.18.0.1", dst) / Udp::new(1, 2)).build());
        p.meta.packet_type = PacketType::Loopback;
        p
    };
    let multicast = "[ meta load pkttype => reg 1 ]\n[ cmp eq reg 1 0x00000002 ]";
    assert!(matches(multicast, &mut looped("224.0.0.5")));
    assert!(!matches(multicast, &mut looped("198.18.255.255")));
    // And cannot be made into something else.
    let mut p = looped("224.0.0.5");
    assert!(matches("[ immediate reg 1 0x00000000 ]\n[ meta set pkttype with reg 1 ]", &mut p));
    assert_eq!(p.meta.packet_type, PacketType::Loopback);
}

#[test]
fn metadata_is_set_for_the_next_expression_and_the_next_chain() {
    let mut p = udp();
    let program = "[ immediate reg 1 0x00010002 ]\n[ meta set priority with reg 1 ]\n[ meta set mark with reg 1 ]\n\
                   [ immediate reg 1 0x00000003 ]\n[ meta set pkttype with reg 1 ]\n\
                   [ meta load mark => reg 1 ]\n[ cmp eq reg 1 0x00010002 ]";
    assert!(matches(program, &mut p));
    assert_eq!(
        (p.meta.mark, p.meta.priority, p.meta.packet_type),
        (0x10002, 0x10002, PacketType::OtherHost)
    );
}

#[test]
fn comparisons_are_those_of_bytes() {
    let port = "[ payload load 2b @ transport header + 0 => reg 1 ]\n";
    let mac = "[ payload load 6b @ link header + 0 => reg 1 ]\n";
    for (load, test, expected) in [
        // Port 1000 is 0x03e8.
        (port, "[ cmp lt reg 1 0x0000e903 ]", true),
        (port, "[ cmp lt reg 1 0x0000e803 ]", false),
        (port, "[ cmp lte reg 1 0x0000e803 ]", true),
        (port, "[ cmp gt reg 1 0x0000e703 ]", true),
        (port, "[ cmp gt reg 1 0x0000e803 ]", false),
        (port, "[ cmp gte reg 1 0x0000e803 ]", true),
        (port, "[ cmp gte reg 1 0x00000004 ]", false),
        (port, "[ range eq reg 1 0x0000e803 0x0000e803 ]", true),
        (port, "[ range eq reg 1 0x00000004 0x00000005 ]", false),
        (port, "[ range neq reg 1 0x0000e803 0x00000005 ]", false),
        (port, "[ range neq reg 1 0x0000e903 0x00000005 ]", true),
        (mac, "[ cmp gt reg 1 0x00000002 0x00000100 ]", true),
        (mac, "[ cmp lt reg 1 0x00000002 0x00000300 ]", true),
        (mac, "[ range eq reg 1 0x00000002 0x00000200 0x00000002 0x00000200 ]", true),
    ] {
        assert_eq!(matches(&format!("{load}{test}"), &mut udp()), expected, "{test}");
    }
}

#[test]
fn registers_are_computed_on_as_words_in_host_order() {
    for (program, expected) in [
        (
            "[ immediate reg 1 0x0a0b0c0d ]\n[ bitwise reg 1 = ( reg 1 & 0xff00ff00 ) ^ 0x00000001 ]",
            "0x0a000c01",
        ),
        (
            "[ immediate reg 1 0x80000001 ]\n[ bitwise reg 1 = ( reg 1 << 0x00000004 ) ]",
            "0x00000010",
        ),
        (
            "[ immediate reg 1 0x80000001 ]\n[ bitwise reg 1 = ( reg 1 >> 0x00000004 ) ]",
            "0x08000000",
        ),
        (
            "[ immediate reg 1 0x80000001 ]\n[ bitwise reg 1 = ( reg 1 << 0x00000000 ) ]",
            "0x80000001",
        ),
        (
            "[ immediate reg 1 0x00000001 0x80000002 ]\n[ bitwise reg 2 = ( reg 1 << 0x00000001 ) ]\n\
             [ byteorder reg 1 = ntoh(reg 2, 4, 4) ]",
            "0x03000000",
        ),
        (
            "[ immediate reg 1 0x00000003 0x80000002 ]\n[ bitwise reg 1 = ( reg 1 >> 0x00000001 ) ]\n\
             [ bitwise reg 1 = ( reg 9 & 0xffffffff ) ^ 0x00000000 ]",
            "0xc0000001",
        ),
        ("[ immediate reg 1 0x0a0b0c0d ]\n[ byteorder reg 1 = hton(reg 1, 4, 4) ]", "0x0d0c0b0a"),
        ("[ immediate reg 1 0x0a0b0c0d ]\n[ byteorder reg 1 = hton(reg 1, 2, 4) ]", "0x0b0a0d0c"),
        ("[ immediate reg 1 0x0a0b0c0d ]\n[ byteorder reg 1 = hton(reg 1, 2, 2) ]", "0x0a0b0d0c"),
        (
            "[ immediate reg 1 0x04030201 0x08070605 ]\n[ byteorder reg 1 = ntoh(reg 1, 8, 8) ]",
            "0x05060708 0x01020304",
        ),
    ] {
        let len = if expected.len() > 10 {
            "[ bitwise reg 2 = ( reg 1 & 0xffffffff 0xffffffff ) ^ 0x00000000 0x00000000 ]"
        } else {
            ""
        };
        assert!(
            matches(&format!("{program}\n{len}\n[ cmp eq reg 1 {expected} ]"), &mut udp()),
            "{program}"
        );
    }
}

#[test]
fn extension_headers_and_options_are_found_or_break() {
    table(
        syn,
        &[
            ("[ exthdr load tcpopt 2b @ 2 + 2 => reg 1 ]\n[ cmp eq reg 1 0x0000b405 ]", true),
            ("[ exthdr load tcpopt 1b @ 3 + 2 => reg 1 ]\n[ cmp eq reg 1 0x00000007 ]", true),
            (
                "[ exthdr load tcpopt 1b @ 4 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]",
                true,
            ),
            (
                "[ exthdr load tcpopt 1b @ 8 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
                true,
            ),
            ("[ exthdr load tcpopt 4b @ 8 + 2 => reg 1 ]", false),
            // Longer than the option.
            ("[ exthdr load tcpopt 4b @ 2 + 2 => reg 1 ]", false),
            ("[ exthdr load ipv6 1b @ 0 + 0 present => reg 1 ]", false),
            (
                "[ exthdr load ipv4 1b @ 148 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
                true,
            ),
        ],
    );
    table(
        syn6,
        &[
            ("[ exthdr load ipv6 1b @ 0 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]", true),
            ("[ exthdr load ipv6 1b @ 0 + 0 => reg 1 ]\n[ cmp eq reg 1 0x00000006 ]", true),
            (
                "[ exthdr load ipv6 1b @ 44 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
                true,
            ),
            ("[ exthdr load ipv6 1b @ 44 + 0 => reg 1 ]", false),
            ("[ exthdr load tcpopt 2b @ 2 + 2 => reg 1 ]\n[ cmp eq reg 1 0x0000a005 ]", true),
            ("[ meta load l4proto => reg 1 ]\n[ cmp eq reg 1 0x00000006 ]", true),
        ],
    );
    let alert = || {
        packet(
            (link()
                / Ipv4::new("198.18.0.1", "198.18.0.2").options(&[148, 4, 0, 0])
                / Udp::new(1, 2))
            .build(),
        )
    };
    table(
        alert,
        &[
            ("[ exthdr load ipv4 2b @ 148 + 0 => reg 1 ]\n[ cmp eq reg 1 0x00000494 ]", true),
            (
                "[ exthdr load ipv4 1b @ 131 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
                true,
            ),
            (
                "[ exthdr load tcpopt 1b @ 2 + 0 present => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
                true,
            ),
        ],
    );
}

/// Whether all checksums of an IPv4 packet are right.
fn sums_are_right(p: &Packet) -> bool {
    let ip = ipv4::Header::new(p.network()).unwrap();
    let segment = &p.network()[ip.header_len()..];
    ip.checksum_ok() && ip.pseudo(segment.len()).bytes(segment).is_valid()
}

#[test]
fn rewritten_fields_keep_checksums_right() {
    let write = |at: &str, sums: &str| format!("[ payload write reg 1 => {at} {sums} ]");
    for (value, at, sums) in [
        ("0x04030201", "4b @ network header + 12", "csum_type 1 csum_off 10 csum_flags 0x1"),
        ("0x00002000", "2b @ network header + 0", "csum_type 1 csum_off 10 csum_flags 0x0"),
        ("0x00000300", "2b @ transport header + 2", "csum_type 1 csum_off 16 csum_flags 0x0"),
    ] {
        let program = match at.contains("+ 0") {
            // As nft does for DSCP: read, modify, write.
            true => format!(
                "[ payload load 2b @ network header + 0 => reg 1 ]\n\
                 [ bitwise reg 1 = ( reg 1 & 0x000003ff ) ^ {value} ]\n{}",
                write(at, sums)
            ),
            false => format!("[ immediate reg 1 {value} ]\n{}", write(at, sums)),
        };
        let mut p = syn();
        let before = p.network().to_vec();
        assert!(sums_are_right(&p));
        assert!(matches(&program, &mut p));
        assert_ne!(p.network(), before);
        assert!(sums_are_right(&p), "{program}");
    }
}

#[test]
fn a_udp_packet_without_checksum_stays_without_when_addresses_change() {
    let mut p = packet(
        (link() / Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2).checksum(0)).build(),
    );
    let program = "[ immediate reg 1 0x04030201 ]\n\
        [ payload write reg 1 => 4b @ network header + 16 csum_type 1 csum_off 10 csum_flags 0x1 ]";
    assert!(matches(program, &mut p));
    assert_eq!(p.transport_bytes().unwrap()[6..8], [0, 0]);
    assert!(ipv4::Header::new(p.network()).unwrap().checksum_ok());
}

#[test]
fn a_write_past_the_end_breaks_and_changes_nothing() {
    let mut p = udp();
    let before = p.frame().to_vec();
    let program = "[ immediate reg 1 0x04030201 ]\n\
        [ payload write reg 1 => 4b @ transport header + 10 csum_type 1 csum_off 6 csum_flags 0x0 ]";
    assert!(!matches(program, &mut p));
    assert_eq!(p.frame(), before);
}

#[test]
fn a_segment_size_is_lowered_and_never_raised() {
    for (value, after) in [("0x00007805", 1400), ("0x0000dc05", 1460), ("0x0000b405", 1460)] {
        let mut p = syn();
        let program =
            format!("[ immediate reg 1 {value} ]\n[ exthdr write tcpopt reg 1 => 2b @ 2 + 2 ]");
        assert!(matches(&program, &mut p));
        let header = tcp::header_of(p.transport_bytes().unwrap()).unwrap();
        assert_eq!(u16::from_be_bytes([header[22], header[23]]), after);
        assert!(sums_are_right(&p));
    }
    // Without the option there is nothing to do.
    let none = Tcp::new(1, 2).syn();
    let mut p = packet((link() / Ipv4::new("198.18.0.1", "198.18.0.2") / none).build());
    assert!(matches(
        "[ immediate reg 1 0x00007805 ]\n[ exthdr write tcpopt reg 1 => 2b @ 2 + 2 ]",
        &mut p
    ));
    assert!(!matches(
        "[ immediate reg 1 0x00007805 ]\n[ exthdr write tcpopt reg 1 => 2b @ 2 + 2 ]",
        &mut udp()
    ));
}

#[test]
fn options_are_reset_to_no_operations() {
    let mut p = syn();
    assert!(matches(
        "[ exthdr reset tcpopt 4 ]\n[ exthdr reset tcpopt 2 ]\n[ exthdr reset tcpopt 30 ]",
        &mut p
    ));
    let header = tcp::header_of(p.transport_bytes().unwrap()).unwrap();
    assert!(tcp::options(header).all(|o| matches!(o.kind, 0 | 1 | 3)));
    assert!(sums_are_right(&p));
}

#[test]
fn an_option_that_is_cut_cannot_be_reset() {
    let tcp = Tcp::new(1, 2).raw_options(&[2, 40, 0, 0]);
    let mut p = packet((link() / Ipv4::new("198.18.0.1", "198.18.0.2") / tcp).build());
    let table = Table::of(vec![parse::program("[ exthdr reset tcpopt 2 ]").unwrap()]);
    let (image, _) = table.link(Family::Ip).unwrap();
    let mut outside = outside(&p);
    assert_eq!(run(&image, ChainIndex(0), &mut p, &mut outside), Outcome::Drop(RuleIndex(0)));
}

#[test]
fn numgen_counts_and_scales_random_numbers() {
    let program = parse::program(
        "[ numgen reg 1 = inc mod 3 ]\n[ cmp eq reg 1 0x00000000 ]\n[ counter pkts 0 bytes 0 ]",
    );
    let (image, states) = Table::of(vec![program.unwrap()]).link(Family::Ip).unwrap();
    for _ in 0..10 {
        let mut p = udp();
        let mut outside = outside(&p);
        run(&image, ChainIndex(0), &mut p, &mut outside);
    }
    let State::Counter(counter) = &*states[1] else { panic!() };
    assert_eq!(counter.read(), (4, 4 * 33));
    let mut p = udp();
    let mut random = outside(&p);
    random.random = 0xc000_0000;
    assert!(matches_in(
        "[ numgen reg 1 = random mod 4 offset 5 ]\n[ cmp eq reg 1 0x00000008 ]",
        &mut p,
        &mut random
    ));
}

#[test]
fn hash_values_equal_those_of_the_kernel() {
    // Jenkins' own test vectors, then what Linux 6.18 computed for `jhash ip saddr . ip daddr`.
    use penstock_program::interp::{jhash, reciprocal_scale};
    assert_eq!(jhash(b"", 0), 0xdead_beef);
    assert_eq!(jhash(b"Four score and seven years ago", 0), 0x1777_0551);
    assert_eq!(jhash(b"Four score and seven years ago", 1), 0xcd62_8161);
    let pair = [198, 18, 0, 1, 198, 18, 0, 1];
    assert_eq!(reciprocal_scale(jhash(&pair, 0xab), u32::MAX), 0x3989_1a15);
    let port = |n: u16| [&n.to_be_bytes()[..], &[0, 0]].concat();
    let tuple = |dport| [&pair[..], &port(1000), &port(dport)].concat();
    let buckets = [303, 203].map(|dport| reciprocal_scale(jhash(&tuple(dport), 1), 1000) + 5);
    assert_eq!(buckets, [0x110, 0x1f5]);
}

#[test]
fn both_directions_have_the_same_symmetric_hash() {
    let bucket = |mut p: Packet| {
        (0..1000).find(|n| {
            matches(
                &format!("[ hash reg 1 = symhash() % mod 1000 ]\n[ cmp eq reg 1 {n:#010x} ]"),
                &mut p,
            )
        })
    };
    let packet_of = |from, to, sport, dport| {
        packet((link() / Ipv4::new(from, to) / Udp::new(sport, dport)).build())
    };
    let there = bucket(packet_of("198.18.0.1", "198.18.0.2", 1000, 53));
    assert_eq!(there, bucket(packet_of("198.18.0.2", "198.18.0.1", 53, 1000)));
    assert_ne!(there, bucket(packet_of("198.18.0.1", "198.18.0.2", 1001, 53)));
}

#[test]
fn limits_follow_the_token_bucket_of_the_kernel() {
    let matched = |limit: &str, times: &[u64]| -> Vec<bool> {
        let program = format!("{limit}\n[ immediate reg 0 accept ]");
        let (image, _) =
            Table::of(vec![parse::program(&program).unwrap()]).link(Family::Ip).unwrap();
        let outcome = |time: &u64| {
            let mut p = udp();
            p.meta.time = *time;
            let mut outside = outside(&p);
            run(&image, ChainIndex(0), &mut p, &mut outside) == Outcome::Accept
        };
        times.iter().map(outcome).collect()
    };
    let count = |matches: Vec<bool>| matches.into_iter().filter(|m| *m).count();
    let at_once = [100 * SECOND; 10];
    // As observed: 2/second burst 3, ten packets at once.
    assert_eq!(
        count(matched("[ limit rate 2/second burst 3 type packets flags 0x0 ]", &at_once)),
        3
    );
    assert_eq!(
        count(matched("[ limit rate 2/second burst 3 type packets flags 0x1 ]", &at_once)),
        7
    );
    // Half a second buys one packet, and nothing less.
    let t = 100 * SECOND;
    let times = [t, t, t, t, t + SECOND / 2 - 1, t + SECOND / 2, t + SECOND / 2, t + 60 * SECOND];
    let expected = [true, true, true, false, false, true, false, true];
    assert_eq!(matched("[ limit rate 2/second burst 3 type packets flags 0x0 ]", &times), expected);
    // Packets have 33 bytes; the bucket holds a second and the burst: 100 + 32 bytes.
    let times = [t, t, t, t, t, t + 330_000_000];
    let expected = [true, true, true, true, false, true];
    assert_eq!(
        matched("[ limit rate 100/second burst 32 type bytes flags 0x0 ]", &times),
        expected
    );
    // A clock that goes back buys nothing, and the bucket fills from there.
    assert_eq!(
        matched("[ limit rate 1/second burst 1 type packets flags 0x0 ]", &[t, t - SECOND, t]),
        [true, false, true]
    );
}

#[test]
fn quotas_count_every_packet_and_match_until_or_over() {
    for (flags, matching) in [(0, 4), (1, 6)] {
        // Ten packets of 33 bytes; what is used up exactly is not exceeded yet.
        let text =
            format!("[ quota bytes 132 consumed 0 flags {flags} ]\n[ counter pkts 0 bytes 0 ]");
        let exprs = parse::program(&text).unwrap();
        let (image, states) = Table::of(vec![exprs.clone()]).link(Family::Ip).unwrap();
        for _ in 0..10 {
            let mut p = udp();
            let mut outside = outside(&p);
            run(&image, ChainIndex(0), &mut p, &mut outside);
        }
        assert_eq!(
            exprs[1].snapshot(&states[1], 0).to_string(),
            format!("[ counter pkts {matching} bytes {} ]", matching * 33)
        );
        assert_eq!(
            exprs[0].reset(&states[0], 0).to_string(),
            format!("[ quota bytes 132 consumed 132 flags {} ]", flags | 2)
        );
        assert_eq!(
            exprs[0].snapshot(&states[0], 0).to_string(),
            format!("[ quota bytes 132 consumed 0 flags {flags} ]")
        );
        let counted = exprs[1].reset(&states[1], 0);
        assert_eq!(
            counted.to_string(),
            format!("[ counter pkts {matching} bytes {} ]", matching * 33)
        );
        assert_eq!(exprs[1].snapshot(&states[1], 0).to_string(), "[ counter pkts 0 bytes 0 ]");
    }
}

#[test]
fn last_reports_milliseconds_since_the_match() {
    let exprs = parse::program("[ last never ]").unwrap();
    let (image, states) = Table::of(vec![exprs.clone()]).link(Family::Ip).unwrap();
    assert_eq!(exprs[0].snapshot(&states[0], SECOND).to_string(), "[ last never ]");
    let mut p = udp();
    p.meta.time = 5 * SECOND;
    let mut outside = outside(&p);
    run(&image, ChainIndex(0), &mut p, &mut outside);
    assert_eq!(exprs[0].snapshot(&states[0], 7 * SECOND).to_string(), "[ last 2000 ]");
    assert_eq!(exprs[0].reset(&states[0], 7 * SECOND).to_string(), "[ last 2000 ]");
    assert_eq!(exprs[0].snapshot(&states[0], 8 * SECOND).to_string(), "[ last never ]");
}

/// A set of ports, with the values given.
fn ports(elements: Vec<(u16, LinkedValue)>, value_len: Option<u32>) -> LinkedSet {
    let map =
        value_len.is_some() || elements.iter().any(|(_, v)| !matches!(v.data, LinkedData::None));
    let mut set = Set::new(Description { key_len: 2, map, ..Description::default() }).unwrap();
    for (port, value) in elements {
        let key = port.to_be_bytes().to_vec().into();
        set.insert(Element { key, key_end: None, value, expires_at: None }, 0).unwrap();
    }
    set.commit();
    LinkedSet {
        elements: penstock_program::image::LinkedElements::Fixed(Arc::new(set)),
        key_len: 2,
        value_len,
    }
}

fn value(data: LinkedData) -> LinkedValue {
    LinkedValue { data, statements: Box::default() }
}

#[test]
fn lookups_match_load_decide_and_run_the_statements_of_elements() {
    let counter =
        Arc::new(parse::program("[ counter pkts 0 bytes 0 ]").unwrap()[0].new_state(0).unwrap());
    let object =
        Arc::new(parse::program("[ counter pkts 0 bytes 0 ]").unwrap()[0].new_state(0).unwrap());
    let counted = LinkedValue {
        data: LinkedData::None,
        statements: [Stateful::Counter(counter.clone())].into(),
    };
    let mut t = Table::default();
    t.sets.insert("s".into(), ports(vec![(9, counted)], None));
    t.sets.insert("other".into(), ports(vec![(80, value(LinkedData::None))], None));
    t.sets.insert(
        "m".into(),
        ports(vec![(9, value(LinkedData::from_bytes(&[1, 2, 3, 4, 5, 6])))], Some(6)),
    );
    t.sets.insert(
        "v".into(),
        ports(vec![(9, value(LinkedData::Verdict(LinkedVerdict::Drop)))], None),
    );
    let linked = Stateful::Counter(object.clone());
    t.sets.insert("o".into(), ports(vec![(9, value(LinkedData::Object(linked)))], None));
    let load = "[ payload load 2b @ transport header + 2 => reg 1 ]\n";
    let accept = "\n[ immediate reg 0 accept ]";
    for (text, expected) in [
        ("[ lookup reg 1 set s ]", Outcome::Accept),
        ("[ lookup reg 1 set s 0x1 ]", Outcome::Policy),
        ("[ lookup reg 1 set other ]", Outcome::Policy),
        ("[ lookup reg 1 set other 0x1 ]", Outcome::Accept),
        (
            "[ lookup reg 1 set m dreg 2 ]\n[ bitwise reg 2 = ( reg 2 & 0xffffffff ) ^ 0x00000000 ]\n\
             [ cmp eq reg 2 0x04030201 ]\n[ cmp eq reg 13 0x00000605 ]",
            Outcome::Accept,
        ),
        ("[ lookup reg 1 set v dreg 0 ]", Outcome::Drop(RuleIndex(0))),
        ("[ objref sreg 1 set o ]", Outcome::Accept),
        ("[ objref sreg 1 set s ]", Outcome::Policy),
    ] {
        t.chains =
            vec![("base".into(), vec![parse::program(&format!("{load}{text}{accept}")).unwrap()])];
        let (image, _) = t.link(Family::Ip).unwrap();
        let mut p = udp();
        let mut outside = outside(&p);
        assert_eq!(run(&image, ChainIndex(0), &mut p, &mut outside), expected, "{text}");
    }
    for state in [&counter, &object] {
        let State::Counter(state) = &**state else { panic!() };
        assert_eq!(state.read(), (1, 33));
    }
}

#[test]
fn chains_are_called_jumped_to_and_returned_from() {
    let c = |text: &str| parse::program(text).unwrap();
    let count = "[ counter pkts 0 bytes 0 ]";
    let table = Table {
        chains: vec![
            (
                "base".into(),
                vec![
                    c("[ immediate reg 0 jump -> a ]"),
                    c(count),
                    c("[ immediate reg 0 goto -> b ]"),
                    c(count),
                ],
            ),
            (
                "a".into(),
                vec![
                    c(&format!("{count}\n[ immediate reg 0 jump -> b ]")),
                    c("[ immediate reg 0 return ]"),
                    c(count),
                ],
            ),
            ("b".into(), vec![c(&format!("{count}\n[ immediate reg 0 continue ]\n{count}"))]),
        ],
        ..Table::default()
    };
    let (image, states) = table.link(Family::Ip).unwrap();
    let mut p = udp();
    p.meta.nftrace = true;
    let mut outside = outside(&p);
    assert_eq!(run(&image, ChainIndex(0), &mut p, &mut outside), Outcome::Policy);
    let counts: Vec<u64> = states
        .iter()
        .map(|s| match &**s {
            State::Counter(c) => c.read().0,
            _ => 0,
        })
        .collect();
    // After the jump, never after the goto; in a before and never after its return; twice in b.
    assert_eq!(counts, [1, 0, 1, 0, 2, 2]);
    let rule = |rule, verdict| Event::Rule { rule: RuleIndex(rule), verdict };
    let end = |chain, rule: Option<u32>| Event::Return {
        chain: ChainIndex(chain),
        rule: rule.map(RuleIndex),
    };
    use LinkedVerdict::*;
    assert_eq!(
        outside.events,
        [
            rule(0, Jump(ChainIndex(1))),
            rule(4, Jump(ChainIndex(2))),
            rule(7, Continue),
            end(2, None),
            end(1, Some(5)),
            rule(1, Continue),
            rule(2, Goto(ChainIndex(2))),
            rule(7, Continue),
            end(2, None),
            Event::Policy { chain: ChainIndex(0), accept: true },
        ]
    );
}

#[test]
fn a_chain_that_calls_itself_ends_after_sixteen_calls() {
    let table = Table::of(vec![
        parse::program("[ counter pkts 0 bytes 0 ]\n[ immediate reg 0 jump -> base ]").unwrap(),
    ]);
    let (image, states) = table.link(Family::Ip).unwrap();
    let mut p = udp();
    let mut outside = outside(&p);
    assert_eq!(run(&image, ChainIndex(0), &mut p, &mut outside), Outcome::Drop(RuleIndex(0)));
    let State::Counter(counter) = &*states[0] else { panic!() };
    assert_eq!(counter.read().0, 17);
}

#[test]
fn rejects_answer_by_family_and_drop() {
    let multicast = || {
        packet(
            (Ethernet::new(A, "01:00:5e:00:00:05")
                / Ipv4::new("198.18.0.1", "224.0.0.5")
                / Udp::new(1, 2))
            .build(),
        )
    };
    for (program, p, family, expected) in [
        ("[ reject type 0 code 3 ]", udp(), Family::Ip, Some(Rejection::Icmp(3))),
        ("[ reject type 2 code 3 ]", udp(), Family::Ip, Some(Rejection::Icmp(13))),
        ("[ reject type 2 code 2 ]", syn6(), Family::Ip6, Some(Rejection::Icmpv6(3))),
        ("[ reject type 2 code 1 ]", syn6(), Family::Netdev, Some(Rejection::Icmpv6(4))),
        ("[ reject type 1 code 0 ]", syn(), Family::Netdev, Some(Rejection::TcpReset)),
        ("[ reject type 2 code 1 ]", multicast(), Family::Netdev, None),
    ] {
        let (image, _) = Table::of(vec![parse::program(program).unwrap()]).link(family).unwrap();
        let mut p = p;
        let mut outside = outside(&p);
        outside.context.family = family;
        assert_eq!(run(&image, ChainIndex(0), &mut p, &mut outside), Outcome::Drop(RuleIndex(0)));
        assert_eq!(
            outside.events,
            expected.map(Event::Reject).into_iter().collect::<Vec<_>>(),
            "{program}"
        );
    }
}

#[test]
fn dup_and_fwd_are_passed_to_the_host() {
    let run_one = |program: &str, p: &mut Packet| {
        let (image, _) = Table::of(vec![parse::program(program).unwrap()]).link(family(p)).unwrap();
        let mut outside = outside(p);
        let outcome = run(&image, ChainIndex(0), p, &mut outside);
        (outcome, outside.events)
    };
    let fwd = "[ immediate reg 1 0x00000003 ]\n[ fwd sreg_dev 1 ]";
    assert_eq!(
        run_one(fwd, &mut udp()),
        (Outcome::Stolen, vec![Event::Fwd { device: 3, neighbour: None }])
    );
    let to = "[ immediate reg 1 0x00000003 ]\n[ immediate reg 2 0x090012c6 ]\n[ fwd sreg_dev 1 sreg_addr 2 nfproto 2 ]";
    let mut p = udp();
    let neighbour = Some("198.18.0.9".parse().unwrap());
    assert_eq!(run_one(to, &mut p), (Outcome::Stolen, vec![Event::Fwd { device: 3, neighbour }]));
    assert_eq!(p.network()[8], 63);
    assert!(ipv4::Header::new(p.network()).unwrap().checksum_ok());
    let mut last =
        packet((link() / Ipv4::new("198.18.0.1", "198.18.0.2").ttl(1) / Udp::new(1, 2)).build());
    assert_eq!(run_one(to, &mut last), (Outcome::Drop(RuleIndex(0)), vec![]));
    assert_eq!(run_one(to, &mut syn6()), (Outcome::Policy, vec![]));
    let dup = "[ immediate reg 1 0x090012c6 ]\n[ immediate reg 2 0x00000003 ]\n[ dup sreg_addr 1 sreg_dev 2 ]\n[ log prefix x ]";
    let log = Event::Log(Log { prefix: Some("x".into()), ..Log::default() });
    assert_eq!(
        run_one(dup, &mut udp()),
        (Outcome::Policy, vec![Event::Dup { gateway: neighbour, device: Some(3) }, log])
    );
}

#[test]
fn rt_expressions_query_the_reverse_route() {
    let mut p = udp();
    p.meta.mark = 7;
    let mut o = outside(&p);
    o.fib_interface = Some(2);
    let strict = "[ fib saddr . iif oif present => reg 1 ]\n[ cmp eq reg 1 0x00000001 ]";
    assert!(matches_in(strict, &mut p, &mut o));
    let query = o.queries[0];
    assert_eq!(
        (query.daddr.to_string(), query.saddr.to_string()),
        ("198.18.0.1".into(), "198.18.0.2".into())
    );
    assert_eq!(
        (query.device, query.iif, query.mark, query.tos, query.protocol),
        (Some(2), 1, 0, 0xb8, 17)
    );
    o.fib_interface = None;
    assert!(matches_in(
        "[ fib saddr . iif oif present => reg 1 ]\n[ cmp eq reg 1 0x00000000 ]",
        &mut p,
        &mut o
    ));
    o.fib_type = 2;
    assert!(matches_in(
        "[ fib daddr . mark type => reg 1 ]\n[ cmp eq reg 1 0x00000002 ]",
        &mut p,
        &mut o
    ));
    assert_eq!(
        (o.queries[2].daddr.to_string(), o.queries[2].mark, o.queries[2].device),
        ("198.18.0.2".into(), 7, None)
    );
    // Hosts that ask for their address are not looked up.
    let mut dhcp =
        packet((link() / Ipv4::new("0.0.0.0", "255.255.255.255") / Udp::new(68, 67)).build());
    assert!(matches_in(strict, &mut dhcp, &mut o));
    assert_eq!(o.queries.len(), 3);
    let name = Expr::Fib(Fib {
        result: FibResult::OifName,
        flags: FIB_SADDR | FIB_MARK,
        dreg: Register(1),
    });
    assert_eq!(name.to_string(), "[ fib saddr . mark oifname => reg 1 ]");
}

#[test]
fn segment_sizes_come_from_the_smaller_mtu_of_both_ways() {
    let route = |mtu, reverse_mtu| Route { gateway: None, mtu, reverse_mtu, realm: 9, xfrm: false };
    for (p, mtu, reverse, mss) in [
        (udp(), 1500, None, 1460),
        (udp(), 1500, Some(1400), 1360),
        (udp(), 1400, Some(1500), 1360),
        (udp(), 40, None, 536),
        (udp(), 70_000, None, 536),
        (syn6(), 1500, None, 1440),
    ] {
        let mut p = p;
        let mut o = outside(&p);
        o.route = Some(route(mtu, reverse));
        let text = format!("[ rt load tcpmss => reg 1 ]\n[ cmp eq reg 1 {mss:#010x} ]");
        assert!(matches_in(&text, &mut p, &mut o), "{mtu} {reverse:?}");
    }
    let mut p = udp();
    let mut o = outside(&p);
    assert!(!matches_in("[ rt load classid => reg 1 ]", &mut p, &mut o));
    o.route = Some(route(1500, None));
    assert!(matches_in(
        "[ rt load nexthop4 => reg 1 ]\n[ cmp eq reg 1 0x020012c6 ]",
        &mut p,
        &mut o
    ));
    assert!(!matches_in("[ rt load nexthop6 => reg 1 ]", &mut p, &mut o));
}
