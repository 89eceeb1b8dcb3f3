// SPDX-License-Identifier: Apache-2.0

//! The bytes of an example: link header, network header and what follows, with those that rules ask
//! in their places.

use std::collections::{BTreeMap, HashMap};

use penstock_packet::{Packet, VlanTag};
use penstock_program::Family;
use penstock_program::expr::{ExthdrOp, MetaKey};
use penstock_wire::{checksum, ethernet, ipv4_options, protocol, tcp};

use crate::field::{Base, Field};
use crate::layout;
use crate::preferred::transport_header;
use crate::universe::Universe;

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

/// What a load of the link header sees: the tag stands in it.
pub(super) fn link_seen(packet: &Packet) -> Vec<u8> {
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

/// ARP, or a protocol of which nothing is known but bytes.
fn unknown_bytes(universe: &Universe, point: &[bool], len: Option<usize>) -> Option<Vec<u8>> {
    let default: &[u8] = match universe.place.family {
        Family::Arp => &[0, 1, 8, 0, 6, 4, 0, 1],
        _ => &[],
    };
    let (least, most) = lengths(universe, point, Base::Network);
    let mut layer = Layer::new(default);
    layer.resize(len.unwrap_or(28).clamp(least, most.max(least)));
    for (at, byte) in headers(universe, point, Base::Network) {
        layer.fix(at, byte)?;
    }
    Some(layer.bytes)
}

/// What rules ask of an extension header or an option, for one packet.
struct Asked {
    kind: u8,
    /// Whether the packet has it, or must not have it.
    there: bool,
    /// Bytes that it has, at least and at most.
    least: usize,
    most: usize,
    /// Bytes that rules ask, with their place.
    bytes: Vec<(usize, u8)>,
}

impl Asked {
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.iter().find(|(of, _)| *of == at).map(|(_, byte)| *byte)
    }

    fn put_into(&self, header: &mut [u8]) {
        for (at, byte) in &self.bytes {
            if let Some(to) = header.get_mut(*at) {
                *to = *byte;
            }
        }
    }
}

/// Extension headers or options that rules ask for, in ascending order of their kind.
fn asked_exthdrs(universe: &Universe, point: &[bool], wanted: ExthdrOp) -> Vec<Asked> {
    let mut all: BTreeMap<u8, Asked> = BTreeMap::new();
    for field in universe.fields() {
        let (Field::HasExthdr { op, kind, .. } | Field::Exthdr { op, kind, .. }) = *field else {
            continue;
        };
        if op != wanted {
            continue;
        }
        let asked = all.entry(kind).or_insert_with(|| Asked {
            kind,
            there: false,
            least: 0,
            most: usize::MAX,
            bytes: Vec::new(),
        });
        match *field {
            Field::HasExthdr { bytes, .. } => {
                let bytes = usize::from(bytes);
                match universe.flag(*field, point) {
                    Some(true) => {
                        asked.there = true;
                        asked.least = asked.least.max(bytes);
                    }
                    _ => asked.most = asked.most.min(bytes.saturating_sub(1)),
                }
            }
            Field::Exthdr { at, .. } => {
                let value = universe.value(*field, point).and_then(|v| v.first().copied());
                asked.bytes.extend(value.map(|byte| (usize::from(at), byte)));
            }
            _ => {}
        }
    }
    all.into_values().collect()
}

/// Options of TCP or IPv4 that rules ask for, up to a multiple of four bytes.
fn options(universe: &Universe, point: &[bool], op: ExthdrOp) -> Vec<u8> {
    let all = asked_exthdrs(universe, point, op);
    let mut out = Vec::new();
    for asked in all.iter().filter(|asked| asked.there) {
        if asked.kind <= tcp::option::NOP {
            out.insert(0, asked.kind);
            continue;
        }
        let usual: &[u8] = match (op, asked.kind) {
            (ExthdrOp::TcpOpt, tcp::option::MSS) => &[2, 4, 0x05, 0xb4],
            (ExthdrOp::TcpOpt, tcp::option::WINDOW) => &[3, 3, 7],
            (ExthdrOp::TcpOpt, tcp::option::SACK) => &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            (ExthdrOp::TcpOpt, tcp::option::TIMESTAMP) => &[8, 10, 0, 0, 0, 1, 0, 0, 0, 0],
            (ExthdrOp::Ipv4Opt, ipv4_options::RA) => &[148, 4, 0, 0],
            (ExthdrOp::Ipv4Opt, ipv4_options::RR | ipv4_options::LSRR | ipv4_options::SSRR) => {
                &[0, 7, 4, 0, 0, 0, 0]
            }
            _ => &[0, 2],
        };
        let mut option = usual.to_vec();
        // Bytes of IPv4 options are also read behind them.
        let len = match asked.byte(1).filter(|len| *len >= 2) {
            Some(len) => usize::from(len),
            None => option.len().max(asked.least).min(asked.most.max(2)),
        };
        option.resize(len, 0);
        (option[0], option[1]) = (asked.kind, len as u8);
        asked.put_into(&mut option);
        out.extend(option);
    }
    if !out.is_empty() {
        let absent = |kind| all.iter().any(|asked| asked.kind == kind && !asked.there);
        let filler = if absent(tcp::option::NOP) { tcp::option::END } else { tcp::option::NOP };
        out.resize(out.len().next_multiple_of(4), filler);
    }
    out
}

/// Extension headers of IPv6 that rules ask for, and the protocol number of the first of them; the
/// number of what follows them if there are none.
fn extensions(
    universe: &Universe,
    point: &[bool],
    first: Option<u8>,
    carried: u8,
    has_transport: bool,
) -> (u8, Vec<u8>) {
    let all = asked_exthdrs(universe, point, ExthdrOp::Ipv6);
    let is_there = |kind: u8| all.iter().find(|asked| asked.kind == kind).map(|a| a.there);
    // An authentication header counts as the transport header.
    let mut kinds: Vec<u8> = [0, 60, 43, 44]
        .into_iter()
        .filter(|kind| is_there(*kind) == Some(true) || has_transport && first == Some(*kind))
        .collect();
    kinds.sort_by_key(|kind| first != Some(*kind));
    let last = match has_transport {
        true => carried,
        // A chain of headers that is cut off.
        false => [0, 43, 60, 44].into_iter().find(|k| is_there(*k) != Some(false)).unwrap_or(0),
    };
    let mut bytes = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let asked = all.iter().find(|asked| asked.kind == *kind);
        let units = asked.and_then(|asked| asked.byte(1)).filter(|_| *kind != protocol::FRAGMENT);
        let least = asked.map_or(0, |asked| asked.least);
        let len = match units {
            Some(units) => (usize::from(units) + 1) * 8,
            None if *kind == protocol::FRAGMENT => 8,
            None => least.next_multiple_of(8).max(8),
        };
        let mut header = vec![0; len];
        header[0] = kinds.get(i + 1).copied().unwrap_or(last);
        match *kind {
            protocol::FRAGMENT => header[3..8].copy_from_slice(&[1, 0, 0, 0, 1]),
            _ => header[1] = (len / 8 - 1) as u8,
        }
        if let Some(asked) = asked {
            asked.put_into(&mut header);
        }
        bytes.extend(header);
    }
    (kinds.first().copied().unwrap_or(last), bytes)
}

/// An IPv4 header, and where the transport header begins.
fn ipv4_header(
    own: &[(usize, u8)],
    options: &[u8],
    carried: u8,
    later_fragment: bool,
) -> (Layer, usize) {
    let mut layer =
        Layer::new(&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, carried, 0, 0, 198, 18, 0, 2, 198, 19, 0, 2]);
    layer.bytes[0] += (options.len() / 4).min(10) as u8;
    layer.bytes.extend(options);
    layer.fixed.resize(layer.bytes.len(), false);
    let usual = layer.bytes[0];
    let first = own.iter().find(|(at, _)| *at == 0).map_or(usual, |(_, byte)| *byte);
    if later_fragment {
        layer.fill(7, &[1]);
    }
    (layer, usize::from(first & 15) * 4)
}

/// An IPv6 header with the extension headers after it, and where the transport header begins.
fn ipv6_header(next: u8, extensions: &[u8]) -> (Layer, usize) {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    for last in [1, 2] {
        bytes.extend([0x20, 0x01, 0x0d, 0xb8, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }
    bytes.extend(extensions);
    (Layer::new(&bytes), bytes.len())
}

/// The network header and all that follows it.
pub(super) fn network_bytes(
    universe: &Universe,
    point: &[bool],
    version: Option<u8>,
) -> Option<Vec<u8>> {
    let wanted_len = universe
        .value(Field::Meta(MetaKey::Len), point)
        .map(|v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]) as usize);
    let Some(version) = version else { return unknown_bytes(universe, point, wanted_len) };
    let own = headers(universe, point, Base::Network);
    let has_transport = universe.flag(Field::Transport, point).unwrap_or(true);
    let later = universe.flag(Field::LaterFragment, point).unwrap_or(false);
    let carried = layout::transport(universe, point).unwrap_or(protocol::TCP);
    let (mut layer, header_len) = match version {
        4 => {
            let options = options(universe, point, ExthdrOp::Ipv4Opt);
            ipv4_header(&own, &options, carried, later)
        }
        _ => {
            let first = own.iter().find(|(at, _)| *at == 6).map(|(_, byte)| *byte);
            let (next, bytes) = extensions(universe, point, first, carried, has_transport);
            ipv6_header(next, &bytes)
        }
    };
    let mut body = transport_header(carried).to_vec();
    if carried == protocol::TCP && has_transport {
        let options = options(universe, point, ExthdrOp::TcpOpt);
        body[12] += (options.len() / 4).min(10) as u8 * 16;
        body.extend(options);
    }
    if version == 6 && carried == protocol::AH {
        // What follows an authentication header, at which the walk to the transport header ends.
        let all = asked_exthdrs(universe, point, ExthdrOp::Ipv6);
        let after = all.iter().find(|a| a.there && !matches!(a.kind, 0 | 43 | 44 | 51 | 60));
        body[0] = after.map_or(protocol::NO_NEXT, |asked| asked.kind);
    }
    let (least, most) = lengths(universe, point, Base::Network);
    let (transport_least, transport_most) = lengths(universe, point, Base::Transport);
    let (mut low, mut high) = (header_len, header_len);
    if has_transport {
        low = header_len + transport_least;
        high = usize::from(u16::MAX).min(header_len + transport_most);
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
    // Headers at which the walk to the transport header ends.
    for asked in asked_exthdrs(universe, point, ExthdrOp::Ipv6) {
        if version == 6 && asked.there && asked.kind == carried {
            for (at, byte) in asked.bytes {
                layer.fix(header_len + at, byte)?;
            }
        }
    }
    if version == 4 {
        layer.fill(2, &(len as u16).to_be_bytes());
        if layer.fixed.get(10..12) == Some(&[false, false]) && layer.bytes.len() >= header_len {
            let sum = checksum::of(&layer.bytes[..header_len.max(20)]);
            layer.fill(10, &sum.to_be_bytes());
        }
    } else {
        layer.fill(4, &((len - 40) as u16).to_be_bytes());
    }
    if carried == protocol::UDP {
        layer.fill(header_len + 4, &((len - header_len.min(len)) as u16).to_be_bytes());
    }
    Some(layer.bytes)
}

/// The link header, without tag.
pub(super) type Link = (Vec<u8>, Option<VlanTag>, u16);

/// The link header, the tag, and the ethertype; `Some(None)` if there is no link header.
pub(super) fn link_bytes(
    universe: &Universe,
    point: &[bool],
    version: Option<u8>,
) -> Option<Option<Link>> {
    let (_, most) = lengths(universe, point, Base::Link);
    if most < 14 {
        return Some(None);
    }
    let mut own: HashMap<usize, u8> = headers(universe, point, Base::Link).into_iter().collect();
    if universe.has_way() {
        own.retain(|at, _| *at < 12);
    }
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
