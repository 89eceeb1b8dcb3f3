// SPDX-License-Identifier: Apache-2.0

//! Random flow specifications and random packets: what the RFCs say of each packet, evaluated here
//! from the packet's fields, and what the rules do with its bytes.

use std::collections::BTreeMap;

use penstock::{Counted, Dataplane, Engine, Network, Ruleset};
use penstock_feeds::flow::action::{Actions, Rate};
use penstock_feeds::flow::rules::FlowRules;
use penstock_feeds::flow::{BitField, Bits, Component, Field, FlowSpec, Numeric, Pattern};
use penstock_feeds::span::Family;

/// A packet by its fields.
#[derive(Clone, Debug)]
struct Packet {
    family: Family,
    source: u128,
    destination: u128,
    protocol: u8,
    /// The first four bytes of TCP and UDP, or type and code of ICMP in the first two.
    ports: [u16; 2],
    flags: u8,
    dscp: u8,
    label: u32,
    /// Bytes after the IP header and extension headers.
    payload: usize,
    df: bool,
    /// Fragment offset, and whether more follow; an IPv6 fragment has a header for it.
    fragment: Option<(u16, bool)>,
    /// IPv6: destination options before the payload.
    options: bool,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Packet {
    fn random(random: &mut fastrand::Rng) -> Packet {
        let family = if random.bool() { Family::V4 } else { Family::V6 };
        let icmp = if family == Family::V4 { 1 } else { 58 };
        let offset = if random.bool() { 0 } else { random.u16(1..0x100) };
        let fragment = (random.u8(0..3) == 0).then(|| (offset, random.bool()));
        // What the protocol is after options of a later fragment, nobody can tell.
        let is_later = fragment.is_some_and(|(offset, _)| offset != 0);
        Packet {
            family,
            source: address(family, random),
            destination: address(family, random),
            protocol: [TCP, UDP, icmp, 47][random.usize(0..4)],
            ports: [port(random), port(random)],
            flags: random.u8(..) & random.u8(..),
            dscp: random.u8(0..8),
            label: random.u32(0..4),
            payload: 20 + random.usize(0..20),
            df: random.bool(),
            fragment,
            options: random.u8(0..4) == 0 && !is_later,
        }
    }

    /// What the fragment component compares: RFC 8955, section 4.2.2.12.
    fn fragment_bits(&self) -> u32 {
        let (offset, more) = self.fragment.unwrap_or((0, false));
        let df = u32::from(self.df && self.family == Family::V4);
        df | u32::from(offset != 0) << 1
            | u32::from(offset == 0 && more) << 2
            | u32::from(offset != 0 && !more) << 3
    }

    /// Whether the transport header is there.
    fn has_transport(&self) -> bool {
        self.fragment.is_none_or(|(offset, _)| offset == 0)
    }

    fn length(&self) -> u32 {
        let headers = match self.family {
            Family::V4 => 20,
            Family::V6 => {
                40 + 8 * usize::from(self.fragment.is_some()) + 8 * usize::from(self.options)
            }
        };
        (headers + self.payload) as u32
    }

    fn bytes(&self) -> Vec<u8> {
        let mut payload = vec![0u8; self.payload];
        if self.has_transport() {
            if matches!(self.protocol, TCP | UDP) {
                payload[..2].copy_from_slice(&self.ports[0].to_be_bytes());
                payload[2..4].copy_from_slice(&self.ports[1].to_be_bytes());
            } else {
                payload[0] = self.ports[0] as u8;
                payload[1] = self.ports[1] as u8;
            }
            if self.protocol == TCP {
                payload[12] = 5 << 4;
                payload[13] = self.flags;
            }
        } else {
            // What would be ports must not be taken for them.
            payload[..4].copy_from_slice(&[0, 1, 0, 1]);
        }
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
        let (offset, more) = self.fragment.unwrap_or((0, false));
        match self.family {
            Family::V4 => {
                frame.extend([8, 0]);
                let length = (self.length() as u16).to_be_bytes();
                let field = u16::from(self.df) << 14 | u16::from(more) << 13 | offset;
                let field = field.to_be_bytes();
                let mut header = vec![0x45, self.dscp << 2, length[0], length[1], 0, 7];
                header.extend([field[0], field[1], 64, self.protocol, 0, 0]);
                header.extend((self.source as u32).to_be_bytes());
                header.extend((self.destination as u32).to_be_bytes());
                let sum: u32 =
                    header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend(header);
            }
            Family::V6 => {
                frame.extend([0x86, 0xdd]);
                let word = 6 << 28 | u32::from(self.dscp) << 22 | self.label;
                frame.extend(word.to_be_bytes());
                frame.extend((self.length() as u16 - 40).to_be_bytes());
                let after_fragment = if self.options { 60 } else { self.protocol };
                frame.push(if self.fragment.is_some() { 44 } else { after_fragment });
                frame.push(64);
                frame.extend(self.source.to_be_bytes());
                frame.extend(self.destination.to_be_bytes());
                if self.fragment.is_some() {
                    frame.extend([after_fragment, 0]);
                    frame.extend((offset << 3 | u16::from(more)).to_be_bytes());
                    frame.extend([0, 0, 0, 7]);
                }
                if self.options {
                    frame.extend([self.protocol, 0, 1, 4, 0, 0, 0, 0]);
                }
            }
        }
        frame.extend(payload);
        frame
    }
}

fn address(family: Family, random: &mut fastrand::Rng) -> u128 {
    match family {
        Family::V4 => 0xc612_0000 + random.u128(0..4) * 0x100 + random.u128(1..4),
        Family::V6 => (0x2001_0db8 << 96) + (random.u128(0..4) << 64) + random.u128(1..4),
    }
}

fn port(random: &mut fastrand::Rng) -> u16 {
    [0, 1, 2, 3, 80, 65535][random.usize(0..6)]
}

/// The meaning of a list of comparisons, by splitting it at each OR.
fn any_group<T: Clone>(items: &[T], and: fn(&T) -> bool, met: impl Fn(&T) -> bool) -> bool {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        match groups.last_mut() {
            Some(group) if and(item) => group.push(item.clone()),
            _ => groups.push(vec![item.clone()]),
        }
    }
    groups.iter().any(|group| group.iter().all(&met))
}

fn compares(items: &[Numeric], value: u32) -> bool {
    any_group(
        items,
        |i| i.and,
        |i| {
            let order = value.cmp(&i.value);
            (i.less && order.is_lt()) || (i.greater && order.is_gt()) || (i.equal && order.is_eq())
        },
    )
}

fn has_bits(items: &[Bits], value: u32) -> bool {
    any_group(
        items,
        |i| i.and,
        |i| {
            let met = if i.all { value & i.value == i.value } else { value & i.value != 0 };
            if i.not { !met } else { met }
        },
    )
}

fn meets(packet: &Packet, spec: &FlowSpec) -> bool {
    let has_ports = matches!(packet.protocol, TCP | UDP) && packet.has_transport();
    let is_icmp = packet.has_transport()
        && packet.protocol == if packet.family == Family::V4 { 1 } else { 58 };
    let within = |pattern: &Pattern, address: u128| {
        let bits = u32::from(spec.family.bits());
        (u32::from(pattern.offset)..u32::from(pattern.length)).all(|bit| {
            (address >> (bits - 1 - bit)) & 1 == (pattern.address >> (bits - 1 - bit)) & 1
        })
    };
    let [source, destination] = packet.ports.map(u32::from);
    packet.family == spec.family
        && spec.components().iter().all(|component| match component {
            Component::Destination(pattern) => within(pattern, packet.destination),
            Component::Source(pattern) => within(pattern, packet.source),
            Component::Numbers(field, items) => match field {
                Field::Protocol => compares(items, packet.protocol.into()),
                Field::Port => {
                    has_ports && (compares(items, source) || compares(items, destination))
                }
                Field::DestinationPort => has_ports && compares(items, destination),
                Field::SourcePort => has_ports && compares(items, source),
                Field::IcmpType => is_icmp && compares(items, source & 0xff),
                Field::IcmpCode => is_icmp && compares(items, destination & 0xff),
                Field::Length => compares(items, packet.length()),
                Field::Dscp => compares(items, packet.dscp.into()),
                Field::FlowLabel => compares(items, packet.label),
            },
            Component::Bits(BitField::TcpFlags, items) => {
                packet.protocol == TCP
                    && packet.has_transport()
                    && has_bits(items, packet.flags.into())
            }
            Component::Bits(BitField::Fragment, items) => has_bits(items, packet.fragment_bits()),
        })
}

fn random_component(kind: u8, family: Family, random: &mut fastrand::Rng) -> Component {
    let pattern = |random: &mut fastrand::Rng| {
        let address = address(family, random);
        let (length, offset) = match family {
            Family::V4 => ([0, 16, 24, 31, 32][random.usize(0..5)], 0),
            Family::V6 => {
                let length = [48, 63, 64, 127, 128][random.usize(0..5)];
                (length, [0, 0, 16, 33][random.usize(0..4)])
            }
        };
        Pattern::new(family, address, offset, length).unwrap()
    };
    let numbers = |field: Field, random: &mut fastrand::Rng| {
        let items = (0..random.usize(1..4)).map(|_| {
            let value = match field {
                Field::Protocol => [1, 6, 17, 58, 300][random.usize(0..5)],
                Field::Length => random.u32(36..100),
                Field::Dscp => random.u32(0..9),
                Field::FlowLabel => random.u32(0..5),
                _ => u32::from(port(random)),
            };
            Numeric {
                and: random.bool(),
                less: random.u8(0..3) == 0,
                greater: random.u8(0..3) == 0,
                equal: random.u8(0..3) != 0,
                value,
            }
        });
        Component::Numbers(field, items.collect())
    };
    let bits = |field, most: u32, random: &mut fastrand::Rng| {
        let items = (0..random.usize(1..4)).map(|_| Bits {
            and: random.bool(),
            not: random.bool(),
            all: random.bool(),
            value: random.u32(0..most),
        });
        Component::Bits(field, items.collect())
    };
    match kind {
        1 => Component::Destination(pattern(random)),
        2 => Component::Source(pattern(random)),
        3 => numbers(Field::Protocol, random),
        4 => numbers(Field::Port, random),
        5 => numbers(Field::DestinationPort, random),
        6 => numbers(Field::SourcePort, random),
        7 => numbers(Field::IcmpType, random),
        8 => numbers(Field::IcmpCode, random),
        9 => bits(BitField::TcpFlags, 32, random),
        10 => numbers(Field::Length, random),
        11 => numbers(Field::Dscp, random),
        12 => bits(BitField::Fragment, 16, random),
        _ => numbers(Field::FlowLabel, random),
    }
}

fn random_spec(random: &mut fastrand::Rng) -> FlowSpec {
    let family = if random.bool() { Family::V4 } else { Family::V6 };
    let highest = if family == Family::V4 { 12 } else { 13 };
    let mut kinds: Vec<u8> = (1..=highest).collect();
    random.shuffle(&mut kinds);
    kinds.truncate(random.usize(1..4));
    let components = kinds.iter().map(|kind| random_component(*kind, family, random)).collect();
    FlowSpec::new(family, components).unwrap()
}

/// A ruleset with the rules of specifications in this order.
fn ruleset(network: &Network, flows: &[FlowRules]) -> Ruleset {
    let mut text = String::from("table inet bgp {\n");
    for (name, definition) in flows.iter().filter_map(|f| f.limit.as_ref()) {
        text.push_str(&format!("limit {name} {{ {definition}; }}\n"));
    }
    text.push_str("chain flowspec {\ntype filter hook prerouting priority -450;\n");
    for (_, rule) in flows.iter().flat_map(|f| &f.rules) {
        text.push_str(rule);
        text.push('\n');
    }
    text.push_str("}\n}\n");
    Ruleset::from_text(network, &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Packets that the rules of each specification have counted.
fn counted(ruleset: &Ruleset) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for counter in ruleset.counters() {
        let Counted::Rule { text, .. } = counter.what else { continue };
        let comment = text.split("comment \"").nth(1).unwrap();
        *all.entry(comment[..16].to_owned()).or_default() += counter.packets;
    }
    all
}

fn network() -> Network {
    Network::from_text(
        "link add wan address 02:00:00:00:00:01 type veth
         link set wan up
         addr add 198.18.9.1/24 dev wan
         addr add 2001:db8:9::1/64 dev wan",
    )
    .unwrap()
}

#[test]
fn rules_do_with_every_packet_what_the_rfcs_say() {
    let seed = std::env::var("PENSTOCK_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(22);
    let rounds = std::env::var("PENSTOCK_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(150);
    let mut random = fastrand::Rng::with_seed(seed);
    let network = network();
    let device = network.device("wan").unwrap();
    let (mut met_some, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut flows: Vec<(FlowSpec, Actions, FlowRules)> = Vec::new();
        for _ in 0..random.usize(1..8) {
            let spec = random_spec(&mut random);
            let actions = Actions {
                rate: random.bool().then_some(Rate::Zero),
                mark: random.bool().then(|| random.u8(0..8)),
                goes_on: random.bool(),
            };
            match FlowRules::new(&spec, &actions) {
                Ok(rules) => flows.push((spec, actions, rules)),
                Err(why) => {
                    assert_eq!(why, "no packet can meet it");
                    for _ in 0..50 {
                        let packet = Packet::random(&mut random);
                        assert!(!meets(&packet, &spec), "round {round}: {spec}: {packet:?}");
                    }
                    refused += 1;
                }
            }
        }
        flows.sort_by(|a, b| a.0.order(&b.0));
        flows.dedup_by(|a, b| a.0 == b.0);
        let rules: Vec<FlowRules> = flows.iter().map(|f| f.2.clone()).collect();
        let ruleset = ruleset(&network, &rules);
        let mut dataplane =
            Dataplane::builder(&network).engine(Engine::Interpreter).build(&ruleset).unwrap();
        let mut expected: BTreeMap<String, u64> =
            rules.iter().map(|r| (r.key.clone(), 0)).collect();
        for _ in 0..60 {
            let packet = Packet::random(&mut random);
            let mut now = packet.clone();
            for (spec, actions, rules) in &flows {
                if !meets(&now, spec) {
                    continue;
                }
                *expected.get_mut(&rules.key).unwrap() += 1;
                met_some += 1;
                if actions.rate.is_some() || !actions.goes_on {
                    break;
                }
                now.dscp = actions.mark.unwrap_or(now.dscp);
            }
            dataplane.process(device, &packet.bytes(), 1_700_000_000_000_000_000);
            let found = counted(&ruleset);
            assert_eq!(
                found,
                expected,
                "round {round}: {packet:?}\n{}",
                ruleset.to_text(1_700_000_000_000_000_000)
            );
        }
    }
    assert!(met_some > rounds * 10 && refused > 0, "{met_some} {refused}");
}

#[test]
fn packets_beyond_a_rate_are_dropped_and_others_pass() {
    let network = network();
    let pattern = Pattern::new(Family::V4, 0xc612_0000, 0, 16).unwrap();
    let spec = FlowSpec::new(Family::V4, vec![Component::Destination(pattern)]).unwrap();
    let rate = |rate| Actions { rate: Some(rate), ..Actions::default() };
    for (actions, expected) in
        [(rate(Rate::Bytes(1000)), [40, 10]), (rate(Rate::Packets(10)), [40, 10])]
    {
        let rules = FlowRules::new(&spec, &actions).unwrap();
        let ruleset = ruleset(&network, &[rules]);
        let mut dataplane = Dataplane::new(&network, &ruleset).unwrap();
        let packet = Packet {
            family: Family::V4,
            source: 0xc612_0901,
            destination: 0xc612_0001,
            protocol: UDP,
            ports: [1, 2],
            flags: 0,
            dscp: 0,
            label: 0,
            payload: 80,
            df: false,
            fragment: None,
            options: false,
        };
        for _ in 0..50 {
            let device = network.device("wan").unwrap();
            dataplane.process(device, &packet.bytes(), 1_700_000_000_000_000_000);
        }
        let counts: Vec<u64> = ruleset.counters().iter().map(|c| c.packets).collect();
        assert_eq!(counts, expected, "{actions:?}");
    }
}
