// SPDX-License-Identifier: Apache-2.0

//! Rule lists as they are found on routers and firewalls, and traffic that meets them.
//!
//! After ClassBench (D. E. Taylor, J. S. Turner: "ClassBench: A Packet Classification Benchmark",
//! INFOCOM 2005), which describes twelve real lists by their distributions. What is modelled here,
//! by the kinds of list that the paper tells apart:
//!
//! - *access control lists*: most rules name both addresses, destinations more narrowly; source
//!   ports hardly ever; exact destination ports; TCP first;
//! - *firewalls*: one of the addresses is often free; both ports occur, also as the ranges 0-1023
//!   and 1024-65535;
//! - *IP chains*: in between, with more free protocols.
//!
//! Addresses are nested and skewed: at each bit of a prefix one branch is taken more often than the
//! other, always the same one below the same prefix. The numbers in the tables of this file are
//! ours, in the shape that the paper gives; they are not its parameter files.

mod nesting;

use std::collections::HashSet;
use std::fmt;
use std::net::Ipv4Addr;

use fastrand::Rng;
pub use nesting::{covered, narrow_first};

/// Kind of rule list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Access control list (`acl`).
    AccessControl,
    /// Firewall (`fw`).
    Firewall,
    /// Linux IP chain (`ipc`).
    IpChain,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::AccessControl, Kind::Firewall, Kind::IpChain];

    /// The name that ClassBench's seeds begin with.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AccessControl => "acl",
            Kind::Firewall => "fw",
            Kind::IpChain => "ipc",
        }
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The first address.
    pub address: u32,
    /// Number of bits, 0 to 32.
    pub len: u8,
}

impl Prefix {
    fn host_mask(self) -> u32 {
        u32::MAX.checked_shr(self.len.into()).unwrap_or(0)
    }

    /// Whether an address is one of them.
    pub fn contains(self, address: u32) -> bool {
        (address ^ self.address) & !self.host_mask() == 0
    }
}

/// A rule: a packet matches if all of it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Source addresses.
    pub source: Prefix,
    /// Destination addresses.
    pub destination: Prefix,
    /// First and last source port.
    pub source_ports: (u16, u16),
    /// First and last destination port.
    pub destination_ports: (u16, u16),
    /// Protocol; rules with ports have TCP or UDP.
    pub protocol: Option<u8>,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol.
    pub protocol: u8,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ALL_PORTS: (u16, u16) = (0, u16::MAX);

/// How a port of a rule is given.
#[derive(Clone, Copy, Debug)]
enum Ports {
    Any,
    /// 1024-65535.
    High,
    /// 0-1023.
    Low,
    Range,
    Exact,
}

/// Chances out of the sum of a table.
type Chances<T> = &'static [(u32, T)];

struct Shape {
    protocols: Chances<Option<u8>>,
    source_ports: Chances<Ports>,
    destination_ports: Chances<Ports>,
    /// Lengths of source and destination, first and last of a range.
    lengths: Chances<[(u8, u8); 2]>,
    /// Out of 100: how often the heavy branch is taken.
    skew: [u32; 2],
}

const ACCESS_CONTROL: Shape = Shape {
    protocols: &[(74, Some(TCP)), (14, Some(UDP)), (5, Some(ICMP)), (7, None)],
    source_ports: &[(98, Ports::Any), (1, Ports::Exact), (1, Ports::High)],
    destination_ports: &[
        (22, Ports::Any),
        (4, Ports::High),
        (1, Ports::Low),
        (11, Ports::Range),
        (62, Ports::Exact),
    ],
    lengths: &[
        (34, [(24, 31), (32, 32)]),
        (22, [(32, 32), (32, 32)]),
        (16, [(21, 24), (24, 30)]),
        (12, [(8, 20), (27, 32)]),
        (8, [(32, 32), (16, 24)]),
        (5, [(0, 0), (28, 32)]),
        (2, [(24, 32), (0, 0)]),
        (1, [(1, 8), (16, 24)]),
    ],
    skew: [72, 80],
};

const FIREWALL: Shape = Shape {
    protocols: &[(52, Some(TCP)), (28, Some(UDP)), (7, Some(ICMP)), (13, None)],
    source_ports: &[
        (62, Ports::Any),
        (14, Ports::High),
        (2, Ports::Low),
        (7, Ports::Range),
        (15, Ports::Exact),
    ],
    destination_ports: &[
        (24, Ports::Any),
        (6, Ports::High),
        (2, Ports::Low),
        (14, Ports::Range),
        (54, Ports::Exact),
    ],
    lengths: &[
        (24, [(0, 0), (32, 32)]),
        (12, [(0, 0), (22, 30)]),
        (20, [(32, 32), (32, 32)]),
        (14, [(24, 31), (32, 32)]),
        (12, [(32, 32), (0, 0)]),
        (6, [(14, 24), (24, 32)]),
        (8, [(24, 32), (14, 24)]),
        (3, [(16, 24), (0, 0)]),
        (1, [(0, 0), (0, 0)]),
    ],
    skew: [70, 74],
};

const IP_CHAIN: Shape = Shape {
    protocols: &[(42, Some(TCP)), (24, Some(UDP)), (8, Some(ICMP)), (26, None)],
    source_ports: &[
        (78, Ports::Any),
        (6, Ports::High),
        (1, Ports::Low),
        (4, Ports::Range),
        (11, Ports::Exact),
    ],
    destination_ports: &[
        (34, Ports::Any),
        (7, Ports::High),
        (2, Ports::Low),
        (9, Ports::Range),
        (48, Ports::Exact),
    ],
    lengths: &[
        (36, [(32, 32), (32, 32)]),
        (20, [(24, 31), (24, 32)]),
        (14, [(16, 24), (32, 32)]),
        (10, [(32, 32), (16, 24)]),
        (8, [(0, 0), (24, 32)]),
        (8, [(24, 32), (0, 0)]),
        (4, [(8, 16), (8, 20)]),
    ],
    skew: [68, 70],
};

/// Ports that rules name exactly, the frequent ones first.
const SERVICES: [u16; 32] = [
    80, 443, 22, 25, 53, 21, 110, 23, 143, 123, 161, 389, 1433, 1521, 3306, 3389, 5060, 8080, 69,
    111, 119, 135, 137, 139, 179, 445, 514, 636, 1723, 1812, 2049, 5432,
];

/// Ranges that rules name, apart from those of all low and high ports.
const RANGES: [(u16, u16); 12] = [
    (6000, 6063),
    (137, 139),
    (5631, 5632),
    (20, 21),
    (33434, 33523),
    (1718, 1720),
    (2000, 2010),
    (16384, 32767),
    (49152, 65535),
    (8000, 8999),
    (1024, 5000),
    (161, 162),
];

fn pick<T: Copy>(rng: &mut Rng, chances: Chances<T>) -> Option<T> {
    let sum: u32 = chances.iter().map(|c| c.0).sum();
    let mut left = rng.u32(..sum);
    chances
        .iter()
        .find(|(chance, _)| {
            if left < *chance {
                true
            } else {
                left -= chance;
                false
            }
        })
        .map(|c| c.1)
}

fn ports(rng: &mut Rng, chances: Chances<Ports>) -> (u16, u16) {
    match pick(rng, chances) {
        None | Some(Ports::Any) => ALL_PORTS,
        Some(Ports::High) => (1024, u16::MAX),
        Some(Ports::Low) => (0, 1023),
        Some(Ports::Range) if rng.u8(..3) != 0 => RANGES[rng.usize(..RANGES.len())],
        Some(Ports::Range) => {
            let first = rng.u16(1..60_000);
            (first, first + rng.u16(1..500))
        }
        Some(Ports::Exact) => {
            let port = match rng.u8(..10) {
                0..=6 => SERVICES[rng.usize(..SERVICES.len()).min(rng.usize(..SERVICES.len()))],
                7 | 8 => rng.u16(1..1024),
                _ => rng.u16(1024..),
            };
            (port, port)
        }
    }
}

/// A prefix with bits that mostly follow the heavy branch.
fn prefix(rng: &mut Rng, len: u8, skew: u32, tree: u64) -> Prefix {
    let mut address = 0u32;
    for depth in 0..len {
        // Which branch is the heavy one depends on what is above it alone.
        let seed = tree ^ u64::from(address) << 8 ^ u64::from(depth);
        let heavy = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
        let follow = rng.u32(..100) < skew;
        if heavy == follow {
            address |= 1 << (31 - depth);
        }
    }
    Prefix { address, len }
}

/// Different rules of a kind. Fewer than `count` if there are not so many.
pub fn rules(kind: Kind, count: usize, seed: u64) -> Vec<Rule> {
    let shape = match kind {
        Kind::AccessControl => &ACCESS_CONTROL,
        Kind::Firewall => &FIREWALL,
        Kind::IpChain => &IP_CHAIN,
    };
    let mut rng = Rng::with_seed(seed);
    let trees = [rng.u64(..), rng.u64(..)];
    let mut seen = HashSet::with_capacity(count);
    let mut rules = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(20) {
        if rules.len() == count {
            break;
        }
        let lengths = pick(&mut rng, shape.lengths).unwrap_or_default();
        let [source, destination] = [0, 1].map(|side| {
            let (from, to) = lengths[side];
            let len = rng.u8(from..=to);
            prefix(&mut rng, len, shape.skew[side], trees[side])
        });
        let protocol = pick(&mut rng, shape.protocols).flatten();
        let [source_ports, destination_ports] = match protocol {
            Some(TCP | UDP) => {
                [ports(&mut rng, shape.source_ports), ports(&mut rng, shape.destination_ports)]
            }
            _ => [ALL_PORTS; 2],
        };
        let rule = Rule { source, destination, source_ports, destination_ports, protocol };
        if seen.insert(rule) {
            rules.push(rule);
        }
    }
    rules
}

/// Packets, each in a rule that is chosen by chance.
pub fn traffic(rules: &[Rule], count: usize, seed: u64) -> Vec<Header> {
    let mut rng = Rng::with_seed(seed);
    let mut header = || {
        let rule = rng.choice(rules)?;
        let address = |rng: &mut Rng, p: Prefix| p.address | rng.u32(..) & p.host_mask();
        Some(Header {
            source: address(&mut rng, rule.source),
            destination: address(&mut rng, rule.destination),
            source_port: rng.u16(rule.source_ports.0..=rule.source_ports.1),
            destination_port: rng.u16(rule.destination_ports.0..=rule.destination_ports.1),
            protocol: rule.protocol.unwrap_or(if rng.bool() { TCP } else { UDP }),
        })
    };
    (0..count).map_while(|_| header()).collect()
}

impl Rule {
    /// Whether a packet matches.
    pub fn matches(&self, header: &Header) -> bool {
        let within = |(first, last): (u16, u16), port: u16| first <= port && port <= last;
        self.source.contains(header.source)
            && self.destination.contains(header.destination)
            && self.protocol.is_none_or(|p| p == header.protocol)
            && within(self.source_ports, header.source_port)
            && within(self.destination_ports, header.destination_port)
    }
}

/// The match in the language of nft, for tables of family ip, inet and netdev.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (word, prefix) in [("saddr", self.source), ("daddr", self.destination)] {
            let address = Ipv4Addr::from(prefix.address);
            match prefix.len {
                0 => continue,
                32 => write!(f, "{between}ip {word} {address}")?,
                len => write!(f, "{between}ip {word} {address}/{len}")?,
            }
            between = " ";
        }
        let protocol = match self.protocol {
            Some(TCP) => "tcp",
            Some(UDP) => "udp",
            _ => "",
        };
        let mut named = false;
        for (word, (first, last)) in
            [("sport", self.source_ports), ("dport", self.destination_ports)]
        {
            if (first, last) == ALL_PORTS {
                continue;
            }
            write!(f, "{between}{protocol} {word} {first}")?;
            if first != last {
                write!(f, "-{last}")?;
            }
            (between, named) = (" ", true);
        }
        match self.protocol {
            Some(protocol) if !named => write!(f, "{between}meta l4proto {protocol}"),
            None if between.is_empty() => f.write_str("meta l4proto 0-255"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_repeat_by_their_seed_and_have_the_shape_of_their_kind() {
        for kind in Kind::ALL {
            let list = rules(kind, 5000, 3);
            assert_eq!(list.len(), 5000);
            assert_eq!(list, rules(kind, 5000, 3));
            assert_ne!(list, rules(kind, 5000, 4));
            let share =
                |f: &dyn Fn(&Rule) -> bool| list.iter().filter(|r| f(r)).count() as f64 / 5000.0;
            let free_source = share(&|r| r.source.len == 0);
            let free_port = share(&|r| r.source_ports == ALL_PORTS);
            match kind {
                Kind::AccessControl => assert!(free_source < 0.1 && free_port > 0.95),
                Kind::Firewall => assert!(free_source > 0.25 && free_port < 0.8),
                Kind::IpChain => assert!(free_source < 0.2 && free_port < 0.9),
            }
        }
    }

    #[test]
    fn generated_traffic_matches_the_rules() {
        let list = rules(Kind::Firewall, 300, 1);
        let packets = traffic(&list, 1000, 2);
        assert_eq!(packets.len(), 1000);
        assert!(packets.iter().all(|p| list.iter().any(|r| r.matches(p))));
        assert!(traffic(&[], 10, 0).is_empty());
    }

    #[test]
    fn rules_are_written_as_nft_text() {
        let any = Rule {
            source: Prefix { address: 0, len: 0 },
            destination: Prefix { address: 0, len: 0 },
            source_ports: ALL_PORTS,
            destination_ports: ALL_PORTS,
            protocol: None,
        };
        let to = Prefix { address: 0xc612_0100, len: 24 };
        for (rule, text) in [
            (any, "meta l4proto 0-255"),
            (Rule { protocol: Some(1), ..any }, "meta l4proto 1"),
            (Rule { destination: to, ..any }, "ip daddr 198.18.1.0/24"),
            (
                Rule {
                    source: Prefix { address: 0xc612_0001, len: 32 },
                    destination: to,
                    protocol: Some(6),
                    ..any
                },
                "ip saddr 198.18.0.1 ip daddr 198.18.1.0/24 meta l4proto 6",
            ),
            (
                Rule { protocol: Some(17), source_ports: (1, 1), destination_ports: (5, 9), ..any },
                "udp sport 1 udp dport 5-9",
            ),
        ] {
            assert_eq!(rule.to_string(), text);
        }
    }
}
