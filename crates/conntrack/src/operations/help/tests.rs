// SPDX-License-Identifier: Apache-2.0

//! Helpers on whole connections: their expectations and the translated text.

use crate::{
    Conntrack, Direction, Helped, Hook, Settings, Surroundings, Verdict, helper_number, status,
};
use penstock_packet::{CtInfo, Packet};
use penstock_testkit::build::*;
use penstock_wire::{protocol, tcp};

const CLIENT: &str = "198.18.0.1";
const SERVER: &str = "198.18.0.2";
const ROUTER: &str = "198.18.0.254";

/// Puts new bytes in, without headers following: enough to read them back.
fn replace(
    packet: &mut Packet,
    transport: usize,
    kind: u8,
    at: usize,
    len: usize,
    with: &[u8],
) -> bool {
    let header = if kind == protocol::TCP {
        tcp::Header::new(&packet.network()[transport..]).unwrap().header_len()
    } else {
        8
    };
    packet.splice_network(transport + header + at, len, with)
}

struct Net {
    ct: Conntrack,
    helper: u16,
    translated: bool,
    surroundings: Surroundings,
    seq: [u32; 2],
}

impl Net {
    fn new(name: &str, protocol: u8) -> Self {
        Net {
            ct: Conntrack::new(Settings { max: 100, ..Settings::default() }),
            helper: helper_number(name, protocol).unwrap(),
            translated: false,
            surroundings: Surroundings::default(),
            seq: [100, 500],
        }
    }

    /// Through the tracker as a packet is that reaches its end; returns what it was and the packet.
    fn pass(&mut self, frame: impl Into<Frame>) -> (CtInfo, Option<Packet>) {
        let mut p = Packet::new();
        p.load(&frame.into().build(), 0);
        p.meta.time = 1_700_000_000_000_000_000;
        self.ct.track(&mut p, Hook::Output);
        let info = p.meta.ct.info;
        if info == CtInfo::New {
            let n = p.meta.ct.entry;
            assert!(
                self.ct.set_helper(n, self.helper)
                    || self.ct.connection_at(n).unwrap().helper().is_some()
            );
            if self.translated && self.ct.connection_at(n).unwrap().status() & status::SRC_NAT == 0
            {
                // Translated to the router's address and another port.
                let mut reply = *self.ct.connection_at(n).unwrap().tuple(Direction::Reply);
                reply.dst[..4].copy_from_slice(&[198, 18, 0, 254]);
                reply.dst_id += 1;
                while self.ct.is_taken(&reply, n) {
                    reply.dst_id += 1;
                }
                self.ct.alter_reply(n, &reply);
                self.ct.set_status(n, status::SRC_NAT);
            }
        }
        if self.ct.help(&mut p, self.surroundings, replace) == Helped::Drop {
            return (info, None);
        }
        assert_eq!(self.ct.confirm(&mut p), Verdict::Accept);
        (info, Some(p))
    }

    fn client_port(&self) -> u16 {
        if self.translated { 1001 } else { 1000 }
    }

    fn segment(&self, there: bool, flags: u8, text: &[u8]) -> Frame {
        let to = if self.translated { ROUTER } else { CLIENT };
        let (seq, ack) = (self.seq[usize::from(!there)], self.seq[usize::from(there)]);
        if there {
            Ipv4::new(CLIENT, SERVER)
                / Tcp::new(1000, 21).seq(seq).ack(ack).flags(flags)
                / payload(text)
        } else {
            Ipv4::new(SERVER, to)
                / Tcp::new(21, self.client_port()).seq(seq).ack(ack).flags(flags)
                / payload(text)
        }
    }

    fn open(&mut self) {
        self.pass(self.segment(true, 2, b""));
        self.seq[0] += 1;
        self.pass(self.segment(false, 18, b""));
        self.seq[1] += 1;
        self.pass(self.segment(true, 16, b""));
    }

    /// Says a line; returns the text that comes out, or nothing if it is dropped.
    fn say(&mut self, there: bool, text: &str) -> Option<String> {
        self.say_bytes(there, text.as_bytes()).map(|b| String::from_utf8(b).unwrap())
    }

    fn say_bytes(&mut self, there: bool, text: &[u8]) -> Option<Vec<u8>> {
        let frame = self.segment(there, 24, text);
        self.seq[usize::from(!there)] += text.len() as u32;
        let (_, p) = self.pass(frame);
        p.map(|p| tcp::Header::new(&p.network()[20..]).unwrap().payload().to_vec())
    }

    fn expected(&self) -> Vec<String> {
        self.ct
            .expectations()
            .map(|(e, _)| {
                let t = &e.tuple;
                format!("{} > {}:{}", t.source(), t.destination(), t.dst_id)
            })
            .collect()
    }
}

#[test]
fn ftp_announces_data_connections() {
    let mut net = Net::new("ftp", protocol::TCP);
    net.open();
    assert_eq!(net.say(false, "220 hello\r\n").unwrap(), "220 hello\r\n");
    net.say(true, "USER x\r\n");
    assert_eq!(net.say(true, "PORT 198,18,0,1,4,5\r\n").unwrap(), "PORT 198,18,0,1,4,5\r\n");
    assert_eq!(net.expected(), ["198.18.0.2 > 198.18.0.1:1029"]);
    // The next replaces it, since the maximum is one.
    net.say(true, "EPRT |1|198.18.0.1|1030|\r\n");
    assert_eq!(net.expected(), ["198.18.0.2 > 198.18.0.1:1030"]);
    net.ct.set_mark(0, 7);
    let (info, p) = net.pass(Ipv4::new(SERVER, CLIENT) / Tcp::new(20, 1030).syn());
    assert_eq!(info, CtInfo::Related);
    let data = net.ct.connection(&p.unwrap().meta.ct).unwrap();
    assert_eq!((data.mark(), data.status() & status::EXPECTED), (7, status::EXPECTED));
    assert_eq!(data.master().unwrap().number(), 0);
    assert!(net.expected().is_empty());
    net.say(false, "227 Entering (198,18,0,2,8,0)\r\n");
    assert_eq!(net.expected(), ["198.18.0.1 > 198.18.0.2:2048"]);
    // Third parties only if allowed; half a command never.
    net.say(false, "227 Entering (198,18,0,77,8,1)\r\n");
    assert_eq!(net.expected(), ["198.18.0.1 > 198.18.0.2:2048"]);
    net.ct.set_ftp_loose(true);
    net.say(false, "227 Entering (198,18,0,77,8,1)\r\n");
    assert_eq!(net.expected(), ["198.18.0.1 > 198.18.0.77:2049"]);
    assert_eq!(net.say(true, "PORT 198,18"), None);
    net.ct.kill(0);
    assert!(net.expected().is_empty(), "they end with their master");
}

#[test]
fn nat_rewrites_ftp_text_and_adjusts_sequence_numbers() {
    let mut net = Net::new("ftp", protocol::TCP);
    net.translated = true;
    net.open();
    net.say(true, "USER x\r\n");
    assert_eq!(net.say(true, "PORT 198,18,0,1,4,5\r\n").unwrap(), "PORT 198,18,0,254,4,5\r\n");
    assert_eq!(net.expected(), ["198.18.0.2 > 198.18.0.254:1029"]);
    let follow = net.ct.expectations().next().unwrap().0.follow.unwrap();
    assert_eq!((follow.direction, follow.port), (Direction::Reply, 1029));
    // Two bytes more went out: what follows is shifted, and acknowledgements are shifted back.
    let seq = net.seq[0];
    let frame = net.segment(true, 24, b"LIST\r\n");
    let (_, p) = net.pass(frame);
    let out = tcp::Header::new(&p.unwrap().network()[20..]).unwrap().seq();
    assert_eq!(out, seq + 2);
    let mut back = net.segment(false, 16, b"").build();
    back[20 + 8..20 + 12].copy_from_slice(&(seq + 2).to_be_bytes());
    let (_, p) = net.pass(Frame::from(payload(back)));
    let ack = tcp::Header::new(&p.unwrap().network()[20..]).unwrap().ack_seq();
    assert_eq!(ack, seq);
}

#[test]
fn tftp_expects_the_answer_from_another_port() {
    let mut net = Net::new("tftp", protocol::UDP);
    let request =
        || Ipv4::new(CLIENT, SERVER) / Udp::new(1000, 69) / payload(b"\x00\x01file\x00octet\x00");
    net.pass(request());
    assert_eq!(net.expected(), ["198.18.0.2 > 198.18.0.1:1000"]);
    let (info, _) =
        net.pass(Ipv4::new(SERVER, CLIENT) / Udp::new(4000, 1000) / payload(b"\x00\x03"));
    assert_eq!(info, CtInfo::Related);
    net.pass(Ipv4::new(CLIENT, SERVER) / Udp::new(1000, 69) / payload(b"\x00\x04"));
    assert!(net.expected().is_empty());
}

#[test]
fn irc_offers_are_expected_and_rewritten() {
    let mut net = Net::new("irc", protocol::TCP);
    net.translated = true;
    net.open();
    net.say(false, ":server 001 hello\r\n");
    let out = net.say(true, "PRIVMSG bob :\x01DCC SEND file 3323068417 4000 99\x01\r\n").unwrap();
    assert_eq!(out, "PRIVMSG bob :\x01DCC SEND file 3323068670 4000 99\x01\r\n");
    assert_eq!(net.expected(), ["0.0.0.0 > 198.18.0.254:4000"]);
}

#[test]
fn amanda_names_its_streams() {
    let mut net = Net::new("amanda", protocol::UDP);
    net.pass(Ipv4::new(CLIENT, SERVER) / Udp::new(900, 10080) / payload(b"Amanda 2.4 REQ"));
    let text = b"Amanda 2.4 REP\nCONNECT DATA 3000 MESG 3001 INDEX 3002\nOPTIONS ;\n";
    let (info, _) = net.pass(Ipv4::new(SERVER, CLIENT) / Udp::new(10080, 900) / payload(text));
    assert_eq!(info, CtInfo::EstablishedReply);
    assert_eq!(net.expected().len(), 3);
    assert!(net.expected().contains(&"198.18.0.1 > 198.18.0.2:3001".into()));
}

#[test]
fn broadcast_requests_expect_answers_from_the_whole_subnet() {
    let mut net = Net::new("netbios-ns", protocol::UDP);
    net.surroundings.broadcast_mask = Some([255, 255, 255, 0]);
    net.pass(Ipv4::new(CLIENT, "198.18.0.255") / Udp::new(137, 137) / payload(b"who"));
    for (host, port, info) in [
        ("198.18.0.9", 137, CtInfo::Related),
        ("198.18.0.10", 137, CtInfo::Related),
        ("198.18.1.10", 137, CtInfo::New),
        ("198.18.0.11", 138, CtInfo::New),
    ] {
        let (got, _) = net.pass(Ipv4::new(host, CLIENT) / Udp::new(port, 137) / payload(b"me"));
        assert_eq!(got, info, "{host}:{port}");
    }
}

#[test]
fn sane_expects_the_data_port_of_the_reply() {
    let mut net = Net::new("sane", protocol::TCP);
    net.open();
    net.say_bytes(true, &[0, 0, 0, 7, 0, 0, 0, 1]);
    net.say_bytes(false, &[0, 0, 0, 0, 0, 0, 0x10, 0, 9, 9]);
    assert_eq!(net.expected(), ["198.18.0.1 > 198.18.0.2:4096"]);
}

#[test]
fn pptp_calls_carry_their_data_in_gre() {
    let message = |kind: u16, body: &[u8], len: usize| {
        let mut m = vec![0, 0, 0, 1, 0x1a, 0x2b, 0x3c, 0x4d];
        m.extend(kind.to_be_bytes());
        m.extend([0, 0]);
        m.extend(body);
        m.resize(12 + len, 0);
        m
    };
    for translated in [false, true] {
        let mut net = Net::new("pptp", protocol::TCP);
        net.translated = translated;
        net.open();
        net.say_bytes(true, &message(1, &[], 144));
        net.say_bytes(false, &message(2, &[1, 0, 1], 144));
        let out = net.say_bytes(true, &message(7, &[0, 11], 156)).unwrap();
        let outside = if translated { 1001u16 } else { 11 };
        assert_eq!(out[12..14], outside.to_be_bytes());
        let [a, b] = outside.to_be_bytes();
        let back = net.say_bytes(false, &message(8, &[0, 22, a, b, 1], 20)).unwrap();
        assert_eq!(back[12..16], [0, 22, 0, 11]);
        assert_eq!(net.expected().len(), 2);
        let gre = |key: u16| {
            let [a, b] = key.to_be_bytes();
            payload([0x20, 1, 0x88, 0x0b, 0, 0, a, b])
        };
        let (info, p) = net.pass(Ipv4::new(CLIENT, SERVER).protocol(47) / gre(22));
        assert_eq!(info, CtInfo::Related);
        let c = net.ct.connection(&p.unwrap().meta.ct).unwrap();
        assert_eq!(
            (c.tuple(Direction::Original).src_id, c.tuple(Direction::Original).dst_id),
            (11, 22)
        );
        if !translated {
            let (info, _) = net.pass(Ipv4::new(SERVER, CLIENT).protocol(47) / gre(11));
            assert_eq!(info, CtInfo::EstablishedReply);
            net.say_bytes(false, &message(13, &[], 136));
            assert!(net.ct.iter().all(|c| c.tuple(Direction::Original).protocol != 47));
            assert!(net.expected().is_empty());
        }
    }
}

#[test]
fn sip_calls_expect_their_media() {
    let sdp = |address: &str, port: u16| {
        format!(
            "v=0\r\no=alice 1 1 IN IP4 {address}\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
        )
    };
    let invite = |address: &str, sip_port: u16, port: u16| {
        let body = sdp(address, port);
        format!(
            "INVITE sip:bob@198.18.0.2 SIP/2.0\r\nVia: SIP/2.0/UDP {address}:{sip_port};branch=z\r\n\
             From: <sip:alice@{address}:{sip_port}>\r\nTo: <sip:bob@198.18.0.2>\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@{address}:{sip_port}>\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let udp = |text: &str| Ipv4::new(CLIENT, SERVER) / Udp::new(5060, 5060) / payload(text);
    let mut net = Net::new("sip", protocol::UDP);
    net.pass(udp(&invite(CLIENT, 5060, 4000)));
    assert_eq!(net.expected(), ["198.18.0.2 > 198.18.0.1:4000", "198.18.0.2 > 198.18.0.1:4001"]);
    let (info, _) = net.pass(Ipv4::new(SERVER, CLIENT) / Udp::new(7000, 4000) / payload(b"rtp"));
    assert_eq!(info, CtInfo::Related);
    net.pass(udp("BYE sip:bob@198.18.0.2 SIP/2.0\r\nCSeq: 2 BYE\r\n\r\n"));
    assert!(net.expected().is_empty());
    // Low ports and messages without number are not let through.
    assert!(net.pass(udp(&invite(CLIENT, 5060, 80))).1.is_none());
    assert!(net.pass(udp("INVITE sip:bob@198.18.0.2 SIP/2.0\r\n\r\n")).1.is_none());

    let mut net = Net::new("sip", protocol::UDP);
    net.translated = true;
    let (_, p) = net.pass(udp(&invite(CLIENT, 5060, 4000)));
    let out = String::from_utf8(p.unwrap().network()[28..].to_vec()).unwrap();
    assert_eq!(out, invite(ROUTER, 5061, 4000));
    assert_eq!(
        net.expected(),
        ["198.18.0.2 > 198.18.0.254:4000", "198.18.0.2 > 198.18.0.254:4001"]
    );
}

#[test]
fn accepted_sip_registrations_expect_calls() {
    let mut net = Net::new("sip", protocol::UDP);
    let contact = "Contact: <sip:alice@198.18.0.1:5060>;expires=60\r\n\r\n";
    let register = format!("REGISTER sip:198.18.0.2 SIP/2.0\r\nCSeq: 9 REGISTER\r\n{contact}");
    net.pass(Ipv4::new(CLIENT, SERVER) / Udp::new(5060, 5060) / payload(register));
    assert_eq!(net.expected(), ["198.18.0.2 > 198.18.0.1:5060"]);
    let call = || {
        Ipv4::new(SERVER, CLIENT)
            / Udp::new(4444, 5060)
            / payload(b"OPTIONS x SIP/2.0\r\nCSeq: 1 OPTIONS\r\n\r\n")
    };
    let ok = format!("SIP/2.0 200 OK\r\nCSeq: 9 REGISTER\r\n{contact}");
    net.pass(Ipv4::new(SERVER, CLIENT) / Udp::new(5060, 5060) / payload(ok));
    let (info, p) = net.pass(call());
    assert_eq!(info, CtInfo::Related);
    assert_eq!(net.ct.connection(&p.unwrap().meta.ct).unwrap().helper(), Some("sip"));
    assert_eq!(net.expected().len(), 1, "more calls may come");
}

#[test]
fn random_payloads_do_not_disturb_helpers() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    let good: [&[u8]; 9] = [
        b"PORT 198,18,0,1,4,5\r\n",
        b"EPRT |1|198.18.0.1|1029|\r\n",
        b"229 Extended (|||6446|)\r\n",
        b"227 Entering Passive Mode (198,18,0,2,8,0).\r\n",
        b"PRIVMSG bob :\x01DCC SEND file 3323068417 4000 99\x01\r\n",
        b"Amanda 2.4 REP\nCONNECT DATA 3000 MESG 3001 INDEX 3002\nOPTIONS ;\n",
        b"INVITE sip:bob@198.18.0.2 SIP/2.0\r\nVia: SIP/2.0/UDP 198.18.0.1:1000\r\nCSeq: 1 INVITE\r\nContact: <sip:a@[::1]:5>,<sip:b@198.18.0.1:1000>;expires=5\r\nContent-Length: 80\r\n\r\nv=0\r\no=a 1 1 IN IP4 198.18.0.1\r\nc=IN IP4 198.18.0.1\r\nm=audio 4000 RTP/AVP 0\r\nm=image 5000 x\r\n",
        b"SIP/2.0 200 OK\r\nCSeq: 1 REGISTER\r\nContact: <sip:b@198.18.0.1:1000>;expires=5\r\n\r\n",
        b"\x00\x9c\x00\x01\x1a\x2b\x3c\x4d\x00\x08\x00\x00\x00\x16\x00\x0b\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ];
    for helper in &crate::HELPERS {
        for translated in [false, true] {
            let mut net = Net::new(&helper.name, helper.protocol);
            net.translated = translated;
            if helper.protocol == protocol::TCP {
                net.open();
                net.say_bytes(false, b"\n");
            }
            for _ in 0..300 {
                let mut text = good[rng.usize(..good.len())].to_vec();
                for _ in 0..rng.usize(..4) {
                    let at = rng.usize(..text.len());
                    match rng.u32(..4) {
                        0 => text[at] = rng.u8(..),
                        1 => drop(text.remove(at)),
                        2 => text.truncate(at.max(1)),
                        _ => text.insert(at, b"09\xc3\xa9 \r\n:,;[]"[rng.usize(..12)]),
                    }
                    if text.is_empty() {
                        text.push(b'x');
                    }
                }
                let there = rng.bool();
                if helper.protocol == protocol::TCP {
                    net.say_bytes(there, &text);
                } else {
                    let (from, to) = if there {
                        (CLIENT, SERVER)
                    } else {
                        (SERVER, if translated { ROUTER } else { CLIENT })
                    };
                    let client = net.client_port();
                    let udp = if there { Udp::new(1000, 69) } else { Udp::new(69, client) };
                    net.pass(Ipv4::new(from, to) / udp / payload(text));
                }
            }
        }
    }
}
