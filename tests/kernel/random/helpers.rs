// SPDX-License-Identifier: Apache-2.0

//! Scenarios of helpers by chance: a client and a server speak a protocol that announces further
//! connections, through source or destination NAT or both, and then those connections come, and
//! some that nobody announced.

use std::net::Ipv4Addr;

use fastrand::Rng;
use penstock_testkit::{Chance, pptp, sip};

use super::nat::{Side, net};
use super::snmp;
use crate::frame::{Frame, ethernet};
use crate::scenario::Scenario;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let protocol = rng.pick(&PROTOCOLS);
    let six = protocol.six && rng.one_in(3);
    let way = Way::new(&mut rng, six, protocol);
    let name = format!("random_helpers_{seed}");
    let mut scenario = Scenario::new(&name, &net(), &way.rules(&mut rng, protocol)).at_once();
    if rng.bool() {
        scenario = scenario.sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", 1);
    }
    let mut talk = Talk { way, protocol, next: [1001, 5001], frames: vec![] };
    talk.begin();
    for _ in 0..rng.usize(2..8) {
        match rng.u8(..4) {
            0 => talk.announced(&mut rng),
            _ => talk.say(&mut rng),
        }
    }
    for _ in 0..rng.usize(2..6) {
        talk.announced(&mut rng);
    }
    scenario.frames = talk.frames;
    scenario
}

/// What a helper reads.
#[derive(Clone, Copy)]
struct Protocol {
    name: &'static str,
    tcp: bool,
    port: u16,
    six: bool,
    /// What an end says: the client if it is the first (0).
    says: fn(&mut Rng, &Way, usize) -> Vec<u8>,
}

const PROTOCOLS: [Protocol; 14] = [
    Protocol { name: "ftp", tcp: true, port: 21, six: true, says: ftp },
    Protocol { name: "ftp", tcp: true, port: 21, six: true, says: ftp },
    Protocol { name: "irc", tcp: true, port: 6667, six: false, says: irc },
    Protocol { name: "tftp", tcp: false, port: 69, six: true, says: tftp },
    Protocol { name: "amanda", tcp: false, port: 10080, six: true, says: amanda },
    Protocol { name: "sane", tcp: true, port: 6566, six: true, says: sane },
    Protocol { name: "pptp", tcp: true, port: 1723, six: false, says: calls },
    Protocol { name: "sip", tcp: false, port: 5060, six: true, says: sip_in_datagrams },
    Protocol { name: "sip", tcp: false, port: 5060, six: true, says: sip_in_datagrams },
    Protocol { name: "sip", tcp: true, port: 5060, six: true, says: sip_in_segments },
    Protocol { name: "netbios-ns", tcp: false, port: 137, six: false, says: anything },
    Protocol { name: "tftp", tcp: false, port: 69, six: false, says: anything },
    Protocol { name: "snmp", tcp: false, port: 161, six: false, says: variables },
    Protocol { name: "snmp_trap", tcp: false, port: 162, six: false, says: variables },
];

/// One end: where it is, and its own address and port.
#[derive(Clone, Copy)]
struct End {
    side: Side,
    address: &'static str,
    port: u16,
}

/// Who speaks with whom, and as whom each appears to the other.
#[derive(Clone, Copy)]
struct Way {
    six: bool,
    ends: [End; 2],
    /// The client as the server knows it, and the server as the client knows it.
    seen: [(&'static str, u16); 2],
    source: &'static str,
}

impl Way {
    fn new(rng: &mut Rng, six: bool, protocol: Protocol) -> Way {
        let address = |side: Side| side.addresses(six)[0];
        let (from, to) =
            rng.pick(&[(Side::Lan, Side::Wan), (Side::Wan, Side::Dmz), (Side::Lan, Side::Dmz)]);
        let own = rng.pick(&[protocol.port, 4000, 40000]);
        let ends = [
            End { side: from, address: address(from), port: own },
            End { side: to, address: address(to), port: protocol.port },
        ];
        let mut seen = ends.map(|end| (end.address, end.port));
        if from == Side::Wan || rng.bool() {
            let called = match (to, six) {
                (Side::Wan, false) => "198.19.0.3",
                (Side::Wan, true) => "2001:db8:2::3",
                (_, false) => "198.19.0.50",
                (_, true) => "2001:db8:2::50",
            };
            seen[1] = (called, rng.pick(&[protocol.port, protocol.port, 7001]));
        }
        let mut source = "";
        if rng.u8(..4) != 0 {
            let outside = match (to, six) {
                (Side::Wan, false) => ["198.19.0.1", "198.19.0.51"],
                (Side::Wan, true) => ["2001:db8:2::1", "2001:db8:2::51"],
                (_, false) => ["198.18.5.1", "198.19.0.51"],
                (_, true) => ["2001:db8:5::1", "2001:db8:2::51"],
            };
            source = rng.pick(&["masquerade", "snat"]);
            seen[0].0 = outside[usize::from(source == "snat")];
            if rng.one_in(4) {
                seen[0].1 = 7000;
            }
        }
        Way { six, ends, seen, source }
    }

    fn rules(&self, rng: &mut Rng, protocol: Protocol) -> String {
        let (family, word) = if self.six { ("ip6", "ip6") } else { ("ip", "ip") };
        let transport = if protocol.tcp { "tcp" } else { "udp" };
        let [client, server] = self.ends;
        let [(outside, port), (called, called_port)] = self.seen;
        let host = |address: &str| match self.six {
            true => format!("[{address}]"),
            false => address.to_owned(),
        };
        let to_port = |port: u16, own: u16| match port == own {
            true => String::new(),
            false => format!(":{port}"),
        };
        let at = |address: &str, port: &str| match port.is_empty() {
            true => address.to_owned(),
            false => format!("{}{port}", host(address)),
        };
        let destination = match (called, called_port) == (server.address, server.port) {
            true => String::new(),
            false => {
                let to = at(server.address, &to_port(server.port, called_port));
                format!(
                    "{word} daddr {called} {transport} dport {called_port} counter dnat to {to}"
                )
            }
        };
        let port = to_port(port, client.port);
        let of = format!("{word} saddr {}", client.address);
        // Connections that are announced are not translated by rules.
        let which = match port.is_empty() {
            true => of,
            false => format!("{of} {transport} dport {}", server.port),
        };
        let source = match (self.source, port.is_empty()) {
            ("", _) => String::new(),
            ("masquerade", true) => format!("{which} counter masquerade"),
            ("masquerade", false) => format!("{which} counter masquerade to {port}"),
            _ => format!("{which} counter snat to {}", at(outside, &port)),
        };
        let drop = if rng.one_in(6) { "ct state new counter drop" } else { "" };
        let (port, served) = (called_port, server.port);
        let name = protocol.name;
        format!(
            "table {family} t {{
	ct helper h {{
		type \"{name}\" protocol {transport}
	}}
	chain pre {{
		type filter hook prerouting priority -150;
		{transport} dport {port} counter ct helper set \"h\"
	}}
	chain d {{
		type nat hook prerouting priority -100;
		{destination}
	}}
	chain f {{
		type filter hook forward priority 0;
		ct state new counter
		ct state related counter
		ct state established counter
		ct state invalid counter
		ct status expected counter
		ct helper \"{name}\" counter
		{transport} dport != {served} {drop}
	}}
	chain s {{
		type nat hook postrouting priority 100;
		{source}
	}}
}}
"
        )
    }

    /// A frame of an end to the other, before its transport.
    fn frame(&self, from: usize) -> (&'static str, Frame) {
        let (end, (to, _)) = (self.ends[from], self.seen[1 - from]);
        let (router, station) = end.side.macs();
        let frame = ethernet(router, station);
        let frame = match self.six {
            true => frame.ip6(end.address, to),
            false => frame.ip4(end.address, to),
        };
        (end.side.device(), frame)
    }

    fn ports(&self, from: usize) -> (u16, u16) {
        (self.ends[from].port, self.seen[1 - from].1)
    }
}

struct Talk {
    way: Way,
    protocol: Protocol,
    /// The next sequence number of each end.
    next: [u32; 2],
    frames: Vec<(String, Vec<u8>)>,
}

/// Ports that are announced, or next to those.
const PORTS: [u16; 8] = [4000, 4001, 4002, 5000, 5060, 5070, 5080, 7000];

impl Talk {
    fn push(&mut self, (source, frame): (&str, Frame)) {
        self.frames.push((source.to_owned(), frame.bytes()));
    }

    fn segment(&mut self, from: usize, flags: u8, text: &[u8]) {
        let (source, frame) = self.way.frame(from);
        let (sport, dport) = self.way.ports(from);
        let ack = if flags & 0x10 == 0 { 0 } else { self.next[1 - from] };
        let frame = frame.tcp(sport, dport).flags(flags).set(4, &self.next[from].to_be_bytes());
        let frame = frame.set(8, &ack.to_be_bytes()).set(14, &[0xff, 0xff]).data(text);
        self.push((source, frame));
        self.next[from] += text.len() as u32 + u32::from(flags & 3 != 0);
    }

    /// A handshake, or a datagram that announces nothing. The client is first, so that NAT has the
    /// port that it wants and draws none.
    fn begin(&mut self) {
        if self.protocol.tcp {
            for (from, flags) in [(0, 2), (1, 0x12), (0, 0x10)] {
                self.segment(from, flags, b"");
            }
            return;
        }
        let (source, frame) = self.way.frame(0);
        let (sport, dport) = self.way.ports(0);
        self.push((source, frame.udp(sport, dport).data(b"hello")));
    }

    fn say(&mut self, rng: &mut Rng) {
        let from = usize::from(rng.u8(..3) == 0);
        let (mut text, mut several) = ((self.protocol.says)(rng, &self.way, from), false);
        if self.protocol.tcp {
            while rng.one_in(8) {
                text.extend((self.protocol.says)(rng, &self.way, from));
                several = true;
            }
        }
        // A whole message of SIP and a part of another lead the kernel astray (docs/differences.md).
        let in_whole = several && self.protocol.name == "sip";
        if rng.one_in(4) && !in_whole {
            sip::damage(rng, &mut text);
        }
        if !self.protocol.tcp {
            let (source, frame) = self.way.frame(from);
            let (sport, dport) = self.way.ports(from);
            let frame = frame.udp(sport, dport);
            let frame =
                if rng.one_in(10) && !self.way.six { frame.patch(6, &[0, 0]) } else { frame };
            return self.push((source, frame.data(&text)));
        }
        let cut = if rng.one_in(10) && !in_whole { rng.usize(..=text.len()) } else { text.len() };
        self.segment(from, 0x18, &text[..cut]);
        if cut < text.len() {
            self.segment(from, 0x18, &text[cut..]);
        }
        if rng.bool() {
            self.segment(1 - from, 0x10, b"");
        }
        if rng.one_in(20) {
            self.segment(from, rng.pick(&[0x11, 0x14]), b"");
        }
    }

    /// The first packet of a connection that may have been announced, and an answer.
    fn announced(&mut self, rng: &mut Rng) {
        let from = usize::from(rng.bool());
        if self.protocol.name == "pptp" && rng.u8(..4) != 0 {
            let call = rng.pick(&[11, 22, 33, 4000, 40000, 7000]);
            for from in [from, 1 - from] {
                let (source, frame) = self.way.frame(from);
                self.push((source, frame.transport(47, &pptp::data(call)).zeros(4)));
            }
            return;
        }
        let sport = rng.pick(&[20, 4000, 5000, 5060, 9000, self.way.ends[from].port]);
        let dport = rng.pick(&PORTS);
        let tcp = match self.protocol.name {
            "sip" | "tftp" | "netbios-ns" | "snmp" | "snmp_trap" => rng.one_in(6),
            _ => rng.u8(..6) != 0,
        };
        let (source, there) = self.way.frame(from);
        let (back, answer) = self.way.frame(1 - from);
        match tcp {
            true => {
                self.push((source, there.tcp(sport, dport).set(4, &[0, 0, 1, 0])));
                let answer = answer.tcp(dport, sport).flags(0x12);
                self.push((back, answer.set(4, &[0, 0, 2, 0]).set(8, &[0, 0, 1, 1])));
            }
            false => {
                self.push((source, there.udp(sport, dport).data(b"data")));
                self.push((back, answer.udp(dport, sport).data(b"more data")));
            }
        }
    }
}

// ---- what they say ----

fn port(rng: &mut Rng) -> u16 {
    rng.pick(&PORTS)
}

/// An address that an end may speak of: mostly its own.
fn address(rng: &mut Rng, way: &Way, from: usize) -> &'static str {
    match rng.u8(..8) {
        0 => way.seen[from].0,
        1 => way.seen[1 - from].0,
        2 => Side::Lan.addresses(way.six)[2],
        _ => way.ends[from].address,
    }
}

fn four(address: &str) -> Ipv4Addr {
    address.parse().unwrap_or(Ipv4Addr::UNSPECIFIED)
}

fn ftp(rng: &mut Rng, way: &Way, from: usize) -> Vec<u8> {
    let (of, port) = (address(rng, way, from), port(rng));
    let commas = {
        let [a, b, c, d] = four(of).octets();
        format!("{a},{b},{c},{d},{},{}", port >> 8, port & 255)
    };
    let number = if way.six { 2 } else { 1 };
    let extended = format!("|{number}|{of}|{port}|");
    match (from, rng.u8(..8)) {
        (0, 0..3) => format!("PORT {commas}\r\n"),
        (0, 3..6) => format!("EPRT {extended}\r\n"),
        (0, 6) => "PASV\r\n".into(),
        (_, 0..3) => format!("227 Entering Passive Mode ({commas}).\r\n"),
        (_, 3..6) => format!("229 Entering Extended Passive Mode (|||{port}|)\r\n"),
        (_, 6) => format!("227 ={commas}\r\n"),
        _ => "200 x\r\n".into(),
    }
    .into()
}

fn irc(rng: &mut Rng, way: &Way, from: usize) -> Vec<u8> {
    let number = u32::from(four(address(rng, way, from)));
    let kind = rng.pick(&["SEND f", "CHAT chat", "MOVE x", "TSEND y", "SCHAT z", "XMIT q"]);
    let start = rng.pick(&["PRIVMSG a", "PRIVMSG a", "PRIVMSG bob", "NOTICE x"]);
    let port = port(rng);
    format!("{start} :\u{1}DCC {kind} {number} {port}{}\u{1}\r\n", rng.pick(&["", " 99"])).into()
}

fn tftp(rng: &mut Rng, _: &Way, _: usize) -> Vec<u8> {
    let kind = rng.u8(1..6);
    [&[0, kind][..], b"file\0octet\0"].concat()
}

fn amanda(rng: &mut Rng, _: &Way, from: usize) -> Vec<u8> {
    if from == 0 && !rng.one_in(4) {
        return b"Amanda 2.4 REQ HANDLE 000-00 SEQ 1\n".into();
    }
    let mut line = String::from("CONNECT");
    for word in ["DATA", "MESG", "INDEX", "STATE"] {
        if !rng.one_in(3) {
            line += &format!(" {word} {}", port(rng));
        }
    }
    format!("Amanda 2.4 REP HANDLE 000-00 SEQ 1\n{line}\nOPTIONS features=f;\n").into()
}

fn sane(rng: &mut Rng, _: &Way, from: usize) -> Vec<u8> {
    match from {
        0 => [0, 0, 0, rng.pick(&[7, 7, 7, 0, 1]), 0, 0, 0, 1].into(),
        _ => {
            let [high, low] = port(rng).to_be_bytes();
            [0, 0, 0, rng.pick(&[0, 0, 0, 4]), 0, 0, high, low].into()
        }
    }
}

/// A control message of PPTP.
fn calls(rng: &mut Rng, way: &Way, from: usize) -> Vec<u8> {
    let (a, b) = (rng.pick(&[11, 12]), rng.pick(&[22, 33]));
    // NAT may take the port of the connection for the client's call.
    let [own, outside] = [way.ends[0].port, way.seen[0].1].map(u16::to_be_bytes);
    let known = rng.pick(&[[0, a], own, outside]);
    let ok = u8::from(!rng.one_in(6));
    let (kind, begins) = match (from, rng.u8(..8)) {
        (0, 0 | 1) => (1, vec![]),
        (0, 2..5) => (7, vec![0, a]),
        (0, 5) => (10, vec![0, a, 0, b, ok]),
        (0, 6) => (12, vec![0, a]),
        (0, _) => (rng.pick(&[3, 15]), vec![0, b]),
        (_, 0 | 1) => (2, vec![1, 0, ok]),
        (_, 2..5) => (8, [&[0, b][..], &known, &[ok]].concat()),
        (_, 5) => (rng.pick(&[9, 11]), vec![0, b]),
        (_, 6) => (13, known.to_vec()),
        (_, _) => (rng.pick(&[4, 14, 15]), known.to_vec()),
    };
    pptp::message(kind, &begins, pptp::length(kind))
}

fn sip_in_datagrams(rng: &mut Rng, way: &Way, from: usize) -> Vec<u8> {
    sip_over(rng, way, from, "UDP")
}

fn sip_in_segments(rng: &mut Rng, way: &Way, from: usize) -> Vec<u8> {
    sip_over(rng, way, from, "TCP")
}

fn sip_over(rng: &mut Rng, way: &Way, from: usize, transport: &str) -> Vec<u8> {
    let (other, other_port) = way.seen[1 - from];
    let ends = sip::Ends {
        own: way.ends[from].address,
        other,
        far: Side::Lan.addresses(way.six)[2],
        ports: [way.ends[from].port, other_port],
        transport,
        client: from == 0,
    };
    sip::message(rng, &ends)
}

/// Variables that agents name, with addresses of both ends.
fn variables(rng: &mut Rng, way: &Way, _: usize) -> Vec<u8> {
    let [client, server] = way.ends.map(|end| four(end.address).octets());
    let [outside, called] = way.seen.map(|(address, _)| four(address).octets());
    snmp::message(rng, &[client, client, server, outside, called, [198, 18, 9, 9]])
}

fn anything(rng: &mut Rng, _: &Way, _: usize) -> Vec<u8> {
    (0..rng.usize(..60)).map(|_| rng.u8(..)).collect()
}
