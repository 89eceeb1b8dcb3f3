// SPDX-License-Identifier: Apache-2.0

//! What is sent here, held against what captures have as sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use penstock_net::Network;
use penstock_wire::{ipv4, ipv6, protocol};

use super::fingerprint::{Fingerprint, packet_of};

/// Lines of one kind that are printed at most.
const LINES: usize = 10;

/// Frames of both sides, by device and by what does not change on the way.
#[derive(Default)]
pub struct Compare {
    frames: HashMap<(u32, u64), Pair>,
    /// Devices that a capture has frames of as sent.
    recorded: HashSet<u32>,
    /// How many frames are equal.
    equal: u64,
    /// Lines about frames that differ, and how many there are.
    other: (Vec<(u64, String)>, u64),
}

/// Frames that wait for those of the other side.
#[derive(Default)]
struct Pair {
    here: VecDeque<(u64, Seen)>,
    there: VecDeque<(u64, Seen)>,
}

/// A frame: what is compared of it, and how it is described.
struct Seen {
    compared: u64,
    text: String,
}

impl Compare {
    /// The path sent a frame by a device. `time` is in nanoseconds since the epoch.
    pub fn here(&mut self, device: u32, time: u64, frame: &[u8]) {
        self.note(device, frame, |pair| &mut pair.here, time);
    }

    /// A capture has a frame as sent by a device.
    pub fn there(&mut self, device: u32, time: u64, frame: &[u8]) {
        self.recorded.insert(device);
        self.note(device, frame, |pair| &mut pair.there, time);
    }

    /// Keeps a frame on its side, and compares it if the other side has one that waits.
    fn note(
        &mut self,
        device: u32,
        frame: &[u8],
        side: impl FnOnce(&mut Pair) -> &mut VecDeque<(u64, Seen)>,
        time: u64,
    ) {
        let key = (device, key(frame));
        let pair = self.frames.entry(key).or_default();
        side(pair).push_back((time, Seen::of(frame)));
        if pair.here.is_empty() || pair.there.is_empty() {
            return;
        }
        let (Some((_, here)), Some((time, there))) =
            (pair.here.pop_front(), pair.there.pop_front())
        else {
            return;
        };
        if pair.here.is_empty() && pair.there.is_empty() {
            self.frames.remove(&key);
        }
        if here.compared == there.compared {
            self.equal += 1;
            return;
        }
        self.other.1 += 1;
        if self.other.0.len() < LINES {
            let text = format!("{} instead of {}", here.text, there.text);
            self.other.0.push((time, text));
        }
    }

    /// The result as lines of the summary.
    pub fn report(&self, net: &Network) -> Report {
        let (mut here, mut there) = ((Vec::new(), 0), (Vec::new(), 0));
        for ((device, _), pair) in &self.frames {
            if !self.recorded.contains(device) {
                continue;
            }
            for (side, seen) in [(&mut here, &pair.here), (&mut there, &pair.there)] {
                side.1 += seen.len() as u64;
                let name = net.name_of(*device);
                let lines =
                    seen.iter().map(|(time, seen)| (*time, format!("{name} {}", seen.text)));
                side.0.extend(lines);
            }
        }
        for side in [&mut here, &mut there] {
            side.0.sort();
            side.0.truncate(LINES);
        }
        let other = (self.other.0.clone(), self.other.1);
        Report { equal: self.equal, other, here, there }
    }
}

/// What a comparison found.
pub struct Report {
    equal: u64,
    other: (Vec<(u64, String)>, u64),
    here: (Vec<(u64, String)>, u64),
    there: (Vec<(u64, String)>, u64),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.equal + self.other.1 + self.here.1 + self.there.1;
        writeln!(f, "{:<12} {total:>10}", "compared")?;
        writeln!(f, "{:<12} {:>10}  sent as in the captures", "", self.equal)?;
        for (what, (lines, count)) in [
            ("sent otherwise", &self.other),
            ("only in the captures", &self.there),
            ("only here", &self.here),
        ] {
            if *count == 0 {
                continue;
            }
            writeln!(f, "{:<12} {count:>10}  {what}", "")?;
            for (time, line) in lines {
                let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000 / 1000);
                writeln!(f, "{:25}{seconds}.{rest:06} {line}", "")?;
            }
            if *count > lines.len() as u64 {
                writeln!(f, "{:25}… and {} more", "", count - lines.len() as u64)?;
            }
        }
        Ok(())
    }
}

/// What copies of a frame have in common.
fn key(frame: &[u8]) -> u64 {
    match Fingerprint::of(frame) {
        Some(print) => print.hash,
        None => hash(frame),
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Seen {
    fn of(frame: &[u8]) -> Seen {
        let Some(packet) = packet_of(frame) else {
            let kind = frame.get(12..14).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
            let text = format!("frame of type 0x{kind:04x}, {} bytes", frame.len());
            return Seen { compared: hash(frame), text };
        };
        let (src, dst, number, ttl, tos, at);
        if let Some(header) = ipv4::Header::new(packet).filter(|h| h.version() == 4) {
            (src, dst) = (header.src().to_string(), header.dst().to_string());
            (number, ttl, tos) = (header.protocol(), header.ttl(), header.tos());
            at = header.header_len();
        } else if let Some(header) = ipv6::Header::new(packet) {
            (src, dst) = (format!("[{}]", header.src()), format!("[{}]", header.dst()));
            (number, ttl) = (header.next_header(), header.hop_limit());
            tos = header.traffic_class();
            at = ipv6::LEN;
        } else {
            return Seen { compared: hash(packet), text: "packet that is cut".into() };
        }
        let transport = packet.get(at..).unwrap_or_default();
        let port = |at: usize| match (number, transport.get(at..at + 2)) {
            (6 | 17 | 33 | 132 | 136, Some(b)) => format!(":{}", u16::from_be_bytes([b[0], b[1]])),
            _ => String::new(),
        };
        let (sport, dport) = (port(0), port(2));
        let name = match number {
            protocol::ICMP => "icmp".to_owned(),
            protocol::TCP => "tcp".into(),
            protocol::UDP => "udp".into(),
            protocol::ICMPV6 => "icmpv6".into(),
            protocol::SCTP => "sctp".into(),
            other => format!("protocol {other}"),
        };
        // A sender may leave the options' checksums to the device, so none are compared.
        let options = match number {
            protocol::TCP => {
                let end = transport.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
                transport.get(20..end).unwrap_or_default()
            }
            _ => &[],
        };
        let text = format!(
            "{src}{sport} > {dst}{dport} {name}, ttl {ttl}, tos 0x{tos:02x}, {} bytes",
            packet.len()
        );
        Seen { compared: hash((&text, options)), text }
    }
}
