// SPDX-License-Identifier: Apache-2.0

//! A router with a wire on each side, frames in, lines of text out.
#![allow(dead_code)]

use std::sync::Arc;

use penstock_dataplane::{
    Dataplane, DropEvent, Frame, LogRecord, Settings, Sink, TraceEvent, TraceRecord,
};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_program::expr::{
    Cmp, CmpOp, Counter, Expr, Immediate, ImmediateData, Payload, PayloadBase,
};
use penstock_program::{Data, Hook, Register, Verdict};
use penstock_ruleset::change::{Mode, NewBase, NewChain, NewRule, Position};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::ChainType;
use penstock_ruleset::{Change, Family, Ruleset};
use penstock_testkit::build::*;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, pppoe, protocol, tcp, vlan};

pub const SECOND: u64 = 1_000_000_000;
pub const START: u64 = 1_700_000_000 * SECOND;

/// Two wires with a host on each, a smaller MTU and a VLAN on the second.
pub const NET: &str = "
link set lo up
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 mtu 1400 type veth
link add link lan name lan.7 type vlan id 7 egress-qos-map 6:5
link set wan addrgenmode none
link set wan up
link set lan addrgenmode none
link set lan up
link set lan.7 addrgenmode none
link set lan.7 up
addr add 198.18.0.1/24 dev wan
addr add 198.18.1.1/24 dev lan
addr add 198.18.7.1/24 dev lan.7
addr add 2001:db8::1/64 dev wan nodad
addr add 2001:db8:1::1/64 dev lan nodad
addr add 2001:db8:7::1/64 dev lan.7 nodad
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan
neigh add 198.18.7.7 lladdr 02:00:00:00:00:c7 dev lan.7
neigh add 2001:db8::7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 2001:db8:1::7 lladdr 02:00:00:00:00:b7 dev lan
neigh add 2001:db8:7::7 lladdr 02:00:00:00:00:c7 dev lan.7
route add 198.19.0.0/24 via 198.18.1.7
route add 198.19.9.0/24 via 198.18.0.7
route add unreachable 198.19.1.0/24
route add prohibit 198.19.2.0/24
route add blackhole 198.19.3.0/24
route add 2001:db8:9::/48 via 2001:db8::7
route add unreachable 2001:db8:a::/48
route add prohibit 2001:db8:b::/48
";

/// From the host on the first wire to the router.
pub fn from_wan() -> Ethernet {
    Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:01")
}

/// From the host on the second wire to the router.
pub fn from_lan() -> Ethernet {
    Ethernet::new("02:00:00:00:00:b7", "02:00:00:00:00:02")
}

/// What came out, a line each.
#[derive(Default)]
pub struct Seen {
    pub lines: Vec<String>,
    pub frames: Vec<(String, Vec<u8>)>,
    pub times: Vec<u64>,
}

impl Sink for Seen {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.lines.push(format!("{}: {}", device.name, describe_frame(frame)));
        self.frames.push((device.name.to_string(), frame.to_vec()));
        self.times.push(meta.time);
    }
    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.lines.push(format!(
            "host from {}: {}",
            device.name,
            describe(packet.meta.protocol, packet.network())
        ));
    }
    fn drop(&mut self, drop: &DropEvent<'_>, _packet: &Packet) {
        let place = drop.place.map(|p| match p.rule {
            Some(handle) => format!(" {} {} handle {handle}", p.table, p.chain),
            None => format!(" {} {}", p.table, p.chain),
        });
        self.lines.push(format!("drop: {}{}", drop.reason, place.unwrap_or_default()));
    }
    fn log(&mut self, record: &LogRecord<'_>, _packet: &Packet) {
        let prefix = record.log.prefix.as_deref().unwrap_or("");
        let name = |l: Option<&Link>| l.map_or("-".into(), |l| l.name.to_string());
        self.lines.push(format!("log {prefix}{} {}", name(record.input), name(record.output)));
    }
    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        let p = &record.place;
        let event = match record.event {
            TraceEvent::Packet => "packet".to_string(),
            TraceEvent::Rule(v) => format!("rule {} {v:?}", p.rule.unwrap_or(0)),
            TraceEvent::Return(v) => format!("return {v:?}"),
            TraceEvent::Policy(accept) => {
                format!("policy {}", if accept { "accept" } else { "drop" })
            }
        };
        self.lines.push(format!("trace {} {} {} {event}", packet.meta.trace_id, p.table, p.chain));
    }
}

/// A frame in one line: destination, tags, packet.
pub fn describe_frame(frame: &[u8]) -> String {
    let Some(h) = ethernet::Header::new(frame) else { return "cut".into() };
    let mut rest = h.payload();
    let mut kind = h.ethertype();
    let mut out = format!("to {:02x} ", h.dst().0[5]);
    while vlan::is_tag(kind) {
        let Some(tag) = vlan::Header::new(rest) else { return "cut tag".into() };
        out += &format!("vlan {} prio {} ", tag.vid(), tag.priority());
        (kind, rest) = (tag.ethertype(), tag.payload());
    }
    out + &describe(kind, rest)
}

/// A packet in one line; wrong checksums are said.
pub fn describe(ethertype: u16, bytes: &[u8]) -> String {
    match ethertype {
        0x0800 => {
            let Some(h) = ipv4::Header::new(bytes) else { return "cut IPv4".into() };
            let sum = if h.checksum_ok() { "" } else { " BAD SUM" };
            let mut out =
                format!("{} > {} ttl {} len {}{sum}", h.src(), h.dst(), h.ttl(), h.total_len());
            if usize::from(h.total_len()) != bytes.len() {
                out += &format!(" of {}", bytes.len());
            }
            if h.tos() != 0 {
                out += &format!(" tos {:#x}", h.tos());
            }
            if h.df() {
                out += " df";
            }
            if h.is_fragment() {
                return format!(
                    "{out} frag {}{}",
                    u32::from(h.fragment_offset()) * 8,
                    if h.mf() { "+" } else { "" }
                );
            }
            let payload = h.payload();
            let pseudo_ok = h.pseudo(payload.len()).bytes(payload).is_valid();
            out + &transport(h.protocol(), payload, pseudo_ok)
        }
        0x86dd => {
            let Some(h) = ipv6::Header::new(bytes) else { return "cut IPv6".into() };
            let mut out =
                format!("{} > {} hlim {} len {}", h.src(), h.dst(), h.hop_limit(), h.payload_len());
            if usize::from(h.payload_len()) + 40 != bytes.len() {
                out += &format!(" of {}", bytes.len());
            }
            let payload = &bytes[40..];
            let pseudo_ok = h.pseudo(h.next_header(), payload.len()).bytes(payload).is_valid();
            out + &transport(h.next_header(), payload, pseudo_ok)
        }
        ethernet::PPPOE_SESSION => {
            let Some(h) = pppoe::Header::new(bytes) else { return "cut PPPoE".into() };
            let (protocol, len) = h.protocol().unwrap_or_default();
            let kind = if protocol == pppoe::IPV6 { ethernet::IPV6 } else { ethernet::IPV4 };
            let inside = h.payload().map_or("cut".into(), |p| describe(kind, &p[len..]));
            format!("pppoe {} protocol {protocol:#06x} [{inside}]", h.session())
        }
        other => format!("ethertype {other:#06x} len {}", bytes.len()),
    }
}

fn transport(proto: u8, payload: &[u8], pseudo_ok: bool) -> String {
    match proto {
        protocol::ICMP => match icmp::Header::new(payload) {
            Some(i) => {
                let bad = if i.checksum_ok() { "" } else { " BAD SUM" };
                format!(" icmp {}/{} {:#x}{bad}", i.kind(), i.code(), i.rest_of_header())
            }
            None => " cut icmp".into(),
        },
        protocol::ICMPV6 => match icmpv6::Header::new(payload) {
            Some(i) => {
                let bad = if pseudo_ok { "" } else { " BAD SUM" };
                format!(" icmpv6 {}/{} {:#x}{bad}", i.kind(), i.code(), i.rest_of_header())
            }
            None => " cut icmpv6".into(),
        },
        protocol::TCP => match tcp::Header::new(payload) {
            Some(t) => {
                let bad = if pseudo_ok { "" } else { " BAD SUM" };
                format!(
                    " tcp {}>{} flags {:#04x} seq {} ack {}{bad}",
                    t.sport(),
                    t.dport(),
                    t.flags(),
                    t.seq(),
                    t.ack_seq()
                )
            }
            None => " cut tcp".into(),
        },
        17 => " udp".into(),
        protocol::IPIP => format!(" [{}]", describe(ethernet::IPV4, payload)),
        protocol::IPV6 => format!(" [{}]", describe(ethernet::IPV6, payload)),
        protocol::DEST_OPTIONS if payload.len() >= 8 => {
            format!(
                " options {:02x?}{}",
                &payload[2..8],
                transport(payload[0], &payload[8..], pseudo_ok)
            )
        }
        n => format!(" proto {n}"),
    }
}

/// A router without limits on its messages.
pub fn router(net: &str) -> Dataplane {
    let net = Network::from_batch("net.ip", net).unwrap_or_else(|e| panic!("{e}"));
    Dataplane::new(Arc::new(net), Settings { host_extensions: true, ..Settings::unlimited() })
}

/// Sends one frame in and says what came of it.
pub fn receive(path: &mut Dataplane, device: &str, frame: &[u8]) -> Vec<String> {
    receive_at(path, device, frame, START).lines
}

pub fn receive_at(path: &mut Dataplane, device: &str, frame: &[u8], time: u64) -> Seen {
    let mut seen = Seen::default();
    let device = path.network().link_by_name(device).unwrap().index;
    path.receive([Frame { device, bytes: frame, time }], &mut seen);
    seen
}

/// A base chain with rules, to be added to a ruleset.
pub struct Base {
    pub family: Family,
    pub table: &'static str,
    pub name: &'static str,
    pub hook: Hook,
    pub priority: i32,
    pub devices: &'static [&'static str],
    pub kind: ChainType,
    pub accept: bool,
    pub rules: Vec<Vec<Expr>>,
}

impl Base {
    pub fn new(family: Family, name: &'static str, hook: Hook, rules: Vec<Vec<Expr>>) -> Base {
        let kind = ChainType::Filter;
        Base {
            family,
            table: "t",
            name,
            hook,
            priority: 0,
            devices: &[],
            kind,
            accept: true,
            rules,
        }
    }
    pub fn on(self, devices: &'static [&'static str]) -> Base {
        Base { devices, ..self }
    }
    pub fn at(self, priority: i32) -> Base {
        Base { priority, ..self }
    }
    pub fn of(self, kind: ChainType) -> Base {
        Base { kind, ..self }
    }
    pub fn policy_drop(self) -> Base {
        Base { accept: false, ..self }
    }
}

/// Commits the chains in the order given and puts them in force.
pub fn load(path: &mut Dataplane, bases: Vec<Base>) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let mut batch = ruleset.begin();
    let none: Arc<[u8]> = Arc::from([]);
    for b in bases {
        let table: Arc<str> = b.table.into();
        let family = b.family;
        let mut apply =
            |change| batch.apply(change).map(|_| ()).unwrap_or_else(|e| panic!("{e:?}"));
        apply(Change::AddTable {
            family,
            name: table.clone(),
            mode: Mode::Add,
            flags: 0,
            userdata: none.clone(),
        });
        let base = NewBase {
            kind: b.kind,
            hook: b.hook,
            priority: b.priority,
            devices: b.devices.iter().map(|d| Arc::from(*d)).collect(),
        };
        let chain = NewChain {
            name: b.name.into(),
            base: Some(base),
            policy_accept: Some(b.accept),
            counter: None,
            anonymous: false,
            offload: false,
            program: None,
            userdata: none.clone(),
        };
        apply(Change::AddChain { family, table: table.clone(), mode: Mode::Add, chain });
        for exprs in b.rules {
            apply(Change::AddRule {
                family,
                table: table.clone(),
                chain: b.name.into(),
                position: Position::After(None),
                rule: NewRule { exprs, userdata: none.clone(), origin: None },
            });
        }
    }
    ruleset.commit(batch).unwrap_or_else(|e| panic!("{e:?}"));
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap_or_else(|e| panic!("{e}"))));
    ruleset
}

pub fn verdict(v: Verdict) -> Expr {
    Expr::Immediate(Immediate { dreg: Register::VERDICT, data: ImmediateData::Verdict(v) })
}

pub fn counter() -> Expr {
    Expr::Counter(Counter::default())
}

/// Matches bytes of the network header.
pub fn network(offset: u32, bytes: &[u8]) -> [Expr; 2] {
    let dreg = Register(1);
    let len = bytes.len() as u32;
    [
        Expr::Payload(Payload { base: PayloadBase::Network, offset, len, dreg }),
        Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: dreg, data: Data::new(bytes) }),
    ]
}

/// Packets and bytes of the counters, in order of tables, chains and rules.
pub fn counters(ruleset: &Ruleset) -> Vec<(u64, u64)> {
    let generation = ruleset.generation();
    let rules = generation.tables.iter().flat_map(|t| &t.chains).flat_map(|c| &c.rules);
    let states = rules.flat_map(|r| &r.states);
    states
        .filter_map(|s| match &**s {
            penstock_program::State::Counter(c) => Some(c.read()),
            _ => None,
        })
        .collect()
}
