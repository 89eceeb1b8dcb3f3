// SPDX-License-Identifier: Apache-2.0

//! A proxy that answers handshakes for a server behind the router.

#[path = "synproxy/kernel.rs"]
mod kernel;
mod router;

use std::net::IpAddr;
use std::sync::Arc;

use penstock_dataplane::{Dataplane, Settings};
use penstock_program::expr::{Expr, Synproxy};
use penstock_program::{Hook, Verdict};
use penstock_ruleset::Family;
use penstock_testkit::build::*;
use penstock_testkit::program::parse;
use penstock_wire::{ipv4, ipv6, protocol, tcp};
use router::*;

const CLIENT: &str = "198.18.0.7";
const SERVER: &str = "198.18.1.7";

/// What a segment says, and its options.
#[derive(Debug, PartialEq)]
struct Segment {
    device: String,
    /// Its checksum is right.
    whole: bool,
    addresses: [IpAddr; 2],
    from: u16,
    to: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    window: u16,
    options: Vec<u8>,
}

/// Sends a frame in; the segments that come out, all with right checksums.
fn send(path: &mut Dataplane, device: &str, frame: Frame, time: u64) -> Vec<Segment> {
    let seen = receive_at(path, device, &frame.build(), time);
    // Redirects and the like are left out.
    let tcp = |(_, bytes): &&(String, Vec<u8>)| match bytes[14] >> 4 {
        4 => bytes[14 + 9] == protocol::TCP,
        _ => bytes[14 + 6] == protocol::TCP,
    };
    let segments = seen.frames.iter().filter(tcp);
    let segments = segments.map(|(device, bytes)| segment(device, bytes));
    segments.inspect(|s| assert!(s.whole, "a wrong checksum: {s:?}")).collect()
}

/// A frame that came out.
fn segment(device: &str, bytes: &[u8]) -> Segment {
    let network = &bytes[14..];
    let (segment, pseudo, addresses): (_, _, [IpAddr; 2]) = match network[0] >> 4 {
        4 => {
            let ip = ipv4::Header::new(network).unwrap();
            assert!(ip.checksum_ok());
            let pseudo = ip.pseudo(ip.payload().len());
            (ip.payload(), pseudo, [ip.src().into(), ip.dst().into()])
        }
        _ => {
            let ip = ipv6::Header::new(network).unwrap();
            let pseudo = ip.pseudo(protocol::TCP, ip.payload().len());
            (ip.payload(), pseudo, [ip.src().into(), ip.dst().into()])
        }
    };
    let h = tcp::Header::new(segment).unwrap();
    Segment {
        whole: pseudo.bytes(segment).is_valid(),
        device: device.to_owned(),
        addresses,
        from: h.sport(),
        to: h.dport(),
        flags: h.flags(),
        seq: h.seq(),
        ack: h.ack_seq(),
        window: h.window(),
        options: h.options().to_vec(),
    }
}

fn proxy(flags: u32) -> Dataplane {
    let net = penstock_net::Network::from_batch("net.ip", NET).unwrap();
    let mut settings = Settings::unlimited();
    settings.conntrack.tcp_loose = false;
    let mut path = Dataplane::new(Arc::new(net), settings);
    let raw = "[ meta load l4proto => reg 1 ]\n[ cmp eq reg 1 0x00000006 ]\n\
               [ payload load 1b @ transport header + 13 => reg 1 ]\n[ cmp eq reg 1 0x00000002 ]\n[ notrack ]";
    let state = "[ ct load state => reg 1 ]\n[ bitwise reg 1 = ( reg 1 & 0x00000041 ) ^ 0x00000000 ]\n\
                 [ cmp neq reg 1 0x00000000 ]";
    let mut rule = parse::program(state).unwrap();
    rule.push(Expr::Synproxy(Synproxy { mss: 1460, wscale: 7, flags }));
    rule.push(verdict(Verdict::Drop));
    load(
        &mut path,
        vec![
            Base::new(Family::Ip, "raw", Hook::Prerouting, vec![parse::program(raw).unwrap()])
                .at(-300),
            Base::new(Family::Ip, "f", Hook::Forward, vec![rule]),
        ],
    );
    path
}

fn client(tcp: Tcp) -> Frame {
    from_wan() / Ipv4::new(CLIENT, SERVER) / tcp
}

fn server(tcp: Tcp) -> Frame {
    from_lan() / Ipv4::new(SERVER, CLIENT) / tcp
}

const ISN: u32 = 1000;
const SERVER_ISN: u32 = 0x9000_0000;

#[test]
fn a_handshake_is_answered_then_repeated_with_the_server_and_numbers_are_shifted() {
    let mut path = proxy(0xf);
    // The client's options come back as far as they are offered, its window scale travels in the
    // timestamp.
    let syn = Tcp::new(1000, 80)
        .seq(ISN)
        .syn()
        .mss(1300)
        .sack_permitted()
        .timestamp(77, 0)
        .nop()
        .window_scale(5);
    let [answer] = &send(&mut path, "wan", client(syn), START)[..] else { panic!("one answer") };
    assert_eq!(
        (&*answer.device, answer.from, answer.flags, answer.ack, answer.window),
        ("wan", 80, 0x12, ISN + 1, 0)
    );
    let cookie = answer.seq;
    let told = u32::from_be_bytes(answer.options[8..12].try_into().unwrap());
    assert_eq!(told & 0x3f, 5 | 1 << 4);
    assert_eq!(answer.options[..8], [2, 4, 5, 0xb4, 4, 2, 8, 10]);
    assert_eq!(answer.options[12..], [0, 0, 0, 77, 1, 3, 3, 7]);
    assert_eq!(path.conntrack().count(), 0);

    let ack = Tcp::new(1000, 80).seq(ISN + 1).ack(cookie.wrapping_add(1)).window(500);
    let ack = ack.nop().nop().timestamp(78, told);
    let [open] = &send(&mut path, "wan", client(ack), START + 1)[..] else { panic!("one SYN") };
    assert_eq!(
        (&*open.device, open.from, open.flags, open.seq, open.window),
        ("lan", 1000, 0x02, ISN, 500)
    );
    // The size is that of the cookie's table.
    assert_eq!(open.options[..8], [2, 4, 5, 0x14, 4, 2, 8, 10]);
    assert_eq!(
        open.options[8..],
        [
            0,
            0,
            0,
            78,
            told.to_be_bytes()[0],
            told.to_be_bytes()[1],
            told.to_be_bytes()[2],
            told.to_be_bytes()[3],
            1,
            3,
            3,
            5
        ]
    );

    let server_time = 5_000_000;
    let syn_ack = Tcp::new(80, 1000).seq(SERVER_ISN).syn().ack(ISN + 1).window(640).mss(1460);
    let syn_ack = syn_ack.sack_permitted().timestamp(server_time, 78).nop().window_scale(3);
    let answers = send(&mut path, "lan", server(syn_ack), START + 2);
    let [to_server, to_client] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((&*to_server.device, to_server.flags), ("lan", 0x10));
    assert_eq!((to_server.seq, to_server.ack), (ISN + 1, SERVER_ISN + 1));
    assert_eq!((&*to_client.device, to_client.flags, to_client.window), ("wan", 0x10, 640 >> 3));
    assert_eq!((to_client.seq, to_client.ack), (cookie.wrapping_add(1), ISN + 1));
    assert_eq!(to_client.options[4..8], told.to_be_bytes(), "time does not go back");

    // Data, both ways: the server sees its own numbers, the client those that it was told.
    let data = Tcp::new(80, 1000)
        .seq(SERVER_ISN + 1)
        .ack(ISN + 1)
        .nop()
        .nop()
        .timestamp(server_time + 9, 78);
    let [data] = &send(&mut path, "lan", server(data) / payload([1; 10]), START + 3)[..] else {
        panic!("one segment")
    };
    assert_eq!((data.seq, data.ack), (cookie.wrapping_add(1), ISN + 1));
    assert_eq!(data.options[4..8], (told + 9).to_be_bytes());
    let back = Tcp::new(1000, 80)
        .seq(ISN + 1)
        .ack(cookie.wrapping_add(11))
        .nop()
        .nop()
        .timestamp(79, told + 9);
    let [back] = &send(&mut path, "wan", client(back), START + 4)[..] else {
        panic!("one segment")
    };
    assert_eq!((&*back.device, back.seq, back.ack), ("lan", ISN + 1, SERVER_ISN + 11));
    assert_eq!(back.options[8..12], (server_time + 9).to_be_bytes());
}

#[test]
fn only_fresh_cookies_count_and_options_are_those_offered() {
    let mut path = proxy(1);
    let syn = || {
        client(
            Tcp::new(1000, 80).seq(ISN).syn().mss(536).sack_permitted().nop().nop().timestamp(7, 0),
        )
    };
    let [answer] = &send(&mut path, "wan", syn(), START)[..] else { panic!("one answer") };
    assert_eq!(answer.options, [2, 4, 5, 0xb4]);
    let ack = |cookie: u32| client(Tcp::new(1000, 80).seq(ISN + 1).ack(cookie.wrapping_add(1)));
    let cookie = answer.seq;
    for wrong in [cookie.wrapping_add(5), cookie ^ 0x8000_0000, 0] {
        assert_eq!(send(&mut path, "wan", ack(wrong), START + 1), []);
    }
    assert_eq!(send(&mut path, "wan", ack(cookie), START + 130 * SECOND), []);
    let [open] = &send(&mut path, "wan", ack(cookie), START + 131 * SECOND - 100 * SECOND)[..]
    else {
        panic!("still good")
    };
    assert_eq!((open.flags, &open.options[..]), (0x02, &[2, 4, 2, 24][..]));
    // What is neither continues, and ends by the next statement.
    assert_eq!(
        receive(&mut path, "wan", &client(Tcp::new(1, 80).rst()).build()),
        ["drop: rule t f handle 4"]
    );
}
