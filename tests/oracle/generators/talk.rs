// SPDX-License-Identifier: Apache-2.0

//! What stations say to each other through the router: datagrams, and connections of TCP that open,
//! speak and end, from and to places that may be in VLANs, in PPPoE sessions and in tunnels.

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, bare, ethernet};
use crate::scenario::Scenario;

/// Where flows begin and end.
pub struct Place {
    /// The router's device to there.
    pub device: &'static str,
    /// The wire, and the tags on it, the outer one first.
    pub wire: &'static str,
    pub tags: &'static [(u16, u16)],
    /// Link addresses of the router and of the station on the wire.
    pub router: Mac,
    pub station: Mac,
    /// What is between the frame's header and packets.
    pub inside: Inside,
    /// What its network has in the third byte of IPv4 addresses, and the third word of IPv6 ones.
    pub number: u8,
    /// What packets to there must be like.
    pub likes: Likes,
}

/// What is between the header of a frame and a packet.
pub enum Inside {
    Nothing,
    /// A session of PPPoE.
    Session(u16),
    /// The header of a tunnel, from its far end to the near one.
    Tunnel {
        far: &'static str,
        near: &'static str,
    },
}

/// What packets to a place must be like, since the kernel's flowtable copies it to outer headers
/// whatever the tunnel says (docs/differences.md).
pub struct Likes {
    /// Of which family (IPv6 is true).
    pub six: Option<bool>,
    pub ttl: Option<u8>,
    pub tos: Option<u8>,
    pub df: Option<bool>,
    /// Bytes of a packet at most.
    pub mtu: usize,
}

/// Packets of all kinds.
pub const ANY: Likes = Likes { six: None, ttl: None, tos: None, df: None, mtu: 1500 };

impl Place {
    /// The address of the router there (1), or of the station (16).
    pub fn address(&self, six: bool, host: u8) -> String {
        let number = self.number;
        if six { format!("2001:db8:{number}::{host:x}") } else { format!("198.18.{number}.{host}") }
    }

    /// `ip -batch` lines: the router's addresses on the device, and the station as its
    /// neighbour where there are any.
    pub fn addresses(&self) -> String {
        let device = self.device;
        let station = self.station.map(|b| format!("{b:02x}")).join(":");
        let mut lines = String::new();
        for (six, length, words) in [(false, 24, ""), (true, 64, " nodad")] {
            let (own, other) = (self.address(six, 1), self.address(six, 16));
            lines += &format!("addr add {own}/{length} dev {device}{words}\n");
            if matches!(self.inside, Inside::Nothing) {
                lines +=
                    &format!("neigh add {other} lladdr {station} dev {device} nud permanent\n");
            }
        }
        lines
    }

    /// A packet as it comes to the router.
    fn enclose(&self, rng: &mut Rng, six: bool, packet: &Frame) -> Frame {
        // Priorities, and the bit that allows dropping, are not the flow's.
        let bits = if rng.one_in(8) { rng.u16(..16) << 12 } else { 0 };
        let mut frame = ethernet(self.router, self.station);
        for (protocol, id) in self.tags {
            frame = frame.tag(*protocol, bits | id);
        }
        let packet = packet.bytes();
        match self.inside {
            Inside::Nothing => frame.ethertype(if six { 0x86dd } else { 0x0800 }).data(&packet),
            Inside::Session(id) => {
                let length = packet.len() as u16 + 2;
                let protocol: u16 = if six { 0x57 } else { 0x21 };
                let words = [id, length, protocol].map(u16::to_be_bytes).concat();
                frame.ethertype(0x8864).data(&[&[0x11, 0][..], &words, &packet].concat())
            }
            Inside::Tunnel { far, near } => {
                let frame =
                    if far.contains(':') { frame.ip6(far, near) } else { frame.ip4(far, near) };
                frame.protocol(if six { 41 } else { 4 }).data(&packet)
            }
        }
    }
}

/// Appends what some pairs of stations say to each other, in turns. Sources that leave by the device
/// `translated` get the router's address. All are silent now and then for as long as `pause` says.
pub fn talks(
    mut scenario: Scenario,
    rng: &mut Rng,
    places: &'static [Place],
    translated: &str,
    pause: Option<Duration>,
) -> Scenario {
    let mut talks: Vec<Talk> =
        (0..rng.u16(1..6)).map(|n| Talk::new(rng, places, 4000 + n, translated)).collect();
    while !talks.is_empty() {
        let which = rng.usize(..talks.len());
        for _ in 0..rng.usize(1..5) {
            let (wire, frame) = talks[which].packet(rng);
            scenario = scenario.frame(wire, &frame);
        }
        talks[which].left = talks[which].left.saturating_sub(1);
        if talks[which].left == 0 {
            talks.swap_remove(which);
        }
        if let Some(pause) = pause.filter(|_| rng.one_in(6)) {
            scenario = scenario.wait(pause);
        } else if rng.one_in(2) {
            // Packets of later bursts find the flows.
            scenario = scenario.wait(Duration::from_millis(1));
        }
    }
    scenario
}

/// What two stations say to each other.
pub struct Talk {
    six: bool,
    tcp: bool,
    ends: [&'static Place; 2],
    ports: [u16; 2],
    /// The address by which the server knows the client.
    known_as: String,
    /// The sequence number that each end sends next.
    next: [u32; 2],
    /// Bursts of packets that are left.
    pub left: usize,
    sent: usize,
    id: u16,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Talk {
    /// Between two of the places; sources that leave by `translated` get the router's address.
    pub fn new(rng: &mut Rng, places: &'static [Place], port: u16, translated: &str) -> Talk {
        let first = rng.usize(..places.len());
        let second = (first + rng.usize(1..places.len())) % places.len();
        let ends = [&places[first], &places[second]];
        let six = ends.iter().find_map(|p| p.likes.six).unwrap_or_else(|| rng.one_in(3));
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

    /// The IP header of a packet that an end sends.
    fn head(&mut self, rng: &mut Rng, from: usize) -> Frame {
        let own = self.ends[from].address(self.six, 16);
        let to = if from == 0 { self.ends[1].address(self.six, 16) } else { self.known_as.clone() };
        self.id += 1;
        let mut frame = match self.six {
            true => bare().ip6(&own, &to),
            false => bare().ip4(&own, &to).id(self.id),
        };
        let Likes { ttl, tos, df, .. } = self.ends[1 - from].likes;
        let odd = rng.u8(..16);
        frame = match (odd, ttl) {
            (0, _) => frame.ttl(if ttl.is_some() { 1 } else { rng.u8(1..4) }),
            (_, Some(ttl)) => frame.ttl(ttl),
            _ => frame,
        };
        if self.six {
            return frame;
        }
        frame = match (odd, tos) {
            (_, Some(tos)) => frame.tos(tos),
            (1, None) => frame.tos(rng.u8(..)),
            _ => frame,
        };
        if df.unwrap_or(odd == 2) { frame.df() } else { frame }
    }

    /// The next packet, and the wire that it comes from.
    pub fn packet(&mut self, rng: &mut Rng) -> (&'static str, Frame) {
        self.sent += 1;
        let (from, packet) = if self.tcp { self.segment(rng) } else { self.datagram(rng) };
        let place = self.ends[from];
        (place.wire, place.enclose(rng, self.six, &packet))
    }

    fn datagram(&mut self, rng: &mut Rng) -> (usize, Frame) {
        let from = usize::from(self.sent > 1 && rng.bool());
        let (source, destination) = (self.ports[from], self.ports[1 - from]);
        // What comes fits on its own wire.
        let most = self.ends[from].likes.mtu.min(1458) - 48;
        let head = self.head(rng, from);
        let frame = match rng.u8(..12) {
            0 if !self.six => head.ip_options(&[1, 1, 1, 1]).udp(source, destination).data(b"opt"),
            1 if !self.six => head.udp(source, destination).patch(6, &[0, 0]).data(b"no sum"),
            2 => head.udp(source, destination).zeros(rng.usize(1200..most)),
            _ => head.udp(source, destination).zeros(rng.usize(20..60)),
        };
        (from, frame)
    }

    /// The next segment of a connection: it opens, speaks, and may end and open again.
    fn segment(&mut self, rng: &mut Rng) -> (usize, Frame) {
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
        (from, if len > 0 { frame.zeros(len) } else { frame })
    }
}
