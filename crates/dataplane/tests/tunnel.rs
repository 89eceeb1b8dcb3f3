// SPDX-License-Identifier: Apache-2.0

//! Packets in packets: into tunnels and PPPoE sessions, out of them, and what the host says about
//! it.

mod router;

use penstock_program::Hook;
use penstock_ruleset::Family;
use penstock_testkit::build::*;
use router::*;

/// The router with tunnels over its first wire, to hosts behind 198.18.0.7 and 2001:db8::7.
fn tunnels(more: &str) -> String {
    let links = "
route add 198.18.99.0/24 via 198.18.0.7
route add 2001:db8:99::/48 via 2001:db8::7
link add ipip type ipip local 198.18.0.1 remote 198.18.99.1 ttl 33 tos 0x48
link add same type ipip local 198.18.0.1 remote 198.18.99.2 tos inherit nopmtudisc
link add sit type sit local 198.18.0.1 remote 198.18.99.3
link add v6 type ip6tnl local 2001:db8::1 remote 2001:db8:99::1
link add bare type ip6tnl local 2001:db8::1 remote 2001:db8:99::2 encaplimit none hoplimit inherit tclass inherit
link set ipip up
link set same up
link set sit up
link set v6 up
link set bare up
route add 198.18.10.0/24 dev ipip
route add 198.18.11.0/24 dev same
route add 198.18.12.0/24 dev v6
route add 198.18.13.0/24 dev bare
route add 2001:db8:20::/48 dev sit
route add 2001:db8:22::/48 dev v6
route add 2001:db8:23::/48 dev bare
";
    format!("{NET}{links}{more}")
}

fn check(cases: &[(&str, Vec<u8>, &[&str])]) {
    check_with("", "lan", cases);
}

fn check_with(more: &str, device: &str, cases: &[(&str, Vec<u8>, &[&str])]) {
    let mut path = router(&tunnels(more));
    for (name, frame, want) in cases {
        assert_eq!(receive(&mut path, device, frame), *want, "{name}");
    }
}

fn udp() -> Frame {
    Udp::new(1, 2) / payload(b"abc")
}

fn lan4(dst: &str) -> Ipv4 {
    Ipv4::new("198.18.1.7", dst)
}

fn lan6(dst: &str) -> Ipv6 {
    Ipv6::new("2001:db8:1::7", dst)
}

#[test]
fn packets_get_an_outer_header_of_ipv4() {
    check(&[
        (
            "own TTL and TOS, never fragmented",
            (from_lan() / lan4("198.18.10.1") / udp()).build(),
            &["wan: to a7 198.18.0.1 > 198.18.99.1 ttl 33 len 51 tos 0x48 df \
               [198.18.1.7 > 198.18.10.1 ttl 63 len 31 udp]"],
        ),
        (
            "ECN of the inner header, but for congestion",
            (from_lan() / lan4("198.18.10.1").tos(3) / udp()).build(),
            &["wan: to a7 198.18.0.1 > 198.18.99.1 ttl 33 len 51 tos 0x4a df \
               [198.18.1.7 > 198.18.10.1 ttl 63 len 31 tos 0x3 udp]"],
        ),
        (
            "TTL and TOS inherited, may be fragmented",
            (from_lan() / lan4("198.18.11.1").tos(0x29).ttl(9) / udp()).build(),
            &["wan: to a7 198.18.0.1 > 198.18.99.2 ttl 8 len 51 tos 0x29 \
               [198.18.1.7 > 198.18.11.1 ttl 8 len 31 tos 0x29 udp]"],
        ),
        (
            "DF of the inner header",
            (from_lan() / lan4("198.18.11.1").df() / udp()).build(),
            &["wan: to a7 198.18.0.1 > 198.18.99.2 ttl 63 len 51 df \
               [198.18.1.7 > 198.18.11.1 ttl 63 len 31 df udp]"],
        ),
        (
            "6in4",
            (from_lan() / lan6("2001:db8:20::1").traffic_class(2) / udp()).build(),
            &["wan: to a7 198.18.0.1 > 198.18.99.3 ttl 63 len 71 tos 0x2 df \
               [2001:db8:1::7 > 2001:db8:20::1 hlim 63 len 11 udp]"],
        ),
    ]);
}

#[test]
fn packets_get_an_outer_header_of_ipv6() {
    check(&[
        (
            "6in6",
            (from_lan() / lan6("2001:db8:22::1") / udp()).build(),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8:99::1 hlim 64 len 59 options [04, 01, 04, 01, 01, 00] \
               [2001:db8:1::7 > 2001:db8:22::1 hlim 63 len 11 udp]",
            ],
        ),
        (
            "4in6",
            (from_lan() / lan4("198.18.12.1") / udp()).build(),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8:99::1 hlim 64 len 39 options [04, 01, 04, 01, 01, 00] \
               [198.18.1.7 > 198.18.12.1 ttl 63 len 31 udp]",
            ],
        ),
        (
            "all inherited",
            (from_lan() / lan4("198.18.13.1").tos(0xb8) / udp()).build(),
            &["wan: to a7 2001:db8::1 > 2001:db8:99::2 hlim 63 len 31 \
               [198.18.1.7 > 198.18.13.1 ttl 63 len 31 tos 0xb8 udp]"],
        ),
        (
            "a limit that is there counts down",
            (from_lan() / lan6("2001:db8:23::1") / DestOptions::new().option(4, &[7]) / udp())
                .build(),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8:99::2 hlim 63 len 67 options [04, 01, 06, 01, 01, 00] \
               [2001:db8:1::7 > 2001:db8:23::1 hlim 63 len 19 options [04, 01, 07, 01, 01, 00] udp]",
            ],
        ),
        (
            "and ends at zero",
            (from_lan() / lan6("2001:db8:23::1") / DestOptions::new().option(4, &[0]) / udp())
                .build(),
            &[
                "lan: to b7 2001:db8:1::1 > 2001:db8:1::7 hlim 64 len 67 icmpv6 4/0 0x2c",
                "drop: tunnel: encapsulation limit",
            ],
        ),
    ]);
}

/// A packet of so many bytes in all.
fn long4(dst: &str, len: usize, df: bool) -> Vec<u8> {
    let ip = if df { lan4(dst).df() } else { lan4(dst) };
    (from_lan() / ip / Udp::new(1, 2) / payload(vec![0; len - 28])).build()
}

fn long6(dst: &str, len: usize) -> Vec<u8> {
    (from_lan() / lan6(dst) / Udp::new(1, 2) / payload(vec![0; len - 48])).build()
}

#[test]
fn oversized_tunnel_packets_are_answered_or_fragmented() {
    // Routes give the paths of the outer packets less than the devices have.
    let narrow = "
route replace 198.18.99.0/24 via 198.18.0.7 mtu 1320
route replace 2001:db8:99::/48 via 2001:db8::7 mtu 1340
";
    let big = |mtu: &str| {
        format!("lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 576 tos 0xc0 icmp 3/4 {mtu}")
    };
    let mut path = router(&tunnels(narrow));
    let mut seen = |frame: &[u8]| receive(&mut path, "lan", frame);
    // Device MTUs are 1480, 1480, 1480, 1452, 1460: made before the routes.
    assert_eq!(
        seen(&long4("198.18.10.1", 1301, true)),
        [big("0x514"), "drop: packet too big".into()]
    );
    assert_eq!(seen(&long4("198.18.10.1", 1300, true)).len(), 1);
    // The outer packet must not be fragmented, so only the tunnel gets the error: the router's own
    // address is its source.
    let lost = seen(&long4("198.18.10.1", 1301, false));
    assert_eq!(
        lost.last().map(String::as_str),
        Some("host from lo: 198.18.0.1 > 198.18.0.1 ttl 64 len 576 tos 0xc8 icmp 3/4 0x528")
    );
    assert_eq!(lost[0], "drop: packet too big");
    // Without pmtudisc the MTU of the inner route counts, and the outer packet is cut.
    let cut = seen(&long4("198.18.11.1", 1390, false));
    assert_eq!(cut.len(), 2, "{cut:?}");
    assert!(cut[0].contains("len 1316 frag 0+") && cut[1].contains("len 114 frag 1296"), "{cut:?}");
    assert_eq!(
        seen(&long6("2001:db8:20::1", 1301)),
        [
            "lan: to b7 2001:db8:1::1 > 2001:db8:1::7 hlim 64 len 1240 icmpv6 2/0 0x514",
            "drop: packet too big"
        ]
    );
    assert_eq!(seen(&long6("2001:db8:20::1", 1300)).len(), 1);
    // 4in6 tells even those who did not ask.
    for df in [true, false] {
        assert_eq!(
            seen(&long4("198.18.12.1", 1293, df)),
            [big("0x50c"), "drop: packet too big".into()]
        );
    }
    assert_eq!(seen(&long4("198.18.12.1", 1292, true)).len(), 1);
    assert_eq!(seen(&long4("198.18.13.1", 1300, true)).len(), 1);
    // IPv6 packets of 1280 bytes always fit: the outer ones are cut.
    let cut = seen(&long6("2001:db8:22::1", 1292));
    assert_eq!(cut.len(), 1, "{cut:?}");
}

#[test]
fn outer_headers_are_removed() {
    let outer = |src: &str| from_wan() / Ipv4::new(src, "198.18.0.1");
    let inner = || Ipv4::new("198.18.10.1", "198.18.1.7") / udp();
    let inner6 = || Ipv6::new("2001:db8:20::1", "2001:db8:1::7") / udp();
    let v6 = |src: &str| from_wan() / Ipv6::new(src, "2001:db8::1");
    let to_lan = "lan: to b7 198.18.10.1 > 198.18.1.7 ttl 63 len 31 udp";
    let to_lan6 = "lan: to b7 2001:db8:20::1 > 2001:db8:1::7 hlim 63 len 11 udp";
    let ecn = |outer: u8, inner: u8| {
        let ip = Ipv4::new("198.18.10.1", "198.18.1.7").tos(inner);
        (from_wan() / Ipv4::new("198.18.99.1", "198.18.0.1").tos(outer) / ip / udp()).build()
    };
    check_with(
        "",
        "wan",
        &[
            ("ipip", (outer("198.18.99.1") / inner()).build(), &[to_lan]),
            ("ipip by another device", (outer("198.18.99.2") / inner()).build(), &[to_lan]),
            ("sit takes IPv4, too", (outer("198.18.99.3") / inner()).build(), &[to_lan]),
            ("6in4", (outer("198.18.99.3") / inner6()).build(), &[to_lan6]),
            ("6in6", (v6("2001:db8:99::1") / inner6()).build(), &[to_lan6]),
            ("4in6", (v6("2001:db8:99::1") / inner()).build(), &[to_lan]),
            (
                "options before it",
                (v6("2001:db8:99::1") / DestOptions::new().option(4, &[4]) / inner()).build(),
                &[to_lan],
            ),
            (
                "congestion",
                ecn(3, 0x22),
                &["lan: to b7 198.18.10.1 > 198.18.1.7 ttl 63 len 31 tos 0x23 udp"],
            ),
            ("congestion that cannot be told", ecn(3, 0x20), &["drop: tunnel: congestion"]),
            (
                "ipip has no IPv6",
                (outer("198.18.99.1") / inner6()).build(),
                &[
                    "wan: to a7 198.18.0.1 > 198.18.99.1 ttl 64 len 99 tos 0xc0 icmp 3/3 0x0",
                    "drop: no such tunnel",
                ],
            ),
            (
                "unknown ends",
                (outer("198.18.99.9") / inner()).build(),
                &[
                    "wan: to a7 198.18.0.1 > 198.18.99.9 ttl 64 len 79 tos 0xc0 icmp 3/3 0x0",
                    "drop: no such tunnel",
                ],
            ),
            (
                "unknown ends over IPv6",
                (v6("2001:db8:99::9") / inner()).build(),
                &[
                    "wan: to a7 2001:db8::1 > 2001:db8:99::9 hlim 64 len 79 icmpv6 1/4 0x0",
                    "drop: no such tunnel",
                ],
            ),
            (
                "cut",
                (outer("198.18.99.1") / payload([0; 19])).build(),
                &["host from wan: 198.18.99.1 > 198.18.0.1 ttl 64 len 39 proto 253"],
            ),
            (
                "cut inside",
                (outer("198.18.99.1") / inner()).build()[..14 + 39].to_vec(),
                &["drop: malformed: IPv4 truncated"],
            ),
            (
                "no inner header",
                (from_wan()
                    / Ipv4::new("198.18.99.1", "198.18.0.1").protocol(4)
                    / payload([0x45; 19]))
                .build(),
                &["drop: malformed: inner header"],
            ),
            (
                "not an IPv4 packet",
                (from_wan()
                    / Ipv4::new("198.18.99.1", "198.18.0.1").protocol(4)
                    / payload([0x65; 20]))
                .build(),
                &["drop: malformed: IPv4 header"],
            ),
        ],
    );
}

#[test]
fn outer_fragments_are_reassembled() {
    let whole = (from_wan()
        / Ipv4::new("198.18.99.1", "198.18.0.1").id(7)
        / Ipv4::new("198.18.10.1", "198.18.1.7")
        / Udp::new(1, 2)
        / payload(vec![7; 1300]))
    .build();
    let v6 = (from_wan()
        / Ipv6::new("2001:db8:99::1", "2001:db8::1")
        / Ipv4::new("198.18.12.1", "198.18.1.7")
        / Udp::new(1, 2)
        / payload(vec![7; 1300]))
    .build();
    let mut path = router(&tunnels(""));
    for whole in [whole, v6] {
        let pieces = fragments(&whole, 1280, 9);
        assert_eq!(pieces.len(), 2);
        let mut seen: Vec<String> = Vec::new();
        for piece in pieces {
            seen.extend(receive(&mut path, "wan", &piece));
        }
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].contains("ttl 63 len 1328 udp"), "{seen:?}");
    }
}

#[test]
fn rules_see_a_packet_twice() {
    let mut path = router(&tunnels("addr add 198.18.10.254/32 dev ipip\n"));
    let log = |prefix: &str| {
        vec![penstock_program::expr::Expr::Log(penstock_program::expr::Log {
            prefix: Some(prefix.into()),
            ..Default::default()
        })]
    };
    let hooks = [
        ("prerouting ", Hook::Prerouting),
        ("input ", Hook::Input),
        ("forward ", Hook::Forward),
        ("output ", Hook::Output),
        ("postrouting ", Hook::Postrouting),
    ];
    let mut chains: Vec<Base> = hooks
        .iter()
        .map(|(name, hook)| Base::new(Family::Ip, name.trim(), *hook, vec![log(name)]))
        .collect();
    chains.push(
        Base::new(Family::Netdev, "ingress", Hook::Ingress, vec![log("ingress ")])
            .on(&["ipip", "wan"]),
    );
    chains.push(
        Base::new(Family::Netdev, "egress", Hook::Egress, vec![log("egress ")])
            .on(&["ipip", "wan"]),
    );
    load(&mut path, chains);
    assert_eq!(
        receive(&mut path, "lan", &(from_lan() / lan4("198.18.10.1") / udp()).build()),
        [
            "log prerouting lan -",
            "log forward lan ipip",
            "log postrouting lan ipip",
            "log egress - ipip",
            "log output - wan",
            "log postrouting ipip wan",
            "log egress - wan",
            "wan: to a7 198.18.0.1 > 198.18.99.1 ttl 33 len 51 tos 0x48 df \
             [198.18.1.7 > 198.18.10.1 ttl 63 len 31 udp]",
        ]
    );
    let inner = Ipv4::new("198.18.10.1", "198.18.1.7") / udp();
    assert_eq!(
        receive(
            &mut path,
            "wan",
            &(from_wan() / Ipv4::new("198.18.99.1", "198.18.0.1") / inner).build()
        ),
        [
            "log ingress wan -",
            "log prerouting wan -",
            "log input wan -",
            "log ingress ipip -",
            "log prerouting ipip -",
            "log forward ipip lan",
            "log postrouting ipip lan",
            "lan: to b7 198.18.10.1 > 198.18.1.7 ttl 63 len 31 udp",
        ]
    );
}

#[test]
fn the_router_itself_communicates_through_tunnels() {
    let mut path = router(&tunnels("addr add 198.18.10.254/32 dev ipip\n"));
    let inner = || Ipv4::new("198.18.10.1", "198.18.10.254").ttl(1) / udp();
    assert_eq!(
        receive(
            &mut path,
            "wan",
            &(from_wan() / Ipv4::new("198.18.99.1", "198.18.0.1") / inner()).build()
        ),
        ["host from ipip: 198.18.10.1 > 198.18.10.254 ttl 1 len 31 udp"]
    );
    let mut seen = Seen::default();
    path.send_host(&(Ipv4::new("198.18.10.254", "198.18.10.1") / udp()).build(), START, &mut seen);
    assert_eq!(
        seen.lines,
        [
            "wan: to a7 198.18.0.1 > 198.18.99.1 ttl 33 len 51 tos 0x48 df [198.18.10.254 > 198.18.10.1 ttl 64 len 31 udp]"
        ]
    );
}

#[test]
fn tunnel_nesting_is_bounded() {
    // One goes by the other, two go by each other, and one goes by itself.
    let more = "
route add 198.18.97.0/24 dev ipip
route add 198.18.96.0/24 dev same
link add inside type ipip local 198.18.0.1 remote 198.18.97.1
link add loop type ipip local 198.18.0.1 remote 198.18.95.1
link set inside up
link set loop up
route add 198.18.14.0/24 dev inside
route add 198.18.95.0/24 dev loop
";
    check_with(
        more,
        "lan",
        &[
            (
                "two headers",
                (from_lan() / lan4("198.18.14.1") / udp()).build(),
                &["wan: to a7 198.18.0.1 > 198.18.99.1 ttl 33 len 71 tos 0x48 df \
               [198.18.0.1 > 198.18.97.1 ttl 63 len 51 df [198.18.1.7 > 198.18.14.1 ttl 63 len 31 udp]]"],
            ),
            (
                "by itself",
                (from_lan() / lan4("198.18.95.1") / udp()).build(),
                &["drop: tunnel: no way to the other end"],
            ),
        ],
    );
    let circle = "
link add one type ipip local 198.18.0.1 remote 198.18.94.1
link add two type ipip local 198.18.0.1 remote 198.18.93.1
link set one up
link set two up
route add 198.18.93.0/24 dev one
route add 198.18.94.0/24 dev two
";
    check_with(
        circle,
        "lan",
        &[(
            "in a circle",
            (from_lan() / lan4("198.18.94.1") / udp()).build(),
            &["drop: recursion"],
        )],
    );
    let mut deep = Frame::from(Ipv4::new("198.18.10.1", "198.18.1.7")) / udp();
    for _ in 0..500 {
        deep = Ipv4::new("198.18.99.1", "198.18.0.1") / deep;
    }
    check_with(
        "",
        "wan",
        &[(
            "five hundred headers",
            (from_wan() / deep).build(),
            &["lan: to b7 198.18.10.1 > 198.18.1.7 ttl 63 len 31 udp"],
        )],
    );
}

#[test]
fn errors_about_outer_packets_are_relayed() {
    let mut path = router(&tunnels(""));
    let sent =
        |dst: &str| (from_lan() / lan4(dst).df() / Udp::new(1, 2) / payload(vec![0; 1200])).build();
    let quoted = |dst: &str, protocol: u8| {
        Ipv4::new("198.18.0.1", dst).protocol(protocol) / lan4("198.18.10.1") / udp()
    };
    let error = |kind, code, rest: u32, dst: &str| {
        let icmp = Icmp::new(kind, code).rest_of_header(rest);
        (from_wan() / Ipv4::new("198.18.0.9", "198.18.0.1") / icmp / quoted(dst, 4)).build()
    };
    let mut receive = |device, frame: &[u8], time| {
        receive_at(&mut path, device, frame, START + time * SECOND).lines
    };
    // Unreachable: the next packet's sender gets an error, and the packet is still sent.
    receive("wan", &error(3, 1, 0, "198.18.99.1"), 1);
    let told = receive("lan", &sent("198.18.10.1"), 2);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].ends_with("icmp 3/1 0x0"), "{told:?}");
    assert_eq!(receive("lan", &sent("198.18.10.1"), 3).len(), 1);
    // After half a minute the error is forgotten.
    receive("wan", &error(3, 1, 0, "198.18.99.1"), 4);
    assert_eq!(receive("lan", &sent("198.18.10.1"), 40).len(), 1);
    // The path's MTU counts for ten minutes.
    receive("wan", &error(3, 4, 1000, "198.18.99.1"), 50);
    let big = receive("lan", &sent("198.18.10.1"), 51);
    assert!(big[0].ends_with("icmp 3/4 0x3d4"), "{big:?}");
    assert_eq!(receive("lan", &sent("198.18.11.1"), 51).len(), 1, "another path");
    assert_eq!(receive("lan", &sent("198.18.10.1"), 651).len(), 1);
    // The kernel finds no way for an ICMPv6 error made of ICMP about a 6in4 tunnel.
    let quoted =
        Ipv4::new("198.18.0.1", "198.18.99.3").protocol(41) / lan6("2001:db8:20::1") / udp();
    let error =
        (from_wan() / Ipv4::new("198.18.0.9", "198.18.0.1") / Icmp::new(11, 0) / quoted).build();
    assert_eq!(
        receive("wan", &error, 700),
        ["host from wan: 198.18.0.9 > 198.18.0.1 ttl 64 len 99 icmp 11/0 0x0"]
    );
}

#[test]
fn errors_about_outer_ipv6_packets_are_relayed() {
    let outer = || Ipv6::new("2001:db8::1", "2001:db8:99::1");
    let error = |kind, code, rest: u32, quoted: Frame| {
        (from_wan()
            / Ipv6::new("2001:db8::9", "2001:db8::1")
            / Icmpv6::new(kind, code).rest_of_header(rest)
            / quoted)
            .build()
    };
    let inner6 = || lan6("2001:db8:22::1") / udp();
    let inner4 = || lan4("198.18.12.1") / udp();
    let limit = |n| outer() / DestOptions::new().option(4, &[n]) / lan6("2001:db8:22::1") / udp();
    let first = |kind, code, rest, quoted: Frame| {
        let mut path = router(&tunnels(""));
        receive(&mut path, "wan", &error(kind, code, rest, quoted)).remove(0)
    };
    assert_eq!(
        first(1, 0, 0, outer() / inner6()),
        "lan: to b7 2001:db8:1::1 > 2001:db8:1::7 hlim 64 len 59 icmpv6 1/3 0x0"
    );
    assert_eq!(
        first(3, 0, 0, outer() / inner4()),
        "lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 59 tos 0xc0 icmp 3/1 0x0"
    );
    assert!(first(4, 0, 44, limit(0)).ends_with("icmpv6 1/3 0x0"));
    assert!(first(4, 0, 44, limit(1)).starts_with("host from wan"));
    let big = outer() / lan6("2001:db8:22::1") / Udp::new(1, 2) / payload(vec![0; 1400]);
    assert!(first(2, 0, 1400, big).ends_with("icmpv6 2/0 0x550"), "1400 - 40");
    assert!(first(2, 0, 1400, outer() / inner6()).starts_with("host from wan"));
}

#[test]
fn errors_go_to_where_the_source_was_before_translation() {
    // Masquerade on the tunnel; the packet is too big for the path.
    let mut path = router(&tunnels(
        "route replace 198.18.99.0/24 via 198.18.0.7 mtu 1320\naddr add 198.18.10.254/32 dev ipip\n",
    ));
    let masquerade = penstock_program::expr::Expr::Masq(penstock_program::expr::Masq {
        proto_min: None,
        proto_max: None,
        flags: 0,
    });
    let chain = Base::new(Family::Ip, "nat", Hook::Postrouting, vec![vec![masquerade]])
        .at(100)
        .of(penstock_ruleset::model::ChainType::Nat);
    load(&mut path, vec![chain]);
    let seen = receive(&mut path, "lan", &long4("198.18.10.1", 1310, true));
    assert_eq!(
        seen,
        [
            "lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 576 tos 0xc0 icmp 3/4 0x514",
            "drop: packet too big"
        ]
    );
}

#[test]
fn sessions_carry_ip_over_ethernet() {
    let more = "
link add ppp0 type pppoe dev wan session 7 peer 02:00:00:00:00:a9
link add ppp1 type pppoe dev lan.7 session 8 peer 02:00:00:00:00:c9
link set ppp0 up
link set ppp1 up
addr add 198.18.30.1 peer 198.18.30.2/32 dev ppp0
route add 198.18.31.0/24 dev ppp0
route add 198.18.32.0/24 dev ppp1
route add 2001:db8:31::/48 dev ppp0
";
    check_with(
        more,
        "lan",
        &[
            (
                "IPv4",
                (from_lan() / lan4("198.18.31.1") / udp()).build(),
                &[
                    "wan: to a9 pppoe 7 protocol 0x0021 [198.18.1.7 > 198.18.31.1 ttl 63 len 31 udp]",
                ],
            ),
            (
                "IPv6",
                (from_lan() / lan6("2001:db8:31::1") / udp()).build(),
                &[
                    "wan: to a9 pppoe 7 protocol 0x0057 [2001:db8:1::7 > 2001:db8:31::1 hlim 63 len 11 udp]",
                ],
            ),
            (
                "in a VLAN",
                (from_lan() / lan4("198.18.32.1") / udp()).build(),
                &[
                    "lan: to c9 vlan 7 prio 0 pppoe 8 protocol 0x0021 [198.18.1.7 > 198.18.32.1 ttl 63 len 31 udp]",
                ],
            ),
            (
                "too big",
                long4("198.18.32.1", 1393, true),
                &[
                    "lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 576 tos 0xc0 icmp 3/4 0x570",
                    "drop: packet too big",
                ],
            ),
        ],
    );
    let frame = |from: &str, session: u16, protocol: u16, inner: &[u8], padding: usize| {
        let header =
            penstock_wire::pppoe::Repr { session, protocol, payload_len: inner.len() as u16 }
                .bytes();
        let rest = [&header[..], inner, &vec![0; padding]].concat();
        (Ethernet::new(from, "02:00:00:00:00:01").ethertype(0x8864) / payload(rest)).build()
    };
    let inner = (Ipv4::new("198.18.31.1", "198.18.1.7") / udp()).build();
    let inner6 = (Ipv6::new("2001:db8:31::1", "2001:db8:1::7") / udp()).build();
    let peer = "02:00:00:00:00:a9";
    let to_lan = "lan: to b7 198.18.31.1 > 198.18.1.7 ttl 63 len 31 udp";
    let mut cut = frame(peer, 7, 0x21, &inner, 0);
    cut.truncate(cut.len() - 1);
    check_with(
        more,
        "wan",
        &[
            ("IPv4", frame(peer, 7, 0x21, &inner, 0), &[to_lan]),
            ("padding", frame(peer, 7, 0x21, &inner, 20), &[to_lan]),
            (
                "IPv6",
                frame(peer, 7, 0x57, &inner6, 0),
                &["lan: to b7 2001:db8:31::1 > 2001:db8:1::7 hlim 63 len 11 udp"],
            ),
            ("another session", frame(peer, 8, 0x21, &inner, 0), &["drop: no such PPPoE session"]),
            (
                "another peer",
                frame("02:00:00:00:00:a7", 7, 0x21, &inner, 0),
                &["drop: no such PPPoE session"],
            ),
            ("LCP", frame(peer, 7, 0xc021, &[1; 8], 0), &["drop: PPP: protocol not carried"]),
            ("cut", cut, &["drop: malformed: PPPoE"]),
        ],
    );
}
