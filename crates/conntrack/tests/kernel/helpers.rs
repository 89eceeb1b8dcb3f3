// SPDX-License-Identifier: Apache-2.0

//! Helpers: which connections they let be related, and which packets they drop.

use crate::lab::{A, A6, B, B6};
use crate::{Step, compare_all, lab};
use penstock_conntrack::Settings;
use penstock_testkit::build::*;

/// A conversation over TCP to a port of side b.
struct Talk {
    port: u16,
    v6: bool,
    seq: [u32; 2],
    steps: Vec<Step>,
}

impl Talk {
    fn open(port: u16, v6: bool) -> Self {
        let mut talk = Talk { port, v6, seq: [100, 500], steps: Vec::new() };
        talk.segment(true, 2, b"");
        talk.seq[0] += 1;
        talk.segment(false, 18, b"");
        talk.seq[1] += 1;
        talk.segment(true, 16, b"");
        talk
    }

    fn segment(&mut self, there: bool, flags: u8, text: &[u8]) {
        let (s, d) = if there { (1000, self.port) } else { (self.port, 1000) };
        let (seq, ack) = (self.seq[usize::from(!there)], self.seq[usize::from(there)]);
        let tcp = Tcp::new(s, d).seq(seq).ack(ack).flags(flags).window(60_000) / payload(text);
        self.steps.push((there, ip(there, self.v6, tcp)));
    }

    fn say(mut self, there: bool, text: impl AsRef<[u8]>) -> Self {
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

fn ip(there: bool, v6: bool, upper: Frame) -> Frame {
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

fn pptp(kind: u16, body: &[u8], len: usize) -> Vec<u8> {
    let mut m = vec![0, 0, 0, 1, 0x1a, 0x2b, 0x3c, 0x4d];
    m.extend(kind.to_be_bytes());
    m.extend([0, 0]);
    m.extend(body);
    m.resize(12 + len, 0);
    m
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
    let failed: Vec<String> = scenarios
        .iter()
        .filter_map(|(name, steps)| {
            compare_all(&mut lab, name, &Settings::default(), steps, true).err()
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
