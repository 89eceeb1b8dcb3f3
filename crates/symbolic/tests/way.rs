// SPDX-License-Identifier: Apache-2.0

//! Random networks, rulesets and packets: what is said of the ways of all packets is what the
//! dataplane does with each.

mod support;

use std::sync::Arc;

use fastrand::Rng;
use penstock_dataplane::{Dataplane, DropEvent, DropReason, Settings, Sink};
use penstock_net::{DevconfSysctls, Link, Mac, Network};
use penstock_packet::{Frame, Meta, Packet};
use penstock_program::expr::{CtKey, MetaKey};
use penstock_symbolic::{
    Decider, Decision, Done, End, Example, Failure, Fate, Field, Followed, HeaderBase, Limits,
    Refusal, Region, Start, Undecided, Universe, Written, asked, check, evaluate, look_at,
};
use penstock_wire::ipv4;
use support::networks::{network, ruleset};
use support::*;

/// A tag: protocol and VLAN ID.
type Tag = (u16, u16);

/// What the dataplane did with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Became {
    Left(u32, Vec<Tag>, Vec<u8>),
    Delivered,
    Lost(DropReason),
}

/// Notes what becomes of the packet itself: errors that the host sends are others.
#[derive(Default)]
struct Notes(Vec<Became>);

impl Sink for Notes {
    fn transmit(&mut self, device: &Link, frame: &[u8], _: &Meta) {
        let (mut tags, mut at) = (Vec::new(), 12);
        let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        while matches!(half(at), 0x8100 | 0x88a8) {
            tags.push((half(at), half(at + 2) & 0xfff));
            at += 4;
        }
        self.0.push(Became::Left(device.index, tags, frame[at + 2..].to_vec()));
    }

    fn deliver(&mut self, _: &Link, _: &Packet) {
        self.0.push(Became::Delivered);
    }

    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        // Packets of UDP are sent: others are errors and redirects of the host's.
        let of_host = match packet.network() {
            [first, ..] if first >> 4 == 6 => packet.network().get(6) == Some(&58),
            network => network.get(9) == Some(&1),
        };
        if !of_host {
            self.0.push(Became::Lost(drop.reason));
        }
    }
}

/// Lines that say where stations are, so that frames go the way that an example has it: its
/// destination, and next hops on bridges.
fn stations(
    net: &Network,
    came: &Followed,
    departs: Option<&Followed>,
    to: [u8; 6],
    ends: [&[u8]; 2],
) -> String {
    let mut lines = String::new();
    if let Some(port) = came.to
        && to[0] & 1 == 0
    {
        let port = net.name_of(port);
        lines.push_str(&format!("bridge fdb replace {} dev {port} master static\n", Mac(to)));
    }
    let Some((port, bridge)) =
        departs.filter(|of| of.from.is_none()).and_then(|of| of.to.zip(of.bridge))
    else {
        return lines;
    };
    let mac = "02:00:00:00:00:88";
    let port = net.name_of(port);
    lines.push_str(&format!("bridge fdb replace {mac} dev {port} master static\n"));
    // Redirects go back to the sender.
    let ends = ends.map(|address| match address.len() {
        4 => std::net::Ipv4Addr::from(<[u8; 4]>::try_from(address).unwrap()).to_string(),
        _ => std::net::Ipv6Addr::from(<[u8; 16]>::try_from(address).unwrap()).to_string(),
    });
    let gateways = [
        "198.18.3.254",
        "198.18.2.7",
        "198.18.1.9",
        "198.18.2.9",
        "198.18.1.99",
        "198.18.2.2",
        "2001:db8:3::fe",
        "2001:db8:2::7",
        "2001:db8:1::99",
        &ends[0],
        &ends[1],
    ];
    for link in net.links() {
        let mut lower = link;
        while let Some(vlan) = lower.vlan() {
            lower = net.link(vlan.lower).unwrap();
        }
        if lower.index != bridge {
            continue;
        }
        for gateway in gateways {
            lines.push_str(&format!("neigh replace {gateway} lladdr {mac} dev {}\n", link.name));
        }
    }
    lines
}

fn is_refused(why: Refusal, reason: DropReason) -> bool {
    use DropReason as Reason;
    match why {
        Refusal::NoRoute => reason == Reason::NoRoute,
        Refusal::Blackhole => reason == Reason::Blackhole,
        Refusal::Unreachable => reason == Reason::Unreachable,
        Refusal::Prohibit => reason == Reason::Prohibit,
        Refusal::NotForwarding => matches!(reason, Reason::NotForwarding | Reason::Ip6Disabled),
        Refusal::Source => matches!(reason, Reason::MartianSource | Reason::Ip6Header),
        Refusal::ReversePath => reason == Reason::ReversePath,
        Refusal::Destination => matches!(reason, Reason::MartianDestination | Reason::Ip6Header),
        Refusal::NotMember => reason == Reason::NotMember,
        Refusal::Hops => reason == Reason::Ttl,
        // Both may be so.
        Refusal::Scope => matches!(reason, Reason::Scope | Reason::Ttl),
        Refusal::NoPort => matches!(reason, Reason::BridgeTarget | Reason::BridgeVlan),
        Refusal::NotForHost | Refusal::NoAddress | Refusal::Absent => true,
    }
}

/// Addresses and ports of UDP in a packet.
fn flow(bytes: &[u8]) -> [Vec<u8>; 4] {
    let (at, len, header) = match bytes[0] >> 4 {
        4 => (12, 4, usize::from(bytes[0] & 15) * 4),
        _ => (8, 16, 40),
    };
    let part = |from: usize, len: usize| bytes.get(from..from + len).unwrap_or_default().to_vec();
    [part(at, len), part(at + len, len), part(header, 2), part(header + 2, 2)]
}

/// Packets that begin a connection, as a host would send them.
fn usual(universe: &Universe, possible: &Region) -> Region {
    let d = &universe.diagrams;
    let mut region = possible.clone();
    for (field, value) in [
        (Field::Transport, 1u32),
        (Field::CtState, 8),
        (Field::Untranslated, 1),
        (Field::Meta(MetaKey::L4Proto), 17),
        (Field::Meta(MetaKey::Mark), 0),
        (Field::Meta(MetaKey::Priority), 0),
        (Field::Meta(MetaKey::PktType), 0),
        (Field::Meta(MetaKey::SecPath), 0),
        (Field::Ct(CtKey::Status, None), 0),
    ] {
        let value = value.to_be_bytes();
        let from = 4 - (field.width().div_ceil(8) as usize).min(4);
        let wanted = universe.with_values(&[(field, value[from..].to_vec())]).unwrap();
        region = d.and(&region, &wanted).unwrap();
    }
    // Tracking calls packets invalid that are cut off.
    for field in universe.fields() {
        if let Field::Present { base: HeaderBase::Transport, bytes: ..=8 } = field {
            let there = universe.with_values(&[(*field, vec![1])]).unwrap();
            region = d.and(&region, &there).unwrap();
        }
    }
    region
}

#[test]
fn each_packet_goes_its_way() {
    let mut rng = Rng::with_seed(seed() + 11);
    let mut pool = pool();
    for address in [
        0xc612_0101u128,
        0xc612_0105,
        0xc612_0242,
        0xc612_0250,
        0xc612_0301,
        0xc612_03fe,
        0xc613_0202,
        0xc613_0001,
        0xc613_0002,
        0xc613_0003,
        0xc613_0305,
        0xc613_0405,
        0xc613_0505,
        0xc613_0605,
        0xc613_0705,
        0xc613_0805,
        0xc613_0905,
        0xc612_4d01,
        0x0808_0808,
        0x7f00_0001,
        0xffff_ffff,
        0xe000_0001,
        0xc612_01ff,
        0,
        53,
        80,
        22,
        23,
        0x10,
    ] {
        pool.extend([address; 3]);
    }
    let six = [
        "2001:db8:1::5",
        "2001:db8:2::80",
        "2001:db8:3::1",
        "2001:db8:aaaa::1",
        "2001:db8:bbbb::1",
        "2001:db8:77::9",
        "2001:4860::8888",
        "fe80::1",
        "ff02::1",
        "::1",
        "::",
    ];
    let six = six.map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
    let limits = Limits { memory: 1 << 30, ..limits() };
    let (mut packets, mut left, mut delivered, mut bridged) = (0, 0, 0, 0);
    // Rounds in which diagrams grew over the limit.
    let mut undecided = 0;
    for round in 0..rounds(4) {
        let (mut lines, settings) = network(&mut rng);
        let mut text = ruleset(&mut rng);
        // Where nothing is left to choose the dataplane has to do the same.
        if round % 2 == 0 {
            let plain = |text: &str, choice: &str| -> String {
                let kept = text.lines().filter(|line| !line.contains(choice));
                kept.map(|line| format!("{line}\n")).collect()
            };
            (lines, text) = (plain(&lines, "nexthop"), plain(&text, "-198.18."));
        }
        let mut net =
            Network::from_batch("net.ip", &lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
        let mut sysctls = DevconfSysctls::default();
        for (name, value) in &settings {
            sysctls.set(name, *value).unwrap();
        }
        net = net.with_sysctls(&sysctls);
        let net = Arc::new(net);
        let rules = load(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let start = if round % 4 == 3 { Start::Host } else { Start::Arrival };
        let program = way(&rules, &net, start);
        let place = start.place();
        let mut universe = Universe::new(place, limits, asked(place, &program));
        look_at(&mut universe, &[&program]).unwrap();
        let all = universe.diagrams.all();
        let evaluated = match evaluate(&mut universe, &program, &all) {
            Ok(evaluated) => evaluated,
            Err(failure) if format!("{failure:?}").contains("checksum") => continue,
            Err(Failure::Undecided { .. }) => {
                undecided += 1;
                continue;
            }
            Err(failure) => panic!("round {round}: {failure:?}\n{text}\n{lines}"),
        };
        let possible = universe.possible().unwrap();
        let linked = Arc::new(penstock_ruleset::link::Linked::new(&rules.generation).unwrap());
        for number in 0..20 {
            let mut region =
                if number % 5 == 4 { possible.clone() } else { usual(&universe, &possible) };
            // Of those that end alike, so that none of the ends is rare.
            let d = &universe.diagrams;
            let narrower =
                |decision: &Decision| Ok((decision.end, d.and(&region, &decision.region)?));
            let parts: Result<Vec<(End, Region)>, Undecided> =
                evaluated.decisions.iter().map(narrower).collect();
            let Ok(mut parts) = parts else {
                undecided += 1;
                break;
            };
            parts.retain(|(_, part)| !part.is_none());
            let ends_well = |end: End| matches!(end, End::Host | End::Leaves(_));
            let well: Vec<&(End, Region)> =
                parts.iter().filter(|(end, _)| number % 3 != 0 && ends_well(*end)).collect();
            match (well.len(), parts.len()) {
                (0, 0) => {}
                (0, count) => region = parts[rng.usize(..count)].1.clone(),
                (count, _) => region = well[rng.usize(..count)].1.clone(),
            }
            // Addresses of IPv6 are too many to meet the right ones by chance.
            for at in [8u16, 24] {
                let address = six[rng.usize(..six.len())];
                let bytes = (at..).zip(address);
                let mut wanted: Vec<(Field, Vec<u8>)> = bytes
                    .map(|(at, byte)| (Field::Header { base: HeaderBase::Network, at }, vec![byte]))
                    .collect();
                wanted.push((Field::Meta(MetaKey::NfProto), vec![10]));
                let wanted = universe.with_values(&wanted).unwrap();
                let narrower = universe.diagrams.and(&region, &wanted).unwrap();
                if number % 2 == 0 && !narrower.is_none() {
                    region = narrower;
                }
            }
            let Some(point) = sample(&universe, &region, &pool, &mut rng).unwrap() else {
                continue;
            };
            let case = || {
                let values: Vec<String> = universe
                    .fields()
                    .iter()
                    .map(|f| format!("{f:?} = {:x?}", universe.value(*f, &point).unwrap()))
                    .collect();
                format!("round {round}\n{text}\n{lines}\n{settings:?}\n{}", values.join("\n"))
            };
            let mut of = evaluated.decisions.iter().filter(|d| d.region.contains(&point));
            let Some(decision) = of.next() else {
                // A choice that cannot be.
                assert!(text.contains("-198.18."), "no decision\n{}", case());
                continue;
            };
            assert!(of.next().is_none(), "two decisions\n{}", case());
            let Some(example) = Example::new(&universe, &point) else { continue };
            packets += 1;
            let written = |field: Field| {
                evaluated.written.get(&field).map(|bits| universe.value_of(bits, &point))
            };
            let fate = Fate {
                end: decision.end,
                written: evaluated
                    .written
                    .iter()
                    .filter(|(field, _)| !matches!(field, Field::Header { .. }))
                    .map(|(field, bits)| (*field, Written::Value(universe.value_of(bits, &point))))
                    .collect(),
            };
            let decider = Decider { rule: decision.rule, base: decision.base };
            let verified = check(&example, &program, &fate, &[decider]);
            let verified = verified.unwrap_or_else(|wrong| {
                panic!("{wrong}; {fate:?} by {decider:?}\n{}", case());
            });
            // The dataplane chooses for itself, and knows what arrives.
            let chooses = text.contains("-198.18.") || lines.contains("nexthop");
            if start == Start::Host || number % 5 == 4 || chooses {
                continue;
            }
            let name = universe.value(Field::Meta(MetaKey::IifName), &point).unwrap();
            let device = program.way.as_ref().unwrap().devices.iter();
            let device = device.clone().find(|d| d.interface.name[..] == name[..]).unwrap();
            let came = &verified.followed[0];
            let departs = verified.followed.last().filter(|last| last.leaving.is_some());
            let mac = |link: u32| net.link(link).unwrap().mac.0;
            let mut bytes = match came.to {
                // To a station that nobody has heard of.
                Some(_) => vec![2, 0, 0, 0, 0, 0x77],
                None => mac(came.bridge.unwrap_or(device.link)).to_vec(),
            };
            bytes.extend([2, 0, 0, 0, 0, 0x99]);
            for (at, byte) in (0..).zip(&mut bytes) {
                let asked = Field::Header { base: HeaderBase::Link, at };
                *byte = universe.value(asked, &point).map_or(*byte, |value| value[0]);
            }
            let to: [u8; 6] = bytes[..6].try_into().unwrap();
            for (protocol, control) in &came.arrival_tags {
                bytes.extend(protocol.to_be_bytes());
                bytes.extend(control.to_be_bytes());
            }
            let mut network = example.packet.network().to_vec();
            // No rule asks for options, and the host wants them to be sound.
            if network[0] >> 4 == 4 && network[0] & 15 != 5 {
                continue;
            }
            // The bytes have another meaning in IPv6.
            if network[0] >> 4 == 4
                && let Some(mut header) = ipv4::HeaderMut::new(&mut network)
            {
                header.fill_checksum();
            }
            let network = &network[..];
            bytes.extend(if network[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] });
            bytes.extend(network);
            let wanted = {
                let mut wanted = flow(network)[1].clone();
                if let Some(value) = written(Field::Done(Done::NewDestination))
                    && value.iter().any(|byte| *byte != 0)
                {
                    wanted = value[..wanted.len()].to_vec();
                }
                wanted
            };
            let more = stations(&net, came, departs, to, [&flow(network)[0], &wanted]);
            let known = match more.is_empty() {
                true => net.clone(),
                false => {
                    let lines = format!("{lines}{more}");
                    let net = Network::from_batch("net.ip", &lines);
                    Arc::new(net.unwrap_or_else(|e| panic!("{e}\n{lines}")).with_sysctls(&sysctls))
                }
            };
            let mut dataplane = Dataplane::new(known, Settings::default());
            dataplane.set_rules(linked.clone());
            let mut notes = Notes::default();
            let arrival = came.arrival.unwrap();
            let frame = Frame { device: arrival, bytes: &bytes, time: 1_700_000_000_000_000_000 };
            dataplane.receive([frame], &mut notes);
            let mut told = flow(network);
            for (which, done) in [
                (0, Done::NewSource),
                (1, Done::NewDestination),
                (2, Done::NewSourcePort),
                (3, Done::NewDestinationPort),
            ] {
                let value = written(Field::Done(done)).unwrap_or_default();
                if value.iter().any(|byte| *byte != 0) {
                    let len = told[which].len();
                    told[which] = value[..len].to_vec();
                }
            }
            let is_told = |packet: &[u8]| {
                let now = flow(packet);
                // Rules write the destination, too.
                let same = told[1] == now[1] || text.contains("ip daddr set");
                same && told[0] == now[0] && told[2..] == now[2..]
            };
            let lost = notes.0.iter().find_map(|became| match became {
                Became::Lost(reason) => Some(*reason),
                _ => None,
            });
            // Frames to groups go to the host and to other ports, too.
            let is_group = came.bridge.is_some() && to[0] & 1 != 0;
            let leaves = notes.0.iter().any(|became| {
                let Some(departs) = departs else { return false };
                let tags: Vec<Tag> = departs
                    .leaving_tags
                    .iter()
                    .map(|(protocol, control)| (*protocol, control & 0xfff))
                    .collect();
                matches!(became, Became::Left(by, of, packet)
                    if Some(*by) == departs.leaving && *of == tags && is_told(packet))
            });
            // Errors and redirects to the sender leave, too, or come to the host.
            let is_so = match (decision.end, lost) {
                (End::Host, None) => notes.0.contains(&Became::Delivered),
                (End::Host, Some(_)) => is_group && notes.0.contains(&Became::Delivered),
                (End::Leaves(_), None) => leaves,
                (End::Leaves(_), Some(_)) => is_group && leaves,
                (End::Drop | End::Reject(..), Some(_)) => true,
                (End::Refused(why), Some(reason)) => is_group || is_refused(why, reason),
                _ => false,
            };
            bridged += usize::from(came.to.is_some() && matches!(decision.end, End::Leaves(_)));
            left += usize::from(matches!(decision.end, End::Leaves(_)));
            delivered += usize::from(decision.end == End::Host);
            assert!(is_so, "{:?}, and the dataplane {:?}\n{}", decision.end, notes.0, case());
        }
    }
    println!(
        "{packets} packets, {left} left and {delivered} were delivered as was said; of those that \
         left {bridged} were bridged"
    );
    assert!(left + delivered > 0, "{left} {delivered}");
    assert!(undecided <= rounds(4) / 2, "{undecided} rounds");
}
