// SPDX-License-Identifier: Apache-2.0

//! What connections with helpers say: FTP, SIP, IRC and the like, with addresses that are
//! translated.

use std::sync::{Arc, OnceLock};

use penstock_dataplane::{Frame, Settings};
use penstock_ruleset::link::Linked;
use penstock_testkit::build::{Ethernet, Ipv4, Ipv6, Tcp, Udp, payload};

use super::Target;
use crate::network::{NOW, dataplane, net};
use crate::send::Seen;
use crate::{language, mutate};

pub const TARGET: Target = Target {
    name: "payload",
    bytes: "a helper, and what client and server of its protocol say over IPv4 or IPv6",
    holds: "each packet leaves once, with right checksums, and not much longer than it came; expectations are bounded",
    longest: 2048,
    seeds,
    make: mutate::bytes,
    run,
};

/// Name, transport protocol and port of all helpers.
const HELPERS: [(&str, &str, u16); 10] = [
    ("ftp", "tcp", 21),
    ("tftp", "udp", 69),
    ("irc", "tcp", 6667),
    ("amanda", "udp", 10080),
    ("netbios-ns", "udp", 137),
    ("snmp", "udp", 161),
    ("sane", "tcp", 6566),
    ("pptp", "tcp", 1723),
    ("sip", "udp", 5060),
    ("sip", "tcp", 5060),
];

/// What client (0) and server (1) of each say.
const TALKS: &[(u8, &[(u8, &str)])] = &[
    (0, &[(0, "PORT 198,18,0,10,156,64\r\n"), (1, "227 Entering Passive Mode (198,19,0,2,200,10).\r\n")]),
    (0, &[(0, "EPRT |1|198.18.0.10|5000|\r\n"), (1, "229 Entering Extended Passive Mode (|||6446|)\r\n")]),
    (
        10,
        &[(0, "EPRT |2|2001:db8:1::10|5000|\r\n"), (1, "229 Entering Extended Passive Mode (|||6446|)\r\n")],
    ),
    (1, &[(0, "\0\u{1}file\0octet\0")]),
    (2, &[(0, "PRIVMSG you :\u{1}DCC SEND file 3323068426 5000 1000\u{1}\n")]),
    (3, &[(1, "CONNECT DATA 1000 MESG 1001 INDEX 1002\n")]),
    (6, &[(0, "\0\0\0\u{7}\0\0\0\0"), (1, "\0\0\0\0\0\0\u{10}\u{10}\0\0\0\0")]),
    (
        8,
        &[
            (
                0,
                "INVITE sip:bob@198.19.0.2 SIP/2.0\r\nVia: SIP/2.0/UDP 198.18.0.10:40000;branch=z9\r\nMax-Forwards: \
                 70\r\nFrom: <sip:a@198.18.0.10>;tag=1\r\nTo: <sip:bob@198.19.0.2>\r\nCall-ID: 1@198.18.0.10\r\nCSeq: 1 \
                 INVITE\r\nContact: <sip:a@198.18.0.10:40000>\r\nContent-Type: application/sdp\r\nContent-Length: \
                 111\r\n\r\nv=0\r\no=a 1 1 IN IP4 198.18.0.10\r\ns=-\r\nc=IN IP4 198.18.0.10\r\nt=0 0\r\nm=audio 4000 \
                 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n",
            ),
            (
                1,
                "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 198.18.0.10:40000;branch=z9\r\nFrom: <sip:a@198.18.0.10>;tag=1\r\nTo: \
                 <sip:bob@198.19.0.2>;tag=2\r\nCall-ID: 1@198.18.0.10\r\nCSeq: 1 INVITE\r\nContact: \
                 <sip:bob@198.19.0.2:5060>\r\nContent-Type: application/sdp\r\nContent-Length: 78\r\n\r\nv=0\r\no=b 1 1 IN \
                 IP4 198.19.0.2\r\ns=-\r\nc=IN IP4 198.19.0.2\r\nt=0 0\r\nm=audio 5000 RTP/AVP 0\r\n",
            ),
            (0, "BYE sip:bob@198.19.0.2 SIP/2.0\r\nCall-ID: 1@198.18.0.10\r\nCSeq: 2 BYE\r\n\r\n"),
        ],
    ),
    (
        8,
        &[
            (
                0,
                "REGISTER sip:198.19.0.2 SIP/2.0\r\nVia: SIP/2.0/UDP 198.18.0.10:40000\r\nCall-ID: 2\r\nCSeq: 1 \
                 REGISTER\r\nContact: <sip:a@198.18.0.10:40000>;expires=300\r\nExpires: 300\r\nContent-Length: 0\r\n\r\n",
            ),
            (1, "SIP/2.0 200 OK\r\nCSeq: 1 REGISTER\r\nContact: <sip:a@198.18.0.10>;expires=60\r\n\r\n"),
        ],
    ),
];

/// A byte that chooses helper and family, then parts: who speaks, length (two bytes), bytes.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for (which, parts) in TALKS {
        let mut seed = vec![*which];
        for (who, text) in *parts {
            seed.push(*who);
            seed.extend((text.len() as u16).to_be_bytes());
            seed.extend(text.as_bytes());
        }
        // SIP over TCP says the same.
        if *which == 8 {
            seeds.push([&[9], &seed[1..]].concat());
        }
        seeds.push(seed);
    }
    // PPTP: a control message asks for a call, another one has it.
    let call = |kind: u8, len: usize| {
        let mut message = vec![0, len as u8, 0, 1, 0x1a, 0x2b, 0x3c, 0x4d, 0, kind, 0, 0];
        message.resize(len, 1);
        message
    };
    let mut pptp = vec![7];
    for (who, kind, len) in
        [(0, 1, 156), (1, 2, 156), (0, 7, 168), (1, 8, 32), (0, 15, 24), (0, 12, 16), (1, 13, 148)]
    {
        pptp.extend([who, 0, len as u8]);
        pptp.extend(call(kind, len));
    }
    seeds.push(pptp);
    seeds
}

fn rules() -> Arc<Linked> {
    static RULES: OnceLock<Arc<Linked>> = OnceLock::new();
    let link = || {
        let (mut objects, mut lines) = (String::new(), String::new());
        for (i, (name, protocol, port)) in HELPERS.iter().enumerate() {
            // A type in quotes is not one word of the grammar in each case.
            objects += &format!("\tct helper h{i} {{ type \"{name}\" protocol {protocol}; }}\n");
            lines += &format!("\t\t{protocol} dport {port} ct helper set \"h{i}\"\n");
        }
        let text = format!(
            "table inet t {{\n{objects}\tchain pre {{\n\t\ttype filter hook prerouting priority -100;\n{lines}\t}}\n\tchain post \
             {{\n\t\ttype nat hook postrouting priority 100;\n\t\toif wan masquerade\n\t}}\n}}\n"
        );
        let ruleset = language::load(&text, &net(), NOW).unwrap_or_else(|e| panic!("{e}\n{text}"));
        Arc::new(Linked::new(&ruleset.generation()).expect("rules that can run"))
    };
    RULES.get_or_init(link).clone()
}

/// One side of a connection.
#[derive(Clone, Copy)]
struct Side {
    device: u32,
    sport: u16,
    dport: u16,
    seq: u32,
}

fn run(data: &[u8]) {
    let [which, parts @ ..] = data else { return };
    let (_, protocol, port) = HELPERS[usize::from(which % 10)];
    let six = which / 10 % 2 == 1;
    let mut settings = Settings::unlimited();
    // Lengths change on the way, and acknowledgements here do not account for that.
    settings.conntrack.tcp_be_liberal = true;
    let mut dataplane = dataplane(settings);
    dataplane.set_rules(rules());
    let device = |name: &str| net().link_by_name(name).map_or(0, |l| l.index);
    let client = Side { device: device("lan"), sport: 40_000, dport: port, seq: 1000 };
    let server = Side { device: device("wan"), sport: port, dport: 40_000, seq: 9000 };
    let mut sides = [client, server];
    let mut now = NOW;
    let mut seen = Seen { sums: true, ..Seen::default() };
    let mut send = |sides: &mut [Side; 2], who: usize, bytes: &[u8], flags: u8| {
        let (side, other) = (sides[who], sides[1 - who].seq);
        let ethernet = match who {
            0 => Ethernet::new("02:00:00:00:01:10", "02:00:00:00:01:01"),
            _ => Ethernet::new("02:00:00:00:02:02", "02:00:00:00:02:01"),
        };
        let tcp = Tcp::new(side.sport, side.dport).seq(side.seq).ack(other).flags(flags);
        let udp = Udp::new(side.sport, side.dport);
        let v4 = [("198.18.0.10", "198.19.0.2"), ("198.19.0.2", "198.19.0.1")][who];
        let v6 = [("2001:db8:1::10", "2001:db8:2::2"), ("2001:db8:2::2", "2001:db8:2::1")][who];
        let frame = match (six, protocol == "tcp") {
            (false, true) => ethernet / Ipv4::new(v4.0, v4.1) / tcp / payload(bytes),
            (false, false) => ethernet / Ipv4::new(v4.0, v4.1) / udp / payload(bytes),
            (true, true) => ethernet / Ipv6::new(v6.0, v6.1) / tcp / payload(bytes),
            (true, false) => ethernet / Ipv6::new(v6.0, v6.1) / udp / payload(bytes),
        };
        let frame = frame.build();
        sides[who].seq = side.seq.wrapping_add(bytes.len() as u32 + u32::from(flags & 2 != 0));
        now += 1_000_000;
        let before = seen.out;
        seen.longest = 0;
        dataplane.receive([Frame { device: side.device, bytes: &frame, time: now }], &mut seen);
        assert!(seen.out <= before + 1, "one packet became {}", seen.out - before);
        assert!(seen.longest <= frame.len() + 1024, "{} bytes of {}", seen.longest, frame.len());
    };
    if protocol == "tcp" {
        for (who, flags) in [(0, 2), (1, 0x12), (0, 0x10)] {
            send(&mut sides, who, &[], flags);
        }
    }
    let mut rest = parts;
    while let [who, high, low, behind @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len()).min(1400);
        let (bytes, behind) = behind.split_at(len);
        rest = behind;
        send(&mut sides, usize::from(who & 1), bytes, 0x18);
    }
    let expected = dataplane.conntrack().dump().lines().filter(|line| line.starts_with("expect")).count();
    assert!(expected <= 16, "{expected} expectations of one connection");
}
