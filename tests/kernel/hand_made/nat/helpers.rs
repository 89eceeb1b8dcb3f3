// SPDX-License-Identifier: Apache-2.0

//! Connections that others announce in their text, which is translated with them.

use super::super::on;
use super::{WITNESSES, answer4, answer6, story, tcp};
use crate::frame::Frame;
use crate::net::{dmz, lan, out4, out6, wan};
use crate::scenario::Scenario;

/// The client's address as offers write it, and one that is nobody's.
const CLIENT: u32 = u32::from_be_bytes([198, 18, 0, 10]);
const FORGED: u32 = u32::from_be_bytes([198, 18, 9, 9]);

/// What a TCP connection for a helper says: handshake first, each side's segments in order of its
/// numbers.
struct Control {
    client: &'static str,
    server: &'static str,
    there: Box<dyn Fn() -> Frame>,
    back: Box<dyn Fn() -> Frame>,
    ports: (u16, u16),
    sent: (u32, u32),
    frames: Vec<(&'static str, Frame)>,
}

impl Control {
    fn new(
        (client, there): (&'static str, Box<dyn Fn() -> Frame>),
        (server, back): (&'static str, Box<dyn Fn() -> Frame>),
        ports: (u16, u16),
    ) -> Control {
        let swapped = (ports.1, ports.0);
        let frames = vec![
            (client, tcp(there(), ports, 2, 100, 0)),
            (server, tcp(back(), swapped, 0x12, 500, 101)),
            (client, tcp(there(), ports, 0x10, 101, 501)),
        ];
        Control { client, server, there, back, ports, sent: (101, 501), frames }
    }

    /// The client sends text; the server sees it longer by some bytes, and says so.
    fn client(mut self, text: &str, longer: i32) -> Control {
        let (seq, ack) = self.sent;
        self.frames.push((
            self.client,
            tcp((self.there)(), self.ports, 0x18, seq, ack).data(text.as_bytes()),
        ));
        self.sent.0 += text.len() as u32;
        let seen = self.sent.0.wrapping_add_signed(longer);
        let swapped = (self.ports.1, self.ports.0);
        self.frames.push((self.server, tcp((self.back)(), swapped, 0x10, ack, seen)));
        // A selective acknowledgement of data that is not there yet.
        let edges = [seen.wrapping_add(10), seen.wrapping_add(20)].map(u32::to_be_bytes).concat();
        let sack = [&[1, 1, 5, 10][..], &edges].concat();
        let f = tcp((self.back)(), swapped, 0x10, ack, seen).tcp_options(&sack);
        self.frames.push((self.server, f));
        self
    }

    /// The server sends text, the client sees it longer.
    fn server(mut self, text: &str, longer: i32) -> Control {
        let (ack, seq) = self.sent;
        let swapped = (self.ports.1, self.ports.0);
        self.frames
            .push((self.server, tcp((self.back)(), swapped, 0x18, seq, ack).data(text.as_bytes())));
        self.sent.1 += text.len() as u32;
        let seen = self.sent.1.wrapping_add_signed(longer);
        self.frames.push((self.client, tcp((self.there)(), self.ports, 0x10, ack, seen)));
        self
    }

    fn other(mut self, source: &'static str, frame: Frame) -> Control {
        self.frames.push((source, frame));
        self
    }
}

/// A call from the client's port.
fn invite(transport: &str, port: u16) -> String {
    let own = "198.18.0.10";
    let body = format!(
        "v=0\r\no=a 1 1 IN IP4 {own}\r\ns=-\r\nc=IN IP4 {own}\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
    );
    format!(
        "INVITE sip:b@198.19.0.2 SIP/2.0\r\nVia: SIP/2.0/{transport} {own}:{port};branch=z9\r\n\
         From: <sip:a@{own}:{port}>;tag=1\r\nTo: <sip:b@198.19.0.2>\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:a@{own}:{port}>\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A private message with an offer of an address, at the port 51205.
fn offer(kind: &str, address: u32) -> String {
    format!("PRIVMSG a :\u{1}DCC {kind} x {address} 51205\u{1}\r\n")
}

/// An answer of an agent about one variable, whose value is these bytes.
fn answer(value: &[u8]) -> Vec<u8> {
    let part = |tag: u8, inside: &[u8]| [&[tag, inside.len() as u8], inside].concat();
    let variable = part(0x30, &[&part(6, &[0x2b, 6, 1, 2, 1]), value].concat());
    let numbers = [2, 1, 7, 2, 1, 0, 2, 1, 0];
    let response = part(0xa2, &[&numbers, &part(0x30, &variable)[..]].concat());
    part(0x30, &[&[2, 1, 1], &part(4, b"public")[..], &response].concat())
}

/// Connections that others announce in their text, which is translated with them.
pub fn all() -> Vec<Scenario> {
    let rules = |family: &str, object: &str, port: &str, nat: &str| {
        format!(
            "table {family} t {{
	ct helper h {{
		{object}
	}}
	chain pre {{
		type filter hook prerouting priority 0;
		{port} counter ct helper set \"h\"
	}}
	chain n {{
		type nat hook {nat}
		counter
	}}
	chain seen {{
		type filter hook forward priority 0;
		ct state related counter
		ct state new counter
		ct status expected counter
		ct status snat counter
		ct status dnat counter
	}}
}}
{WITNESSES}"
        )
    };
    let ftp = "type \"ftp\" protocol tcp";
    let masquerade = "postrouting priority 100;\n\t\toifname wan counter masquerade";
    let dnat =
        "prerouting priority -100;\n\t\tiifname wan tcp dport 21 counter dnat to 198.18.5.20";
    let to4 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("lan", Box::new(out4)) };
    let from4 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("wan", Box::new(answer4)) };
    let to6 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("lan", Box::new(out6)) };
    let from6 = || -> (&'static str, Box<dyn Fn() -> Frame>) { ("wan", Box::new(answer6)) };
    let served = || -> (&'static str, Box<dyn Fn() -> Frame>) {
        ("dmz", Box::new(|| dmz().ip4("198.18.5.20", "198.19.0.2")))
    };
    vec![
        story(
            on("nat_ftp_active", &rules("ip", ftp, "tcp dport 21", masquerade)),
            &Control::new(to4(), from4(), (40000, 21))
                .server("220 here\r\n", 0)
                .client("USER me\r\n", 0)
                .server("331 who\r\n", 0)
                .client("PORT 198,18,0,10,200,5\r\n", -1)
                .other("wan", tcp(answer4(), (20, 51205), 2, 7000, 0))
                .other("lan", tcp(out4(), (51205, 20), 0x12, 9000, 7001))
                .other("wan", tcp(answer4(), (20, 51205), 0x10, 7001, 9001))
                .server("200 well\r\n", 0)
                .client("PORT 198,18,0,10,200,6\r\n", -2)
                .client("QUIT\r\n", -2)
                .other("wan", tcp(answer4(), (20, 51206), 2, 7000, 0))
                .other("wan", tcp(answer4(), (20, 51207), 2, 7000, 0))
                .frames,
        ),
        story(
            on("nat_ftp_passive", &rules("ip", ftp, "tcp dport 21", dnat)),
            &Control::new(from4(), served(), (40000, 21))
                .server("220 here\r\n", 0)
                .client("PASV\r\n", 0)
                .server("227 Entering Passive Mode (198,18,5,20,200,5).\r\n", -1)
                .other("wan", tcp(answer4(), (40001, 51205), 2, 7000, 0))
                .other(
                    "dmz",
                    tcp(dmz().ip4("198.18.5.20", "198.19.0.2"), (51205, 40001), 0x12, 9000, 7001),
                )
                .client("EPSV\r\n", 0)
                .server("229 Entering Extended Passive Mode (|||51206|)\r\n", -1)
                .other("wan", tcp(answer4(), (40002, 51206), 2, 7000, 0))
                .other(
                    "dmz",
                    tcp(dmz().ip4("198.18.5.20", "198.19.0.2"), (51206, 40002), 0x12, 9000, 7001),
                )
                .frames,
        ),
        story(
            on("nat_ftp_active6", &rules("ip6", ftp, "tcp dport 21", masquerade)),
            &Control::new(to6(), from6(), (40000, 21))
                .server("220 here\r\n", 0)
                .client("USER me\r\n", 0)
                .client("EPRT |2|2001:db8:1::10|51205|\r\n", 25)
                .other("wan", tcp(answer6(), (20, 51205), 2, 7000, 0))
                .other("lan", tcp(out6(), (51205, 20), 0x12, 9000, 7001))
                .client("QUIT\r\n", 25)
                .frames,
        ),
        story(
            on("nat_irc", &rules("ip", "type \"irc\" protocol tcp", "tcp dport 6667", masquerade)),
            &Control::new(to4(), from4(), (40000, 6667))
                .client("PRIVMSG a :\u{1}DCC CHAT chat 3323068426 51205\u{1}\r\n", 0)
                .other("wan", tcp(wan().ip4("198.19.0.3", "198.19.0.1"), (5000, 51205), 2, 7000, 0))
                .other(
                    "lan",
                    tcp(lan().ip4("198.18.0.10", "198.19.0.3"), (51205, 5000), 0x12, 9000, 7001),
                )
                .frames,
        ),
        // An offer ends the search, also if it names a forged address or no port.
        story(
            on(
                "nat_irc_offers",
                &rules("ip", "type \"irc\" protocol tcp", "tcp dport 6667", masquerade),
            ),
            &[
                offer("SEND", FORGED) + &offer("SEND", CLIENT),
                offer("TSEND", FORGED) + &offer("SEND", CLIENT),
                offer("SEND", FORGED) + "hello\r\n" + &offer("CHAT", CLIENT),
                offer("KEEP", CLIENT) + &offer("SEND", CLIENT),
                offer("KEEP", CLIENT) + &offer("SEND", FORGED) + &offer("SEND", CLIENT),
                "PRIVMSG a :\u{1}DCC SEND CHAT x 3323068426 51205\u{1}\r\n".into(),
                "PRIVMSG a :\u{1}DCC SEND x 3323068426 0\u{1}\r\n".to_owned()
                    + &offer("SEND", CLIENT),
                "PRIVMSG a :hello\r\n".to_owned() + &offer("SEND", CLIENT),
                offer("SEND", CLIENT) + &offer("SEND", FORGED),
            ]
            .iter()
            .fold(Control::new(to4(), from4(), (40000, 6667)), |talk, text| talk.client(text, 0))
            .frames,
        ),
        // Lengths in their long forms, zero and at the end, too.
        story(
            on("nat_snmp_lengths", &rules("ip", "type \"snmp\" protocol udp", "udp dport 161", masquerade)),
            &[
                &[0x40, 4, 198, 19, 0, 1][..],
                &[0x40, 0x81, 4, 198, 19, 0, 1],
                &[0x40, 0x82, 0, 4, 198, 19, 0, 1],
                &[0x40, 0x83, 0, 0, 4, 198, 19, 0, 1],
                &[0x05, 0],
                &[0x05, 0x81, 0],
                &[0x05, 0x82, 0, 0],
                &[0x05, 0x82, 0],
                &[0x05, 0x81],
                &[0x80, 0x81, 0],
                &[0x80, 0x81, 1],
                &[0x80],
                &[0x80, 0x80, 0, 0],
            ]
            .iter()
            .flat_map(|value| {
                [
                    ("lan", out4().udp(40000, 161).data(b"get")),
                    ("wan", answer4().udp(161, 40000).data(&answer(value))),
                ]
            })
            .collect::<Vec<_>>(),
        ),
        story(
            on("nat_tftp", &rules("ip", "type \"tftp\" protocol udp", "udp dport 69", masquerade)),
            &[
                ("lan", out4().udp(40000, 69).data(b"\0\x01file\0octet\0")),
                ("wan", answer4().udp(3000, 40000).data(b"\0\x03\0\x01data")),
                ("lan", out4().udp(40000, 3000).data(b"\0\x04\0\x01")),
                ("wan", answer4().udp(3001, 40000).data(b"\0\x03\0\x01data")),
            ],
        ),
        // Several places of a segment change, and its numbers once by all of them.
        story(
            on(
                "nat_sip_stream",
                &rules("ip", "type \"sip\" protocol tcp", "tcp dport 5060", masquerade),
            ),
            &Control::new(to4(), from4(), (40000, 5060))
                .client(&invite("TCP", 40000), -5)
                .client(&invite("TCP", 40000), -10)
                .client("BYE sip:x@198.19.0.2 SIP/2.0\r\n\r\n", -10)
                .server("SIP/2.0 200 OK\r\n\r\n", 0)
                .frames,
        ),
        // The port that the media come from leads to another connection already.
        story(
            on(
                "nat_sip_media_port_taken",
                &rules(
                    "ip",
                    "type \"sip\" protocol udp",
                    "udp dport 5060",
                    &masquerade.replace(
                        "oifname wan counter",
                        "oifname wan udp dport 9000 counter masquerade to :7000\n\t\toifname wan counter",
                    ),
                ),
            ),
            &[
                ("lan", out4().udp(40000, 5060).data(invite("UDP", 40000).as_bytes())),
                ("lan", out4().udp(4000, 9000).data(b"something else")),
                ("wan", answer4().udp(9000, 4000).data(b"media")),
                ("wan", answer4().udp(9002, 4000).data(b"media")),
                ("wan", answer4().udp(9001, 4001).data(b"control")),
            ],
        ),
        story(
            on(
                "helper_without_nat",
                &rules("ip", ftp, "tcp dport 21", "postrouting priority 100;"),
            ),
            &Control::new(
                to4(),
                ("wan", Box::new(|| wan().ip4("198.19.0.2", "198.18.0.10"))),
                (40000, 21),
            )
            .server("220 here\r\n", 0)
            .client("USER me\r\n", 0)
            .client("PORT 198,18,0,10,200,5\r\n", 0)
            .other("wan", tcp(wan().ip4("198.19.0.2", "198.18.0.10"), (20, 51205), 2, 7000, 0))
            .other("lan", tcp(out4(), (51205, 20), 0x12, 9000, 7001))
            .frames,
        ),
    ]
}
