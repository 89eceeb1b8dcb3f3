// SPDX-License-Identifier: Apache-2.0

//! Ports that NAT draws at random differ from run to run: they get names by the order in which they
//! appear, the same name everywhere, so that everything else about a translated flow is compared,
//! its checksums too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::frame::checksum;
use crate::scenario::Scenario;

/// First name that is given.
const FIRST_NAME: u16 = 0xa000;

/// What a scenario says about ports.
pub struct Ports {
    /// They are in its frames or its rules, so they are no chance.
    known: BTreeSet<u16>,
    /// Source NAT may choose from these.
    ranges: Vec<RangeInclusive<u16>>,
}

impl Ports {
    /// `None` if nothing is translated.
    pub fn of(scenario: &Scenario) -> Option<Ports> {
        let rules = scenario.rules.clone() + &scenario.commands.to_lowercase();
        if !["snat", "dnat", "masquerade", "redirect", "type nat"].iter().any(|w| rules.contains(w))
        {
            return None;
        }
        let mut known = BTreeSet::new();
        for (source, bytes) in &scenario.frames {
            let mut bytes = bytes.clone();
            let link = if source == "host" { 0 } else { 14 };
            visit(&mut bytes, link, &mut |port| {
                known.insert(port);
                port
            });
        }
        let mut ranges = vec![];
        for line in rules.lines() {
            let chooses = line.contains("snat") || line.contains("masquerade");
            for word in line.split([' ', ',', ':', '\t', '{', '}']) {
                let ends: Vec<Option<u16>> = word.split('-').map(|n| n.parse().ok()).collect();
                match ends[..] {
                    [Some(port)] => {
                        known.insert(port);
                    }
                    [Some(first), Some(last)] if first < last && chooses => {
                        ranges.push(first..=last)
                    }
                    [Some(first), Some(last)] => known.extend([first, last]),
                    _ => {}
                }
            }
        }
        Some(Ports { known, ranges })
    }

    fn is_chance(&self, port: u16) -> bool {
        !self.known.contains(&port) || self.ranges.iter().any(|r| r.contains(&port))
    }
}

/// The names that were given in one run.
pub struct Names<'a> {
    ports: &'a Ports,
    names: BTreeMap<u16, u16>,
}

impl<'a> Names<'a> {
    /// No names yet.
    pub fn new(ports: &'a Ports) -> Names<'a> {
        Names { ports, names: BTreeMap::new() }
    }

    /// Puts names into a frame. `link` bytes stand before the IP header.
    pub fn name(&mut self, frame: &mut [u8], link: usize) {
        visit(frame, link, &mut |port| {
            if !self.ports.is_chance(port) {
                return port;
            }
            let next = FIRST_NAME + self.names.len() as u16;
            *self.names.entry(port).or_insert(next)
        });
        self.name_text(frame, link);
    }

    /// Puts names into the text of a segment or datagram, where they are no longer than the ports.
    fn name_text(&self, frame: &mut [u8], link: usize) {
        let Some((protocol, at)) = network_header(frame, link).and_then(|at| transport(frame, at))
        else {
            return;
        };
        let (check, header) = match protocol {
            6 if frame.len() > at + 20 => (at + 16, usize::from(frame[at + 12] >> 4) * 4),
            17 if frame.len() > at + 8 && word(frame, at + 6) != 0 => (at + 6, 8),
            _ => return,
        };
        let Some(text) = frame.get_mut(at + header..) else { return };
        let before = !checksum(0, text);
        for (port, name) in &self.names {
            let (port, name) = (port.to_string(), name.to_string());
            let mut from = 0;
            while let Some(found) =
                text[from..].windows(port.len()).position(|w| *w == *port.as_bytes())
            {
                let here = from + found;
                from = here + port.len();
                let is_digit = |at: Option<usize>| {
                    at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_digit)
                };
                if name.len() == port.len()
                    && !is_digit(here.checked_sub(1))
                    && !is_digit(Some(from))
                {
                    text[here..from].copy_from_slice(name.as_bytes());
                }
            }
        }
        let after = !checksum(0, text);
        if before != after {
            correct(frame, check, before, after);
        }
    }
}

impl Names<'_> {
    /// Puts names into a line of `conntrack -L`, once frames have theirs.
    pub fn name_connection(&self, line: &str) -> String {
        let words = line.split(' ').map(|word| {
            let Some((key @ ("sport" | "dport" | "id"), value)) = word.split_once('=') else {
                return word.to_owned();
            };
            match value.parse() {
                // No frame shows it.
                Ok(port) if self.ports.is_chance(port) => {
                    format!("{key}={}", self.names.get(&port).copied().unwrap_or(u16::MAX))
                }
                _ => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

fn word(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

/// Where the header of IP is in a frame, after VLAN tags and PPPoE. `link` bytes stand before it
/// without those.
pub fn network_header(frame: &[u8], link: usize) -> Option<usize> {
    let mut at = link;
    while link != 0 && matches!(frame.get(at - 2..at), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    let in_session = link != 0 && frame.get(at - 2..at) == Some(&[0x88, 0x64]);
    let is_ip = match frame.get(at.saturating_sub(2)..) {
        _ if link == 0 => true,
        Some([0x88, 0x64, _, _, _, _, _, _, 0, protocol, ..]) => matches!(protocol, 0x21 | 0x57),
        Some([8, 0, ..] | [0x86, 0xdd, ..]) => true,
        _ => false,
    };
    at += if in_session { 8 } else { 0 };
    (is_ip && at <= frame.len()).then_some(at)
}

/// Replaces ports and ICMP identifiers, also those of a packet in an ICMP error, by what `f` makes
/// of them.
fn visit(frame: &mut [u8], link: usize, f: &mut impl FnMut(u16) -> u16) {
    if let Some(at) = network_header(frame, link) {
        packet(frame, at, true, f);
    }
}

/// Where the checksums are that cover a changed word.
struct Change {
    at: usize,
    old: u16,
}

/// Sets a word, and corrects a checksum by the difference (RFC 1624). Returns what else was changed
/// by that.
fn set(b: &mut [u8], at: usize, new: u16, check: Option<usize>) -> Vec<Change> {
    let old = word(b, at);
    if old == new {
        return vec![];
    }
    b[at..at + 2].copy_from_slice(&new.to_be_bytes());
    let mut changes = vec![Change { at, old }];
    if let Some(check) = check.filter(|c| b.len() >= c + 2) {
        changes.push(Change { at: check, old: word(b, check) });
        correct(b, check, old, new);
    }
    changes
}

fn correct(b: &mut [u8], check: usize, old: u16, new: u16) {
    let mut sum = u32::from(!word(b, check)) + u32::from(!old) + u32::from(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    b[check..check + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// The packet at `at`, and the one in it if it is an error and `outer`.
fn packet(b: &mut [u8], at: usize, outer: bool, f: &mut impl FnMut(u16) -> u16) -> Vec<Change> {
    let Some((protocol, transport)) = transport(b, at) else { return vec![] };
    if b.len() < transport + 8 {
        return vec![];
    }
    // In a tunnel.
    if matches!(protocol, 4 | 41) {
        return packet(b, transport, outer, f);
    }
    let check = match protocol {
        // NAT does not touch the checksum of a segment in an error that is cut.
        6 if !outer && b.len() < transport + 20 => None,
        6 => Some(transport + 16),
        17 if word(b, transport + 6) == 0 => None,
        17 | 33 | 136 => Some(transport + 6),
        _ => None,
    };
    match protocol {
        6 | 17 | 33 | 136 => {
            let (source, destination) = (f(word(b, transport)), f(word(b, transport + 2)));
            let mut changes = set(b, transport, source, check);
            changes.extend(set(b, transport + 2, destination, check));
            changes
        }
        132 => {
            let right = b.len() >= transport + 12
                && b[transport + 8..transport + 12] == crc(&b[transport..]);
            let (source, destination) = (f(word(b, transport)), f(word(b, transport + 2)));
            let mut changes = set(b, transport, source, None);
            changes.extend(set(b, transport + 2, destination, None));
            if right && outer {
                let crc = crc(&b[transport..]);
                b[transport + 8..transport + 12].copy_from_slice(&crc);
            }
            changes
        }
        1 | 58 => {
            let check = transport + 2;
            let echo = if protocol == 1 {
                matches!(b[transport], 0 | 8 | 13 | 14)
            } else {
                matches!(b[transport], 128 | 129)
            };
            let error = if protocol == 1 {
                matches!(b[transport], 3 | 5 | 11 | 12)
            } else {
                b[transport] < 128
            };
            if echo {
                let id = f(word(b, transport + 4));
                return set(b, transport + 4, id, Some(check));
            }
            if error && outer {
                // A checksum inside may have been corrected twice: what it was first counts.
                let mut first = BTreeMap::new();
                for Change { at, old } in packet(b, transport + 8, false, f) {
                    first.entry(at).or_insert(old);
                }
                for (at, old) in first {
                    let new = word(b, at);
                    correct(b, check, old, new);
                }
            }
            vec![]
        }
        _ => vec![],
    }
}

/// Protocol and offset of the transport header; `None` in later fragments.
fn transport(b: &[u8], at: usize) -> Option<(u8, usize)> {
    if b.get(at)? >> 4 == 4 {
        let fragment = word(b.get(at..at + 20)?, 6) & 0x1fff;
        return (fragment == 0).then(|| (b[at + 9], at + usize::from(b[at] & 15) * 4));
    }
    let (mut next, mut here) = (*b.get(at + 6)?, at + 40);
    while matches!(next, 0 | 43 | 44 | 51 | 60) {
        let header = b.get(here..here + 8)?;
        let len = match next {
            44 if word(header, 2) >> 3 != 0 => return None,
            44 => 8,
            51 => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        next = header[0];
        here += len;
    }
    Some((next, here))
}

/// CRC32c of an SCTP packet as it stands in its header.
pub fn crc(packet: &[u8]) -> [u8; 4] {
    let mut crc = !0u32;
    for (i, byte) in packet.iter().enumerate() {
        crc ^= if (8..12).contains(&i) { 0 } else { u32::from(*byte) };
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}
