// SPDX-License-Identifier: Apache-2.0

//! Frames through a router without rules: where they come out, or why they do not.

mod router;

use penstock_testkit::build::*;
use router::*;

/// Runs a table of cases, each with a frame from the first wire and the lines that must follow.
fn check(cases: &[(&str, Vec<u8>, &[&str])]) {
    let mut path = router(NET);
    for (name, frame, want) in cases {
        assert_eq!(receive(&mut path, "wan", frame), *want, "{name}");
    }
}

fn v4(src: &str, dst: &str) -> Ipv4 {
    Ipv4::new(src, dst)
}

#[test]
fn ipv4_packets_are_forwarded_delivered_or_dropped_as_in_the_kernel() {
    let udp = || Udp::new(1, 2) / payload(b"abc");
    let to = |dst: &str| (from_wan() / v4("198.18.0.7", dst) / udp()).build();
    let from = |src: &str| (from_wan() / v4(src, "198.18.1.7") / udp()).build();
    check(&[
        ("forwarded", to("198.18.1.7"), &["lan: to b7 198.18.0.7 > 198.18.1.7 ttl 63 len 31 udp"]),
        ("by gateway", to("198.19.0.7"), &["lan: to b7 198.18.0.7 > 198.19.0.7 ttl 63 len 31 udp"]),
        (
            "to a VLAN",
            to("198.18.7.7"),
            &["lan: to c7 vlan 7 prio 0 198.18.0.7 > 198.18.7.7 ttl 63 len 31 udp"],
        ),
        (
            "to the router",
            to("198.18.1.1"),
            &["host from wan: 198.18.0.7 > 198.18.1.1 ttl 64 len 31 udp"],
        ),
        (
            "broadcast",
            to("198.18.0.255"),
            &["host from wan: 198.18.0.7 > 198.18.0.255 ttl 64 len 31 udp"],
        ),
        (
            "limited broadcast",
            to("255.255.255.255"),
            &["host from wan: 198.18.0.7 > 255.255.255.255 ttl 64 len 31 udp"],
        ),
        (
            "all hosts",
            to("224.0.0.1"),
            &["host from wan: 198.18.0.7 > 224.0.0.1 ttl 64 len 31 udp"],
        ),
        ("another group", to("224.0.0.9"), &["drop: multicast group not joined"]),
        ("unknown neighbour", to("198.18.1.8"), &["drop: no neighbour"]),
        (
            "no route",
            to("192.0.2.1"),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 59 tos 0xc0 icmp 3/0 0x0",
                "drop: no route",
            ],
        ),
        (
            "unreachable",
            to("198.19.1.1"),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 59 tos 0xc0 icmp 3/1 0x0",
                "drop: route unreachable",
            ],
        ),
        (
            "prohibit",
            to("198.19.2.1"),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 59 tos 0xc0 icmp 3/13 0x0",
                "drop: route prohibit",
            ],
        ),
        ("blackhole", to("198.19.3.1"), &["drop: route blackhole"]),
        ("to loopback", to("127.0.0.1"), &["drop: martian destination"]),
        ("to zero", to("0.0.0.0"), &["drop: martian destination"]),
        ("from a group", from("224.0.0.1"), &["drop: martian source"]),
        ("from broadcast", from("255.255.255.255"), &["drop: martian source"]),
        ("from loopback", from("127.0.0.1"), &["drop: martian source"]),
        ("from zero", from("0.0.0.0"), &["drop: martian source"]),
        ("from the router itself", from("198.18.1.1"), &["drop: martian source"]),
        (
            "TTL 1",
            (from_wan() / v4("198.18.0.7", "198.18.1.7").ttl(1) / udp()).build(),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 59 tos 0xc0 icmp 11/0 0x0",
                "drop: TTL exceeded",
            ],
        ),
        (
            "TTL 1 to the router",
            (from_wan() / v4("198.18.0.7", "198.18.0.1").ttl(1) / udp()).build(),
            &["host from wan: 198.18.0.7 > 198.18.0.1 ttl 1 len 31 udp"],
        ),
        (
            "an ICMP error is not answered",
            (from_wan()
                / v4("198.18.0.7", "198.18.1.7").ttl(1)
                / Icmp::new(3, 1)
                / payload([0; 28]))
            .build(),
            &["drop: TTL exceeded"],
        ),
        (
            "back out of the same wire",
            to("198.19.9.1"),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 59 tos 0xc0 icmp 5/1 0xc6120007",
                "wan: to a7 198.18.0.7 > 198.19.9.1 ttl 63 len 31 udp",
            ],
        ),
    ]);
}

#[test]
fn malformed_ipv4_is_dropped_with_the_check_that_failed() {
    let ip = || v4("198.18.0.7", "198.18.1.7");
    let udp = || Udp::new(1, 2) / payload(b"abc");
    check(&[
        (
            "version",
            (from_wan() / ip().version(5) / udp()).build(),
            &["drop: malformed: IPv4 header"],
        ),
        (
            "header length",
            (from_wan() / ip().header_len(16) / udp()).build(),
            &["drop: malformed: IPv4 header"],
        ),
        (
            "checksum",
            (from_wan() / ip().checksum(1) / udp()).build(),
            &["drop: malformed: IPv4 checksum"],
        ),
        (
            "total length",
            (from_wan() / ip().total_len(999) / udp()).build(),
            &["drop: malformed: IPv4 truncated"],
        ),
        (
            "padding is cut off",
            [(from_wan() / ip() / udp()).build(), vec![0; 20]].concat(),
            &["lan: to b7 198.18.0.7 > 198.18.1.7 ttl 63 len 31 udp"],
        ),
        ("short frame", vec![0; 13], &["drop: malformed: link header"]),
        ("ethertype", (from_wan() / payload(b"hello")).build(), &["drop: unknown ethertype"]),
        (
            "for another host",
            (Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:99") / ip() / udp()).build(),
            &["drop: other host"],
        ),
        (
            "broadcast frame with a packet to forward",
            (Ethernet::new("02:00:00:00:00:a7", "ff:ff:ff:ff:ff:ff") / ip() / udp()).build(),
            &["drop: link broadcast not forwarded"],
        ),
        (
            "bad option",
            (from_wan() / ip().options(&[7, 2, 0, 0]) / udp()).build(),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 63 tos 0xc0 icmp 12/0 0x15000000",
                "drop: malformed: IPv4 options",
            ],
        ),
        (
            "source route",
            (from_wan() / ip().options(&[131, 7, 4, 198, 18, 1, 9, 0]) / udp()).build(),
            &["drop: source route"],
        ),
    ]);
}

#[test]
fn large_packets_are_fragmented_or_answered() {
    let data = vec![7; 1450];
    let big = |ip: Ipv4| (from_wan() / ip / Udp::new(1, 2) / payload(&data)).build();
    check(&[
        (
            "fragments",
            big(v4("198.18.0.7", "198.18.1.7").id(9)),
            &[
                "lan: to b7 198.18.0.7 > 198.18.1.7 ttl 63 len 1396 frag 0+",
                "lan: to b7 198.18.0.7 > 198.18.1.7 ttl 63 len 102 frag 1376",
            ],
        ),
        (
            "not to be cut",
            big(v4("198.18.0.7", "198.18.1.7").df()),
            &[
                "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 576 tos 0xc0 icmp 3/4 0x578",
                "drop: packet too big",
            ],
        ),
        (
            "IPv6",
            (from_wan()
                / Ipv6::new("2001:db8::7", "2001:db8:1::7")
                / Udp::new(1, 2)
                / payload(&data))
            .build(),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 1240 icmpv6 2/0 0x578",
                "drop: packet too big",
            ],
        ),
    ]);
}

#[test]
fn ipv6_packets_are_forwarded_delivered_or_dropped_as_in_the_kernel() {
    let udp = || Udp::new(1, 2) / payload(b"abc");
    let to = |dst: &str| (from_wan() / Ipv6::new("2001:db8::7", dst) / udp()).build();
    let from = |src: &str| (from_wan() / Ipv6::new(src, "2001:db8:1::7") / udp()).build();
    let group = |dst: &str| {
        (Ethernet::new("02:00:00:00:00:a7", "33:33:00:00:00:01")
            / Ipv6::new("2001:db8::7", dst)
            / udp())
        .build()
    };
    check(&[
        (
            "forwarded",
            to("2001:db8:1::7"),
            &["lan: to b7 2001:db8::7 > 2001:db8:1::7 hlim 63 len 11 udp"],
        ),
        (
            "delivered",
            to("2001:db8::1"),
            &["host from wan: 2001:db8::7 > 2001:db8::1 hlim 64 len 11 udp"],
        ),
        (
            "anycast",
            to("2001:db8::"),
            &["host from wan: 2001:db8::7 > 2001:db8:: hlim 64 len 11 udp"],
        ),
        (
            "all nodes",
            group("ff02::1"),
            &["host from wan: 2001:db8::7 > ff02::1 hlim 64 len 11 udp"],
        ),
        (
            "solicited node",
            group("ff02::1:ff00:1"),
            &["host from wan: 2001:db8::7 > ff02::1:ff00:1 hlim 64 len 11 udp"],
        ),
        ("another group", group("ff02::99"), &["drop: multicast group not joined"]),
        (
            "no route",
            to("2001:db8:ffff::1"),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 59 icmpv6 1/0 0x0",
                "drop: no route",
            ],
        ),
        (
            "prohibit",
            to("2001:db8:b::1"),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 59 icmpv6 1/1 0x0",
                "drop: route prohibit",
            ],
        ),
        ("from a group", from("ff02::1"), &["drop: malformed: IPv6 header"]),
        ("from loopback", from("::1"), &["drop: malformed: IPv6 header"]),
        ("unspecified source", from("::"), &["drop: address scope"]),
        (
            "hop limit",
            (from_wan() / Ipv6::new("2001:db8::7", "2001:db8:1::7").hop_limit(1) / udp()).build(),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 59 icmpv6 3/0 0x0",
                "drop: TTL exceeded",
            ],
        ),
        (
            "unknown hop-by-hop option",
            (from_wan()
                / Ipv6::new("2001:db8::7", "2001:db8:1::7")
                / HopByHop::new().option(0x9e, &[0, 0])
                / udp())
            .build(),
            &[
                "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 67 icmpv6 4/2 0x2a",
                "drop: malformed: IPv6 options",
            ],
        ),
        (
            "hop-by-hop options are passed on",
            (from_wan()
                / Ipv6::new("2001:db8::7", "2001:db8:1::7")
                / HopByHop::new().option(5, &[0, 0])
                / udp())
            .build(),
            &["lan: to b7 2001:db8::7 > 2001:db8:1::7 hlim 63 len 19 proto 0"],
        ),
    ]);
}

#[test]
fn tags_lead_to_vlan_devices() {
    let mut path = router(NET);
    let tagged = |vid, priority| {
        (Ethernet::new("02:00:00:00:00:c7", "02:00:00:00:00:02")
            / Vlan::new(vid).priority(priority)
            / v4("198.18.7.7", "198.18.0.7")
            / Udp::new(1, 2))
        .build()
    };
    let forwarded = "wan: to a7 198.18.7.7 > 198.18.0.7 ttl 63 len 28 udp";
    assert_eq!(receive(&mut path, "lan", &tagged(7, 3)), [forwarded]);
    assert_eq!(receive(&mut path, "lan", &tagged(0, 3)), [forwarded], "a priority tag is none");
    assert_eq!(receive(&mut path, "lan", &tagged(8, 0)), ["drop: unknown VLAN"]);
    let out = (from_wan() / v4("198.18.0.7", "198.18.7.7").tos(0x10) / Udp::new(1, 2)).build();
    assert_eq!(
        receive(&mut path, "wan", &out),
        ["lan: to c7 vlan 7 prio 5 198.18.0.7 > 198.18.7.7 ttl 63 len 28 tos 0x10 udp"],
        "interactive traffic has priority 6, which the VLAN device maps to 5"
    );
}

#[test]
fn fragments_are_reassembled_for_the_host_only() {
    let mut path = router(NET);
    let piece = |dst: &str, offset, more, data: &[u8]| {
        (from_wan()
            / v4("198.18.0.7", dst).id(5).fragment(offset, more).protocol(17)
            / payload(data))
        .build()
    };
    let first = piece("198.18.0.1", 0, true, &[0; 16]);
    let last = piece("198.18.0.1", 2, false, &[1; 4]);
    assert_eq!(receive(&mut path, "wan", &last), Vec::<String>::new());
    assert_eq!(
        receive(&mut path, "wan", &first),
        ["host from wan: 198.18.0.7 > 198.18.0.1 ttl 64 len 40 udp"]
    );
    let through = piece("198.18.1.7", 2, true, &[1; 8]);
    assert_eq!(
        receive(&mut path, "wan", &through),
        ["lan: to b7 198.18.0.7 > 198.18.1.7 ttl 63 len 28 frag 16+"]
    );
    // The first arrives alone; after 30 seconds its sender gets an ICMP error.
    assert_eq!(receive(&mut path, "wan", &first), Vec::<String>::new());
    let mut seen = Seen::default();
    path.advance(START + 31 * SECOND, &mut seen);
    assert_eq!(
        seen.lines,
        [
            "wan: to a7 198.18.0.1 > 198.18.0.7 ttl 64 len 64 tos 0xc0 icmp 11/1 0x0",
            "drop: reassembly timeout"
        ]
    );
    // Overlapping data ends the packet.
    assert_eq!(receive(&mut path, "wan", &first), Vec::<String>::new());
    let overlapping = piece("198.18.0.1", 1, true, &[1; 16]);
    assert_eq!(receive(&mut path, "wan", &overlapping), ["drop: malformed: fragment"]);
    assert_eq!(receive(&mut path, "wan", &last), Vec::<String>::new(), "it starts anew");
}

#[test]
fn ipv6_fragments_are_reassembled() {
    let mut path = router(NET);
    let piece = |offset, more, data: &[u8]| {
        (from_wan()
            / Ipv6::new("2001:db8::7", "2001:db8::1")
            / Fragment::new(offset, more, 9).next_header(17)
            / payload(data))
        .build()
    };
    assert_eq!(receive(&mut path, "wan", &piece(0, true, &[0; 16])), Vec::<String>::new());
    assert_eq!(
        receive(&mut path, "wan", &piece(2, false, &[1; 5])),
        ["host from wan: 2001:db8::7 > 2001:db8::1 hlim 64 len 21 udp"]
    );
    assert_eq!(
        receive(&mut path, "wan", &piece(0, true, &[0; 17])),
        [
            "wan: to a7 2001:db8::1 > 2001:db8::7 hlim 64 len 73 icmpv6 4/0 0x4",
            "drop: malformed: fragment"
        ]
    );
    assert_eq!(
        receive(&mut path, "wan", &piece(0, false, &[0; 9])),
        ["host from wan: 2001:db8::7 > 2001:db8::1 hlim 64 len 9 udp"]
    );
}

#[test]
fn the_host_sends_packets_and_raw_frames() {
    let mut path = router(NET);
    let mut send = |bytes: Vec<u8>| {
        let mut seen = Seen::default();
        path.send_host(&bytes, START, &mut seen);
        seen.lines
    };
    let udp = |src: &str, dst: &str| (v4(src, dst).id(7) / Udp::new(1, 2)).build();
    assert_eq!(
        send(udp("198.18.1.1", "198.18.1.7")),
        ["lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 28 udp"]
    );
    assert_eq!(
        send(udp("0.0.0.0", "198.18.1.7")),
        ["lan: to b7 198.18.1.1 > 198.18.1.7 ttl 64 len 28 udp"]
    );
    assert_eq!(
        send(udp("198.18.1.1", "198.18.0.1")),
        ["host from lo: 198.18.1.1 > 198.18.0.1 ttl 64 len 28 udp"]
    );
    assert_eq!(send(udp("198.18.1.1", "192.0.2.9")), ["drop: no route"]);
    assert_eq!(send(vec![0x20, 0]), ["drop: malformed: host packet"]);
    assert_eq!(
        send(udp("198.18.1.1", "255.255.255.255")),
        [
            "lan: to ff 198.18.1.1 > 255.255.255.255 ttl 64 len 28 udp",
            "host from lan: 198.18.1.1 > 255.255.255.255 ttl 64 len 28 udp"
        ]
    );
    assert_eq!(
        send(udp("198.18.1.1", "224.0.0.9")),
        ["lan: to 09 198.18.1.1 > 224.0.0.9 ttl 64 len 28 udp"],
        "the host is no member"
    );
    let v6 = (Ipv6::new("2001:db8:1::1", "2001:db8:1::7") / Udp::new(1, 2)).build();
    assert_eq!(send(v6), ["lan: to b7 2001:db8:1::1 > 2001:db8:1::7 hlim 64 len 8 udp"]);
    let mut seen = Seen::default();
    let wan = path.network().link_by_name("wan").unwrap().index;
    let frame = (from_wan() / Vlan::new(3) / payload(b"x")).build();
    path.send_raw(wan, &frame, START, &mut seen);
    assert_eq!(seen.frames, [("wan".to_string(), frame)]);
}

#[test]
fn messages_are_limited_like_the_kernels() {
    use penstock_dataplane::{Dataplane, Settings};
    let net = penstock_net::Network::from_batch("net.ip", NET).unwrap();
    let mut path = Dataplane::new(std::sync::Arc::new(net), Settings::default());
    let frame = (from_wan() / v4("198.18.0.7", "198.18.1.7").ttl(1) / Udp::new(1, 2)).build();
    let mut sent = |time| receive_at(&mut path, "wan", &frame, time).frames.len();
    let burst: usize = (0..20).map(|_| sent(START)).sum();
    assert_eq!(burst, 6);
    assert_eq!(sent(START + SECOND + 1), 1);
    assert_eq!(sent(START + SECOND + 2), 0);
}

#[test]
fn arp_goes_to_the_host_unless_it_is_off() {
    let request = || Arp::request("02:00:00:00:00:a7", "198.18.0.7", "198.18.0.1");
    let frame = (Ethernet::new("02:00:00:00:00:a7", "ff:ff:ff:ff:ff:ff") / request()).build();
    let mut path = router(NET);
    assert_eq!(receive(&mut path, "wan", &frame), ["host from wan: ethertype 0x0806 len 28"]);
    let mut path = router(&format!("{NET}\nlink set wan arp off"));
    assert_eq!(receive(&mut path, "wan", &frame), ["drop: ARP off"]);
    let through = (from_lan() / v4("198.18.1.7", "198.18.0.99") / Udp::new(1, 2)).build();
    assert_eq!(
        receive(&mut path, "lan", &through),
        ["wan: to 01 198.18.1.7 > 198.18.0.99 ttl 63 len 28 udp"],
        "without ARP an unknown neighbour gets the device's own address"
    );
}

#[test]
fn no_frame_panics() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut path = router(NET);
    let seeds = [
        (from_wan()
            / v4("198.18.0.7", "198.18.1.7").options(&[7, 7, 4, 0, 0, 0, 0, 0])
            / Udp::new(1, 2))
        .build(),
        (from_wan() / v4("198.18.0.7", "198.18.0.1").fragment(0, true) / payload([0; 16])).build(),
        (from_wan()
            / Vlan::new(7)
            / Ipv6::new("2001:db8::7", "2001:db8::1")
            / HopByHop::new().option(5, &[0, 0])
            / Fragment::new(0, true, 1)
            / payload([0; 16]))
        .build(),
        (from_wan()
            / Ipv6::new("2001:db8::7", "2001:db8::1")
            / DestOptions::new().option(9, &[1])
            / Routing::new(0, 1)
            / Tcp::new(1, 2))
        .build(),
    ];
    for _ in 0..20_000 {
        let mut frame = seeds[rng.usize(..seeds.len())].clone();
        for _ in 0..rng.usize(0..4) {
            let at = rng.usize(12..frame.len());
            frame[at] = rng.u8(..);
        }
        frame.truncate(rng.usize(frame.len() / 2..=frame.len()));
        // A right header checksum lets more of them through.
        if rng.bool()
            && frame.len() >= 34
            && frame[12..14] == [8, 0]
            && let Some(mut h) = penstock_wire::ipv4::HeaderMut::new(&mut frame[14..])
        {
            h.fill_checksum();
        }
        let device = if rng.bool() { "wan" } else { "lan" };
        receive_at(&mut path, device, &frame, START + rng.u64(..100 * SECOND));
        if frame.len() > 14 {
            let mut seen = Seen::default();
            path.send_host(&frame[14..], START, &mut seen);
            path.send_raw(2, &frame, START, &mut seen);
        }
    }
}
