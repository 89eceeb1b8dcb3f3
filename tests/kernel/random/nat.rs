// SPDX-License-Identifier: Apache-2.0

//! Scenarios of NAT by chance: a few flows, rules that translate them, and packets in both
//! directions that are likely to belong to them, with ICMP errors, clashes and packets that fit
//! nothing in between.
//!
//! No packet goes to an address without a neighbour, and none leaves where it came in, since the
//! kernel would then ask or tell on its own.

use fastrand::Rng;
use penstock_testkit::Chance;
use penstock_wire::protocol;

use crate::chance::crc;
use crate::frame::{Frame, Mac, bare, ethernet};
use crate::net::{CLIENT, DMZ, GATEWAY, LAN, NET, SERVER, WAN};
use crate::scenario::Scenario;

/// More neighbours, and more addresses for the router.
pub fn net() -> String {
    let mut net = NET.to_owned();
    for n in 11..14 {
        net +=
            &format!("neigh add 2001:db8:1::{n} lladdr 02:00:00:00:01:{n} dev lan nud permanent\n");
    }
    for n in 12..14 {
        net += &format!("neigh add 198.18.0.{n} lladdr 02:00:00:00:01:{n} dev lan nud permanent\n");
    }
    for n in 21..24 {
        net += &format!("neigh add 198.18.5.{n} lladdr 02:00:00:00:05:{n} dev dmz nud permanent\n");
        net +=
            &format!("neigh add 2001:db8:5::{n} lladdr 02:00:00:00:05:{n} dev dmz nud permanent\n");
    }
    net += "neigh add 2001:db8:2::3 lladdr 02:00:00:00:02:03 dev wan nud permanent\n";
    net += "addr add 198.19.0.50/24 dev wan\naddr add 198.19.0.51/32 dev wan\n";
    net += "addr add 2001:db8:2::50/64 dev wan nodad\naddr add 2001:db8:2::51/128 dev wan nodad\n";
    net + "link set lo up\n"
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    use Kind::*;
    with(&format!("random_nat_{seed}"), seed, &[Udp, Udp, Tcp, Tcp, Echo, UdpLite, Other])
}

/// The scenario of a seed with rarer protocols that have ports.
pub fn rare(seed: u64) -> Scenario {
    with(&format!("random_rare_nat_{seed}"), seed, &[Kind::Sctp, Kind::Sctp, Kind::UdpLite])
}

/// A scenario with flows of these kinds.
fn with(name: &str, seed: u64, kinds: &'static [Kind]) -> Scenario {
    let mut g = Generator { rng: Rng::with_seed(seed), kinds, flows: vec![] };
    let rules = g.ruleset();
    let mut s = Scenario::new(name, &net(), &rules);
    for _ in 0..g.rng.usize(2..8) {
        let flow = g.flow();
        g.flows.push(flow);
    }
    for _ in 0..g.rng.usize(20..60) {
        let (source, bytes) = g.frame();
        s.frames.push((source, bytes));
    }
    s
}

#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Lan,
    Wan,
    Dmz,
    Host,
}

impl Side {
    pub fn device(self) -> &'static str {
        match self {
            Side::Lan => "lan",
            Side::Wan => "wan",
            Side::Dmz => "dmz",
            Side::Host => "host",
        }
    }

    pub fn macs(self) -> (Mac, Mac) {
        match self {
            Side::Lan => (LAN, CLIENT),
            Side::Wan | Side::Host => (WAN, GATEWAY),
            Side::Dmz => (DMZ, SERVER),
        }
    }

    pub fn addresses(self, six: bool) -> &'static [&'static str] {
        match (self, six) {
            (Side::Lan, false) => &["198.18.0.10", "198.18.0.11", "198.18.0.12"],
            (Side::Wan, false) => &["198.19.0.2", "198.19.0.3", "198.19.77.7"],
            (Side::Dmz, false) => &["198.18.5.20", "198.18.5.21", "198.18.5.22"],
            (Side::Host, false) => &["198.19.0.1", "198.19.0.50", "198.18.5.1", "198.18.0.1"],
            (Side::Lan, true) => &["2001:db8:1::10", "2001:db8:1::11", "2001:db8:1::12"],
            (Side::Wan, true) => &["2001:db8:2::2", "2001:db8:2::3", "2001:db8:777::7"],
            (Side::Dmz, true) => &["2001:db8:5::20", "2001:db8:5::21", "2001:db8:5::22"],
            (Side::Host, true) => {
                &["2001:db8:2::1", "2001:db8:2::50", "2001:db8:5::1", "2001:db8:1::1"]
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Udp,
    Tcp,
    Echo,
    UdpLite,
    Sctp,
    Other,
}

/// What the first packet of a flow is.
#[derive(Clone, Copy)]
struct Flow {
    six: bool,
    kind: Kind,
    from: Side,
    source: &'static str,
    to: Side,
    destination: &'static str,
    sport: u16,
    dport: u16,
}

const CLIENT_PORTS: [u16; 5] = [4000, 4000, 4001, 5353, 40000];
const SERVER_PORTS: [u16; 4] = [5300, 8000, 4430, 8080];

struct Generator {
    rng: Rng,
    kinds: &'static [Kind],
    flows: Vec<Flow>,
}

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Generator {
    // ---- rules ----

    fn ruleset(&mut self) -> String {
        let mut text = String::new();
        for family in ["ip", "ip6", "inet"] {
            if !self.one_in(3) {
                text += &self.table(family);
            }
        }
        if text.is_empty() {
            text += &self.table("inet");
        }
        text + &self.witnesses()
    }

    fn table(&mut self, family: &str) -> String {
        let mut text = format!("table {family} n {{\n");
        let sub = self.one_in(4);
        if sub {
            text += "\tchain sub {\n";
            for _ in 0..self.rng.usize(1..3) {
                text += &format!("\t\t{} counter\n", self.condition(family, "sub"));
            }
            text += "\t}\n";
        }
        for (n, hook) in
            ["prerouting", "postrouting", "postrouting", "output", "input"].iter().enumerate()
        {
            if self.one_in(3) {
                continue;
            }
            let priority = self.pick(&[-150, -100, 0, 0, 5, 100, 150]);
            let policy = if self.one_in(15) { "drop" } else { "accept" };
            text += &format!(
                "\tchain c{n} {{\n\t\ttype nat hook {hook} priority {priority}; policy {policy};\n"
            );
            for _ in 0..self.rng.usize(1..5) {
                let condition = self.condition(family, hook);
                let statement = match self.rng.u8(..12) {
                    0 => "accept".into(),
                    1 => "return".into(),
                    2 if self.one_in(3) => "drop".into(),
                    3 => String::new(),
                    4 if sub => "jump sub".into(),
                    _ => self.translation(family, hook, &condition),
                };
                text += &format!("\t\t{condition} counter {statement}\n");
            }
            text += "\t}\n";
        }
        text + "}\n"
    }

    fn condition(&mut self, family: &str, hook: &str) -> String {
        let mut list: Vec<String> = vec![
            "meta l4proto udp".into(),
            "meta l4proto tcp".into(),
            "meta l4proto { tcp, udp }".into(),
            "udp dport 5300".into(),
            "tcp dport { 8000, 4430 }".into(),
            "th dport { 5300, 8080 }".into(),
            "udp sport 4000".into(),
            "meta l4proto { icmp, ipv6-icmp }".into(),
        ];
        match family {
            "ip" => list.extend([
                "ip saddr 198.18.0.0/24".into(),
                "ip saddr 198.18.0.10".into(),
                "ip daddr 198.19.0.1".into(),
                "ip daddr 198.19.0.0/16".into(),
            ]),
            "ip6" => list.extend([
                "ip6 saddr 2001:db8:1::/64".into(),
                "ip6 daddr { 2001:db8:2::1, 2001:db8:2::2 }".into(),
            ]),
            _ => {}
        }
        let device = match hook {
            "prerouting" => self.pick(&["iifname lan", "iifname wan", "iifname dmz"]),
            "postrouting" | "output" => self.pick(&["oifname wan", "oifname dmz", "oifname lan"]),
            _ => "",
        };
        let n = self.rng.usize(..list.len());
        match self.rng.u8(..4) {
            0 => device.to_owned(),
            1 => format!("{device} {}", list[n]),
            2 => list[n].clone(),
            _ => String::new(),
        }
    }

    fn translation(&mut self, family: &str, hook: &str, condition: &str) -> String {
        // Ports need a transport protocol, and that of a condition is the only one.
        let words = ["meta l4proto udp", "meta l4proto tcp", "meta l4proto { tcp", "udp ", "tcp "];
        let ports = words.iter().any(|w| condition.contains(w));
        let port = match (ports, self.rng.u8(..4)) {
            (true, 0) => format!(":{}", self.pick(&[4000, 4001, 8080, 7777])),
            (true, 1) => format!(":{}", self.pick(&["20000-30000", "1024-65535"])),
            _ => String::new(),
        };
        let six = match family {
            "ip" => false,
            "ip6" => true,
            _ => self.rng.bool(),
        };
        let address = |text: &str, port: &str| match (six, port.is_empty()) {
            (true, false) => format!("[{text}]{port}"),
            _ => format!("{text}{port}"),
        };
        let word = match (family, six) {
            ("inet", false) => "ip ",
            ("inet", true) => "ip6 ",
            _ => "",
        };
        let flags = match self.rng.u8(..8) {
            0 => " random",
            1 => " fully-random",
            2 => " persistent",
            _ => "",
        };
        match hook {
            "postrouting" => {
                let own = if six {
                    self.pick(&[
                        "2001:db8:2::1",
                        "2001:db8:2::50",
                        "2001:db8:2::51",
                        "2001:db8:5::1",
                    ])
                } else {
                    self.pick(&["198.19.0.1", "198.19.0.50", "198.19.0.51", "198.18.5.1"])
                };
                match self.rng.u8(..4) {
                    0 | 1 if port.is_empty() => format!("masquerade{flags}"),
                    0 | 1 => format!("masquerade to {port}{flags}"),
                    2 => {
                        let range = if six {
                            "2001:db8:2::50-2001:db8:2::51"
                        } else {
                            "198.19.0.50-198.19.0.51"
                        };
                        let port = if six { "" } else { &port };
                        format!("snat {word}to {range}{port}{flags}")
                    }
                    _ => format!("snat {word}to {}{flags}", address(own, &port)),
                }
            }
            "input" => {
                let other = if six { "2001:db8:1::13" } else { "198.18.0.13" };
                format!("snat {word}to {}{flags}", address(other, &port))
            }
            _ => {
                let flags = if flags == " random" || flags == " fully-random" { "" } else { flags };
                let redirect = self.one_in(4);
                if redirect {
                    return match port.as_str() {
                        "" => format!("redirect{flags}"),
                        port => format!("redirect to {port}{flags}"),
                    };
                }
                // Never back to where packets come from.
                let (guard, to) = match (hook, self.rng.u8(..3)) {
                    ("output", _) | (_, 0 | 1) => {
                        let to = match (six, self.one_in(3)) {
                            (false, false) => "198.18.5.20",
                            (true, false) => "2001:db8:5::20",
                            (false, true) => "198.18.5.20-198.18.5.22",
                            (true, true) => "2001:db8:5::20-2001:db8:5::22",
                        };
                        ("dmz", to)
                    }
                    _ => ("lan", if six { "2001:db8:1::12" } else { "198.18.0.12" }),
                };
                let port = if six && to.contains('-') { "" } else { &port };
                let target =
                    if to.contains('-') { format!("{to}{port}") } else { address(to, port) };
                let guard =
                    if hook == "output" { String::new() } else { format!("iifname != {guard} ") };
                format!("{guard}dnat {word}to {target}{flags}")
            }
        }
    }

    /// Chains that count what they see, before NAT and after it.
    fn witnesses(&mut self) -> String {
        let mut text = String::from("table inet witness {\n");
        for (hook, priorities) in [
            ("prerouting", [-150, -100, -50]),
            ("forward", [0, 0, 10]),
            ("postrouting", [50, 100, 150]),
            ("input", [50, 100, 150]),
            ("output", [-150, -100, 0]),
        ] {
            if self.one_in(2) {
                continue;
            }
            let priority = self.pick(&priorities);
            text +=
                &format!("\tchain {hook} {{\n\t\ttype filter hook {hook} priority {priority};\n");
            for _ in 0..self.rng.usize(1..4) {
                let condition = self.pick(&[
                    "ip saddr 198.18.0.0/24",
                    "ip saddr 198.19.0.0/24",
                    "ip daddr 198.18.5.0/24",
                    "ip6 saddr 2001:db8:1::/64",
                    "ip6 daddr 2001:db8:5::/64",
                    "th dport { 5300, 8080 }",
                    "udp checksum 0",
                    "icmp type echo-request",
                ]);
                let verdict = if self.one_in(12) { "drop" } else { "" };
                text += &format!("\t\t{condition} counter {verdict}\n");
            }
            if self.one_in(8) {
                text += &format!(
                    "\t\tcounter {}\n",
                    self.pick(&[
                        "udp dport 4430 udp dport set 5300",
                        "ip dscp set 8",
                        "udp checksum set 0"
                    ])
                );
            }
            text += "\t}\n";
        }
        text + "}\n"
    }

    // ---- packets ----

    fn flow(&mut self) -> Flow {
        let six = self.one_in(3);
        let from = self.pick(&[Side::Lan, Side::Lan, Side::Lan, Side::Wan, Side::Dmz, Side::Host]);
        let to = loop {
            let to = self.pick(&[Side::Wan, Side::Wan, Side::Host, Side::Dmz, Side::Lan]);
            if to != from && !(from == Side::Wan && to == Side::Wan) {
                break to;
            }
        };
        let kind = self.pick(self.kinds);
        let source = self.pick(from.addresses(six));
        let destination = self.pick(to.addresses(six));
        Flow {
            six,
            kind,
            from,
            source,
            to,
            destination,
            sport: self.pick(&CLIENT_PORTS),
            dport: self.pick(&SERVER_PORTS),
        }
    }

    fn layer(&self, frame: Frame, six: bool, from: &str, to: &str) -> Frame {
        if six { frame.ip6(from, to) } else { frame.ip4(from, to) }
    }

    /// The transport of a packet of a flow.
    fn upper(&mut self, f: Frame, flow: &Flow, sport: u16, dport: u16, reply: bool) -> Frame {
        let len = self.rng.usize(..30);
        match flow.kind {
            Kind::Udp => {
                let f = f.udp(sport, dport);
                if self.one_in(6) && !flow.six { f.patch(6, &[0, 0]) } else { f }.zeros(len)
            }
            Kind::Tcp => {
                let (flags, seq, ack) = match (reply, self.rng.u8(..8)) {
                    (false, 0..=3) => (2, 100, 0),
                    (true, 0..=3) => (0x12, 500, 101),
                    (false, 4 | 5) => (0x10, 101, 501),
                    (true, 4 | 5) => (0x10, 501, 101),
                    (false, 6) => (0x11, 101, 501),
                    (true, 6) => (0x11, 501, 101),
                    (false, _) => (4, 101, 0),
                    (true, _) => (0x14, 501, 101),
                };
                f.tcp(sport, dport)
                    .set(4, &u32::to_be_bytes(seq))
                    .set(8, &u32::to_be_bytes(ack))
                    .flags(flags)
            }
            Kind::Echo => {
                let id = if reply { dport } else { sport };
                let rest = u32::from(id) << 16 | u32::from(self.rng.u8(..3));
                match (flow.six, reply) {
                    (false, false) => f.icmp(8, 0, rest).zeros(len),
                    (false, true) => f.icmp(0, 0, rest).zeros(len),
                    (true, false) => f.icmp6(128, 0, rest).zeros(len),
                    (true, true) => f.icmp6(129, 0, rest).zeros(len),
                }
            }
            Kind::UdpLite => {
                let f = f.udplite(sport, dport);
                // How much the checksum covers.
                let f = if self.one_in(3) { f.patch(4, &[0, 8]) } else { f };
                let f = if self.one_in(6) { f.patch(6, &[0, 0]) } else { f };
                f.zeros(len)
            }
            Kind::Sctp => f.transport(protocol::SCTP, &self.sctp(sport, dport, reply)),
            Kind::Other => f.protocol(253).zeros(len),
        }
    }

    /// An SCTP packet of one chunk, mostly one that opens an association; the tags are those that
    /// the ends offered.
    fn sctp(&mut self, sport: u16, dport: u16, reply: bool) -> Vec<u8> {
        let (own, other): (u32, u32) = if reply { (0x22, 0x11) } else { (0x11, 0x22) };
        let kinds = if reply { [2, 2, 11, 3, 0, 8, 5] } else { [1, 1, 10, 0, 0, 7, 4] };
        let kind = if self.one_in(15) { self.pick(&[6, 9, 14, 64]) } else { self.pick(&kinds) };
        let tag = if kind == 1 { 0 } else { other };
        let mut chunk = vec![kind, 0, 0, 20];
        chunk.extend(own.to_be_bytes());
        chunk.extend([0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 9]);
        let mut packet = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
        packet.extend([tag.to_be_bytes(), [0; 4]].concat());
        packet.extend(chunk);
        let crc = crc(&packet);
        packet[8..12].copy_from_slice(&crc);
        packet
    }

    /// Ends that a flow may have on the far side: what rules translate to, and what it has itself.
    fn far_ends(&mut self, flow: &Flow) -> ((Side, &'static str), (&'static str, u16), u16) {
        let (mut server, mut client) = ((flow.to, flow.destination), flow.source);
        let (mut sport, mut dport) = (flow.sport, flow.dport);
        if flow.from != Side::Dmz && (self.one_in(3) || flow.to == Side::Host && self.one_in(2)) {
            server = (
                Side::Dmz,
                match (flow.six, self.one_in(2)) {
                    (false, false) => "198.18.5.20",
                    (true, false) => "2001:db8:5::20",
                    (false, true) => "198.18.5.21",
                    (true, true) => "2001:db8:5::21",
                },
            );
        }
        if !self.one_in(3) {
            let own: &[&'static str] = if flow.six {
                &["2001:db8:2::1", "2001:db8:2::50", "2001:db8:2::51", "2001:db8:5::1"]
            } else {
                &["198.19.0.1", "198.19.0.50", "198.19.0.51", "198.18.5.1"]
            };
            client = match server.0 {
                Side::Wan if !self.one_in(4) => own[0],
                Side::Dmz if !self.one_in(4) => own[3],
                _ => self.pick(own),
            };
        }
        if self.one_in(5) {
            dport = self.pick(&[8080, 7777, 20000]);
        }
        if self.one_in(5) {
            sport = self.pick(&[4000, 4001, 7777]);
        }
        (server, (client, sport), dport)
    }

    fn frame(&mut self) -> (String, Vec<u8>) {
        let flow = if self.flows.is_empty() || self.one_in(12) {
            self.flow()
        } else {
            let n = self.rng.usize(..self.flows.len());
            self.flows[n]
        };
        let begin = |side: Side| {
            if side == Side::Host {
                return bare();
            }
            let (to, from) = side.macs();
            ethernet(to, from)
        };
        match self.rng.u8(..8) {
            // There.
            0..=3 => {
                let f = self.layer(begin(flow.from), flow.six, flow.source, flow.destination);
                let f = if self.one_in(40) && flow.from != Side::Host { f.ttl(1) } else { f };
                let f = if flow.six && self.one_in(12) && flow.to != Side::Host {
                    f.extension(60, &[0; 6])
                } else {
                    f
                };
                let f = self.upper(f, &flow, flow.sport, flow.dport, false);
                (flow.from.device().into(), self.damaged(f, &flow))
            }
            // And back.
            4..=6 => {
                let ((side, server), (client, sport), dport) = self.far_ends(&flow);
                if side == Side::Host && flow.to != Side::Host {
                    return self.frame();
                }
                let f = self.layer(begin(side), flow.six, server, client);
                let f = self.upper(f, &flow, dport, sport, true);
                (side.device().into(), self.damaged(f, &flow))
            }
            // Something is wrong on the way, or at the far end.
            _ => {
                let ((side, server), (client, sport), dport) = self.far_ends(&flow);
                if side == Side::Host {
                    return self.frame();
                }
                let quoted = self.layer(bare(), flow.six, client, server);
                let quoted = self.upper(quoted, &flow, sport, dport, false).bytes();
                let shortest = if flow.six { 48 } else { 28 };
                let len = self.rng.usize(shortest..=quoted.len().max(shortest)).min(quoted.len());
                let from = match (self.one_in(2), flow.six) {
                    (true, _) => server,
                    (false, false) => self.pick(Side::addresses(side, false)),
                    (false, true) => self.pick(Side::addresses(side, true)),
                };
                let f = self.layer(begin(side), flow.six, from, client);
                let f = if flow.six {
                    let (kind, code) = self.pick(&[(1, 4), (1, 0), (2, 0), (3, 0), (4, 1)]);
                    f.icmp6(kind, code, if kind == 2 { 1280 } else { 0 })
                } else {
                    let (kind, code) =
                        self.pick(&[(3, 1), (3, 3), (3, 4), (11, 0), (12, 0), (5, 1)]);
                    f.icmp(kind, code, if code == 4 { 1200 } else { 0 })
                };
                (side.device().into(), f.data(&quoted[..len]).bytes())
            }
        }
    }

    /// Now and then a byte of the transport part is wrong.
    fn damaged(&mut self, f: Frame, flow: &Flow) -> Vec<u8> {
        let mut bytes = f.bytes();
        // Others may end with their addresses.
        if flow.kind != Kind::Other && self.one_in(25) {
            let at = bytes.len() - 1 - self.rng.usize(..bytes.len().min(8));
            bytes[at] ^= 1 << self.rng.u8(..8);
        }
        bytes
    }
}
