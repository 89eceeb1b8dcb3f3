// SPDX-License-Identifier: Apache-2.0

//! Extensions of x_tables that no program sends to the kernel here: L2TP, and records of operating
//! systems. Others are held against the kernel.

use penstock_packet::Packet;
use penstock_program::expr::{Expr, Xt};
use penstock_program::image::ChainIndex;
use penstock_program::osf::Fingerprints;
use penstock_program::{Family, Hook, Outcome, run};
use penstock_testkit::build::*;
use penstock_testkit::program::{Event, MockEnv, Table, parse};

const V4: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
const V6: [&str; 2] = ["2001:db8::1", "2001:db8::2"];

fn packet(bytes: Vec<u8>, protocol: u16) -> Packet {
    let mut packet = Packet::new();
    packet.load_network(&bytes);
    packet.meta.protocol = protocol;
    packet.find_transport();
    packet
}

/// Whether a packet passes a match.
fn passes(name: &str, info: &[u8], packet: &mut Packet, env: &mut MockEnv) -> bool {
    let matched = Expr::Xt(Xt { target: false, name: name.into(), rev: 0, info: info.into() });
    let mut program = vec![matched];
    program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
    let (image, _) = Table::of(vec![program]).link(env.context.family).unwrap();
    run(&image, ChainIndex(0), packet, env) == Outcome::Accept
}

/// `struct xt_l2tp_info`
fn l2tp(
    tunnel: Option<u32>,
    session: Option<u32>,
    version: Option<u8>,
    kind: Option<u8>,
) -> Vec<u8> {
    let flags = u8::from(tunnel.is_some())
        | u8::from(session.is_some()) << 1
        | u8::from(version.is_some()) << 2
        | u8::from(kind.is_some()) << 3;
    let mut info = [tunnel.unwrap_or(0), session.unwrap_or(0)].map(u32::to_ne_bytes).concat();
    info.extend([version.unwrap_or(0), kind.unwrap_or(0), flags, 0]);
    info
}

#[test]
fn l2tp_is_told_by_tunnel_session_version_and_kind() {
    const CONTROL: Option<u8> = Some(0);
    const DATA: Option<u8> = Some(1);
    let (five, seven) = (Some(5), Some(7));
    // RFC 2661, 3.1; RFC 3931, 3.2.1 and 4.1.2.1.
    let two_control: &[u8] = &[0xc8, 2, 0, 12, 0, 5, 0, 0, 0, 0, 0, 0];
    let two_data: &[u8] = &[0, 2, 0, 5, 0, 7, 0xff, 3];
    let two_data_with_length: &[u8] = &[0x40, 2, 0, 8, 0, 5, 0, 7];
    let three_control: &[u8] = &[0xc8, 3, 0, 12, 0, 0, 0, 5, 0, 0, 0, 0];
    let three_data: &[u8] = &[0, 3, 0, 0, 0, 0, 0, 7, 1];
    let other: &[u8] = &[0, 4, 0, 5, 0, 7, 0, 7];
    let ip_control: &[u8] = &[0, 0, 0, 0, 0xc8, 3, 0, 20, 0, 0, 0, 5];
    let ip_data: &[u8] = &[0, 0, 0, 7, 1];
    for (over, message, asked, expected) in [
        (17, two_control, l2tp(five, None, None, None), true),
        (17, two_control, l2tp(Some(6), None, None, None), false),
        (17, two_control, l2tp(five, seven, Some(2), None), true),
        (17, two_control, l2tp(five, None, Some(3), None), false),
        (17, two_control, l2tp(None, None, None, CONTROL), true),
        (17, two_control, l2tp(five, None, None, DATA), false),
        (17, two_data, l2tp(five, seven, None, None), true),
        (17, two_data, l2tp(five, Some(8), None, None), false),
        (17, two_data, l2tp(Some(0x1_0005), None, None, None), false),
        (17, &two_data[..5], l2tp(five, None, None, None), false),
        (17, two_data_with_length, l2tp(five, seven, Some(2), DATA), true),
        (17, two_data_with_length, l2tp(Some(8), None, None, None), false),
        (17, three_control, l2tp(five, None, Some(3), CONTROL), true),
        (17, three_control, l2tp(None, Some(9), Some(3), None), true),
        (17, three_data, l2tp(None, seven, Some(3), DATA), true),
        (17, three_data, l2tp(Some(9), None, Some(3), None), true),
        (17, three_data, l2tp(None, Some(8), Some(3), DATA), false),
        (17, &three_data[..7], l2tp(None, seven, None, None), false),
        (17, other, l2tp(five, None, None, None), false),
        (115, ip_control, l2tp(five, None, None, CONTROL), true),
        (115, ip_control, l2tp(Some(6), None, None, None), false),
        (115, ip_control, l2tp(None, Some(0), None, DATA), false),
        (115, &ip_control[..11], l2tp(five, None, None, None), false),
        (115, ip_data, l2tp(None, seven, Some(3), None), true),
        (115, ip_data, l2tp(five, None, None, DATA), true),
        (115, ip_data, l2tp(None, Some(8), None, None), false),
        (115, ip_data, l2tp(five, None, Some(2), None), false),
        (6, two_data, l2tp(five, None, None, None), false),
    ] {
        let v4 = Ipv4::new(V4[0], V4[1]).protocol(over);
        let v6 = Ipv6::new(V6[0], V6[1]).next_header(over);
        let body = match over {
            17 => [&[0x9c, 0x40, 6, 0xa5, 0, 0, 0, 0], message].concat(),
            _ => message.to_vec(),
        };
        for (family, mut packet) in [
            (Family::Ip, packet((v4 / payload(body.clone())).build(), 0x0800)),
            (Family::Ip6, packet((v6 / payload(body.clone())).build(), 0x86dd)),
        ] {
            let mut env = MockEnv::at(family, Hook::Forward);
            let passed = passes("l2tp", &asked, &mut packet, &mut env);
            assert_eq!(passed, expected, "{family:?} {over} {message:02x?} {asked:02x?}");
        }
    }
}

#[test]
fn systems_are_recorded() {
    let known = Fingerprints::parse(
        "8192:128:0:40:.:Windows:XP:SP1:Windows XP SP1\n8192:64:0:40:.:Nowhere:1::Another\n",
    )
    .unwrap();
    /// `struct xt_osf_info`: no genre that is known, any TTL, and how much is recorded.
    fn asked(level: u32) -> Vec<u8> {
        let mut info = b"Linux".to_vec();
        info.resize(36, 0);
        info.extend([1 | 2 | 4, level, 2].map(u32::to_ne_bytes).concat());
        info
    }
    let syn = |window| {
        let tcp = Tcp::new(1000, 80).syn().window(window);
        packet((Ipv4::new(V4[0], V4[1]).ttl(60) / tcp).build(), 0x0800)
    };
    let way = "198.18.0.1:1000 -> 198.18.0.2:80";
    let both =
        [format!("Windows [XP:SP1] : {way} hops=68\n"), format!("Nowhere [1:] : {way} hops=4\n")];
    for (window, level, passed, lines) in [
        (8192, 0, true, &both[..]),
        (8192, 1, true, &both[..1]),
        (8193, 0, false, &[format!("Remote OS is not known: {way}\n")][..]),
    ] {
        let at = MockEnv::at(Family::Ip, Hook::Input);
        let mut env = MockEnv { fingerprints: Some(known.clone()), ..at };
        assert_eq!(passes("osf", &asked(level), &mut syn(window), &mut env), passed);
        let said: Vec<_> = env
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Log(log) => log.prefix.as_deref().map(str::to_owned),
                _ => None,
            })
            .collect();
        assert_eq!(said, lines, "{window} {level}");
    }
}
