// SPDX-License-Identifier: Apache-2.0

//! Scenarios of fragments by chance: packets cut anywhere and sent in any order, with pieces that
//! overlap, are missing, come twice, are cut off, lie about what follows, or reach beyond the
//! largest packet; several packets at a time, possibly with the same identification. Connection
//! tracking puts them together, and the way out cuts them again.

use fastrand::Rng;
use penstock_testkit::Chance;

use super::nat::{Side, net};
use crate::frame::{Frame, bare, ethernet};
use crate::scenario::Scenario;
use crate::sift::sift;

/// The scenario of a seed. Many packets, since what waits makes each scenario need a router of its
/// own.
pub fn scenario(seed: u64) -> Scenario {
    let mut g = Generator(Rng::with_seed(seed));
    let rules = sift(g.ruleset());
    let mut s = Scenario::new(&format!("random_fragments_{seed}"), &net(), &rules).at_once();
    let mut ahead: Vec<Vec<(String, Vec<u8>)>> = vec![];
    for _ in 0..g.0.usize(10..40) {
        ahead.push(g.pieces());
        // Pieces of some packets come between those of others.
        while ahead.len() > 3 || g.one_in(2) && !ahead.is_empty() {
            let which = g.0.usize(..ahead.len());
            let count = g.0.usize(1..5).min(ahead[which].len());
            s.frames.extend(ahead[which].drain(..count));
            ahead.retain(|pieces| !pieces.is_empty());
        }
    }
    s.frames.extend(ahead.into_iter().flatten());
    s
}

/// What is counted before reassembly, and after.
const EARLY: &[&str] = &[
    "ip frag-off & 0x1fff != 0",
    "ip frag-off & 0x2000 != 0",
    "ip frag-off & 0x4000 != 0",
    "exthdr frag exists",
    "frag frag-off 0",
    "frag frag-off > 10",
    "frag more-fragments 1",
    "frag id & 1 == 1",
    "meta l4proto udp",
    "meta l4proto 60",
    "udp dport 53",
    "th dport 53",
    "icmp type echo-request",
    "ip length > 100",
    "ip6 length > 100",
    "meta length > 200",
    "@th,0,16 53",
    "@th,64,8 0",
    "ip dscp ef",
    "ip ecn ce",
    "ip6 ecn ce",
    "dst hdrlength 0",
];

const LATE: &[&str] = &[
    "ct state new",
    "ct state established",
    "ct state invalid",
    "ct state untracked",
    "udp length > 100",
    "udp checksum 0",
    "tcp dport 80",
    "icmpv6 type echo-request",
];

struct Generator(Rng);

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.0
    }
}

impl Generator {
    // ---- rules ----

    fn ruleset(&mut self) -> String {
        let mut text = String::from("table inet t {\n");
        for (name, hook, priority) in [
            ("early", "prerouting", "-450"),
            ("raw", "prerouting", "raw"),
            ("pre", "prerouting", "0"),
            ("in", "input", "0"),
            ("thru", "forward", "0"),
            ("post", "postrouting", "100"),
        ] {
            let late = !matches!(name, "early" | "raw");
            if !(name == "thru" || self.one_in(2)) {
                continue;
            }
            text +=
                &format!("\tchain {name} {{\n\t\ttype filter hook {hook} priority {priority};\n");
            if name == "thru" {
                // What asks for connections makes them known.
                text += "\t\tct state new counter\n";
            }
            for _ in 0..self.0.usize(3..9) {
                let test = if late && self.one_in(2) { self.pick(LATE) } else { self.pick(EARLY) };
                text += &format!("\t\t{test} counter{}\n", self.rarely(name));
            }
            text += "\t}\n";
        }
        text += "}\n";
        if self.one_in(4) {
            let [nat, test] = [
                self.pick(&["masquerade", "snat ip to 198.19.0.50", "snat ip6 to 2001:db8:2::50"]),
                self.pick(&["oifname wan", "meta l4proto udp", "udp dport 53"]),
            ];
            text += &format!(
                "table inet n {{\n\tchain post {{\n\t\ttype nat hook postrouting priority 100;\n\t\t{test} {nat}\n\t}}\n}}\n"
            );
        }
        text + "table netdev d {\n\tchain out {\n\t\ttype filter hook egress device wan priority 0;\n\t\tip frag-off & 0x3fff != 0 counter\n\t\texthdr frag exists counter\n\t\tmeta length > 1000 counter\n\t}\n}\n"
    }

    fn rarely(&mut self, chain: &str) -> &'static str {
        match self.0.u8(..20) {
            0 => " drop",
            1 => " accept",
            2 if chain == "raw" || chain == "early" => " notrack",
            3 if chain == "thru" => " reject",
            4 => " ip dscp set cs1",
            5 => " ip6 dscp set cs1",
            6 if chain == "thru" => " udp dport set 99",
            _ => "",
        }
    }

    // ---- packets ----

    /// A packet in pieces.
    fn pieces(&mut self) -> Vec<(String, Vec<u8>)> {
        let six = self.one_in(2);
        let (from, to) = self.pick(&[
            (Side::Lan, Side::Wan),
            (Side::Lan, Side::Wan),
            (Side::Lan, Side::Dmz),
            (Side::Wan, Side::Lan),
            (Side::Lan, Side::Host),
        ]);
        // The far side would reassemble packets for the host after `input`.
        let (from, to) = if six && to == Side::Host { (Side::Lan, Side::Wan) } else { (from, to) };
        let (source, destination) = (from.addresses(six)[0], self.pick(to.addresses(six)));
        let len =
            self.pick(&[0, 8, 30, 100, 500, 1300, 1480, 2000, 3000, 5000]) + self.0.usize(..9);
        let data: Vec<u8> = (0..len).map(|i| (i / 8) as u8).collect();
        let id = self.0.u32(1..4) + if self.one_in(2) { 0 } else { self.0.u32(..1000) };
        let (sport, dport) = (self.pick(&[53, 4000]), self.pick(&[53, 80]));
        let whole =
            if six { bare().ip6(source, destination) } else { bare().ip4(source, destination) };
        let whole = match self.0.u8(..8) {
            0 => whole.tcp(sport, dport).data(&data),
            1 if six => whole.icmp6(128, 0, 7).data(&data),
            1 => whole.icmp(8, 0, 7).data(&data),
            2 if six => whole.extension(60, &[0; 6]).udp(sport, dport).data(&data),
            3 => whole.udplite(sport, dport).data(&data),
            4 => whole.udp(sport, dport).patch(6, &[0, 0]).data(&data),
            _ => whole.udp(sport, dport).data(&data),
        };
        let bytes = whole.bytes();
        let (protocol, payload) =
            if six { (bytes[6], &bytes[40..]) } else { (bytes[9], &bytes[20..]) };
        let tos = if self.one_in(4) { self.pick(&[1, 2, 3, 0xb8]) } else { 0 };
        let df = self.one_in(6);
        // All pieces have them: with a longer header than its own, a piece needs room that its
        // buffer lacks over veth.
        let (options, extension) = (self.one_in(8), self.one_in(8));
        let (mac, own) = from.macs();
        let mut out: Vec<Frame> = vec![];
        let mut at = 0;
        let size = self.0.usize(1..150) * 8;
        while at < payload.len() || out.is_empty() {
            let size = if self.one_in(4) { self.0.usize(1..100) * 8 } else { size };
            let end = (at + size).min(payload.len());
            let (mut start, mut last, mut more) = (at, end, end < payload.len());
            if self.one_in(12) {
                match self.0.u8(..8) {
                    // Overlaps.
                    0 => start = start.saturating_sub(8),
                    1 => last = (last + 8).min(payload.len()),
                    // Not all of it, or not as said.
                    2 => last = start + (last - start) / 2,
                    3 => more = !more,
                    4 => last = start,
                    // Beyond the end of the largest packet.
                    5 => start = 65528,
                    _ => start += 8,
                }
            }
            let piece = payload.get(start..last.max(start)).unwrap_or(&[0; 24]);
            let units = (start / 8) as u16;
            let tos = if self.one_in(8) { self.pick(&[0, 1, 2, 3]) } else { tos };
            let frame = if six {
                let frame = ethernet(mac, own).ip6(source, destination);
                let frame = frame.set(0, &[0x60 | tos >> 4, tos << 4]);
                let frame = if extension { frame.extension(60, &[0; 6]) } else { frame };
                frame.fragment6(units, more, id)
            } else {
                let frame = ethernet(mac, own).ip4(source, destination).tos(tos).id(id as u16);
                let flags = u16::from(df) << 14 | u16::from(more) << 13;
                let frame = frame.set(6, &(flags | units & 0x1fff).to_be_bytes());
                if options { frame.ip_options(&[1, 1, 1, 0]) } else { frame }
            };
            let frame = if self.one_in(60) { frame.ttl(self.pick(&[1, 9])) } else { frame };
            let other = if self.one_in(40) { self.pick(&[6, 17, 253]) } else { protocol };
            out.push(frame.protocol(other).data(piece));
            at = end.max(at + 1);
        }
        match self.0.u8(..8) {
            0 | 1 => self.0.shuffle(&mut out),
            2 => out.reverse(),
            3 => {
                let one = out[self.0.usize(..out.len())].clone();
                out.insert(self.0.usize(..=out.len()), one);
            }
            4 => drop(out.remove(self.0.usize(..out.len()))),
            _ => {}
        }
        // Longer than a wire takes.
        let most = if from == Side::Dmz { 1300 } else { 1500 };
        let frames = out.iter().map(Frame::bytes).filter(|b| b.len() <= most + 14);
        frames.map(|b| (from.device().to_owned(), b)).collect()
    }
}
