// SPDX-License-Identifier: Apache-2.0

//! What happens to connections and expectations, event by event: helpers of all kinds, marks,
//! labels, timeouts by policies, and which events a rule asks for.

use std::time::Duration;

use super::sent;
use crate::frame::Frame;
use crate::net::{NET, out4, out6, wan};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [plain(), helpers(), expectations(), timeouts()].concat()
}

fn back4() -> Frame {
    wan().ip4("198.19.0.2", "198.18.0.10")
}

fn back6() -> Frame {
    wan().ip6("2001:db8:2::2", "2001:db8:1::10")
}

/// A TCP segment of the client (0) or the server (1) of a connection to a port.
fn segment(
    from: usize,
    port: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    text: &[u8],
) -> (&'static str, Frame) {
    let (source, frame) = match from {
        0 => ("lan", out4().tcp(40000, port)),
        _ => ("wan", back4().tcp(port, 40000)),
    };
    let frame = frame.flags(flags).set(4, &seq.to_be_bytes()).set(8, &ack.to_be_bytes());
    (source, frame.set(14, &[0x20, 0]).data(text))
}

/// A TCP connection to a port in which each end says things, and how it ends.
fn talk(port: u16, speech: &[(usize, &[u8])], end: &[(usize, u8)]) -> Vec<(&'static str, Frame)> {
    let mut next = [1001u32, 5001];
    let mut frames = vec![
        segment(0, port, 2, 1000, 0, b""),
        segment(1, port, 0x12, 5000, 1001, b""),
        segment(0, port, 0x10, 1001, 5001, b""),
    ];
    for &(from, text) in speech {
        frames.push(segment(from, port, 0x18, next[from], next[1 - from], text));
        next[from] += text.len() as u32;
    }
    for &(from, flags) in end {
        frames.push(segment(from, port, flags, next[from], next[1 - from], b""));
        next[from] += u32::from(flags & 1 != 0);
    }
    frames
}

const CLOSE: [(usize, u8); 4] = [(0, 0x11), (1, 0x10), (1, 0x11), (0, 0x10)];

fn on(name: &str, rules: &str) -> Scenario {
    Scenario::new(&format!("events_{name}"), NET, rules).at_once().events()
}

// ---- connections ----

const STATES: &str = "		ct state new counter
		ct state established counter
		ct state related counter
		ct state invalid counter
";

fn forward(lines: &str) -> String {
    format!(
        "table inet t {{\n\tchain f {{\n\t\ttype filter hook forward priority 0;\n{STATES}{lines}\n\t}}\n}}\n"
    )
}

fn plain() -> Vec<Scenario> {
    let tcp = talk(80, &[(0, b"GET /"), (1, b"200")], &CLOSE);
    let reset = talk(80, &[(0, b"GET /")], &[(1, 4), (0, 0x10)]);
    let udp = vec![
        ("lan", out4().udp(4000, 53).data(b"question")),
        ("wan", back4().udp(53, 4000).data(b"an answer")),
        ("lan", out4().udp(4000, 53).data(b"question")),
        ("lan", out6().udp(4000, 53).data(b"question")),
        ("wan", back6().udp(53, 4000).data(b"an answer")),
        ("lan", out4().icmp(8, 0, 0x10001).zeros(8)),
        ("wan", back4().icmp(0, 0, 0x10001).zeros(8)),
        ("lan", out4().transport(47, &[0x20, 1, 0x88, 0x0b, 0, 4, 0, 9]).zeros(4)),
        ("lan", out4().protocol(253).data(b"unknown")),
        ("lan", out4().transport(33, &[0, 80, 0x1f, 0x90, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 9])),
        ("wan", back4().icmp(3, 3, 0).data(&out4().udp(4000, 53).data(b"question").bytes()[14..])),
    ];
    // DCCP has no ports since Linux 6.16 (docs/differences.md).
    let udp_alone: Vec<_> =
        udp.iter().enumerate().filter(|(n, _)| *n != 9).map(|(_, f)| f.clone()).collect();
    let mut all = vec![
        sent(on("tcp", &forward("")), &tcp),
        sent(on("tcp_reset", &forward("")), &reset),
        sent(on("other_protocols", &forward("")), &udp_alone),
        sent(on("dropped", &forward("\t\tdrop")), &udp_alone),
        sent(on("counted", &forward("")).sysctl("net.netfilter.nf_conntrack_acct", 1), &tcp),
        sent(on("tcp_begun_again", &forward("")), &[&tcp[..], &tcp].concat()),
        sent(on("reset_begun_again", &forward("")), &[&reset[..], &tcp].concat()),
    ];
    for (name, lines) in [
        ("marks", "\t\tct mark set 7"),
        ("marks_of_packets", "\t\tmeta mark set 5\n\t\tct mark set meta mark or 1"),
        ("marks_later", "\t\tct state established ct mark set ct mark or 2"),
        ("labels", "\t\tct label set 5"),
        ("new_alone", "\t\tct event set new"),
        ("destroy_alone", "\t\tct event set destroy"),
        ("assured_and_reply", "\t\tct event set assured,reply"),
        ("zone", "\t\tct zone 3 counter"),
    ] {
        all.push(sent(on(name, &forward(lines)), &tcp));
        all.push(sent(on(&format!("{name}_udp"), &forward(lines)), &udp[..5]));
    }
    let zones = forward("").replace(
        "table inet t {",
        "table inet t {\n\tchain raw {\n\t\ttype filter hook prerouting priority raw;\n\t\tct zone set 4\n\t}",
    );
    all.push(sent(on("zones", &zones), &udp_alone));
    all
}

// ---- helpers ----

fn with_helper(kind: &str, protocol: &str, port: u16, nat: bool) -> String {
    let nat = match nat {
        true => {
            "\tchain nat {\n\t\ttype nat hook postrouting priority 100;\n\t\toifname wan snat ip to 198.19.0.1\n\t}\n"
        }
        false => "",
    };
    format!(
        "table ip t {{
	ct helper h {{
		type \"{kind}\" protocol {protocol}
	}}
	chain pre {{
		type filter hook prerouting priority 0;
		{protocol} dport {port} counter ct helper set \"h\"
	}}
	chain f {{
		type filter hook forward priority 0;
{STATES}		ct helper \"{kind}\" counter
		ct status expected counter
	}}
{nat}}}
"
    )
}

fn sip(first: &str, cseq: &str, rest: &str, body: &str) -> Vec<u8> {
    format!(
        "{first}\r\nVia: SIP/2.0/UDP 198.18.0.10:5060;branch=z9\r\nFrom: <sip:a@198.18.0.10>;tag=1\r\n\
         To: <sip:b@198.19.0.2>\r\nCall-ID: 1@x\r\nCSeq: {cseq}\r\n{rest}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

fn sdp(address: &str, port: u16) -> String {
    format!(
        "v=0\r\no=a 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
    )
}

fn pptp(kind: u16, body: &[u8], len: usize) -> Vec<u8> {
    let mut m = vec![0, 0, 0, 1, 0x1a, 0x2b, 0x3c, 0x4d];
    m.extend(kind.to_be_bytes());
    m.extend([0, 0]);
    m.extend(body);
    m.resize(12 + len, 0);
    let length = m.len() as u16;
    m[..2].copy_from_slice(&length.to_be_bytes());
    m
}

fn helpers() -> Vec<Scenario> {
    let udp = |from: usize, ports: (u16, u16), text: &[u8]| match from {
        0 => ("lan", out4().udp(ports.0, ports.1).data(text)),
        _ => ("wan", back4().udp(ports.0, ports.1).data(text)),
    };
    let data = |from: usize, ports: (u16, u16)| match from {
        0 => ("lan", out4().tcp(ports.0, ports.1)),
        _ => ("wan", back4().tcp(ports.0, ports.1)),
    };
    let gre = |from: usize, key: u8| {
        let bytes = [0x20, 1, 0x88, 0x0b, 0, 0, 0, key];
        match from {
            0 => ("lan", out4().transport(47, &bytes).zeros(4)),
            _ => ("wan", back4().transport(47, &bytes).zeros(4)),
        }
    };
    let greeting: [(usize, &[u8]); 2] = [(1, b"220 hello\r\n"), (0, b"USER x\r\n")];
    let ftp = |last: &[(usize, &'static [u8])]| talk(21, &[&greeting[..], last].concat(), &[]);
    let active = ftp(&[(0, b"PORT 198,18,0,10,4,5\r\n")]);
    let call = [
        (0, pptp(1, &[], 144)),
        (1, pptp(2, &[1, 0, 1], 144)),
        (0, pptp(7, &[0, 11], 156)),
        (1, pptp(8, &[0, 22, 0, 11, 1], 20)),
    ];
    let call: Vec<(usize, &[u8])> = call.iter().map(|(from, text)| (*from, &text[..])).collect();
    let hang_up = pptp(13, &[0, 22, 1], 136);
    let invite = sip(
        "INVITE sip:b@198.19.0.2 SIP/2.0",
        "1 INVITE",
        "Contact: <sip:a@198.18.0.10:5060>\r\n",
        &sdp("198.18.0.10", 4000),
    );
    let ok = sip(
        "SIP/2.0 200 OK",
        "1 INVITE",
        "Contact: <sip:b@198.19.0.2:5060>\r\n",
        &sdp("198.19.0.2", 5000),
    );
    let bye = sip("BYE sip:b@198.19.0.2 SIP/2.0", "2 BYE", "", "");
    let register = sip(
        "REGISTER sip:198.19.0.2 SIP/2.0",
        "5 REGISTER",
        "Contact: <sip:a@198.18.0.10:5070>;expires=60\r\n",
        "",
    );
    let registered =
        sip("SIP/2.0 200 OK", "5 REGISTER", "Contact: <sip:a@198.18.0.10:5070>;expires=60\r\n", "");
    let asked = |name: &str, rules: String, frames: Vec<(&'static str, Frame)>| {
        sent(on(&format!("helper_{name}"), &rules), &frames)
    };
    vec![
        asked(
            "ftp_active",
            with_helper("ftp", "tcp", 21, false),
            [&active[..], &[data(1, (20, 1029)), data(1, (20, 1029)), data(1, (21, 1029))]]
                .concat(),
        ),
        asked(
            "ftp_passive",
            with_helper("ftp", "tcp", 21, false),
            [&ftp(&[(1, b"227 Entering (198,19,0,2,8,1)\r\n")])[..], &[data(0, (9, 2049))]]
                .concat(),
        ),
        asked(
            "ftp_twice",
            with_helper("ftp", "tcp", 21, false),
            ftp(&[
                (0, b"PORT 198,18,0,10,4,5\r\n"),
                (0, b"PORT 198,18,0,10,4,6\r\n"),
                (0, b"PORT 198,18,0,10,4,6\r\n"),
            ]),
        ),
        asked(
            "ftp_half_a_command",
            with_helper("ftp", "tcp", 21, false),
            ftp(&[(0, b"PORT 198,18,0,10,4")]),
        ),
        asked(
            "ftp_reset",
            with_helper("ftp", "tcp", 21, false),
            talk(21, &[greeting[0], greeting[1], (0, b"PORT 198,18,0,10,4,5\r\n")], &[(1, 0x14)]),
        ),
        asked(
            "irc",
            with_helper("irc", "tcp", 6667, false),
            [
                &talk(
                    6667,
                    &[
                        (1, b":s 001 hello\r\n"),
                        (0, b"PRIVMSG bob :\x01DCC SEND file 3323068426 4000 99\x01\r\n"),
                    ],
                    &[],
                )[..],
                &[data(1, (77, 4000))],
            ]
            .concat(),
        ),
        asked(
            "tftp",
            with_helper("tftp", "udp", 69, false),
            vec![
                udp(0, (1000, 69), b"\0\x01f\0octet\0"),
                udp(1, (4000, 1000), b"\0\x03\0\x01x"),
                udp(0, (1000, 4000), b"\0\x04\0\x01"),
                udp(1, (4001, 1000), b"\0\x03\0\x01x"),
            ],
        ),
        asked(
            "amanda",
            with_helper("amanda", "udp", 10080, false),
            vec![
                udp(0, (900, 10080), b"Amanda 2.4 REQ"),
                udp(
                    1,
                    (10080, 900),
                    b"Amanda 2.4 REP\nCONNECT DATA 3000 MESG 3001 INDEX 3002\nOPTIONS ;\n",
                ),
                data(0, (8, 3001)),
                data(0, (8, 3005)),
            ],
        ),
        asked(
            "sane",
            with_helper("sane", "tcp", 6566, false),
            [
                &talk(
                    6566,
                    &[(0, &[0, 0, 0, 7, 0, 0, 0, 1]), (1, &[0, 0, 0, 0, 0, 0, 0x10, 0])],
                    &[],
                )[..],
                &[data(0, (99, 4096))],
            ]
            .concat(),
        ),
        asked(
            "pptp",
            with_helper("pptp", "tcp", 1723, false),
            [&talk(1723, &call, &[])[..], &[gre(0, 22), gre(1, 11), gre(0, 22)]].concat(),
        ),
        asked(
            "pptp_hung_up",
            with_helper("pptp", "tcp", 1723, false),
            [&talk(1723, &[&call[..], &[(1, &hang_up[..])]].concat(), &[])[..], &[gre(0, 22)]]
                .concat(),
        ),
        asked(
            "sip_call",
            with_helper("sip", "udp", 5060, false),
            vec![
                udp(0, (5060, 5060), &invite),
                udp(1, (5060, 5060), &ok),
                udp(1, (5000, 4000), b"rtp"),
                udp(1, (5001, 4001), b"rtcp"),
                udp(0, (4002, 5000), b"x"),
            ],
        ),
        asked(
            "sip_bye",
            with_helper("sip", "udp", 5060, false),
            vec![
                udp(0, (5060, 5060), &invite),
                udp(0, (5060, 5060), &bye),
                udp(1, (5000, 4000), b"rtp"),
            ],
        ),
        asked(
            "sip_register",
            with_helper("sip", "udp", 5060, false),
            vec![
                udp(0, (5060, 5060), &register),
                udp(1, (4444, 5070), b"x"),
                udp(1, (5060, 5060), &registered),
                udp(1, (4445, 5070), &sip("INVITE sip:a@198.18.0.10 SIP/2.0", "1 INVITE", "", "")),
            ],
        ),
        asked(
            "netbios",
            with_helper("netbios-ns", "udp", 137, false),
            vec![udp(0, (137, 137), b"name query"), udp(1, (137, 137), b"name answer")],
        ),
        asked(
            "snmp",
            with_helper("snmp", "udp", 161, false),
            vec![udp(0, (1000, 161), b"get"), udp(1, (161, 1000), b"got")],
        ),
    ]
}

// ---- objects ----

fn expectations() -> Vec<Scenario> {
    let rules = |object: &str| {
        format!(
            "table ip t {{
	ct expectation e {{
		{object}
	}}
	chain f {{
		type filter hook forward priority 0;
{STATES}		ct state new tcp dport 21 counter ct expectation set e
	}}
}}
"
        )
    };
    let frames = [
        &talk(21, &[(0, b"hello")], &[])[..],
        &[
            ("wan", back4().tcp(77, 4000)),
            ("wan", back4().tcp(78, 4000)),
            ("lan", out4().tcp(79, 4000)),
            ("lan", out4().udp(79, 4000)),
        ],
    ]
    .concat();
    vec![
        sent(
            on("expectation", &rules("protocol tcp; dport 4000; timeout 10s; size 2; l3proto ip")),
            &frames,
        ),
        sent(
            on(
                "expectation_udp",
                &rules("protocol udp; dport 4000; timeout 10s; size 1; l3proto ip"),
            ),
            &frames,
        ),
    ]
}

// ---- timeouts ----

/// Policies with short times, packets before and after them.
fn timeouts() -> Vec<Scenario> {
    let rules = |object: &str, matching: &str| {
        format!(
            "table ip t {{
	ct timeout p {{
		{object}
		l3proto ip
	}}
	chain raw {{
		type filter hook prerouting priority raw;
		{matching} counter ct timeout set \"p\"
	}}
	chain f {{
		type filter hook forward priority 0;
{STATES}	}}
}}
"
        )
    };
    let pause = |s: Scenario, ms: u64| s.wait(Duration::from_millis(ms));
    let udp = |n: usize| match n {
        0 => ("lan", out4().udp(4000, 53).data(b"question")),
        _ => ("wan", back4().udp(53, 4000).data(b"an answer")),
    };
    let policy =
        rules("protocol udp;\n\t\tpolicy = { unreplied : 2, replied : 4 }", "udp dport 53");
    let other = rules("protocol udp;\n\t\tpolicy = { unreplied : 2, replied : 4 }", "udp dport 54");
    let tcp = rules(
        "protocol tcp;\n\t\tpolicy = { syn_sent : 1, syn_recv : 2, established : 3, close : 1, fin_wait : 2 }",
        "tcp dport 80",
    );
    let whole = talk(80, &[(0, b"GET /")], &[(1, 4)]);
    let opening = &whole[..3];
    let mut all = vec![];
    // A second or so on both sides of an end: clocks need not agree better.
    for (name, ms) in [("before", 1000), ("after", 3200)] {
        let s = sent(on(&format!("timeout_unreplied_{name}"), &policy), &[udp(0)]);
        all.push(sent(pause(s, ms), &[udp(1), udp(0)]));
        let s = sent(on(&format!("timeout_syn_{name}"), &tcp), &opening[..1]);
        all.push(sent(pause(s, ms - 700), &opening[1..]));
    }
    for (name, ms) in [("before", 2500), ("after", 5200)] {
        let s = sent(on(&format!("timeout_replied_{name}"), &policy), &[udp(0), udp(1)]);
        all.push(sent(pause(s, ms), &[udp(1), udp(0)]));
    }
    for (name, ms) in [("before", 1800), ("after", 4300)] {
        let s = sent(on(&format!("timeout_established_{name}"), &tcp), opening);
        all.push(sent(pause(s, ms), &[segment(0, 80, 0x18, 1001, 5001, b"GET /")]));
    }
    all.push(sent(on("timeout_of_another", &other), &[udp(0), udp(1), udp(0)]));
    all.push(sent(on("timeout_close", &tcp), &whole));
    all
}
