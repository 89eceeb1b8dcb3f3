// SPDX-License-Identifier: Apache-2.0

//! Random networks, rulesets and packets: what is said of the ways of all packets is what the
//! dataplane does with each.

mod support;

use std::sync::Arc;

use fastrand::Rng;
use penstock_dataplane::{Dataplane, DropEvent, DropReason, Settings, Sink};
use penstock_net::{DevconfSysctls, Link, Network};
use penstock_packet::{Frame, Meta, Packet};
use penstock_program::expr::{CtKey, MetaKey};
use penstock_symbolic::{
    Decider, Decision, Done, End, Example, Failure, Fate, Field, HeaderBase, Limits, Refusal,
    Region, Start, Undecided, Universe, Written, asked, check, evaluate, look_at,
};
use penstock_wire::ipv4;
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

    fn drop(&mut self, drop: &DropEvent<'_>, _: &Packet) {
        self.0.push(Became::Lost(drop.reason));
    }
}

/// The lowest device below one, and the tags that frames have there.
fn below(net: &Network, device: u32) -> (u32, Vec<Tag>) {
    let (mut lowest, mut tags) = (device, Vec::new());
    while let Some(vlan) = net.link(lowest).unwrap().vlan() {
        tags.insert(0, (vlan.protocol, vlan.id));
        lowest = vlan.lower;
    }
    (lowest, tags)
}

/// Lines for `ip -batch`, and settings of devices.
fn network(rng: &mut Rng) -> (String, Vec<(String, u32)>) {
    let mut lines = String::from("link set lo up\n");
    lines.push_str(
        "link add name trunk address 02:00:00:00:00:09 type veth\nlink set trunk arp off up\n\
         link add link trunk name outer type vlan protocol 802.1ad id 7\nlink set outer arp off up\n",
    );
    let vlans = [
        "link trunk name lan type vlan id 10 ingress-qos-map 1:7 5:3 egress-qos-map 7:2",
        "link trunk name lan type vlan id 10",
        "link outer name dmz type vlan id 10",
        "link outer name lan type vlan id 300 egress-qos-map 0:5",
    ];
    let vlans: Vec<&str> = vlans.into_iter().filter(|_| rng.u8(..3) == 0).collect();
    for (number, name) in (1..).zip(["lan", "dmz", "wan"]) {
        let vlan = vlans.iter().find(|vlan| vlan.contains(&format!("name {name} ")));
        let add = match vlan {
            Some(vlan) => (*vlan).to_owned(),
            None => format!("name {name} type veth"),
        };
        lines.push_str(&format!(
            "link add {add}\nlink set {name} address 02:00:00:00:00:0{number}\n\
             link set {name} arp off\nlink set {name} up\n\
             addr add 198.18.{number}.1/24 dev {name}\n\
             addr add 2001:db8:{number}::1/64 dev {name} nodad\n"
        ));
    }
    let usual = [
        "route add default via 198.18.3.254",
        "route add default via 2001:db8:3::fe dev wan",
        "route add 198.19.0.0/16 via 198.18.2.7",
        "route add 198.19.2.0/24 dev lan",
        "route add blackhole 198.19.3.0/24",
        "route add unreachable 198.19.4.0/24",
        "route add prohibit 198.19.5.0/24",
        "route add throw 198.19.6.0/24",
        "route add 2001:db8:aaaa::/48 via 2001:db8:2::7 dev dmz",
        "route add blackhole 2001:db8:bbbb::/48",
        "route add 198.19.7.0/24 nexthop via 198.18.1.9 nexthop via 198.18.2.9",
        "addr add 198.18.77.1/24 dev wan",
        "addr add 2001:db8:77::1/64 dev wan nodad",
        "route add 198.19.8.0/24 tos 0x10 via 198.18.1.9",
    ];
    let policy = [
        "route add default via 198.18.1.99 table 7\nrule add fwmark 7 table 7",
        "rule add from 198.18.1.0/25 blackhole",
        "rule add iif dmz to 198.19.0.0/16 prohibit",
        "route add 198.19.9.0/24 dev dmz table 9\nrule add ipproto udp dport 80 table 9",
        "rule add not from 198.18.0.0/15 to 198.19.1.0/24 unreachable",
        "rule add priority 5 fwmark 7/15 goto 100\nrule add priority 50 unreachable\n\
         rule add priority 100 nop",
        "-6 route add default via 2001:db8:1::99 dev lan table 7\n-6 rule add fwmark 7 table 7",
        "rule add tos 0x10 table 7",
    ];
    for line in usual.iter().filter(|_| rng.bool()) {
        lines.push_str(line);
        lines.push('\n');
    }
    if rng.u8(..3) == 0 {
        for line in policy.iter().filter(|_| rng.u8(..3) == 0) {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    let mut settings = Vec::new();
    for name in ["lan", "dmz", "wan"] {
        for (key, values) in [("rp_filter", 3), ("forwarding", 2), ("accept_local", 2)] {
            if rng.u8(..8) == 0 {
                settings.push((format!("net.ipv4.conf.{name}.{key}"), rng.u32(..values)));
            }
        }
        if rng.u8(..12) == 0 {
            settings.push((format!("net.ipv6.conf.{name}.forwarding"), rng.u32(..2)));
        }
    }
    (lines, settings)
}

/// A ruleset for hooks of the way.
fn ruleset(rng: &mut Rng) -> String {
    let mut rules = |all: &[&str], most: usize| -> String {
        let count = rng.usize(..=most);
        (0..count).map(|_| format!("{}\n", all[rng.usize(..all.len())])).collect()
    };
    let filter = [
        "iifname \"lan\" accept",
        "iifname \"wan\" drop",
        "ip daddr 198.18.2.0/24 accept",
        "ip daddr 198.18.2.80 udp dport 80 accept",
        "ip saddr 198.18.1.0/24 reject",
        "ip6 daddr 2001:db8:2::/64 drop",
        "udp dport 1024-65535 drop",
        "meta mark 7 accept",
        "ct state new udp dport 53 accept",
        "ip ttl < 3 drop",
        "meta nfproto ipv6 udp dport 22 reject",
    ];
    let out = [
        "oifname \"wan\" ip saddr 198.18.1.0/24 accept",
        "oifname { \"lan\", \"dmz\" } udp dport 80 drop",
        "iifname . oifname { \"lan\" . \"wan\", \"wan\" . \"dmz\" } accept",
        "meta oiftype ether accept",
        "ct original ip daddr 198.18.3.1 accept",
        "ct status dnat accept",
    ];
    let early = [
        "ip saddr 198.18.1.0/24 meta mark set 7",
        "udp dport 53 meta mark set 7",
        "iifname \"dmz\" meta mark set 0x17",
        "ip daddr 198.19.2.2 ip daddr set 198.18.2.2",
        "ip dscp set 4",
        "udp dport 23 notrack",
        "iifname \"wan\" ip saddr 198.18.1.0/24 drop",
        "ip6 hoplimit 1 drop",
    ];
    let dnat = [
        "iifname \"wan\" udp dport 80 dnat ip to 198.18.2.80:8080",
        "ip daddr 198.18.3.1 dnat ip to 198.18.1.5",
        "udp dport 53 redirect",
        "udp dport 22 redirect to :2222",
        "dnat ip to ip daddr map { 198.19.0.1 : 198.18.2.2, 198.19.0.2 : 198.18.1.2 }",
        "ip6 daddr 2001:db8:3::1 dnat ip6 to 2001:db8:2::80",
        "ip daddr 198.19.4.0/24 dnat ip prefix to 198.18.2.0/24",
        "ip daddr 198.19.0.3 dnat ip to 198.18.2.10-198.18.2.20",
    ];
    let snat = [
        "oifname \"wan\" masquerade",
        "oifname \"dmz\" ip saddr 198.18.1.0/24 snat ip to 198.18.2.99",
        "ip6 saddr 2001:db8:1::/64 masquerade",
        "udp dport 8080 snat ip to 198.18.2.100:4000",
        "oifname \"wan\" udp dport 1-9999 snat ip to 198.18.3.10-198.18.3.20:1000-2000",
    ];
    let device = [
        "ip saddr 198.18.1.66 drop",
        "ip daddr 198.18.2.66 drop",
        "udp sport 1 drop",
        "vlan id 10 udp dport 53 drop",
        "vlan id 300 meta mark set 7",
        "vlan pcp 5 drop",
        "vlan type ip udp dport 22 drop",
        "ether type 8021q udp dport 9 drop",
        "meta protocol 8021q counter",
        "meta protocol ip6 udp dport 80 drop",
        "iifname \"lan\" udp dport 80 drop",
        "iifname \"trunk\" vlan id 7 counter",
        "oifname \"outer\" udp dport 443 drop",
        "ether saddr 02:00:00:00:00:01 udp dport 54 drop",
        "meta priority 3 udp dport 53 drop",
        "meta priority set 7",
        "meta pkttype host udp dport 55 drop",
    ];
    let egress = device.map(|rule| rule.replace("iifname", "oifname"));
    let egress: Vec<&str> = egress.iter().map(|rule| &**rule).collect();
    let ingress = ["ether daddr 02:00:00:00:00:01 udp dport 56 drop", "ip dscp set 4"];
    let ingress: Vec<&str> = device.into_iter().chain(ingress).collect();
    let policy = ["accept", "drop"];
    let mut text = String::from("table inet t {\n");
    for (name, hook, all) in [
        ("pre", "filter hook prerouting priority mangle", &early[..]),
        ("raw", "filter hook prerouting priority raw", &early[..]),
        ("to", "nat hook prerouting priority dstnat", &dnat),
        ("late", "filter hook prerouting priority 0", &filter),
        ("input", "filter hook input priority 0", &filter),
        ("inat", "nat hook input priority srcnat", &["snat ip to 198.18.9.9"]),
        ("post", "filter hook postrouting priority 150", &out),
        ("from", "nat hook postrouting priority srcnat", &snat),
        ("output", "filter hook output priority 0", &filter),
        ("turn", "route hook output priority mangle", &early[..]),
        ("onat", "nat hook output priority -100", &dnat[..4]),
    ] {
        let body = rules(all, 3);
        text.push_str(&format!("chain {name} {{\ntype {hook};\n{body}}}\n"));
    }
    let both: Vec<&str> = filter.iter().chain(&out).copied().collect();
    let body = rules(&both, 6);
    text.push_str(&format!(
        "chain forward {{\ntype filter hook forward priority 0; policy drop;\n{body}}}\n"
    ));
    text.push_str("}\ntable netdev d {\n");
    for (hook, name, all) in [
        ("ingress", "lan", &ingress),
        ("ingress", "trunk", &ingress),
        ("ingress", "outer", &ingress),
        ("egress", "dmz", &egress),
        ("egress", "lan", &egress),
        ("egress", "trunk", &egress),
        ("egress", "outer", &egress),
    ] {
        let body = rules(all, 1);
        text.push_str(&format!(
            "chain {hook}_{name} {{\ntype filter hook {hook} device \"{name}\" priority 0;\n{body}}}\n"
        ));
    }
    text.push_str("}\ntable inet i {\n");
    for name in ["trunk", "outer"] {
        let body = rules(&["meta nfproto ipv4 udp dport 57 drop", "ip daddr 198.19.0.1 drop"], 1);
        text.push_str(&format!(
            "chain {name} {{\ntype filter hook ingress device \"{name}\" priority 1;\n{body}}}\n"
        ));
    }
    text.push_str("}\n");
    // Chains without rules, and other policies.
    if rng.u8(..3) == 0 {
        text = text.replace("policy drop", &format!("policy {}", policy[0]));
    }
    text
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
    let (mut packets, mut left, mut delivered) = (0, 0, 0);
    // Rounds in which diagrams grew over the limit.
    let mut undecided = 0;
    for round in 0..rounds(6) {
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
            if let Err(wrong) = check(&example, &program, &fate, &[decider]) {
                panic!("{wrong}; {fate:?} by {decider:?}\n{}", case());
            }
            // The dataplane chooses for itself, and knows what arrives.
            let chooses = text.contains("-198.18.") || lines.contains("nexthop");
            if start == Start::Host || number % 5 == 4 || chooses {
                continue;
            }
            let name = universe.value(Field::Meta(MetaKey::IifName), &point).unwrap();
            let device = program.way.as_ref().unwrap().devices.iter();
            let device = device.clone().find(|d| d.interface.name[..] == name[..]).unwrap();
            let link = net.link(device.link).unwrap();
            let mut bytes = link.mac.0.to_vec();
            bytes.extend([2, 0, 0, 0, 0, 0x99]);
            for (at, byte) in (0..).zip(&mut bytes) {
                let asked = Field::Header { base: HeaderBase::Link, at };
                *byte = universe.value(asked, &point).map_or(*byte, |value| value[0]);
            }
            let (lowest, tags) = below(&net, device.link);
            for (number, (protocol, id)) in (0..).zip(tags) {
                let code = Field::Header { base: HeaderBase::Link, at: 14 + 4 * number };
                let code = universe.value(code, &point).map_or(0, |value| value[0] & 0xf0);
                bytes.extend(protocol.to_be_bytes());
                bytes.extend((id | u16::from(code) << 8).to_be_bytes());
            }
            let mut network = example.packet.network().to_vec();
            // The bytes have another meaning in IPv6.
            if network[0] >> 4 == 4
                && let Some(mut header) = ipv4::HeaderMut::new(&mut network)
            {
                header.fill_checksum();
            }
            let network = &network[..];
            bytes.extend(if network[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] });
            bytes.extend(network);
            let mut dataplane = Dataplane::new(net.clone(), Settings::default());
            dataplane.set_rules(linked.clone());
            let mut notes = Notes::default();
            let frame = Frame { device: lowest, bytes: &bytes, time: 1_700_000_000_000_000_000 };
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
            // Errors and redirects to the sender leave, too, or come to the host.
            let is_so = match (decision.end, lost) {
                (End::Host, None) => notes.0.contains(&Became::Delivered),
                (End::Leaves(index), None) => notes.0.iter().any(|became| {
                    matches!(became, Became::Left(by, tags, packet)
                        if (*by, tags.clone()) == below(&net, index) && is_told(packet))
                }),
                (End::Drop | End::Reject(..), Some(_)) => true,
                (End::Refused(why), Some(reason)) => is_refused(why, reason),
                _ => false,
            };
            left += usize::from(matches!(decision.end, End::Leaves(_)));
            delivered += usize::from(decision.end == End::Host);
            assert!(is_so, "{:?}, and the dataplane {:?}\n{}", decision.end, notes.0, case());
        }
    }
    println!("{packets} packets, {left} left and {delivered} were delivered as was said");
    assert!(left + delivered > 0, "{left} {delivered}");
    assert!(undecided <= rounds(6) / 2, "{undecided} rounds");
}
