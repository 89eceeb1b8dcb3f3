// SPDX-License-Identifier: Apache-2.0

use super::*;
use penstock_wire::{ethernet, ipv4, ipv6, ipv6_ext, sctp, tcp, udp};

const A4: &str = "198.18.0.1";
const B4: &str = "198.18.0.2";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8::2";

fn link() -> Ethernet {
    Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
}

/// Whether the transport checksum of a bare IP packet is right.
fn transport_ok(packet: &[u8]) -> bool {
    let (protocol, data, pseudo) = if packet[0] >> 4 == 4 {
        let h = ipv4::Header::new(packet).unwrap();
        assert_eq!(ipv4::check_input(packet), Ok(packet.len()));
        (h.protocol(), h.payload(), h.pseudo(h.payload().len()))
    } else {
        let h = ipv6::Header::new(packet).unwrap();
        assert_eq!(ipv6::check_input(packet, false), Ok(packet.len()));
        let at = ipv6_ext::skip(packet, 40, h.next_header()).unwrap();
        let data = &packet[at.offset..];
        (at.protocol, data, h.pseudo(at.protocol, data.len()))
    };
    match protocol {
        1 | 2 => Sum::new().bytes(data).is_valid(),
        132 => sctp::Header::new(data).unwrap().checksum_ok(),
        _ => pseudo.bytes(data).is_valid(),
    }
}

#[test]
fn every_transport_gets_its_protocol_and_a_right_checksum() {
    for (protocol, transport) in [
        (6, Tcp::new(1, 2).syn().mss(1400).nop().window_scale(7) / payload(b"odd")),
        (17, Udp::new(1, 2) / payload(b"abc")),
        (136, UdpLite::new(1, 2) / payload(b"abc")),
        (33, Dccp::new(1, 2, 0).options(&[44, 3, 9]) / payload(b"abc")),
        (132, Sctp::new(1, 2).chunk(0, 3, b"abc") / payload(b"")),
    ] {
        let body = transport.build();
        for ip in [
            Frame::from(Ipv4::new(A4, B4).options(&[148, 4, 0])),
            Ipv6::new(A6, B6) / HopByHop::new() / DestOptions::new().option(30, b"x"),
        ] {
            let packet = (ip / transport.clone()).build();
            assert!(transport_ok(&packet), "{protocol}");
            assert_eq!(packet[packet.len() - body.len()..][..4], body[..4], "{protocol}");
        }
    }
    assert!(transport_ok(
        &(Ipv4::new(A4, B4) / Icmp::echo_request(1, 2) / payload(b"abc")).build()
    ));
    assert!(transport_ok(&(Ipv4::new(A4, "239.1.2.3") / Igmp::new(0x16, "239.1.2.3")).build()));
    let solicitation =
        Ipv6::new(A6, "ff02::1:ff00:2").hop_limit(255) / Icmpv6::neighbour_solicitation(B6);
    assert!(transport_ok(&(solicitation / payload([1, 1, 2, 0, 0, 0, 0, 1])).build()));
}

#[test]
fn the_type_fields_follow_the_next_layer() {
    let frame = (link()
        / Vlan::new(7).service().priority(5)
        / Vlan::new(9)
        / Ipv4::new(A4, B4)
        / Udp::new(1, 2))
    .build();
    assert_eq!(frame[12..22], [0x88, 0xa8, 0xa0, 7, 0x81, 0, 0, 9, 8, 0]);
    let frame = (link() / Arp::request("02:00:00:00:00:01", A4, B4)).pad_to(60).build();
    assert_eq!((frame.len(), &frame[12..16]), (60, &[8, 6, 0, 1][..]));
    let frame = (link().with_length() / payload([0x42, 0x42, 3])).build();
    assert_eq!(frame[12..], [0, 3, 0x42, 0x42, 3]);
    let tunnel =
        (Ipv6::new(A6, B6) / Ipv4::new(A4, B4) / Gre::new().key(1) / link() / Ipv6::new(A6, B6))
            .build();
    assert_eq!((tunnel[6], tunnel[49], &tunnel[60..64]), (4, 47, &[0x20, 0, 0x65, 0x58][..]));
    assert_eq!((tunnel.len(), tunnel[68 + 14 + 6]), (40 + 20 + 8 + 14 + 40, 59));
    let vxlan =
        (Ipv4::new(A4, B4) / Udp::new(1, 4789) / Vxlan::new(5) / link() / Ipv6::new(A6, B6))
            .build();
    assert!(transport_ok(&vxlan));
}

#[test]
fn deliberate_faults_touch_one_field_only() {
    let right = (Ipv4::new(A4, B4) / Udp::new(1, 2) / payload(b"hello")).build();
    let differs = |frame: Frame| {
        let other = frame.build();
        assert_eq!(other.len(), right.len());
        (0..right.len()).filter(|&n| other[n] != right[n]).collect::<Vec<_>>()
    };
    let ip = || Ipv4::new(A4, B4);
    let data = || payload(b"hello");
    assert_eq!(differs(ip() / Udp::new(1, 2).checksum(0) / data()), [26, 27]);
    assert_eq!(differs(ip().checksum(0) / Udp::new(1, 2) / data()), [10, 11]);
    assert_eq!(differs(ip().total_len(34) / Udp::new(1, 2) / data()), [3, 11]);
    // The wrong length is in the sum, so only the lengths are wrong.
    assert_eq!(differs(ip() / Udp::new(1, 2).length(99) / data()), [25, 27]);
    let cut = (ip() / Udp::new(1, 2) / data()).truncate(22).build();
    assert_eq!(cut, right[..22]);
    let short = (ip().header_len(16) / Udp::new(1, 2) / data()).build();
    assert_eq!(ipv4::check_input(&short), Err(ipv4::InputError::Header));
    let long = (ip().header_len(24) / Udp::new(1, 2) / data()).build();
    assert_eq!(ipv4::check_input(&long), Ok(33), "the payload counts as options and sums up");
}

#[test]
fn fragments_of_a_frame_keep_its_link_header() {
    for frame in [
        (link() / Vlan::new(7) / Ipv4::new(A4, B4).id(5) / Udp::new(1, 2) / payload([7; 3000]))
            .build(),
        (link() / Vlan::new(7) / Ipv6::new(A6, B6) / Udp::new(1, 2) / payload([7; 3000])).build(),
    ] {
        let parts = fragments(&frame, 1400, 1);
        assert_eq!(parts.len(), 3);
        for p in parts {
            assert_eq!(p[..18], frame[..18]);
            assert!(p.len() <= 1418);
        }
    }
    assert!(fragments(&[0; 5], 1400, 1).is_empty());
}

#[test]
fn views_never_panic_on_random_bytes() {
    let seed = crate::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..5000 {
        let b: Vec<u8> = (0..rng.usize(..90)).map(|_| rng.u8(..)).collect();
        macro_rules! show {
            ($($m:ident),*) => {$(
                if let Some(h) = penstock_wire::$m::Header::new(&b) {
                    let _ = h.to_string();
                }
            )*};
        }
        show!(
            ah, arp, dccp, esp, ethernet, geneve, gre, icmp, icmpv6, igmp, ipv4, ipv6, sctp, tcp,
            udp, udplite, vxlan
        );
        macro_rules! payloads {
            ($($m:ident),*) => {$(
                if let Some(h) = penstock_wire::$m::Header::new(&b) {
                    assert!(h.payload().len() < b.len());
                }
            )*};
        }
        payloads!(
            ah, esp, ethernet, geneve, gre, icmp, icmpv6, igmp, ipv4, ipv6, tcp, udp, udplite,
            vlan, vxlan
        );
        if let Some(h) = ipv4::Header::new(&b) {
            let _ =
                (h.checksum_ok(), h.options(), ipv4::check_input(&b), ipv6::check_input(&b, false));
            ipv4::fragment(&b, rng.usize(..100), false, &mut Vec::new(), |_| {});
            let mut copy = b.clone();
            let mut m = ipv4::HeaderMut::new(&mut copy).unwrap();
            m.decrement_ttl();
            m.fill_checksum();
        }
        if let Some(h) = tcp::Header::new(&b) {
            tcp::Repr::reset_for(&h, b.len());
            tcp::options(tcp::header_of(&b).unwrap_or(&[])).count();
            tcp::options(&b).count();
        }
        if let Some(h) = udp::Header::new(&b) {
            assert_eq!(udp::Repr::parse(&h).bytes(), b[..8]);
        }
        if let Some(h) = penstock_wire::gre::Header::new(&b) {
            h.key();
        }
        if let Some(h) = penstock_wire::geneve::Header::new(&b) {
            h.options().count();
        }
        if let Some(h) = penstock_wire::dccp::Header::new(&b) {
            h.has_option(b[0]);
        }
        if let Some(h) = ethernet::Header::new(&b) {
            h.protocol();
        }
        penstock_wire::icmpv6::nd_options(&b).count();
    }
}
