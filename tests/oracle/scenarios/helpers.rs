// SPDX-License-Identifier: Apache-2.0

//! Helpers of all kinds: what they expect, event by event.

use penstock_testkit::pptp::message as pptp;

use super::events::{STATES, back4, on, talk};
use super::sent;
use crate::frame::Frame;
use crate::net::{out4, wan};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    [ftp(), tcp(), datagrams(), sip_calls(), most(), ends()].concat()
}

/// Rules that set a helper for connections to a port.
fn rules(kind: &str, protocol: &str, port: u16) -> String {
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
}}
"
    )
}

/// A message of SIP.
fn sip(first: &str, cseq: &str, rest: &str, body: &str) -> Vec<u8> {
    format!(
        "{first}\r\nVia: SIP/2.0/UDP 198.18.0.10:5060;branch=z9\r\nFrom: <sip:a@198.18.0.10>;tag=1\
         \r\nTo: <sip:b@198.19.0.2>\r\nCall-ID: 1@x\r\nCSeq: {cseq}\r\n{rest}Content-Length: {}\
         \r\n\r\n{body}",
        body.len()
    )
    .into()
}

/// What announces a stream.
fn sdp(address: &str, port: u16) -> String {
    format!(
        "v=0\r\no=a 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} \
         RTP/AVP 0\r\n"
    )
}

/// A scenario of a helper.
fn asked(name: &str, rules: &str, frames: Vec<(&'static str, Frame)>) -> Scenario {
    sent(on(&format!("helper_{name}"), rules), &frames)
}

/// A datagram of the client (0) or the server (1).
fn udp(from: usize, ports: (u16, u16), text: &[u8]) -> (&'static str, Frame) {
    match from {
        0 => ("lan", out4().udp(ports.0, ports.1).data(text)),
        _ => ("wan", back4().udp(ports.0, ports.1).data(text)),
    }
}

/// The first segment of a connection of the client (0) or the server (1).
fn data(from: usize, ports: (u16, u16)) -> (&'static str, Frame) {
    match from {
        0 => ("lan", out4().tcp(ports.0, ports.1)),
        _ => ("wan", back4().tcp(ports.0, ports.1)),
    }
}

fn ftp() -> Vec<Scenario> {
    let greeting: [(usize, &[u8]); 2] = [(1, b"220 hello\r\n"), (0, b"USER x\r\n")];
    let ftp = |last: &[(usize, &'static [u8])]| talk(21, &[&greeting[..], last].concat(), &[]);
    let active = ftp(&[(0, b"PORT 198,18,0,10,4,5\r\n")]);
    vec![
        asked(
            "ftp_active",
            &rules("ftp", "tcp", 21),
            [&active[..], &[data(1, (20, 1029)), data(1, (20, 1029)), data(1, (21, 1029))]]
                .concat(),
        ),
        asked(
            "ftp_passive",
            &rules("ftp", "tcp", 21),
            [&ftp(&[(1, b"227 Entering (198,19,0,2,8,1)\r\n")])[..], &[data(0, (9, 2049))]]
                .concat(),
        ),
        asked(
            "ftp_twice",
            &rules("ftp", "tcp", 21),
            ftp(&[
                (0, b"PORT 198,18,0,10,4,5\r\n"),
                (0, b"PORT 198,18,0,10,4,6\r\n"),
                (0, b"PORT 198,18,0,10,4,6\r\n"),
            ]),
        ),
        asked("ftp_half_a_command", &rules("ftp", "tcp", 21), ftp(&[(0, b"PORT 198,18,0,10,4")])),
        asked(
            "ftp_reset",
            &rules("ftp", "tcp", 21),
            talk(21, &[greeting[0], greeting[1], (0, b"PORT 198,18,0,10,4,5\r\n")], &[(1, 0x14)]),
        ),
    ]
}

/// An offer of DCC to the server, of a port of the client.
fn offer(port: u16) -> Vec<u8> {
    format!("PRIVMSG bob :\x01DCC SEND file 3323068426 {port} 99\x01\r\n").into()
}

/// What the client of IRC says in turn.
fn irc(texts: &[Vec<u8>], end: &[(usize, u8)]) -> Vec<(&'static str, Frame)> {
    let said: Vec<(usize, &[u8])> = [(1, &b":s 001 hello\r\n"[..])]
        .into_iter()
        .chain(texts.iter().map(|t| (0, &t[..])))
        .collect();
    talk(6667, &said, end)
}

/// More expectations than a connection may have.
fn most() -> Vec<Scenario> {
    let rules = || rules("irc", "tcp", 6667);
    let ports = |ports: &[u16]| ports.iter().map(|port| offer(*port)).collect::<Vec<_>>();
    let (ten, some) = (ports(&(4000..4010).collect::<Vec<_>>()), ports(&[4000, 4001, 4002, 4001]));
    let later = [data(1, (77, 4000)), data(1, (77, 4001)), data(1, (77, 4009))];
    let begun_again = [irc(&ten[..8], &[]), irc(&some, &[(1, 0x14)])].concat();
    vec![
        asked("irc_ten_offers", &rules(), [&irc(&ten, &[])[..], &later].concat()),
        asked("irc_same_offers", &rules(), [&irc(&some, &[])[..], &later].concat()),
        asked("irc_offers_at_once", &rules(), irc(&[ten.concat()], &[])),
        asked("irc_full_and_again", &rules(), begun_again),
    ]
}

/// What is told, in which order, when a connection ends that others were expected of.
fn ends() -> Vec<Scenario> {
    let rules = || rules("irc", "tcp", 6667);
    let offers = [offer(4000), offer(4001), offer(4002)];
    let reset = irc(&offers, &[(1, 0x14)]);
    let related = data(1, (77, 4001));
    let back = ("lan", out4().tcp(4001, 77).flags(0x14).set(8, &2u32.to_be_bytes()));
    vec![
        asked("irc_begun_again", &rules(), [&reset[..], &reset].concat()),
        asked(
            "irc_met_and_begun_again",
            &rules(),
            [&reset[..], std::slice::from_ref(&related), &irc(&offers[1..], &[])].concat(),
        ),
        asked(
            "irc_met_and_reset",
            &rules(),
            [&reset[..], &[related.clone(), back.clone()]].concat(),
        ),
    ]
}

fn tcp() -> Vec<Scenario> {
    let call = [
        (0, pptp(1, &[], 144)),
        (1, pptp(2, &[1, 0, 1], 144)),
        (0, pptp(7, &[0, 11], 156)),
        (1, pptp(8, &[0, 22, 0, 11, 1], 20)),
    ];
    let call: Vec<(usize, &[u8])> = call.iter().map(|(from, text)| (*from, &text[..])).collect();
    vec![
        asked(
            "irc",
            &rules("irc", "tcp", 6667),
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
            "sane",
            &rules("sane", "tcp", 6566),
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
        asked("pptp", &rules("pptp", "tcp", 1723), talk(1723, &call, &[])),
    ]
}

fn datagrams() -> Vec<Scenario> {
    vec![
        asked(
            "tftp",
            &rules("tftp", "udp", 69),
            vec![
                udp(0, (1000, 69), b"\0\x01f\0octet\0"),
                udp(1, (4000, 1000), b"\0\x03\0\x01x"),
                udp(0, (1000, 4000), b"\0\x04\0\x01"),
                udp(1, (4001, 1000), b"\0\x03\0\x01x"),
            ],
        ),
        asked(
            "amanda",
            &rules("amanda", "udp", 10080),
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
            "netbios",
            &rules("netbios-ns", "udp", 137),
            vec![udp(0, (137, 137), b"name query"), udp(1, (137, 137), b"name answer")],
        ),
        asked(
            "snmp",
            &rules("snmp", "udp", 161),
            vec![udp(0, (1000, 161), b"get"), udp(1, (161, 1000), b"got")],
        ),
    ]
}

fn sip_calls() -> Vec<Scenario> {
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
    vec![
        asked(
            "sip_call",
            &rules("sip", "udp", 5060),
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
            &rules("sip", "udp", 5060),
            vec![
                udp(0, (5060, 5060), &invite),
                udp(0, (5060, 5060), &bye),
                udp(1, (5000, 4000), b"rtp"),
            ],
        ),
        // A phone that sends from any port and listens at 5060.
        asked(
            "sip_of_a_phone_that_listens_elsewhere",
            &rules("sip", "udp", 5060).replace(
                "\tchain f {",
                "\tchain s {\n\t\ttype nat hook postrouting priority 100;\n\t\tudp dport 5060 snat to \
                 198.19.0.1:7000\n\t}\n\tchain f {",
            ),
            vec![
                udp(0, (50000, 5060), &invite),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.1").udp(5060, 7000).data(&ok)),
                udp(0, (50000, 5060), &register),
                ("wan", wan().ip4("198.19.0.2", "198.19.0.1").udp(5060, 7000).data(&registered)),
            ],
        ),
        // Another call of the client, with the same stream: it is expected already.
        asked(
            "sip_same_stream_of_two",
            &rules("sip", "udp", 5060),
            vec![
                udp(0, (5060, 5060), &invite),
                udp(0, (5062, 5060), &invite),
                udp(1, (5060, 5062), &ok),
                udp(1, (5000, 4000), b"rtp"),
                udp(0, (5062, 5060), &bye),
                udp(1, (5001, 4001), b"rtcp"),
            ],
        ),
        asked(
            "sip_register",
            &rules("sip", "udp", 5060),
            vec![
                udp(0, (5060, 5060), &register),
                udp(1, (4444, 5070), b"x"),
                udp(1, (5060, 5060), &registered),
                udp(1, (4445, 5070), &sip("INVITE sip:a@198.18.0.10 SIP/2.0", "1 INVITE", "", "")),
            ],
        ),
    ]
}
