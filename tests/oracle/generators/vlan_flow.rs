// SPDX-License-Identifier: Apache-2.0

//! Flows between wires and VLAN devices, most of them through a flowtable: of any of the devices,
//! with and without translation, TCP that opens, speaks and ends, tags with priorities, and packets
//! in between that a flowtable leaves to the rules.

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, ethernet};
use crate::scenario::Scenario;

/// `lan` and `wan` are wires; `office` and `guests` are VLANs of `lan`, `metro` an 802.1ad VLAN of
/// `wan`, and `line` a VLAN of `metro`.
const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan addrgenmode none up
link set wan addrgenmode none up
link add link lan name office type vlan id 10
link add link lan name guests type vlan id 20
link add link wan name metro type vlan protocol 802.1ad id 30
link add link metro name line type vlan id 40
link set office addrgenmode none up
link set guests addrgenmode none up
link set metro addrgenmode none up
link set line addrgenmode none up
";

/// Where flows begin and end.
struct Place {
    device: &'static str,
    /// The wire, and the tags on it, the outer one first.
    wire: &'static str,
    tags: &'static [(u16, u16)],
    /// What its network has in the third byte of IPv4 addresses, and the third word of IPv6 ones.
    number: u8,
}

const PLACES: [Place; 5] = [
    Place { device: "lan", wire: "lan", tags: &[], number: 1 },
    Place { device: "office", wire: "lan", tags: &[(0x8100, 10)], number: 10 },
    Place { device: "guests", wire: "lan", tags: &[(0x8100, 20)], number: 20 },
    Place { device: "wan", wire: "wan", tags: &[], number: 2 },
    Place { device: "line", wire: "wan", tags: &[(0x88a8, 30), (0x8100, 40)], number: 40 },
];

impl Place {
    fn router(&self) -> Mac {
        [2, 0, 0, 0, if self.wire == "lan" { 1 } else { 2 }, 1]
    }

    fn station(&self) -> Mac {
        [2, 0, 0, 0, self.number, 0x10]
    }

    /// The address of the router there (1), or of the station (16).
    fn address(&self, six: bool, host: u8) -> String {
        let number = self.number;
        if six { format!("2001:db8:{number}::{host:x}") } else { format!("198.18.{number}.{host}") }
    }
}

fn net() -> String {
    let mut net = NET.to_owned();
    for place in &PLACES {
        let device = place.device;
        let station = place.station().map(|b| format!("{b:02x}")).join(":");
        for (six, length, words) in [(false, 24, ""), (true, 64, " nodad")] {
            let (own, other) = (place.address(six, 1), place.address(six, 16));
            net += &format!("addr add {own}/{length} dev {device}{words}\n");
            net += &format!("neigh add {other} lladdr {station} dev {device} nud permanent\n");
        }
    }
    net
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let translated = rng.pick(&["", "", "line", "wan", "office"]);
    let rules = rules(&mut rng, translated);
    let mut s = Scenario::new(&format!("random_vlan_flow_{seed}"), &net(), &rules).at_once();
    let mut talks: Vec<Talk> =
        (0..rng.u16(1..6)).map(|n| Talk::new(&mut rng, 4000 + n, translated)).collect();
    while !talks.is_empty() {
        let which = rng.usize(..talks.len());
        for _ in 0..rng.usize(1..5) {
            let (wire, frame) = talks[which].packet(&mut rng);
            s = s.frame(wire, &frame);
        }
        talks[which].left = talks[which].left.saturating_sub(1);
        if talks[which].left == 0 {
            talks.swap_remove(which);
        }
        // Packets of later bursts find the flows.
        if rng.one_in(2) {
            s = s.wait(Duration::from_millis(1));
        }
    }
    // What TCP was not tracked through counts from another moment on.
    if rng.one_in(3) { s.sysctl("net.netfilter.nf_conntrack_acct", 1) } else { s }
}

fn rules(rng: &mut Rng, translated: &str) -> String {
    let some = rng.pick(&["lan, wan", "lan, wan", "office, line", "lan, wan, office, line", "lan"]);
    let all = "lan, wan, office, guests, line, metro";
    let devices = rng.pick(&[some, some, all]);
    let counter = rng.pick(&["", " counter;"]);
    let add = rng.pick(&[
        "flow add @f",
        "flow add @f",
        "ct state established flow add @f",
        "iifname { lan, office } flow add @f",
        "meta l4proto tcp flow add @f",
    ]);
    let masquerade = match translated {
        "" => String::new(),
        device => format!(
            "\tchain post {{\n\t\ttype nat hook postrouting priority 100;\n\t\toifname {device} \
             masquerade\n\t}}\n"
        ),
    };
    let counters: String = ["lan", "office", "guests", "wan", "line"]
        .iter()
        .map(|d| format!("\t\tiifname {d} counter\n\t\toifname {d} counter\n"))
        .collect();
    format!(
        "table inet t {{\n\tflowtable f {{ hook ingress priority 0; devices = {{ {devices} \
         }};{counter} }}\n\tchain forward {{\n\t\ttype filter hook forward priority \
         0;\n{counters}\t\tct state new counter\n\t\tct state established counter\n\t\tct state \
         invalid counter\n\t\t{add}\n\t}}\n{masquerade}}}\n"
    )
}

/// What two stations say to each other.
struct Talk {
    six: bool,
    tcp: bool,
    ends: [&'static Place; 2],
    ports: [u16; 2],
    /// The address and port by which the server knows the client.
    known_as: String,
    /// The sequence number that each end sends next.
    next: [u32; 2],
    /// Bursts of packets that are left.
    left: usize,
    sent: usize,
    id: u16,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Talk {
    fn new(rng: &mut Rng, port: u16, translated: &str) -> Talk {
        let first = rng.usize(..PLACES.len());
        let second = (first + rng.usize(1..PLACES.len())) % PLACES.len();
        let ends = [&PLACES[first], &PLACES[second]];
        let six = rng.one_in(3);
        let host = if ends[1].device == translated { 1 } else { 16 };
        let place = if host == 1 { ends[1] } else { ends[0] };
        Talk {
            six,
            tcp: rng.bool(),
            ends,
            ports: [port, rng.pick(&[53, 80, 443])],
            known_as: place.address(six, host),
            next: [1000, 5000],
            left: rng.usize(3..8),
            sent: 0,
            id: port,
        }
    }

    /// Headers up to IP of a packet that an end sends.
    fn head(&mut self, rng: &mut Rng, from: usize) -> Frame {
        let place = self.ends[from];
        // Priorities, and the bit that allows dropping, are not the flow's.
        let bits = if rng.one_in(8) { rng.u16(..16) << 12 } else { 0 };
        let mut frame = ethernet(place.router(), place.station());
        for (protocol, id) in place.tags {
            frame = frame.tag(*protocol, bits | id);
        }
        let own = place.address(self.six, 16);
        let to = if from == 0 { self.ends[1].address(self.six, 16) } else { self.known_as.clone() };
        self.id += 1;
        let frame = match self.six {
            true => frame.ip6(&own, &to),
            false => frame.ip4(&own, &to).id(self.id),
        };
        match rng.u8(..16) {
            0 => frame.ttl(rng.u8(1..4)),
            1 if !self.six => frame.tos(rng.u8(..)),
            2 if !self.six => frame.df(),
            _ => frame,
        }
    }

    fn packet(&mut self, rng: &mut Rng) -> (&'static str, Frame) {
        self.sent += 1;
        if self.tcp { self.segment(rng) } else { self.datagram(rng) }
    }

    fn datagram(&mut self, rng: &mut Rng) -> (&'static str, Frame) {
        let from = usize::from(self.sent > 1 && rng.bool());
        let (source, destination) = (self.ports[from], self.ports[1 - from]);
        let head = self.head(rng, from);
        let frame = match rng.u8(..12) {
            0 if !self.six => head.ip_options(&[1, 1, 1, 1]).udp(source, destination).data(b"opt"),
            1 if !self.six => head.udp(source, destination).patch(6, &[0, 0]).data(b"no sum"),
            2 => head.udp(source, destination).zeros(rng.usize(1200..1430)),
            _ => head.udp(source, destination).zeros(rng.usize(20..60)),
        };
        (self.ends[from].wire, frame)
    }

    /// The next segment of a connection: it opens, speaks, and may end and open again.
    fn segment(&mut self, rng: &mut Rng) -> (&'static str, Frame) {
        let (flags, from, len) = match self.sent {
            1 => (SYN, 0, 0),
            2 => (SYN | ACK, 1, 0),
            3 => (ACK, 0, 0),
            _ if rng.one_in(14) => (FIN | ACK, rng.usize(..2), 0),
            _ if rng.one_in(24) => (RST | ACK, rng.usize(..2), 0),
            _ => (ACK, rng.usize(..2), rng.usize(20..60)),
        };
        let (seq, ack) = (self.next[from], if flags & ACK != 0 { self.next[1 - from] } else { 0 });
        self.next[from] = seq + len as u32 + u32::from(flags & (SYN | FIN) != 0);
        let head = self.head(rng, from);
        let frame = head
            .tcp(self.ports[from], self.ports[1 - from])
            .flags(flags)
            .set(4, &seq.to_be_bytes())
            .set(8, &ack.to_be_bytes())
            .set(14, &0x4000u16.to_be_bytes());
        (self.ends[from].wire, if len > 0 { frame.zeros(len) } else { frame })
    }
}
