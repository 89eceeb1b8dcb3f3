// SPDX-License-Identifier: Apache-2.0

//! Scenarios of flowtables by chance. The kernel gets the same rules without the flowtable: every
//! frame must be the same but for order among flows, and so must every connection and its counters,
//! and the counters of rules that no packet of a flowtable meets.
//!
//! Flows are UDP and TCP over IPv4 and IPv6, with and without translation, that are as their ends
//! would send them: what is invalid is translated by a flowtable and not by connection tracking. In
//! between are packets for the slow path: fragments, options, packets with an expiring TTL or that
//! do not fit the next wire, ICMP errors about what was sent; and connections that are closed,
//! reset and opened again.

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use super::nat::{Side, net};
use crate::frame::{Frame, ethernet};
use crate::scenario::Scenario;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut g =
        Generator { rng: Rng::with_seed(seed), masquerade: [false; 2], id: 0, again: false };
    let rules = g.ruleset();
    let mut s = Scenario::new(&format!("random_flow_{seed}"), &net(), &rules).at_once();
    let mut talks: Vec<Vec<_>> = (0..g.rng.u16(1..7)).map(|n| g.conversation(4000 + n)).collect();
    talks.iter_mut().for_each(|talk| talk.reverse());
    while !talks.is_empty() {
        let which = g.rng.usize(..talks.len());
        for _ in 0..g.rng.usize(1..6) {
            s.frames.extend(talks[which].pop().into_iter().flatten());
        }
        if talks[which].is_empty() {
            talks.swap_remove(which);
        }
        // Packets of later bursts find the flows.
        if g.one_in(3) {
            s = s.wait(Duration::from_millis(1));
        }
    }
    // Connections that are opened again count from then on, which is another moment where TCP was
    // not tracked meanwhile.
    if g.again { s } else { s.sysctl("net.netfilter.nf_conntrack_acct", 1) }
}

/// Frames of one packet.
type Frames = Vec<(String, Vec<u8>)>;

/// One end of a flow: where it is, and the address and port by which the other end knows it.
#[derive(Clone, Copy)]
struct End {
    side: Side,
    address: &'static str,
    port: u16,
    known_as: (&'static str, u16),
}

/// A TCP stream between two ends.
struct Stream<'a> {
    six: bool,
    ends: &'a [End; 2],
    /// The sequence number that each end sends next.
    next: [u32; 2],
    out: &'a mut Vec<Frames>,
}

struct Generator {
    rng: Rng,
    /// Whether what leaves by `wan`, and by `dmz`, is translated.
    masquerade: [bool; 2],
    id: u16,
    /// A connection is opened again.
    again: bool,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
/// Forwarded to a host behind `lan`.
const FORWARDED: u16 = 8080;

impl Chance for Generator {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl Generator {
    fn ruleset(&mut self) -> String {
        self.masquerade = [self.rng.bool(), self.rng.bool()];
        let hook = self.pick(&["ingress", "early_ingress"]);
        let devices = self.pick(&["lan, wan, dmz", "lan, wan, dmz", "lan, wan", "dmz, lan", "wan"]);
        let add = self.pick(&[
            "flow add @f",
            "meta l4proto { tcp, udp } flow add @f",
            "ct state established flow add @f",
            "iifname lan flow add @f",
            "meta l4proto tcp flow add @f",
        ]);
        let [to_wan, to_dmz] = self.masquerade;
        let masquerade = |on, device| {
            if on { format!("\t\toifname {device} masquerade\n") } else { String::new() }
        };
        format!(
            "table inet t {{\n\
             \tflowtable f {{ hook {hook} priority 0; devices = {{ {devices} }}; counter; }}\n\
             \tchain early {{\n\t\ttype filter hook prerouting priority -450;\n\
             \t\tip frag-off & 0x3fff != 0 counter\n\
             \t\tip ttl 1 counter\n\
             \t\tmeta l4proto {{ icmp, ipv6-icmp }} counter\n\t}}\n\
             \tchain forward {{\n\t\ttype filter hook forward priority 0;\n\
             \t\t{add}\n\
             \t\tmeta l4proto {{ icmp, ipv6-icmp }} counter\n\
             \t\tct state related counter\n\t}}\n\
             \tchain pre {{\n\t\ttype nat hook prerouting priority -100;\n\
             \t\tiifname wan tcp dport {FORWARDED} dnat ip to 198.18.0.10:80\n\
             \t\tiifname wan udp dport {FORWARDED} dnat ip to 198.18.0.11\n\t}}\n\
             \tchain post {{\n\t\ttype nat hook postrouting priority 100;\n{}{}\t}}\n}}\n",
            masquerade(to_wan, "wan"),
            masquerade(to_dmz, "dmz"),
        )
    }

    /// Two ends, the one that begins first.
    fn ends(&mut self, six: bool, tcp: bool, port: u16) -> [End; 2] {
        let plain = |side, address, port| End { side, address, port, known_as: (address, port) };
        if !six && self.one_in(4) {
            let client =
                plain(Side::Wan, self.pick(&["198.19.0.2", "198.19.0.3", "198.19.77.7"]), port);
            let (address, inside) =
                if tcp { ("198.18.0.10", 80) } else { ("198.18.0.11", FORWARDED) };
            let known_as = ("198.19.0.1", FORWARDED);
            return [client, End { side: Side::Lan, address, port: inside, known_as }];
        }
        let (from, to) = self.pick(&[
            (Side::Lan, Side::Wan),
            (Side::Lan, Side::Wan),
            (Side::Lan, Side::Dmz),
            (Side::Dmz, Side::Wan),
        ]);
        let own = match (to, six) {
            (Side::Wan, false) => "198.19.0.1",
            (Side::Wan, true) => "2001:db8:2::1",
            (_, false) => "198.18.5.1",
            (_, true) => "2001:db8:5::1",
        };
        let mut client = plain(from, self.pick(from.addresses(six)), port);
        if self.masquerade[usize::from(to != Side::Wan)] {
            client.known_as.0 = own;
        }
        [client, plain(to, self.pick(to.addresses(six)), self.pick(&[53, 80, 443]))]
    }

    /// All packets of a flow, in order.
    fn conversation(&mut self, port: u16) -> Vec<Frames> {
        let (six, tcp) = (self.one_in(3), self.rng.bool());
        let ends = self.ends(six, tcp, port);
        if tcp { self.tcp(six, &ends) } else { self.udp(six, &ends) }
    }

    /// Headers up to IP of a packet that an end sends.
    fn head(&mut self, six: bool, ends: &[End; 2], from: usize) -> Frame {
        let (own, other) = (&ends[from], &ends[1 - from]);
        let (to, mac) = own.side.macs();
        self.id += 1;
        if six {
            ethernet(to, mac).ip6(own.address, other.known_as.0)
        } else {
            ethernet(to, mac).ip4(own.address, other.known_as.0).id(self.id)
        }
    }

    fn udp(&mut self, six: bool, ends: &[End; 2]) -> Vec<Frames> {
        let mut out = Vec::new();
        for n in 0..self.rng.usize(2..16) {
            let from = usize::from(n > 0 && self.rng.bool());
            // Packets from `dmz` fit its MTU.
            let most = if ends[from].side == Side::Dmz { 1220 } else { 1440 };
            let len =
                if self.one_in(6) { self.rng.usize(1200..most) } else { self.rng.usize(..60) };
            let data: Vec<u8> = (0..len).map(|i| (i ^ n) as u8).collect();
            let ports = (ends[from].port, ends[1 - from].known_as.1);
            let device = ends[from].side.device().to_owned();
            let head = self.head(six, ends, from);
            let df = !six && self.one_in(2);
            let head = if df { head.df() } else { head };
            out.push(match self.rng.u8(..16) {
                0 => vec![(device, head.ttl(1).udp(ports.0, ports.1).data(&data).bytes())],
                1 if !six => {
                    vec![(
                        device,
                        head.ip_options(&[1, 1, 1, 1]).udp(ports.0, ports.1).data(&data).bytes(),
                    )]
                }
                2 if six => {
                    vec![(
                        device,
                        head.extension(60, &[0; 6]).udp(ports.0, ports.1).data(&data).bytes(),
                    )]
                }
                3 if !df => {
                    self.pieces(six, ends, from, &head.udp(ports.0, ports.1).data(&data).bytes())
                }
                // Padding, which is not the packet's.
                4 => vec![(
                    device,
                    [head.udp(ports.0, ports.1).data(&data).bytes(), vec![0; 9]].concat(),
                )],
                5 if !six => {
                    vec![(device, head.udp(ports.0, ports.1).patch(6, &[0, 0]).data(&data).bytes())]
                }
                6 if n > 1 => vec![self.error(six, ends)],
                _ => vec![(device, head.udp(ports.0, ports.1).data(&data).bytes())],
            });
        }
        out
    }

    /// A packet in fragments.
    fn pieces(&mut self, six: bool, ends: &[End; 2], from: usize, bytes: &[u8]) -> Frames {
        let payload = &bytes[14 + if six { 40 } else { 20 }..];
        let (size, number) = (self.rng.usize(5..60) * 8, self.rng.u32(..));
        let mut out = Vec::new();
        for (i, piece) in payload.chunks(size).enumerate() {
            let (at, more) = ((i * size / 8) as u16, (i + 1) * size < payload.len());
            let head = self.head(six, ends, from);
            let frame = if six {
                head.fragment6(at, more, number)
            } else {
                head.id(number as u16).fragment(at, more)
            };
            let frame = frame.protocol(17).data(piece).bytes();
            out.push((ends[from].side.device().to_owned(), frame));
        }
        out
    }

    /// The far end, or a router there, says that a packet did not arrive.
    fn error(&mut self, six: bool, ends: &[End; 2]) -> (String, Vec<u8>) {
        let [client, server] = ends;
        let bare = crate::frame::bare();
        // As it was when it arrived there.
        let quoted = if six {
            bare.ip6(client.known_as.0, server.address)
        } else {
            bare.ip4(client.known_as.0, server.address)
        };
        let quoted = quoted.udp(client.known_as.1, server.port).data(b"lost").bytes();
        let head = self.head(six, ends, 1);
        let frame = if six { head.icmp6(1, 4, 0) } else { head.icmp(3, 3, 0) };
        (server.side.device().to_owned(), frame.data(&quoted).bytes())
    }

    fn tcp(&mut self, six: bool, ends: &[End; 2]) -> Vec<Frames> {
        let mut out = Vec::new();
        let times = if self.one_in(5) { 2 } else { 1 };
        for time in 0..times {
            self.again |= time > 0;
            let next = [1000 + 100_000 * time, 9000 + 100_000 * time];
            let mut stream = Stream { six, ends, next, out: &mut out };
            self.segment(&mut stream, 0, SYN, 0);
            self.segment(&mut stream, 1, SYN | ACK, 0);
            self.segment(&mut stream, 0, ACK, 0);
            for _ in 0..self.rng.usize(..10) {
                let from = usize::from(self.rng.bool());
                let len =
                    if self.one_in(8) { self.rng.usize(1000..1250) } else { self.rng.usize(1..80) };
                self.segment(&mut stream, from, ACK | PSH, len);
                self.segment(&mut stream, 1 - from, ACK, 0);
            }
            let from = usize::from(self.rng.bool());
            match self.rng.u8(..3) {
                0 if times == 1 => {}
                1 => self.segment(&mut stream, from, RST | ACK, 0),
                _ => {
                    self.segment(&mut stream, from, FIN | ACK, 0);
                    self.segment(&mut stream, 1 - from, FIN | ACK, 0);
                    self.segment(&mut stream, from, ACK, 0);
                }
            }
        }
        out
    }

    /// A segment of a stream from one of its ends, with `len` bytes of payload.
    fn segment(&mut self, stream: &mut Stream<'_>, from: usize, flags: u8, len: usize) {
        let Stream { six, ends, next, out } = stream;
        let six = *six;
        let (seq, ack) = (next[from], if flags & ACK != 0 { next[1 - from] } else { 0 });
        next[from] = seq + len as u32 + u32::from(flags & (SYN | FIN) != 0);
        let (sport, dport) = (ends[from].port, ends[1 - from].known_as.1);
        let frame = self
            .head(six, ends, from)
            .tcp(sport, dport)
            .flags(flags)
            .set(4, &seq.to_be_bytes())
            .set(8, &ack.to_be_bytes())
            .set(14, &0x4000u16.to_be_bytes());
        let frame = if flags & SYN != 0 { frame.tcp_options(&[2, 4, 4, 0xb0]) } else { frame };
        let frame = if len > 0 { frame.zeros(len) } else { frame };
        out.push(vec![(ends[from].side.device().to_owned(), frame.bytes())]);
    }
}
