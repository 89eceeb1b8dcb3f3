// SPDX-License-Identifier: Apache-2.0

//! Flows through IPsec and a flowtable by chance: tunnels over both families, ciphers, datagrams and
//! connections of both families inside, and IPv4 packets that do not fit.
//!
//! All that comes in from the other end comes through ESP, no chain sees packets at `postrouting`,
//! and IPv6 packets fit: there the kernel's fast path does otherwise (docs/differences.md).

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use super::ipsec::{Agreement, CLIENT, ENDS, LAN, NETWORKS, SPI_IN, on_wan, two_states};
use crate::frame::{Frame, bare, ethernet};
use crate::peer::Peer;
use crate::scenario::Scenario;
use crate::scenarios::TUNNEL_NET;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Two that speak to each other.
struct Conversation {
    six: bool,
    tcp: bool,
    port: u16,
    /// The next sequence number of the client, and of the station.
    seq: [u32; 2],
    /// Segments so far.
    said: usize,
}

impl Conversation {
    fn new(rng: &mut Rng, port: u16) -> Conversation {
        Conversation { six: rng.bool(), tcp: rng.bool(), port, seq: [1000, 5000], said: 0 }
    }

    /// The next packet after its link header (`head`), and who says it: the client (0) or the
    /// station (1).
    fn says(&mut self, rng: &mut Rng) -> (usize, Frame) {
        const LENGTHS: [usize; 9] = [0, 1, 16, 100, 700, 1200, 1300, 1380, 1430];
        let said = self.said;
        self.said += 1;
        let mut from = rng.usize(..2);
        // The kernel's fast path takes an IPv6 packet that is too long.
        let mut length = rng.pick(&LENGTHS).min(if self.six { 1300 } else { 1440 });
        let mut flags = ACK;
        if said < 3 {
            // The station answers first.
            from = [0, 1, 0][said];
            if self.tcp {
                (flags, length) = ([SYN, SYN | ACK, ACK][said], 0);
            }
        } else if rng.one_in(12) {
            (flags, length) = (rng.pick(&[FIN | ACK, RST | ACK]), 0);
        }
        let [.., client, station] = ENDS[usize::from(self.six)];
        let (source, to) = if from == 0 { (client, station) } else { (station, client) };
        let head = if from == 0 { ethernet(LAN, CLIENT) } else { bare() };
        let head = if self.six { head.ip6(source, to) } else { head.ip4(source, to) };
        let head = if !self.six && rng.bool() { head.df() } else { head };
        let ports = if from == 0 { (self.port, 53) } else { (53, self.port) };
        if !self.tcp {
            return (from, head.udp(ports.0, ports.1).zeros(length));
        }
        let acknowledged = if flags & ACK != 0 { self.seq[1 - from] } else { 0 };
        let own = self.seq[from];
        // What does not fit is said again.
        let counted = if length > 1300 { 0 } else { length as u32 };
        self.seq[from] += counted + u32::from(flags & (SYN | FIN) != 0);
        let segment = head.tcp(ports.0, ports.1).flags(flags).set(4, &own.to_be_bytes());
        let segment = segment.set(8, &acknowledged.to_be_bytes()).set(14, &[0x20, 0]);
        (from, segment.zeros(length.min(1400)))
    }
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let agreed = Agreement { six: rng.one_in(3), tunnel: true, udp: rng.one_in(5) };
    let net = format!(
        "{TUNNEL_NET}route add 198.18.77.0/24 via 198.19.0.2 dev wan\nroute add 2001:db8:77::/64 \
         via 2001:db8:2::2 dev wan\n{}{}",
        two_states(&mut rng, &agreed),
        policies(&agreed)
    );
    let mut peer = Peer::of(&net, SPI_IN);
    let rules = rules(&mut rng);
    let mut s = Scenario::new(&format!("random_ipsec_flow_{seed}"), &net, &rules).at_once();
    let ports = 1000..rng.u16(1001..1004);
    let mut all: Vec<_> = ports.map(|port| Conversation::new(&mut rng, port)).collect();
    let own = ENDS[usize::from(agreed.six)][0];
    for _ in 0..rng.usize(10..40) {
        let which = rng.usize(..all.len());
        let (from, frame) = all[which].says(&mut rng);
        if from == 0 {
            s = s.frame("lan", &frame);
        } else if let Some(sealed) = peer.seal(own, agreed.udp, &frame.bytes()) {
            for (source, frame) in on_wan(&mut rng, sealed) {
                s = s.frame(source, &frame);
            }
        }
        s = s.wait(Duration::from_millis(1));
    }
    s
}

/// Both networks are reached through the tunnel only.
fn policies(agreed: &Agreement) -> String {
    let [near, far, ..] = ENDS[usize::from(agreed.six)];
    let mut lines = String::new();
    for [own, other] in NETWORKS {
        let of = |a: &str, b: &str| format!("tmpl src {a} dst {b} proto esp reqid 7 mode tunnel");
        lines += &format!("xfrm policy add src {own} dst {other} dir out {}\n", of(near, far));
        for direction in ["in", "fwd"] {
            let tmpl = of(far, near);
            lines += &format!("xfrm policy add src {other} dst {own} dir {direction} {tmpl}\n");
        }
    }
    lines
}

fn rules(rng: &mut Rng) -> String {
    let add = rng.pick(&[
        "flow add @f",
        "flow add @f",
        "ct state established flow add @f",
        "oifname wan flow add @f",
        "meta l4proto tcp flow add @f",
    ]);
    let counter = rng.pick(&["", " counter;"]);
    let out = match rng.bool() {
        true => {
            "\tchain out {\n\t\ttype filter hook output priority 0;\n\t\tmeta l4proto { esp, udp } counter\n\t}\n"
        }
        false => "",
    };
    let each = "\t\tiifname lan counter\n\t\tiifname wan counter\n\t\tmeta l4proto tcp \
                counter\n\t\tmeta l4proto udp counter\n\t\tmeta l4proto esp counter\n\t\tmeta ipsec \
                exists counter\n";
    format!(
        "table inet t {{\n\tflowtable f {{ hook ingress priority 0; devices = {{ lan, wan \
         }};{counter} }}\n\tchain early {{\n\t\ttype filter hook prerouting priority \
         -450;\n{each}\t}}\n\tchain forward {{\n\t\ttype filter hook forward priority \
         0;\n{each}\t\tct state new counter\n\t\tct state established counter\n\t\tct state invalid \
         counter\n\t\t{add}\n\t}}\n{out}}}\n"
    )
}
