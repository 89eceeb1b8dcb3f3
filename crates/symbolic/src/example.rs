// SPDX-License-Identifier: Apache-2.0

//! A packet of a region, with all that is to be known about it, and the interpreter's word on what
//! becomes of it.

use std::collections::HashMap;
use std::net::IpAddr;

use penstock_packet::{Ct, CtInfo, Packet, PacketType, VlanTag};
use penstock_program::env::{
    Context, Env, FibQuery, Interface, NatRequest, Rejection, Route, Trace,
};
use penstock_program::expr::{CtDir, CtKey, DynsetOp, Log, MetaKey};
use penstock_program::image::{ChainIndex, CtObject, LinkedVerdict, RuleIndex, Stateful};
use penstock_program::interp::JUMP_STACK;
use penstock_program::interp::engine::{Registers, Step, execute};
use penstock_program::op::Op;
use penstock_program::{ChainType, Family};
use penstock_wire::{checksum, ethernet, protocol};

use crate::diagram::{Decided, Region};
use crate::diff::{Decider, Written, value_at};
use crate::field::{Base, Field, Input, What};
use crate::layout;
use crate::universe::{Universe, state};
use crate::walk::{End, Program, asks_input, before_tracking, ops_of};

/// Indexes of the interfaces of examples, where rules do not ask for an index.
const ARRIVAL: u32 = 10;
const LEAVING: u32 = 20;

/// A packet, and all that rules can ask about it.
pub struct Example<'u> {
    /// The packet as it comes to the hook.
    pub packet: Packet,
    /// Name of the interface of arrival, where there is one and rules ask for it.
    pub arrival: Option<String>,
    universe: &'u Universe,
    point: Vec<bool>,
    /// Family of the hook.
    family: Family,
    interfaces: HashMap<u32, Interface>,
    connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
}

/// What the interpreter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What becomes of the packet.
    pub end: End,
    /// What decided.
    pub decider: Decider,
    /// Mark and priority at the end, in host order.
    pub mark: u32,
    /// `meta priority` at the end.
    pub priority: u32,
    /// Register bytes of keys of the connection at the end.
    connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
    /// Rules that did not break, in their order.
    pub met: Vec<RuleIndex>,
    /// The packet at the end, from its network header on.
    pub packet: Vec<u8>,
}

impl Verified {
    /// Register bytes of the mark of the connection at the end, if rules ask or set it.
    pub fn connection_mark(&self) -> Option<&[u8]> {
        self.connection.get(&(CtKey::Mark, None)).map(|bytes| &bytes[..])
    }
}

/// Of the packets of a region, which are all possible, those that are easiest to read.
pub(crate) fn preferred(universe: &Universe, region: &Region) -> Decided<Region> {
    let d = &universe.diagrams;
    let mut region = region.clone();
    let name = |text: &str| {
        let mut name = text.as_bytes().to_vec();
        name.resize(16, 0);
        name
    };
    let header = |base, at: u16, bytes: &[u8]| -> Vec<(Field, Vec<u8>)> {
        (at..).zip(bytes).map(|(at, byte)| (Field::Header { base, at }, vec![*byte])).collect()
    };
    let meta = |key, bytes: &[u8]| vec![(Field::Meta(key), bytes.to_vec())];
    let mut wishes: Vec<Vec<(Field, Vec<u8>)>> = vec![
        meta(MetaKey::NfProto, &[2]),
        meta(MetaKey::Protocol, &ethernet::IPV4.to_be_bytes()),
        vec![(Field::Transport, vec![1])],
    ];
    for field in universe.fields() {
        if matches!(field, Field::Present { .. } | Field::Untranslated | Field::Answers(_)) {
            wishes.push(vec![(*field, vec![1])]);
        }
        if matches!(field, Field::CtBefore | Field::LaterFragment) {
            wishes.push(vec![(*field, vec![0])]);
        }
    }
    wishes.extend([
        vec![(Field::CtState, vec![state::NEW])],
        vec![(Field::CtState, vec![state::ESTABLISHED])],
        meta(MetaKey::L4Proto, &[protocol::TCP]),
        meta(MetaKey::L4Proto, &[protocol::UDP]),
        meta(MetaKey::IifName, &name("in0")),
        meta(MetaKey::OifName, &name("out0")),
        meta(MetaKey::Iif, &ARRIVAL.to_be_bytes()),
        meta(MetaKey::Oif, &LEAVING.to_be_bytes()),
        header(Base::Network, 12, &[198, 18]),
        header(Base::Network, 12, &[198, 18, 0, 2]),
        header(Base::Network, 16, &[198, 19]),
        header(Base::Network, 16, &[198, 19, 0, 2]),
        header(Base::Network, 8, &[0x20, 0x01, 0x0d, 0xb8, 0, 1]),
        header(Base::Network, 24, &[0x20, 0x01, 0x0d, 0xb8, 0, 2]),
        header(Base::Network, 8, &[64]),
        header(Base::Transport, 0, &40_000u16.to_be_bytes()),
        header(Base::Transport, 2, &80u16.to_be_bytes()),
        header(Base::Transport, 2, &40_001u16.to_be_bytes()),
        meta(MetaKey::Len, &60u32.to_be_bytes()),
        meta(MetaKey::Len, &200u32.to_be_bytes()),
    ]);
    for wish in wishes {
        let wanted = d.and(&region, &universe.with_values(&wish)?)?;
        if !wanted.is_none() {
            region = wanted;
        }
    }
    Ok(region)
}

/// Bytes of a header with those that rules ask put in their places.
struct Layer {
    bytes: Vec<u8>,
    /// Which of them rules ask.
    fixed: Vec<bool>,
}

impl Layer {
    fn new(bytes: &[u8]) -> Self {
        Layer { bytes: bytes.to_vec(), fixed: vec![false; bytes.len()] }
    }

    fn resize(&mut self, len: usize) {
        self.bytes.resize(len, 0);
        self.fixed.resize(len, false);
    }

    /// A byte that a rule asks; `None` if the place has another one already.
    fn fix(&mut self, at: usize, byte: u8) -> Option<()> {
        match (self.bytes.get(at).copied(), self.fixed.get(at).copied()) {
            (Some(known), Some(true)) if known != byte => None,
            (Some(_), Some(_)) => {
                (self.bytes[at], self.fixed[at]) = (byte, true);
                Some(())
            }
            // Behind the end, where no rule reads it.
            _ => Some(()),
        }
    }

    fn fill(&mut self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            if self.fixed.get(at) == Some(&false) {
                self.bytes[at] = *byte;
            }
        }
    }
}

impl<'u> Example<'u> {
    /// Makes the packet that a value of all variables describes. `None` if there can be none, which
    /// [`Universe::possible`] does not always see: header fields that overlap, lengths that do not
    /// go together.
    pub fn new(universe: &'u Universe, point: &[bool]) -> Option<Self> {
        let place = universe.place;
        let version = match layout::version(universe, point) {
            Some(version) => Some(version),
            None if place.family == Family::Arp => None,
            None if universe.has(Field::Meta(MetaKey::Protocol)) && !place.family.is_ip() => None,
            None => Some(4),
        };
        let network = network_bytes(universe, point, version)?;
        let at_link = link_bytes(universe, point, version)?;
        let mut packet = Packet::new();
        let (frame, link_len, vlan, ethertype) = match at_link {
            Some((link, vlan, ethertype)) => {
                let len = link.len();
                ([link, network].concat(), len, vlan, ethertype)
            }
            None => {
                let ethertype = if version == Some(6) { ethernet::IPV6 } else { ethernet::IPV4 };
                (network, 0, None, ethertype)
            }
        };
        packet.load(&frame, link_len);
        packet.meta.vlan = vlan;
        packet.meta.protocol = ethertype;
        let family = match (place.family, version) {
            (Family::Inet, Some(6)) => Family::Ip6,
            (Family::Inet, _) => Family::Ip,
            (family, _) => family,
        };
        match place.family.is_ip() && place.hook != penstock_program::Hook::Ingress {
            true => packet.find_transport(),
            false => {
                packet.find_transport_checked();
            }
        }
        let mut example = Example {
            packet,
            arrival: None,
            universe,
            point: point.to_vec(),
            family,
            interfaces: HashMap::new(),
            connection: HashMap::new(),
        };
        example.metadata()?;
        example.disagrees().is_none().then_some(example)
    }

    fn number(&self, field: Field) -> Option<u32> {
        let value = self.universe.value(field, &self.point)?;
        let mut bytes = [0; 4];
        let from = value.len().min(4);
        bytes[4 - from..].copy_from_slice(&value[value.len() - from..]);
        Some(u32::from_be_bytes(bytes))
    }

    fn meta(&self, key: MetaKey) -> Option<u32> {
        self.number(Field::Meta(key))
    }

    fn sixteen(&self, key: MetaKey, otherwise: &str) -> [u8; 16] {
        let mut out = [0; 16];
        match self.universe.value(Field::Meta(key), &self.point) {
            Some(value) => out.copy_from_slice(&value),
            None => out[..otherwise.len()].copy_from_slice(otherwise.as_bytes()),
        }
        out
    }

    fn metadata(&mut self) -> Option<()> {
        let has = |example: &Self, index: MetaKey, name: MetaKey, default: bool| {
            let flag = example.universe.flag(Field::HasMeta(index), &example.point);
            let by_name = example.universe.value(Field::Meta(name), &example.point);
            let by_name = by_name.map(|name| name != [0; 16]);
            flag.or(example.meta(index).map(|index| index != 0)).or(by_name).unwrap_or(default)
        };
        let hook = self.universe.place.hook;
        use penstock_program::Hook::*;
        let arrives = matches!(hook, Ingress | Prerouting | Input | Forward);
        let leaves = matches!(hook, Forward | Output | Postrouting | Egress);
        let iif = match has(self, MetaKey::Iif, MetaKey::IifName, arrives) {
            true => self.meta(MetaKey::Iif).unwrap_or(ARRIVAL),
            false => 0,
        };
        let mut oif = match has(self, MetaKey::Oif, MetaKey::OifName, leaves) {
            true => self.meta(MetaKey::Oif).unwrap_or(LEAVING),
            false => 0,
        };
        let names = [MetaKey::IifName, MetaKey::OifName];
        let same = names.iter().all(|key| self.universe.has(Field::Meta(*key)))
            && self.sixteen(MetaKey::IifName, "") == self.sixteen(MetaKey::OifName, "");
        if same && iif != 0 && !self.universe.has(Field::Meta(MetaKey::Oif)) {
            oif = iif;
        }
        let keys = |arrives| match arrives {
            true => [MetaKey::IifName, MetaKey::IifKind, MetaKey::IifType, MetaKey::IifGroup],
            false => [MetaKey::OifName, MetaKey::OifKind, MetaKey::OifType, MetaKey::OifGroup],
        };
        for (index, arrives) in [(iif, true), (oif, false)] {
            if index == 0 || !arrives && index == iif {
                continue;
            }
            let [name, kind, arphrd, group] = keys(arrives);
            // `iiftype` on the way out is of the device that the packet leaves by.
            let arphrd = match (arrives, hook) {
                (false, Postrouting | Egress) if self.meta(arphrd).is_none() => MetaKey::IifType,
                (true, Postrouting | Egress) => MetaKey::OifType,
                _ => arphrd,
            };
            let interface = Interface {
                name: self.sixteen(name, if arrives { "in0" } else { "out0" }),
                kind: self.sixteen(kind, "veth"),
                arphrd: self.meta(arphrd).unwrap_or(1) as u16,
                group: self.meta(group).unwrap_or(0),
            };
            if arrives {
                let name = interface.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
                self.arrival = Some(String::from_utf8_lossy(name).into_owned());
            }
            self.interfaces.insert(index, interface);
        }
        let meta = |key| self.meta(key);
        let (mark, priority) = (meta(MetaKey::Mark), meta(MetaKey::Priority));
        let (trace, secmark) = (meta(MetaKey::NfTrace), meta(MetaKey::SecMark));
        let packet_type = meta(MetaKey::PktType);
        let (uid, gid) = (meta(MetaKey::SkUid), meta(MetaKey::SkGid));
        let owner = self.universe.flag(Field::HasMeta(MetaKey::SkUid), &self.point);
        let routed = self.universe.flag(Field::HasMeta(MetaKey::RtClassid), &self.point);
        let realm = meta(MetaKey::RtClassid);
        let broute = meta(MetaKey::BriBroute);
        let to = &mut self.packet.meta;
        (to.iif, to.oif) = (iif, oif);
        to.mark = mark.unwrap_or(0);
        to.priority = priority.unwrap_or(0);
        to.nftrace = trace.is_some_and(|trace| trace != 0);
        to.secmark = secmark.unwrap_or(0);
        to.broute = broute.is_some_and(|broute| broute != 0);
        to.packet_type = match packet_type.unwrap_or(0) {
            0 => PacketType::Host,
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            _ => PacketType::Outgoing,
        };
        if owner == Some(true) {
            to.owner = Some((uid.unwrap_or(0), gid.unwrap_or(0)));
        }
        if routed == Some(true) {
            (to.route, to.realm) = (Some(1), realm.unwrap_or(0));
        }
        for field in self.universe.fields() {
            let Field::Ct(key, dir) = field else { continue };
            if self.universe.flag(Field::HasCt(*key, *dir), &self.point) == Some(false) {
                continue;
            }
            let Some(value) = self.universe.value(*field, &self.point) else { continue };
            let mut bytes = vec![0; value.len()];
            for (i, byte) in value.iter().enumerate() {
                bytes[field.in_register(i)] = *byte;
            }
            self.connection.insert((*key, *dir), bytes);
        }
        Some(())
    }

    /// A field that the packet does not have as it should: a byte that is not in its place, a
    /// length.
    fn disagrees(&self) -> Option<Field> {
        let packet = &self.packet;
        self.universe.fields().iter().copied().find(|field| !{
            let Some(value) = self.universe.value(*field, &self.point) else { return false };
            let of = |base| match base {
                Base::Link => packet.has_link().then(|| link_seen(packet)),
                Base::Network => Some(packet.network().to_vec()),
                Base::Transport => packet.transport_bytes_of_fragment().map(<[u8]>::to_vec),
                Base::Inner | Base::Tunnel => None,
            };
            match *field {
                Field::Header { base, at } => of(base)
                    .and_then(|bytes| bytes.get(usize::from(at)).copied())
                    .is_none_or(|byte| byte == value[0]),
                Field::Present { base, bytes } => {
                    of(base).is_some_and(|all| all.len() >= usize::from(bytes)) == (value[0] != 0)
                }
                Field::Transport => packet.transport().is_some() == (value[0] != 0),
                Field::LaterFragment => {
                    packet.transport().is_some_and(|t| t.fragment_offset != 0) == (value[0] != 0)
                }
                Field::Meta(MetaKey::L4Proto) => {
                    packet.transport().is_none_or(|t| t.protocol == value[0])
                }
                Field::Meta(MetaKey::Len) => Some(packet.len() as u32) == self.number(*field),
                Field::Meta(MetaKey::Protocol) => value == packet.meta.protocol.to_be_bytes(),
                _ => true,
            }
        })
    }

    /// The packet as a frame on a wire, with a link header if it has one.
    pub fn frame(&self) -> Vec<u8> {
        let mut packet = self.packet.clone();
        packet.put_tag_into_frame();
        packet.frame().to_vec()
    }

    /// The state that connection tracking gives the packet.
    fn tracked(&self) -> Ct {
        let state = self.universe.value(Field::CtState, &self.point).map_or(state::NEW, |v| v[0]);
        let reply = self.number(Field::Ct(CtKey::Direction, None)) == Some(1);
        let info = match (state, reply) {
            (state::ESTABLISHED, false) => CtInfo::Established,
            (state::ESTABLISHED, true) => CtInfo::EstablishedReply,
            (state::RELATED, false) => CtInfo::Related,
            (state::RELATED, true) => CtInfo::RelatedReply,
            (state::NEW, _) => CtInfo::New,
            (state::UNTRACKED, _) => {
                return Ct { info: CtInfo::Untracked, ..Ct::default() };
            }
            _ => return Ct::default(),
        };
        Ct { entry: 1, info, ..Ct::default() }
    }

    /// Runs the packet through base chains with the interpreter. What depends on more than the
    /// packet is as the example says.
    pub fn run(&self, program: &Program<'_>) -> Verified {
        let mut run = Run {
            example: self,
            program,
            packet: self.packet.clone(),
            registers: Registers::new(),
            met: Vec::new(),
            translated: false,
            env: Scenario {
                context: Context { family: self.family, hook: self.universe.place.hook },
                interfaces: &self.interfaces,
                connection: self.connection.clone(),
                table: self.family,
            },
        };
        let (end, decider) = run.hook();
        Verified {
            end,
            decider,
            mark: run.packet.meta.mark,
            priority: run.packet.meta.priority,
            connection: run.env.connection,
            met: run.met,
            packet: run.packet.network().to_vec(),
        }
    }
}

/// What a load of the link header sees: the tag stands in it.
fn link_seen(packet: &Packet) -> Vec<u8> {
    let Some(tag) = packet.meta.vlan else { return packet.frame().to_vec() };
    let frame = packet.frame();
    let mut seen = frame[..12.min(frame.len())].to_vec();
    seen.extend(tag.protocol.to_be_bytes());
    seen.extend(tag.tci.to_be_bytes());
    seen.extend(packet.meta.protocol.to_be_bytes());
    seen.extend(frame.get(14..).unwrap_or(&[]));
    seen
}

/// Lengths that a header and what follows it may have: least and most.
fn lengths(universe: &Universe, point: &[bool], base: Base) -> (usize, usize) {
    let (mut least, mut most) = (0, usize::from(u16::MAX));
    for field in universe.fields() {
        match field {
            Field::Present { base: of, bytes } if *of == base => {
                match universe.flag(*field, point) {
                    Some(true) => least = least.max(usize::from(*bytes)),
                    _ => most = most.min(usize::from(*bytes).saturating_sub(1)),
                }
            }
            _ => {}
        }
    }
    (least, most)
}

fn headers(universe: &Universe, point: &[bool], base: Base) -> Vec<(usize, u8)> {
    let bytes = universe.fields().iter().filter_map(|field| match field {
        Field::Header { base: of, at } if *of == base => {
            Some((usize::from(*at), universe.value(*field, point)?[0]))
        }
        _ => None,
    });
    bytes.collect()
}

/// The network header and all that follows it.
fn network_bytes(universe: &Universe, point: &[bool], version: Option<u8>) -> Option<Vec<u8>> {
    let own = headers(universe, point, Base::Network);
    let (least, most) = lengths(universe, point, Base::Network);
    let wanted_len = universe
        .value(Field::Meta(MetaKey::Len), point)
        .map(|v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]) as usize);
    let Some(version) = version else {
        // ARP, or a protocol of which nothing is known but bytes.
        let default: &[u8] = match universe.place.family {
            Family::Arp => &[0, 1, 8, 0, 6, 4, 0, 1],
            _ => &[],
        };
        let mut layer = Layer::new(default);
        let len = wanted_len.unwrap_or(28).clamp(least, most.max(least));
        layer.resize(len);
        for (at, byte) in own {
            layer.fix(at, byte)?;
        }
        return Some(layer.bytes);
    };
    let transport = layout::transport(universe, point);
    let has_transport = universe.flag(Field::Transport, point).unwrap_or(true);
    let later = universe.flag(Field::LaterFragment, point).unwrap_or(false);
    let carried = transport.unwrap_or(protocol::TCP);
    let mut layer;
    let header_len;
    if version == 4 {
        layer = Layer::new(&[
            0x45, 0, 0, 0, 0, 1, 0, 0, 64, carried, 0, 0, 198, 18, 0, 2, 198, 19, 0, 2,
        ]);
        let first = own.iter().find(|(at, _)| *at == 0).map_or(0x45, |(_, byte)| *byte);
        header_len = usize::from(first & 15) * 4;
        if later {
            layer.fill(7, &[1]);
        }
    } else {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, carried, 64];
        for last in [1, 2] {
            bytes.extend([0x20, 0x01, 0x0d, 0xb8, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        }
        layer = Layer::new(&bytes);
        let next = own.iter().find(|(at, _)| *at == 6).map_or(carried, |(_, byte)| *byte);
        let extension = matches!(next, 0 | 43 | 44 | 60);
        header_len = match (has_transport, extension) {
            (true, true) => {
                layer.bytes.extend([carried, 0, 0, 0, 0, 0, 0, 0]);
                layer.fixed.extend([false; 8]);
                48
            }
            _ => 40,
        };
        if !has_transport && !extension {
            // A chain of headers that is cut off.
            layer.fill(6, &[0]);
        }
    }
    let (transport_least, transport_most) = lengths(universe, point, Base::Transport);
    let body: Vec<u8> = match carried {
        protocol::TCP => {
            vec![0x9c, 0x40, 0x9c, 0x41, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]
        }
        protocol::UDP => vec![0x9c, 0x40, 0x9c, 0x41, 0, 8, 0, 0],
        _ => vec![8, 0, 0, 0, 0, 1, 0, 1],
    };
    let (mut low, mut high) = (header_len, usize::from(u16::MAX));
    if has_transport {
        low = low.max(header_len + transport_least);
        high = high.min(header_len + transport_most);
    } else {
        high = high.min(header_len);
    }
    low = low.max(least);
    high = high.min(most.max(header_len));
    let len = wanted_len.unwrap_or((header_len + body.len()).clamp(low, high.max(low)));
    if len < low || len > high {
        return None;
    }
    layer.resize(len.max(if version == 4 { 20 } else { 40 }));
    for (at, byte) in own {
        layer.fix(at, byte)?;
    }
    layer.fill(header_len, &body);
    for (at, byte) in headers(universe, point, Base::Transport) {
        layer.fix(header_len + at, byte)?;
    }
    if version == 4 {
        layer.fill(2, &(len as u16).to_be_bytes());
        if layer.fixed.get(10..12) == Some(&[false, false]) && layer.bytes.len() >= header_len {
            let sum = checksum::of(&layer.bytes[..header_len.max(20)]);
            layer.fill(10, &sum.to_be_bytes());
        }
    } else {
        layer.fill(4, &((len - 40) as u16).to_be_bytes());
        // What an extension header says of the next one.
        if header_len == 48 && layer.bytes.get(40) != Some(&carried) {
            return None;
        }
    }
    if carried == protocol::UDP {
        layer.fill(header_len + 4, &((len - header_len.min(len)) as u16).to_be_bytes());
    }
    Some(layer.bytes)
}

/// The link header, without tag.
type Link = (Vec<u8>, Option<VlanTag>, u16);

/// The link header, the tag, and the ethertype; `Some(None)` if there is no link header.
fn link_bytes(universe: &Universe, point: &[bool], version: Option<u8>) -> Option<Option<Link>> {
    let (_, most) = lengths(universe, point, Base::Link);
    if most < 14 {
        return Some(None);
    }
    let own: HashMap<usize, u8> = headers(universe, point, Base::Link).into_iter().collect();
    let ethertype = match (universe.value(Field::Meta(MetaKey::Protocol), point), version) {
        (Some(value), _) => u16::from_be_bytes([value[0], value[1]]),
        (None, Some(6)) => ethernet::IPV6,
        (None, Some(_)) => ethernet::IPV4,
        (None, None) => 0x0806,
    };
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = own.get(&at).copied().unwrap_or(*byte);
    }
    let pair = |at: usize, default: u16| {
        let [a, b] = default.to_be_bytes();
        let byte = |at, default| own.get(&at).copied().unwrap_or(default);
        u16::from_be_bytes([byte(at, a), byte(at + 1, b)])
    };
    let outer = pair(12, ethertype);
    let tagged = matches!(outer, 0x8100 | 0x88a8);
    let vlan = tagged.then(|| VlanTag { protocol: outer, tci: pair(14, 1) });
    let inner = if tagged { pair(16, ethertype) } else { outer };
    bytes.extend(inner.to_be_bytes());
    Some(Some((bytes, vlan, inner)))
}

/// The outside of an example.
struct Scenario<'e> {
    context: Context,
    interfaces: &'e HashMap<u32, Interface>,
    connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
    /// Family of the table whose rules run.
    table: Family,
}

impl Env for Scenario<'_> {
    fn context(&self) -> Context {
        self.context
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.get(&index)
    }

    fn random(&mut self) -> u32 {
        0
    }

    fn fib_interface(&mut self, _: &FibQuery) -> Option<u32> {
        None
    }

    fn fib_type(&mut self, _: &FibQuery) -> u8 {
        0
    }

    fn route(&mut self, _: &Packet) -> Option<Route> {
        None
    }

    fn log(&mut self, _: &Packet, _: &Log) {}

    fn reject(&mut self, _: &Packet, _: Rejection) {}

    fn dup(&mut self, _: &Packet, _: Option<IpAddr>, _: Option<u32>) {}

    fn fwd(&mut self, _: &mut Packet, _: u32, _: Option<IpAddr>) {}

    fn trace(&mut self, _: &Packet, _: Trace<'_>) {}

    fn nat(&mut self, _: &Packet, _: &NatRequest) -> penstock_program::env::Decision {
        penstock_program::env::Decision::Accept
    }

    fn ct_get(
        &mut self,
        _: &Packet,
        key: CtKey,
        dir: Option<CtDir>,
        out: &mut [u8; 16],
    ) -> Option<u8> {
        let key = match (key, self.table) {
            (CtKey::Src, Family::Ip) => CtKey::SrcIp,
            (CtKey::Dst, Family::Ip) => CtKey::DstIp,
            (CtKey::Src, _) => CtKey::SrcIp6,
            (CtKey::Dst, _) => CtKey::DstIp6,
            (key, _) => key,
        };
        let bytes = self.connection.get(&(key, dir))?;
        out[..bytes.len()].copy_from_slice(bytes);
        Some(bytes.len() as u8)
    }

    fn ct_set(&mut self, _: &Packet, key: CtKey, value: &[u8]) {
        let known = self.connection.entry((key, None)).or_insert_with(|| vec![0; value.len()]);
        match key {
            CtKey::Labels => known.iter_mut().zip(value).for_each(|(to, from)| *to |= from),
            _ => known.iter_mut().zip(value).for_each(|(to, from)| *to = *from),
        }
    }
}

struct Run<'e, 'p> {
    example: &'e Example<'e>,
    program: &'e Program<'p>,
    packet: Packet,
    registers: Registers,
    met: Vec<RuleIndex>,
    /// A rule has translated the connection.
    translated: bool,
    env: Scenario<'e>,
}

/// How a chain ends for a packet.
enum Left {
    End(End, RuleIndex),
    Over,
}

impl Run<'_, '_> {
    fn hook(&mut self) -> (End, Decider) {
        let universe = self.example.universe;
        let point = &self.example.point;
        let early = |priority| before_tracking(universe.place.hook, priority);
        let mut tracked = false;
        let mut decider = None;
        for base in &self.program.bases {
            if !early(base.priority) && !tracked {
                tracked = true;
                if self.packet.meta.ct.info != CtInfo::Untracked {
                    self.packet.meta.ct = self.example.tracked();
                }
            } else if early(base.priority)
                && self.packet.meta.ct == Ct::default()
                && universe.flag(Field::CtBefore, point) == Some(true)
            {
                self.packet.meta.ct = self.example.tracked();
            }
            decider = Some(Decider { rule: None, base: base.chain });
            if base.family != universe.place.family && base.family != self.env.context.family {
                continue;
            }
            let untranslated = universe.flag(Field::Untranslated, point).unwrap_or(true);
            if base.kind == ChainType::Nat && (!untranslated || self.translated) {
                continue;
            }
            match self.chain(base.chain) {
                Left::End(end, rule) => {
                    let decider = Decider { rule: Some(rule), base: base.chain };
                    if end != End::Accept {
                        return (end, decider);
                    }
                    if self.program.bases.last().map(|last| last.chain) == Some(base.chain) {
                        return (end, decider);
                    }
                }
                Left::Over => {
                    let chain = self.program.image.chain(base.chain);
                    if chain.and_then(|chain| chain.policy_accept) == Some(false) {
                        return (End::Drop, Decider { rule: None, base: base.chain });
                    }
                }
            }
        }
        (End::Accept, decider.unwrap_or(Decider { rule: None, base: ChainIndex(0) }))
    }

    fn chain(&mut self, base: ChainIndex) -> Left {
        let image = self.program.image;
        let range = |chain: ChainIndex| image.chain(chain).map_or(0..0, |c| c.first..c.end);
        let mut stack = Vec::new();
        let mut at = range(base);
        loop {
            let Some(rule) = at.next() else {
                match stack.pop() {
                    Some(waiting) => at = waiting,
                    None => return Left::Over,
                }
                continue;
            };
            let rule = RuleIndex(rule);
            if let Some(name) = image.rule_name(rule)
                && let Some(table) = image.table_of(name.chain)
            {
                self.env.table = table.family;
            }
            let step = self.rule(rule);
            if step != Step::Break {
                self.met.push(rule);
            }
            let verdict = match step {
                Step::Break | Step::Next => continue,
                Step::Drop => {
                    let reject = ops_of(image, rule).iter().find_map(|op| match op {
                        Op::Reject(reject) => Some(End::Reject(reject.kind, reject.code)),
                        _ => None,
                    });
                    return Left::End(reject.unwrap_or(End::Drop), rule);
                }
                Step::Stolen => return Left::End(End::Stolen, rule),
                Step::Verdict(verdict) => verdict,
            };
            match verdict {
                LinkedVerdict::Accept => return Left::End(End::Accept, rule),
                LinkedVerdict::Drop => return Left::End(End::Drop, rule),
                LinkedVerdict::Queue { bypass, .. } => {
                    let total = ops_of(image, rule).iter().find_map(|op| match op {
                        Op::Queue(queue) if queue.sreg.is_none() => Some(queue.total.max(1)),
                        _ => None,
                    });
                    return Left::End(End::Queue { total: total.unwrap_or(1), bypass }, rule);
                }
                LinkedVerdict::Continue | LinkedVerdict::Break => {}
                LinkedVerdict::Return => at = 0..0,
                LinkedVerdict::Jump(_) if stack.len() >= JUMP_STACK => {
                    return Left::End(End::Drop, rule);
                }
                LinkedVerdict::Jump(target) => {
                    stack.push(std::mem::replace(&mut at, range(target)));
                }
                LinkedVerdict::Goto(target) => at = range(target),
            }
        }
    }

    fn rule(&mut self, rule: RuleIndex) -> Step {
        let number = self.program.numbers.get(rule.0 as usize).copied().unwrap_or(rule.0);
        let mut inputs = 0;
        for op in ops_of(self.program.image, rule) {
            let decided = self.decided(op, number, inputs);
            inputs += u16::from(asks_input(op));
            let step = match decided {
                Some(step) => step,
                None => execute(op, &mut self.registers, &mut self.packet, &mut self.env),
            };
            if matches!(op, Op::Nat(_)) && step == Step::Verdict(LinkedVerdict::Accept) {
                self.translated = true;
            }
            match step {
                Step::Next | Step::Verdict(LinkedVerdict::Continue) => {}
                Step::Verdict(LinkedVerdict::Break) => return Step::Break,
                step => return step,
            }
        }
        Step::Next
    }

    /// What an operation does that depends on more than the packet: as the example has it.
    fn decided(&mut self, op: &Op, rule: u32, at: u16) -> Option<Step> {
        let universe = self.example.universe;
        let point = &self.example.point;
        let on = |what| {
            let input = Field::Input(Input { what, rule, op: at });
            match universe.flag(input, point).unwrap_or(true) {
                true => Step::Next,
                false => Step::Break,
            }
        };
        let mut load = |dst: u8, bytes: &[u8]| {
            self.registers.set(dst, bytes);
            Step::Next
        };
        let question = |text: String| universe.known_question(&text);
        let mut asked = |text: String, dst: u8, width: u32| {
            let Some(question) = question(text) else { return Step::Break };
            if universe.flag(Field::Answers(question), point) != Some(true) {
                return Step::Break;
            }
            let answer = Field::Answer { question, bytes: width as u8 };
            load(dst, &universe.value(answer, point).unwrap_or_else(|| vec![0; width as usize]))
        };
        Some(match op {
            Op::Stateful(stateful) => match &**stateful {
                Stateful::Limit { .. } => on(What::Limit),
                Stateful::Quota { .. } | Stateful::NamedQuota { .. } => on(What::Quota),
                Stateful::Connlimit { .. } => on(What::Connlimit),
                Stateful::Ct(object) => match **object {
                    CtObject::Expect { .. } => on(What::Expected),
                    CtObject::Helper { .. } | CtObject::Timeout { .. } => Step::Next,
                },
                Stateful::Counter(_)
                | Stateful::Last(_)
                | Stateful::Synproxy(_)
                | Stateful::SecMark(_) => return None,
            },
            Op::Counter(_) => Step::Next,
            Op::SetUpdate(update) => match update.op {
                DynsetOp::Delete => Step::Next,
                DynsetOp::Add | DynsetOp::Update => {
                    match (on(What::Added) == Step::Next) != update.invert {
                        true => Step::Next,
                        false => Step::Break,
                    }
                }
            },
            Op::LookupDynamic { src, key_len, inverse, .. } if !self.program.listed => {
                let key = self.registers.bytes(*src, *key_len);
                let asked = universe.members(rule, at).iter();
                let input = asked.filter(|(_, bits)| value_at(bits, point) == key).map(|(i, _)| i);
                let found = input
                    .filter_map(|input| universe.flag(Field::Input(*input), point))
                    .next()
                    .unwrap_or(false);
                if found != *inverse { Step::Next } else { Step::Break }
            }
            Op::NumgenInc { dst, .. }
            | Op::NumgenRandom { dst, .. }
            | Op::Jhash { dst, .. }
            | Op::Symhash { dst, .. }
            | Op::Meta { key: MetaKey::Prandom, dst } => {
                let input = Field::Input(Input { what: What::Number, rule, op: at });
                let value = universe.value(input, point)?;
                let number = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
                load(*dst, &number.to_ne_bytes())
            }
            Op::Meta {
                key:
                    key @ (MetaKey::TimeNs
                    | MetaKey::TimeDay
                    | MetaKey::TimeHour
                    | MetaKey::Cpu
                    | MetaKey::SecPath
                    | MetaKey::BriIifName
                    | MetaKey::BriOifName
                    | MetaKey::BriIifPvid
                    | MetaKey::BriIifVproto
                    | MetaKey::BriIifHwAddr),
                dst,
            } => {
                if universe.flag(Field::HasMeta(*key), point) == Some(false) {
                    return Some(Step::Break);
                }
                let field = Field::Meta(*key);
                let value = universe.value(field, point)?;
                let mut bytes = vec![0; value.len()];
                for (i, byte) in value.iter().enumerate() {
                    bytes[field.in_register(i)] = *byte;
                }
                load(*dst, &bytes)
            }
            Op::Fib { result, flags, dst } => {
                use penstock_program::expr::{FIB_PRESENT, FibResult};
                let width = match result {
                    _ if u32::from(*flags) & FIB_PRESENT != 0 => 1,
                    FibResult::Oif | FibResult::AddrType => 4,
                    FibResult::OifName => 16,
                };
                asked(format!("fib {result:?} {flags}"), *dst, width)
            }
            Op::Rt { key, dst } => asked(format!("rt {key:?}"), *dst, key.width()),
            Op::Socket { key, level, dst } => {
                asked(format!("socket {key:?} {level}"), *dst, key.width())
            }
            Op::Osf { ttl, version, dst, .. } => asked(format!("osf {ttl} {version}"), *dst, 16),
            Op::Xfrm { key, out, spnum, dst } => {
                asked(format!("ipsec {key:?} {out} {spnum}"), *dst, key.width())
            }
            Op::Tunnel { key, dst } => asked(format!("tunnel {key:?}"), *dst, key.width()),
            Op::TcpOptionSet { kind, .. } => {
                let question = question(format!("tcp option {kind}"));
                let has = question.and_then(|q| universe.flag(Field::Answers(q), point));
                if has.unwrap_or(false) { Step::Next } else { Step::Break }
            }
            Op::FlowOffload(_) => on(What::Offloaded),
            _ => return None,
        })
    }
}

/// What the example must come to, by what was said of its class; what is wrong if it does not.
pub fn check(
    example: &Example<'_>,
    program: &Program<'_>,
    fate: &crate::diff::Fate,
    deciders: &[Decider],
) -> Result<Verified, String> {
    let verified = example.run(program);
    if verified.end != fate.end {
        return Err(format!("the interpreter says {:?}, not {:?}", verified.end, fate.end));
    }
    if !deciders.contains(&verified.decider) {
        return Err(format!("the interpreter's rule is {:?}", verified.decider));
    }
    for (field, value) in &fate.written {
        let Written::Value(value) = value else { continue };
        let at_end: Option<Vec<u8>> = match field {
            Field::Meta(MetaKey::Mark) => Some(verified.mark.to_be_bytes().to_vec()),
            Field::Meta(MetaKey::Priority) => Some(verified.priority.to_be_bytes().to_vec()),
            Field::Header { base: Base::Network, at } => {
                verified.packet.get(usize::from(*at)).map(|byte| vec![*byte])
            }
            _ => None,
        };
        if at_end.is_some_and(|at_end| at_end != *value) {
            return Err(format!("the interpreter has another value in {field:?}"));
        }
    }
    Ok(verified)
}
