// SPDX-License-Identifier: Apache-2.0

use super::*;
use penstock_conntrack::tuple;
use penstock_testkit::build::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One end of a connection as it is written into a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct End {
    host: u16,
    id: u16,
}

impl End {
    fn ip4(self) -> Ipv4Addr {
        Ipv4Addr::from(0xc612_0000 | u32::from(self.host))
    }

    fn ip6(self) -> Ipv6Addr {
        Ipv6Addr::from(0x2001_0db8_0001_0000_0000_0000_0000_0000 | u128::from(self.host) << 40)
    }
}

/// Everything about a packet but its ends: built twice, once as it came and once as it has to
/// leave.
#[derive(Clone, Debug)]
struct Shape {
    v6: bool,
    protocol: u8,
    options: bool,
    data: Vec<u8>,
    no_checksum: bool,
    coverage: u16,
    kind: u8,
}

impl Shape {
    fn random(rng: &mut fastrand::Rng) -> Shape {
        let v6 = rng.bool();
        let icmp = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
        let protocols = [
            protocol::TCP,
            protocol::UDP,
            protocol::UDPLITE,
            protocol::SCTP,
            protocol::DCCP,
            icmp,
            protocol::GRE,
            253,
        ];
        Shape {
            v6,
            protocol: protocols[rng.usize(..protocols.len())],
            options: rng.u8(..4) == 0,
            data: (0..rng.usize(..60))
                .map(|_| if rng.bool() { rng.u8(..) } else { [0, 0xff][rng.usize(..2)] })
                .collect(),
            no_checksum: rng.u8(..6) == 0,
            coverage: [0, 8, 11][rng.usize(..3)],
            kind: if v6 { [128, 129, 1][rng.usize(..3)] } else { [8, 0, 13, 3][rng.usize(..4)] },
        }
    }

    /// A packet from `from` to `to`; `None` if this shape has no place for what differs between the
    /// ends.
    fn build(&self, from: End, to: End) -> Vec<u8> {
        let data = payload(&self.data);
        let upper: Frame = match self.protocol {
            protocol::TCP => Tcp::new(from.id, to.id).ack(7).mss(1460).window(99) / data,
            protocol::UDP if self.no_checksum => Udp::new(from.id, to.id).checksum(0) / data,
            protocol::UDP => Udp::new(from.id, to.id) / data,
            protocol::UDPLITE => UdpLite::new(from.id, to.id).coverage(self.coverage) / data,
            protocol::SCTP => Sctp::new(from.id, to.id).vtag(5).chunk(0, 3, &self.data).into(),
            protocol::DCCP => Dccp::new(from.id, to.id, 2) / data,
            protocol::ICMP if self.kind == 3 => Icmp::new(3, 1).rest_of_header(77) / data,
            protocol::ICMP => {
                Icmp::new(self.kind, 0).rest_of_header(u32::from(from.id) << 16 | 9) / data
            }
            protocol::ICMPV6 if self.kind == 1 => Icmpv6::new(1, 1).rest_of_header(77) / data,
            protocol::ICMPV6 => {
                Icmpv6::new(self.kind, 0).rest_of_header(u32::from(from.id) << 16 | 9) / data
            }
            protocol::GRE => {
                // Version 1 with the key of the destination.
                let [a, b] = to.id.to_be_bytes();
                payload([&[0x20, 0x01, 0x88, 0x0b, 0, 4, a, b][..], &self.data].concat()).into()
            }
            _ => data.into(),
        };
        match (self.v6, self.options) {
            (false, false) => {
                (Ipv4::new(from.ip4(), to.ip4()).protocol(self.protocol) / upper).build()
            }
            (false, true) => {
                let ip =
                    Ipv4::new(from.ip4(), to.ip4()).protocol(self.protocol).options(&[1, 1, 1, 0]);
                (ip / upper).build()
            }
            (true, false) => {
                (Ipv6::new(from.ip6(), to.ip6()).next_header(self.protocol) / upper).build()
            }
            (true, true) => {
                let mut units = vec![self.protocol, 0, 1, 4, 0, 0, 0, 0];
                let bytes =
                    (Ipv6::new(from.ip6(), to.ip6()).next_header(self.protocol) / upper).build();
                // A destination options header before it, with the protocol as next header.
                let mut out = bytes[..40].to_vec();
                out[6] = protocol::DEST_OPTIONS;
                let len = (bytes.len() - 40 + 8) as u16;
                out[4..6].copy_from_slice(&len.to_be_bytes());
                out.append(&mut units);
                out.extend(&bytes[40..]);
                out
            }
        }
    }

    fn target(&self, manip: Manip, end: End) -> Target {
        let address = if self.v6 { IpAddr::V6(end.ip6()) } else { IpAddr::V4(end.ip4()) };
        Target {
            manip,
            address: tuple::address(address),
            id: end.id,
            protocol: self.protocol,
            l3: if self.v6 { tuple::IPV6 } else { tuple::IPV4 },
        }
    }
}

fn seeded() -> fastrand::Rng {
    let seed = penstock_testkit::seed();
    fastrand::Rng::with_seed(seed)
}

#[test]
fn a_translated_packet_equals_one_built_with_the_new_header() {
    let mut rng = seeded();
    for n in 0..20_000 {
        let shape = Shape::random(&mut rng);
        let mut end = || End { host: rng.u16(..), id: rng.u16(..) };
        let (from, to, other) = (end(), end(), end());
        let manip = if n % 2 == 0 { Manip::Source } else { Manip::Destination };
        let is_icmp = is_icmp(shape.protocol);
        let (new_from, new_to) = match manip {
            // The key of a GRE packet is the destination's.
            Manip::Source => (other, to),
            // The identifier of ICMP is the source's, also when the destination changes.
            Manip::Destination if is_icmp => (End { id: other.id, ..from }, other),
            Manip::Destination => (from, other),
        };
        let mut packet = shape.build(from, to);
        let want = shape.build(new_from, new_to);
        assert!(translate(&mut packet, 0, &shape.target(manip, other)), "{shape:?}");
        assert_eq!(packet, want, "{manip:?} {shape:?} {from:?} {to:?} {other:?}");
    }
}

#[test]
fn leaving_as_answered_is_one_manipulation_after_the_other() {
    let mut rng = seeded();
    for _ in 0..4000 {
        let protocol = [protocol::TCP, protocol::UDP][rng.usize(..2)];
        let shape = Shape { protocol, options: false, ..Shape::random(&mut rng) };
        let mut end = || End { host: rng.u16(..), id: rng.u16(..) };
        let [from, to, new_from, new_to] = [end(), end(), end(), end()];
        let mut packet = shape.build(from, to);
        if rng.u8(..4) == 0 {
            // A wrong checksum, or one of the two zeros.
            let at =
                if shape.v6 { 40 } else { 20 } + if protocol == protocol::TCP { 16 } else { 6 };
            let check = [0, 0xffff, rng.u16(..)][rng.usize(..3)];
            packet[at..at + 2].copy_from_slice(&check.to_be_bytes());
        }
        // What answers come back as.
        let address = |end: End| match shape.v6 {
            true => tuple::address(IpAddr::V6(end.ip6())),
            false => tuple::address(IpAddr::V4(end.ip4())),
        };
        let back = Tuple {
            src: address(new_to),
            dst: address(new_from),
            src_id: new_to.id,
            dst_id: new_from.id,
            zone: 0,
            l3: if shape.v6 { tuple::IPV6 } else { tuple::IPV4 },
            protocol,
        };
        for [source, destination] in [[true, false], [false, true], [true, true], [false, false]] {
            let (mut wanted, mut got) = (packet.clone(), packet.clone());
            for (due, manip) in [(destination, Manip::Destination), (source, Manip::Source)] {
                assert!(!due || translate(&mut wanted, 0, &Target::answered_by(&back, manip)));
            }
            if source || destination {
                leave_as_answered(&mut got, &back, source, destination);
            }
            assert_eq!(got, wanted, "{shape:?} {back:?} {source} {destination}");
        }
    }
}

#[test]
fn wrong_checksums_stay_wrong() {
    let (from, to, other) =
        (End { host: 1, id: 1000 }, End { host: 2, id: 80 }, End { host: 3, id: 2000 });
    let build = |from: End, check| {
        (Ipv4::new(from.ip4(), to.ip4()) / Tcp::new(from.id, to.id).checksum(check) / payload(b"x"))
            .build()
    };
    let checksum_of = |p: &[u8]| u16::from_be_bytes([p[36], p[37]]);
    let right = |from: End| {
        checksum_of(
            &(Ipv4::new(from.ip4(), to.ip4()) / Tcp::new(from.id, to.id) / payload(b"x")).build(),
        )
    };
    let mut packet = build(from, right(from) - 5);
    let shape = Shape {
        v6: false,
        protocol: protocol::TCP,
        options: false,
        data: vec![],
        no_checksum: false,
        coverage: 0,
        kind: 0,
    };
    assert!(translate(&mut packet, 0, &shape.target(Manip::Source, other)));
    assert_eq!(packet, build(other, right(other) - 5));
}

#[test]
fn udp_without_checksum_stays_without_and_zero_is_never_written() {
    let to = End { host: 2, id: 53 };
    let mut zeros = 0;
    // One of all ports would make the checksum zero.
    for id in 0..=u16::MAX {
        let from = End { host: 1, id: 7 };
        let mut packet = (Ipv4::new(from.ip4(), to.ip4()) / Udp::new(from.id, to.id)).build();
        let target = Target {
            manip: Manip::Source,
            address: tuple::address(IpAddr::V4(from.ip4())),
            id,
            protocol: protocol::UDP,
            l3: tuple::IPV4,
        };
        assert!(translate(&mut packet, 0, &target));
        assert_ne!(packet[26..28], [0, 0]);
        zeros += usize::from(packet[26..28] == [0xff, 0xff]);
    }
    assert_eq!(zeros, 1);
}

#[test]
fn gre_without_keys_changes_its_addresses_only_and_unknown_versions_are_dropped() {
    let (from, to) = (End { host: 1, id: 0 }, End { host: 2, id: 0 });
    for (version, ok) in [(0, true), (1, true), (2, false), (7, false)] {
        let gre = payload([0x20, version, 0x88, 0x0b, 0, 0, 0xaa, 0xbb]);
        let mut packet = (Ipv4::new(from.ip4(), to.ip4()).protocol(protocol::GRE) / gre).build();
        let target = Target {
            manip: Manip::Destination,
            address: [198, 18, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            id: 0x1122,
            protocol: protocol::GRE,
            l3: tuple::IPV4,
        };
        assert_eq!(translate(&mut packet, 0, &target), ok, "version {version}");
        if ok {
            let key = if version == 1 { [0x11, 0x22] } else { [0xaa, 0xbb] };
            assert_eq!(packet[26..28], key);
            assert_eq!(packet[16..20], [198, 18, 7, 7]);
        }
    }
}

#[test]
fn packets_that_are_cut_are_refused_and_nothing_panics() {
    let mut rng = seeded();
    for _ in 0..5000 {
        let shape = Shape::random(&mut rng);
        let mut end = || End { host: rng.u16(..), id: rng.u16(..) };
        let (from, to, other) = (end(), end(), end());
        let mut packet = shape.build(from, to);
        packet.truncate(rng.usize(..=packet.len()));
        if let Some(byte) = packet.first_mut() {
            *byte = rng.u8(..);
        }
        let at = rng.usize(..50) * rng.usize(..2);
        translate(&mut packet, at, &shape.target(Manip::Source, other));
    }
    for (len, ok) in [(19, false), (20, false), (27, false), (28, true), (39, true), (40, true)] {
        let mut packet = (Ipv4::new("198.18.0.1", "198.18.0.2") / Tcp::new(1, 2)).build();
        packet.truncate(len);
        let shape = Shape { v6: false, protocol: protocol::TCP, ..Shape::random(&mut rng) };
        let got =
            translate(&mut packet, 0, &shape.target(Manip::Destination, End { host: 1, id: 1 }));
        assert_eq!(got, ok, "{len} bytes");
    }
}

/// Prints what a translation costs:
/// `cargo test --release -p penstock-nat cost -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn prints_nanoseconds_per_packet() {
    let (from, to) = (End { host: 1, id: 1000 }, End { host: 2, id: 80 });
    for (name, v6, protocol) in [
        ("ipv4 tcp", false, protocol::TCP),
        ("ipv4 udp", false, protocol::UDP),
        ("ipv6 tcp", true, protocol::TCP),
        ("ipv4 sctp", false, protocol::SCTP),
    ] {
        let shape = Shape {
            v6,
            protocol,
            options: false,
            data: vec![0; 32],
            no_checksum: false,
            coverage: 0,
            kind: 0,
        };
        let mut packet = shape.build(from, to);
        const N: u32 = 5_000_000;
        let start = std::time::Instant::now();
        for n in 0..N {
            let target = shape.target(Manip::Source, End { host: 1, id: n as u16 });
            std::hint::black_box(translate(std::hint::black_box(&mut packet), 0, &target));
        }
        println!("{name}: {:.1} ns", start.elapsed().as_secs_f64() * 1e9 / f64::from(N));
    }
}
