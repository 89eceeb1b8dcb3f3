// SPDX-License-Identifier: Apache-2.0

//! Scenarios of connection tracking by chance: a few flows of several packets, mostly as their
//! protocols want them and sometimes not, fragments and ICMP errors in between, and rules that ask
//! for what is known of connections.
//!
//! As in `nat`, no packet goes to an address without a neighbour, and none leaves where it
//! came in.

use fastrand::Rng;
use penstock_testkit::Chance;

use super::nat::{Side, net};
use crate::frame::{Frame, bare, ethernet};
use crate::scenario::Scenario;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut g = Generator { rng: Rng::with_seed(seed), flows: vec![], sent: vec![], id: 0 };
    let rules = g.ruleset();
    let mut s = Scenario::new(&format!("random_ct_{seed}"), &net(), &rules);
    s.at_once = true;
    if g.one_in(3) {
        s = s.sysctl("net.netfilter.nf_conntrack_tcp_loose", g.rng.u32(..2));
    }
    if g.one_in(4) {
        s = s.sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", 1);
    }
    if g.one_in(4) {
        s = s.sysctl("net.netfilter.nf_conntrack_acct", 1);
    }
    for _ in 0..g.rng.usize(2..8) {
        let flow = g.flow();
        g.flows.push(flow);
    }
    let count = g.rng.usize(15..60);
    while s.frames.len() < count {
        s.frames.extend(g.frames());
    }
    s
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tcp,
    Udp,
    Echo,
    Other,
}

/// The two ends of a flow, the one that begins first, and how far it has come.
#[derive(Clone, Copy)]
struct Flow {
    six: bool,
    kind: Kind,
    sides: [Side; 2],
    addresses: [&'static str; 2],
    ports: [u16; 2],
    /// Steps of the life of a TCP connection done so far.
    step: u32,
    /// Next sequence number of each end.
    next: [u32; 2],
    /// Both ends offered window scaling.
    scaled: bool,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

const PORTS: [u16; 6] = [53, 80, 4000, 4001, 5300, 40000];

struct Generator {
    rng: Rng,
    flows: Vec<Flow>,
    /// Packets sent, from the IP header on, with their flow and the end that sent them.
    sent: Vec<(usize, usize, Vec<u8>)>,
    id: u16,
}

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Generator {
    // ---- rules ----

    fn ruleset(&mut self) -> String {
        let mut text = String::from("table inet t {\n");
        if self.one_in(3) {
            text += "\tchain early {\n\t\ttype filter hook prerouting priority -450;\n\t\tcounter\n\t\tip frag-off & 0x3fff != 0 counter\n\t}\n";
        }
        if self.one_in(3) {
            text += "\tchain raw {\n\t\ttype filter hook prerouting priority raw;\n";
            for _ in 0..self.rng.usize(1..3) {
                let (what, port) = (
                    self.pick(&["notrack", "ct zone set 5", "ct original zone set 6"]),
                    self.pick(&PORTS),
                );
                let side = self.pick(&["sport", "dport"]);
                text += &format!("\t\tudp {side} {port} counter {what}\n");
            }
            text += "\t}\n";
        }
        for (hook, chance) in
            [("prerouting", 2), ("input", 2), ("forward", 1), ("output", 2), ("postrouting", 2)]
        {
            if !self.one_in(chance) && chance > 1 {
                continue;
            }
            let priority = self.pick(&["0", "mangle", "-190", "filter + 10", "200"]);
            text +=
                &format!("\tchain {hook} {{\n\t\ttype filter hook {hook} priority {priority};\n");
            for _ in 0..self.rng.usize(3..9) {
                text += &format!("\t\t{}\n", self.rule(hook));
            }
            text += "\t}\n";
        }
        text + "}\n"
    }

    fn rule(&mut self, hook: &str) -> String {
        let mut rule = String::new();
        for _ in 0..self.rng.usize(1..3) {
            rule += &self.matching();
            rule.push(' ');
        }
        rule += "counter";
        let last = match self.rng.u32(..14) {
            0 => " drop",
            1 => " accept",
            // Not at output: a reset of the host carries half a checksum there in the kernel, which
            // an answer would quote.
            2 if matches!(hook, "input" | "forward") => " reject",
            3 if matches!(hook, "input" | "forward") => {
                let state = self.pick(&["new", "established", "invalid"]);
                return format!("meta l4proto tcp ct state {state} counter reject with tcp reset");
            }
            4 => " ct mark set 0x7",
            5 => " ct mark set ct mark xor 0x11",
            6 => " ct mark set meta mark",
            7 => " meta mark set ct mark",
            8 => " meta mark set 0x3",
            _ => "",
        };
        rule + last
    }

    fn matching(&mut self) -> String {
        let port = self.pick(&PORTS);
        match self.rng.u32(..20) {
            0..6 => {
                let states = [
                    "new",
                    "established",
                    "related",
                    "invalid",
                    "untracked",
                    "established,related",
                    "{ new, invalid }",
                    "!= established",
                ];
                format!("ct state {}", self.pick(&states))
            }
            6 => format!("ct direction {}", self.pick(&["original", "reply"])),
            7 => format!(
                "ct status {}",
                self.pick(&["seen-reply", "assured", "confirmed", "!= 0", "expected"])
            ),
            8 => format!("ct mark {}", self.pick(&["0", "0x7", "0x11", "!= 0", "& 0x1 == 1"])),
            9 => format!("meta mark {}", self.pick(&["0", "0x3", "0x7"])),
            10 => format!("meta l4proto tcp ct original proto-dst {port}"),
            11 => format!("meta l4proto udp ct reply proto-src {port}"),
            12 => "ct original ip saddr 198.18.0.10".into(),
            13 => "ct reply ip6 daddr 2001:db8:1::10".into(),
            14 => format!("ct protocol {}", self.pick(&["tcp", "udp", "icmp", "ipv6-icmp"])),
            15 => format!("ct l3proto {}", self.pick(&["ipv4", "ipv6"])),
            16 => format!("meta l4proto {}", self.pick(&["tcp", "udp", "icmp"])),
            17 => format!("th dport {port}"),
            18 => format!("tcp flags {}", self.pick(&["syn", "rst", "fin", "psh"])),
            _ => format!("ct zone {}", self.pick(&["0", "5", "6"])),
        }
    }

    // ---- packets ----

    fn flow(&mut self) -> Flow {
        let from = self.pick(&[Side::Lan, Side::Lan, Side::Wan, Side::Dmz, Side::Host]);
        let to = loop {
            let to = self.pick(&[Side::Lan, Side::Wan, Side::Wan, Side::Dmz, Side::Host]);
            if to != from {
                break to;
            }
        };
        let six = self.one_in(3);
        let kind = self.pick(&[
            Kind::Tcp,
            Kind::Tcp,
            Kind::Tcp,
            Kind::Udp,
            Kind::Udp,
            Kind::Echo,
            Kind::Other,
        ]);
        Flow {
            six,
            kind,
            sides: [from, to],
            addresses: [self.pick(from.addresses(six)), self.pick(to.addresses(six))],
            ports: [self.pick(&PORTS), self.pick(&PORTS)],
            step: 0,
            next: [self.rng.u32(..), self.rng.u32(..)],
            scaled: self.one_in(2),
        }
    }

    /// The next frames: those of one packet.
    fn frames(&mut self) -> Vec<(String, Vec<u8>)> {
        let n = self.rng.usize(..self.flows.len());
        if self.one_in(10) && !self.sent.is_empty() {
            return vec![self.error()];
        }
        if self.one_in(12) && !self.sent.is_empty() {
            return vec![self.again()];
        }
        let mut flow = self.flows[n];
        let (end, frame) = match flow.kind {
            Kind::Tcp => self.segment(&mut flow),
            Kind::Udp => {
                let end = usize::from(self.one_in(2));
                let len =
                    if self.one_in(4) { self.rng.usize(100..3000) } else { self.rng.usize(..40) };
                let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
                (end, self.head(&flow, end).udp(flow.ports[end], flow.ports[1 - end]).data(&data))
            }
            Kind::Echo => {
                let end = usize::from(self.one_in(3));
                let rest = u32::from(flow.ports[0]) << 16 | self.rng.u32(..3);
                let head = self.head(&flow, end);
                let frame = match (flow.six, end) {
                    (false, 0) => head.icmp(8, 0, rest),
                    (false, _) => head.icmp(0, 0, rest),
                    (true, 0) => head.icmp6(128, 0, rest),
                    (true, _) => head.icmp6(129, 0, rest),
                };
                (end, frame.data(b"echo"))
            }
            Kind::Other => {
                let end = usize::from(self.one_in(2));
                (end, self.head(&flow, end).transport(50, &[0, 0, 1, 0, 0, 0, 0, 5, 1, 2, 3, 4]))
            }
        };
        self.flows[n] = flow;
        let bytes = frame.bytes();
        let source = flow.sides[end].device();
        let link = if flow.sides[end] == Side::Host { 0 } else { 14 };
        self.sent.push((n, end, bytes[link..].to_vec()));
        if flow.kind == Kind::Udp && flow.sides[end] != Side::Host && bytes.len() > 300 {
            return self.pieces(&flow, end, &bytes);
        }
        // Longer than a wire takes: the host's own limits are another matter.
        if bytes.len() > 1200 {
            return vec![];
        }
        vec![(source.to_owned(), bytes)]
    }

    /// Headers up to IP, from one end to the other.
    fn head(&mut self, flow: &Flow, end: usize) -> Frame {
        let side = flow.sides[end];
        let (to, from) = side.macs();
        let frame = if side == Side::Host { bare() } else { ethernet(to, from) };
        let (source, destination) = (flow.addresses[end], flow.addresses[1 - end]);
        self.id += 1;
        let frame = if flow.six {
            frame.ip6(source, destination)
        } else {
            frame.ip4(source, destination).id(self.id)
        };
        if side != Side::Host && self.one_in(40) { frame.ttl(1) } else { frame }
    }

    /// The next segment of a TCP connection, or one that is not.
    fn segment(&mut self, flow: &mut Flow) -> (usize, Frame) {
        let (mut end, mut flags, mut data) = match flow.step {
            0 => (0, SYN, 0),
            1 => (1, SYN | ACK, 0),
            2 => (0, ACK, 0),
            3..9 => {
                let end = usize::from(self.one_in(2));
                if self.one_in(2) {
                    (end, PSH | ACK, self.rng.usize(1..400))
                } else {
                    (end, ACK, 0)
                }
            }
            9 => (usize::from(self.one_in(2)), FIN | ACK, 0),
            10 => (usize::from(self.one_in(2)), ACK, 0),
            11 => (usize::from(self.one_in(2)), FIN | ACK, 0),
            12 => (usize::from(self.one_in(2)), ACK, 0),
            _ => (usize::from(self.one_in(2)), self.pick(&[ACK, SYN, RST, FIN | ACK]), 0),
        };
        let (mut seq, mut ack) = (flow.next[end], flow.next[1 - end]);
        if self.one_in(6) {
            match self.rng.u32(..9) {
                0 => flags = RST,
                1 => flags = RST | ACK,
                2 => seq = seq.wrapping_add(self.rng.u32(..200_000)),
                3 => seq = seq.wrapping_sub(self.rng.u32(..200_000)),
                4 => ack = ack.wrapping_add(self.rng.u32(..100_000)),
                5 => flags = self.rng.u8(..64),
                6 => {
                    end = 1 - end;
                    (seq, ack) = (ack, seq);
                }
                7 => data += 100,
                _ => flow.step += self.rng.u32(..4),
            }
        } else {
            flow.next[end] =
                seq.wrapping_add(data as u32).wrapping_add(u32::from(flags & (SYN | FIN) != 0));
            flow.step += 1;
        }
        let ack = if flags & ACK != 0 { ack } else { 0 };
        let window: u16 = self.pick(&[0x2000, 0xffff, 500, 0, 0x7000]);
        let mut frame = self
            .head(flow, end)
            .tcp(flow.ports[end], flow.ports[1 - end])
            .flags(flags)
            .set(4, &seq.to_be_bytes())
            .set(8, &ack.to_be_bytes())
            .set(14, &window.to_be_bytes());
        if flags & SYN != 0 {
            frame = if flow.scaled {
                frame.tcp_options(&[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7])
            } else {
                frame.tcp_options(&[2, 4, 5, 0xb4])
            };
        }
        (end, if data > 0 { frame.zeros(data) } else { frame })
    }

    /// A packet in fragments, not always in order and not always all of them.
    fn pieces(&mut self, flow: &Flow, end: usize, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        let start = if flow.six { 14 + 40 } else { 14 + 20 };
        let payload = &bytes[start..];
        let size = self.rng.usize(10..140) * 8;
        let id = u16::from_be_bytes([bytes[14 + 4], bytes[14 + 5]]);
        let six_id = self.rng.u32(..);
        let side = flow.sides[end];
        let (to, from) = side.macs();
        let (source, destination) = (flow.addresses[end], flow.addresses[1 - end]);
        let mut out = vec![];
        for (i, piece) in payload.chunks(size).enumerate() {
            let (at, more) = ((i * size / 8) as u16, (i + 1) * size < payload.len());
            let frame = if flow.six {
                ethernet(to, from).ip6(source, destination).fragment6(at, more, six_id)
            } else {
                ethernet(to, from).ip4(source, destination).id(id).fragment(at, more)
            };
            out.push((side.device().to_owned(), frame.protocol(17).data(piece).bytes()));
        }
        match self.rng.u32(..5) {
            0 => self.rng.shuffle(&mut out),
            1 => {
                let one = self.rng.usize(..out.len());
                let twice = out[one].clone();
                out.insert(self.rng.usize(..=out.len()), twice);
            }
            2 => drop(out.pop()),
            _ => {}
        }
        out
    }

    /// An ICMP error about a packet that was sent, from the other end.
    fn error(&mut self) -> (String, Vec<u8>) {
        let (n, end, packet) = self.sent[self.rng.usize(..self.sent.len())].clone();
        let flow = self.flows[n];
        let end = if self.one_in(6) { end } else { 1 - end };
        let quote = &packet[..packet.len().min(if self.one_in(5) { 30 } else { 200 })];
        let head = self.head(&flow, end);
        let frame = if flow.six {
            let (kind, code) = self.pick(&[(1, 4), (1, 1), (2, 0), (3, 0), (4, 1)]);
            head.icmp6(kind, code, if kind == 2 { 1280 } else { 0 })
        } else {
            let (kind, code) = self.pick(&[(3, 3), (3, 1), (3, 4), (11, 0), (12, 0)]);
            head.icmp(kind, code, 0)
        };
        (flow.sides[end].device().to_owned(), frame.data(quote).bytes())
    }

    /// A packet that was sent before, once more.
    fn again(&mut self) -> (String, Vec<u8>) {
        let (n, end, packet) = self.sent[self.rng.usize(..self.sent.len())].clone();
        let side = self.flows[n].sides[end];
        if side == Side::Host {
            // Longer than the device takes, it would be refused before anything is done.
            return if packet.len() > 1200 {
                self.error()
            } else {
                (side.device().to_owned(), packet)
            };
        }
        let (to, from) = side.macs();
        let kind: [u8; 2] = if self.flows[n].six { [0x86, 0xdd] } else { [8, 0] };
        let mut bytes = [&to[..], &from, &kind, &packet].concat();
        bytes.truncate(1300);
        (side.device().to_owned(), bytes)
    }
}
