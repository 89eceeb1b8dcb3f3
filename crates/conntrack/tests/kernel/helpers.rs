// SPDX-License-Identifier: Apache-2.0

//! Helpers: which connections they let be related, and which packets they drop.

use crate::lab::{A, A6, B, B6};
use crate::{Step, agree, compare_all, lab};
use penstock_conntrack::Settings;
use penstock_testkit::build::*;
use penstock_testkit::pptp::message as pptp;

/// A conversation over TCP to a port of side b.
pub struct Talk {
    own: u16,
    port: u16,
    v6: bool,
    seq: [u32; 2],
    pub steps: Vec<Step>,
}

impl Talk {
    fn open(port: u16, v6: bool) -> Self {
        Talk::open_from(1000, port, v6)
    }

    /// From another port of side a.
    pub fn open_from(own: u16, port: u16, v6: bool) -> Self {
        let mut talk = Talk { own, port, v6, seq: [100, 500], steps: Vec::new() };
        talk.segment(true, 2, b"");
        talk.seq[0] += 1;
        talk.segment(false, 18, b"");
        talk.seq[1] += 1;
        talk.segment(true, 16, b"");
        talk
    }

    fn segment(&mut self, there: bool, flags: u8, text: &[u8]) {
        let (s, d) = if there { (self.own, self.port) } else { (self.port, self.own) };
        let (seq, ack) = (self.seq[usize::from(!there)], self.seq[usize::from(there)]);
        let tcp = Tcp::new(s, d).seq(seq).ack(ack).flags(flags).window(60_000) / payload(text);
        self.steps.push((there, ip(there, self.v6, tcp)));
    }

    pub fn say(mut self, there: bool, text: impl AsRef<[u8]>) -> Self {
        self.segment(there, 24, text.as_ref());
        self.seq[usize::from(!there)] += text.as_ref().len() as u32;
        self
    }

    /// A packet of another connection.
    fn other(mut self, there: bool, upper: impl Into<Frame>) -> Self {
        self.steps.push((there, ip(there, self.v6, upper.into())));
        self
    }
}

/// A packet from side a or b.
pub fn ip(there: bool, v6: bool, upper: Frame) -> Frame {
    match (there, v6) {
        (true, false) => Ipv4::new(A, B) / upper,
        (false, false) => Ipv4::new(B, A) / upper,
        (true, true) => Ipv6::new(A6, B6) / upper,
        (false, true) => Ipv6::new(B6, A6) / upper,
    }
}

fn udp(there: bool, sport: u16, dport: u16, text: impl AsRef<[u8]>) -> Step {
    (there, ip(there, false, Udp::new(sport, dport) / payload(text)))
}

fn syn(sport: u16, dport: u16) -> Frame {
    Tcp::new(sport, dport).seq(1).syn().into()
}

fn gre(key: u8) -> Frame {
    payload([0x20, 1, 0x88, 0x0b, 0, 0, 0, key]).into()
}

fn sip(first: &str, cseq: &str, rest: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{first}\r\nVia: SIP/2.0/UDP {A}:5060;branch=z9\r\nFrom: <sip:a@{A}>;tag=1\r\nTo: <sip:b@{B}>\r\nCall-ID: 1@x\r\n\
         CSeq: {cseq}\r\n{rest}Content-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn helper_connections_are_related_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let ftp = || Talk::open(21, false).say(false, "220 hello\r\n").say(true, "USER x\r\n");
    let v6 = || Talk::open(21, true).say(false, "220 hello\r\n").say(true, "USER x\r\n");
    let call = || {
        let t = Talk::open(1723, false)
            .say(true, pptp(1, &[], 144))
            .say(false, pptp(2, &[1, 0, 1], 144));
        t.say(true, pptp(7, &[0, 11], 156)).say(false, pptp(8, &[0, 22, 0, 11, 1], 20))
    };
    let gre_step = |t: Talk, there: bool, key| {
        let mut t = t;
        let v4 = if there { Ipv4::new(A, B) } else { Ipv4::new(B, A) };
        t.steps.push((there, v4.protocol(47) / gre(key)));
        t
    };
    let sdp = |address: &str, port: u16| {
        format!(
            "v=0\r\no=a 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
        )
    };
    let invite = |port| {
        let text = sip(
            &format!("INVITE sip:b@{B} SIP/2.0"),
            "1 INVITE",
            &format!("Contact: <sip:a@{A}:5060>\r\n"),
            &sdp(A, port),
        );
        udp(true, 5060, 5060, text)
    };
    let ok = udp(
        false,
        5060,
        5060,
        sip("SIP/2.0 200 OK", "1 INVITE", &format!("Contact: <sip:b@{B}:5060>\r\n"), &sdp(B, 5000)),
    );
    let scenarios: Vec<(&str, Vec<Step>)> = vec![
        (
            "ftp active",
            ftp()
                .say(true, "PORT 198,18,1,2,4,5\r\n")
                .other(false, syn(20, 1029))
                .other(false, syn(20, 1029))
                .other(false, syn(21, 1029))
                .steps,
        ),
        (
            "ftp active, another way",
            ftp().say(true, "EPRT |1|198.18.1.2|1029|\r\n").other(false, syn(20, 1029)).steps,
        ),
        (
            "ftp passive",
            ftp().say(false, "227 Entering (198,18,2,2,8,1)\r\n").other(true, syn(9, 2049)).steps,
        ),
        (
            "ftp extended passive",
            ftp().say(false, "229 Extended (|||2050|)\r\n").other(true, syn(9, 2050)).steps,
        ),
        (
            "ftp third party",
            ftp().say(true, "PORT 198,18,1,99,4,5\r\n").other(false, syn(20, 1029)).steps,
        ),
        ("ftp half a command", ftp().say(true, "PORT 198,18,1,2,4").say(true, "NOOP\r\n").steps),
        (
            "ftp not at a line",
            ftp()
                .say(true, "xx")
                .say(true, "PORT 198,18,1,2,4,5\r\n")
                .other(false, syn(20, 1029))
                .steps,
        ),
        (
            "ftp wrong port",
            ftp().say(true, "PORT 198,18,1,2,4,5\r\n").other(false, syn(20, 1030)).steps,
        ),
        (
            "ftp in IPv6",
            v6().say(true, "EPRT |2|2001:db8:1::2|1029|\r\n").other(false, syn(20, 1029)).steps,
        ),
        (
            "ftp passive in IPv6",
            v6().say(false, "229 Extended (|||2050|)\r\n").other(true, syn(9, 2050)).steps,
        ),
        (
            "irc",
            Talk::open(6667, false)
                .say(false, ":s 001 hello\r\n")
                .say(true, "PRIVMSG bob :\u{1}DCC SEND file 3323068674 4000 99\u{1}\r\n")
                .other(false, syn(77, 4000))
                .steps,
        ),
        (
            "sane",
            Talk::open(6566, false)
                .say(true, [0, 0, 0, 7, 0, 0, 0, 1])
                .say(false, [0, 0, 0, 0, 0, 0, 0x10, 0])
                .other(true, syn(99, 4096))
                .steps,
        ),
        (
            "tftp",
            vec![
                udp(true, 1000, 69, b"\0\x01f\0octet\0"),
                udp(false, 4000, 1000, b"\0\x03\0\x01x"),
                udp(true, 1000, 4000, b"\0\x04\0\x01"),
                udp(false, 4001, 1000, b"\0\x03\0\x01x"),
            ],
        ),
        (
            "amanda",
            vec![
                udp(true, 900, 10080, b"Amanda 2.4 REQ"),
                udp(
                    false,
                    10080,
                    900,
                    b"Amanda 2.4 REP\nCONNECT DATA 3000 MESG 3001 INDEX 3002\nOPTIONS ;\n",
                ),
                (true, ip(true, false, syn(8, 3001))),
                (true, ip(true, false, syn(8, 3005))),
            ],
        ),
        ("pptp", gre_step(gre_step(gre_step(call(), true, 22), false, 11), true, 22).steps),
        ("pptp from the server", gre_step(gre_step(call(), false, 11), true, 22).steps),
        ("pptp hangs up", gre_step(call(), true, 22).say(false, pptp(13, &[], 136)).steps),
        (
            "pptp without a call",
            gre_step(Talk::open(1723, false).say(true, pptp(7, &[0, 11], 156)), true, 22).steps,
        ),
        (
            "sip call",
            vec![
                invite(4000),
                ok.clone(),
                udp(false, 5000, 4000, "rtp"),
                udp(false, 5001, 4001, "rtcp"),
                udp(true, 4002, 5000, "x"),
            ],
        ),
        ("sip low port", vec![invite(80)]),
        (
            "sip without number",
            vec![udp(true, 5060, 5060, format!("INVITE sip:b@{B} SIP/2.0\r\n\r\n"))],
        ),
        (
            "sip bye",
            vec![
                invite(4000),
                udp(true, 5060, 5060, sip(&format!("BYE sip:b@{B} SIP/2.0"), "2 BYE", "", "")),
                udp(false, 5000, 4000, "rtp"),
            ],
        ),
        (
            "sip register",
            vec![
                udp(
                    true,
                    5060,
                    5060,
                    sip(
                        &format!("REGISTER sip:{B} SIP/2.0"),
                        "5 REGISTER",
                        &format!("Contact: <sip:a@{A}:5070>;expires=60\r\n"),
                        "",
                    ),
                ),
                udp(false, 4444, 5070, "x"),
                udp(
                    false,
                    5060,
                    5060,
                    sip(
                        "SIP/2.0 200 OK",
                        "5 REGISTER",
                        &format!("Contact: <sip:a@{A}:5070>;expires=60\r\n"),
                        "",
                    ),
                ),
                udp(
                    false,
                    4445,
                    5070,
                    sip(&format!("INVITE sip:a@{A} SIP/2.0"), "1 INVITE", "", ""),
                ),
            ],
        ),
    ];
    agree(&mut lab, &Settings::default(), &scenarios, true);
}

/// What two connections announce alike.
#[test]
fn helpers_say_why_they_drop_packets_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let twice = |talk: &dyn Fn(u16) -> Vec<Step>| [talk(1000), talk(1001)].concat();
    let ftp = |own| {
        let talk = Talk::open_from(own, 21, false).say(false, "220 hello\r\n");
        talk.say(true, "USER x\r\n")
    };
    let invite = |own: u16, first: &str, cseq: &str, contact: &str, body: &str| {
        udp(true, own, 5060, sip(first, cseq, &format!("Contact: <sip:a@{A}{contact}>\r\n"), body))
    };
    let media = |lines: &str| format!("v=0\r\no=a 1 1 IN IP4 {A}\r\ns=-\r\n{lines}t=0 0\r\n");
    let to = format!("INVITE sip:b@{B} SIP/2.0");
    let here = format!("c=IN IP4 {A}\r\n");
    let call = |own: u16, body: &str| invite(own, &to, "1 INVITE", ":5060", body);
    let stream = |port: &str| media(&format!("{here}m=audio {port} RTP/AVP 0\r\n"));
    let answer = |first: &str, cseq: &str| udp(false, 5060, 1000, sip(first, cseq, "", ""));
    let scenarios: Vec<(&str, Vec<Step>)> = vec![
        ("ftp twice", twice(&|own| ftp(own).say(true, "PORT 198,18,1,2,4,5\r\n").steps)),
        (
            "ftp wrong commands",
            ["PORT 1,2,3\r\n", "EPRT |3|x|1|\r\n", "EPR", "PORT\r\n", "PORT 1,2,3,4,5,6,7\r\n"]
                .into_iter()
                .enumerate()
                .flat_map(|(i, text)| ftp(1000 + i as u16).say(true, text).steps)
                .collect(),
        ),
        (
            "ftp wrong answers",
            ["227 no number\r\n", "229 (||x|)\r\n", "22", "227 ", "229 x"]
                .into_iter()
                .enumerate()
                .flat_map(|(i, text)| ftp(1000 + i as u16).say(false, text).steps)
                .collect(),
        ),
        (
            "irc twice",
            twice(&|own| {
                let talk = Talk::open_from(own, 6667, false).say(false, ":s 001 hello\r\n");
                talk.say(true, "PRIVMSG bob :\u{1}DCC SEND file 3323068674 4000 99\u{1}\r\n").steps
            }),
        ),
        (
            "sane twice",
            twice(&|own| {
                let talk = Talk::open_from(own, 6566, false);
                let talk = talk.say(true, [0, 0, 0, 7, 0, 0, 0, 1]);
                talk.say(false, [0, 0, 0, 0, 0, 0, 0x10, 0]).steps
            }),
        ),
        (
            "amanda twice",
            twice(&|own| {
                let text = b"Amanda 2.4 REP\nCONNECT DATA 3000 MESG 3001\nOPTIONS ;\n";
                vec![udp(true, own, 10080, b"Amanda 2.4 REQ"), udp(false, 10080, own, text)]
            }),
        ),
        ("sip twice", twice(&|own| vec![call(own, &stream("4000"))])),
        ("sip twice, other media", vec![call(1000, &stream("4000")), call(1001, &stream("4001"))]),
        ("sip no address", vec![call(1000, &media("m=audio 4000 RTP/AVP 0\r\n"))]),
        (
            "sip wrong answers",
            vec![
                call(1000, &stream("4000")),
                answer("SIP/2.0 x00 OK", "1 INVITE"),
                answer("SIP/2.0 200 OK", ""),
                answer("SIP/2.0 200 OK", "x"),
                answer("SIP/2.0 20", "1 INVITE"),
                answer("SIP/2.0 404 Not Found", "2 INVITE"),
                answer("SIP/2.0 404 Not Found", "1 INVITE"),
            ],
        ),
        (
            "sip registered twice",
            twice(&|own| {
                let first = format!("REGISTER sip:{B} SIP/2.0");
                vec![invite(own, &first, "5 REGISTER", ":5070>;expires=60", "")]
            }),
        ),
    ];
    let mut scenarios: Vec<(String, Vec<Step>)> =
        scenarios.into_iter().map(|(name, steps)| (name.to_owned(), steps)).collect();
    for port in [
        "80",
        "1023",
        "1024",
        "0",
        "65535",
        "65536",
        "70000",
        "4294967297",
        "99999999999999",
        "x",
        "4000x",
        "-1",
        "0000004000",
        "00000004000",
        "000000004000",
        "04294967296",
        "04000",
        "0004000",
        "000000000004000",
        "",
    ] {
        scenarios.push((format!("sip media port {port}"), vec![call(1000, &stream(port))]));
    }
    for cseq in [
        "",
        "x INVITE",
        "0 INVITE",
        "1",
        "99999999999 INVITE",
        "4294967296 INVITE",
        "4294967295 INVITE",
        "0001 INVITE",
        "00000000000001 INVITE",
        "1\r\n INVITE",
        "0000000001 INVITE",
        "00000000001 INVITE",
        "1  INVITE",
        "1\tINVITE",
        " 1 INVITE",
    ] {
        let steps = vec![
            invite(1000, &to, cseq, ":5060", &stream("4000")),
            answer("SIP/2.0 404 Not Found", cseq),
        ];
        scenarios.push((format!("sip cseq {cseq:?}"), steps));
    }
    for method in ["OPTIONS", "invite", "INVITED", "Bye", "NOTIFY", "ACK", "PRACK", "INVITE "] {
        let first = format!("{method} sip:b@{B} SIP/2.0");
        let steps = vec![
            call(1000, &stream("4000")),
            invite(1000, &first, "", ":5060", &stream("4002")),
            invite(1000, &first, "7 x", ":5060", &stream("4004")),
        ];
        scenarios.push((format!("sip method {method}"), steps));
    }
    for contact in [
        ":5070>;expires=60",
        ":80>;expires=60",
        ":80>",
        ":5070>;expires=x",
        ":5070>;expires=0",
        ":5070>;expires=0x10",
        ":5070>;expires=010",
        ":5070>;expires=",
        ":5070>;q=1",
        ":5070;transport=tcp>;expires=60",
        ":5070;transport=udp>;expires=60",
        ":5070;transport=tls>;expires=60",
        ":5070>;expires=99999999999",
        ":70000>;expires=60",
        ":>;expires=60",
        ":x>;expires=60",
        ">;expires=60",
        ":5070>, <sip:a@198.18.1.2:5080>;expires=60",
        ":5070>,;expires=60",
        ":05070>;expires=60",
        "0>;expires=60",
        ".1>;expires=60",
        ":5070>;Expires=60",
        ":5070> ;expires=60",
        ":80>, <sip:a@198.18.1.2:5080>;expires=60",
        ":80>\r\nContact: <sip:a@198.18.1.2:5080>;expires=60",
        ":5070>;expires=0000000060",
        ":5070>;expires=00000000060",
        ":5070>;expires=60x",
        ":0005070>;expires=60",
        ":5070>;expires=10000000",
        ":005070>;expires=60",
        ":99999>;expires=60",
        ":5070>;expires=0\r\nm: <sip:a@198.18.1.2:5080>;expires=60",
        ":5070>;q=1\r\nExpires: 70",
        ":5070>;expires=50\r\nExpires: 70",
        ":5070>\r\nExpires: 0000000000070",
        ":5070>\r\nexpires : 70",
        ":5070>\r\nExpiresx: 70",
        ":5070>\r\n ;expires=60",
        ":5070>;expires=4294967295",
        ":5070>;expires=4294967294",
        ":5070>;expires=4294967296",
        ":5070>;expires=4294968",
        ":5070>;expires=42949673",
        ":5070>\r\nExpires: 4294967295",
    ] {
        let first = format!("REGISTER sip:{B} SIP/2.0");
        let done = format!("Contact: <sip:a@{A}{contact}>\r\n");
        let steps = vec![
            invite(5060, &first, "5 REGISTER", contact, ""),
            udp(false, 5060, 5060, sip("SIP/2.0 100 Trying", "5 REGISTER", "", "")),
            udp(false, 5060, 5060, sip("SIP/2.0 200 OK", "5 REGISTER", &done, "")),
        ];
        scenarios.push((format!("sip contact {contact}"), steps));
    }
    agree(&mut lab, &Settings::default(), &scenarios, true);
}

/// Control messages by chance, data in both directions, and the end of the control connection.
#[test]
fn random_pptp_calls_are_related_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let rounds = penstock_testkit::rounds(15) as u64;
    let seed = penstock_testkit::seed();
    let failed: Vec<String> = (seed..seed + rounds)
        .filter_map(|seed| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let steps = random_pptp(&mut rng);
            let name = format!("random pptp {seed}");
            compare_all(&mut lab, &name, &Settings::default(), &steps, true).err()
        })
        .take(3)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn random_pptp(rng: &mut fastrand::Rng) -> Vec<Step> {
    let id = |rng: &mut fastrand::Rng| [0, [11, 22, 33][rng.usize(..3)]];
    let mut talk =
        Talk::open(1723, false).say(true, pptp(1, &[], 144)).say(false, pptp(2, &[1, 0, 1], 144));
    for _ in 0..rng.usize(3..14) {
        let ([_, a], [_, b]) = (id(rng), id(rng));
        let ok = u8::from(rng.u8(..6) != 0);
        talk = match rng.u8(..24) {
            0..5 => {
                talk.say(true, pptp(7, &[0, a], 156)).say(false, pptp(8, &[0, b, 0, a, ok], 20))
            }
            5 => talk.say(true, pptp(7, &[0, a], 156)),
            6 => talk.say(false, pptp(8, &[0, b, 0, a, ok], 20)),
            7..9 => talk
                .say(false, pptp(9, &[0, b], 208))
                .say(true, pptp(10, &[0, a, 0, b, ok], 12))
                .say(false, pptp(11, &[0, a], 16)),
            9 => talk.say(true, pptp(10, &[0, a, 0, b, ok], 12)),
            10 => talk.say(false, pptp(11, &[0, a], 16)),
            11 => talk.say(true, pptp(12, &[0, a], 4)),
            12..14 => talk.say(false, pptp(13, &[0, a], 136)),
            14 => talk.say(true, pptp(3, &[1], 4)),
            15 => talk.say(false, pptp(4, &[ok], 4)),
            16 => talk.say(true, pptp(1, &[], 144)).say(false, pptp(2, &[1, 0, ok], 144)),
            17 => talk.say(false, pptp(14, &[0, a], 28)),
            _ => {
                let there = rng.bool();
                let v4 = if there { Ipv4::new(A, B) } else { Ipv4::new(B, A) };
                talk.steps.push((there, v4.protocol(47) / gre(a)));
                talk
            }
        };
    }
    if rng.bool() {
        // A reset, and a SYN that begins the connection again: the old one ends.
        talk.segment(false, 0x14, b"");
        talk.segment(true, 2, b"");
        for there in [true, false] {
            let v4 = if there { Ipv4::new(A, B) } else { Ipv4::new(B, A) };
            let [_, key] = id(rng);
            talk.steps.push((there, v4.protocol(47) / gre(key)));
        }
    }
    talk.steps
}
