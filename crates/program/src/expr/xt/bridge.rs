// SPDX-License-Identifier: Apache-2.0

//! Matches of ebtables (`net/bridge/netfilter/ebt_*.c`). The rule asks for the protocol before.

use super::super::{Bitwise, BitwiseOp, Payload};
use super::part::{
    Part, compare, equal, in_ranges, mask, meta, network, payload, range, transport, vm,
};
use super::{Given, Lowering};
use crate::Register;
use crate::operand::{BoolOp, CmpOp, MetaKey, PayloadBase};

/// Which of its fields a match asks for, and which of those are inverted.
#[derive(Clone, Copy)]
struct Asked(u8, u8);

impl Asked {
    /// Whether a field is inverted, if it is asked for.
    fn of(self, bit: u8) -> Option<bool> {
        (self.0 & bit != 0).then_some(self.1 & bit != 0)
    }
}

/// A list that passes or, with `inverted`, one that does not.
fn all(parts: Vec<Part>, inverted: bool) -> Part {
    Part::AnyOf { of: vec![parts], inverted }
}

/// Bytes of the network header with a mask.
fn masked(at: u32, value: &[u8], bits: &[u8], inverted: bool) -> [Part; 3] {
    [network(at, value.len() as u32), mask(bits), equal(value, inverted)]
}

/// Ports, or type and code of ICMP, of a packet that is no later fragment.
fn ports(given: &Given<'_>, asked: Asked, at: usize, parts: &mut Vec<Part>) {
    const SOURCE: u8 = 0x10;
    const DESTINATION: u8 = 0x20;
    const ICMP: u8 = 0x40;
    const IGMP: u8 = 0x80;
    let info = given.info;
    for (bit, port, at) in [(DESTINATION, 2, at + 4), (SOURCE, 0, at)] {
        if let Some(inverted) = asked.of(bit) {
            let [first, last] = info.u16s(at).map(u16::to_be_bytes);
            parts.extend([transport(port, 2), range(&first, &last, inverted)]);
        }
    }
    let (kinds, codes) = (info.bytes::<2>(at), info.bytes::<2>(at + 4));
    if let Some(inverted) = asked.of(ICMP) {
        let list = vec![
            transport(0, 1),
            range(&kinds[..1], &kinds[1..], false),
            transport(1, 1),
            range(&codes[..1], &codes[1..], false),
        ];
        parts.push(all(list, inverted));
    }
    if let Some(inverted) = asked.of(IGMP) {
        parts.extend([transport(0, 1), range(&kinds[..1], &kinds[1..], inverted)]);
    }
}

/// `struct ebt_ip_info`
pub fn ip(given: &Given<'_>) -> Lowering {
    const BELOW_PROTOCOL: u8 = 0xf0;
    let info = given.info;
    let asked = Asked(info.u8(18), info.u8(19));
    let mut parts = vec![network(19, 1)];
    if let Some(inverted) = asked.of(4) {
        parts.extend([network(1, 1), equal(&[info.u8(16)], inverted)]);
    }
    for (bit, at, field) in [(1, 12, 0), (2, 16, 4)] {
        if let Some(inverted) = asked.of(bit) {
            let (value, bits) = (info.bytes::<4>(field), info.bytes::<4>(field + 8));
            parts.extend(masked(at, &value, &bits, inverted));
        }
    }
    if let Some(inverted) = asked.of(8) {
        parts.extend([network(9, 1), equal(&[info.u8(17)], inverted)]);
        if info.u8(18) & BELOW_PROTOCOL != 0 {
            parts.extend([network(6, 2), mask(&[0x1f, 0xff]), equal(&[0, 0], false)]);
            ports(given, asked, 20, &mut parts);
        }
    }
    Ok(parts)
}

/// `struct ebt_ip6_info`
pub fn ip6(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let asked = Asked(info.u8(66), info.u8(67));
    let mut parts = vec![network(39, 1)];
    if let Some(inverted) = asked.of(4) {
        let class = u16::from(info.u8(64)) << 4;
        parts.extend([network(0, 2), mask(&[0x0f, 0xf0]), equal(&class.to_be_bytes(), inverted)]);
    }
    for (bit, at, field) in [(1, 8, 0), (2, 24, 16)] {
        if let Some(inverted) = asked.of(bit) {
            let (value, bits) = (info.bytes::<16>(field), info.bytes::<16>(field + 32));
            let kept: Vec<u8> = value.iter().zip(bits).map(|(v, m)| v & m).collect();
            parts.extend(masked(at, &kept, &bits, inverted));
        }
    }
    if let Some(inverted) = asked.of(8) {
        parts.extend([meta(MetaKey::L4Proto), equal(&[info.u8(65)], inverted)]);
        ports(given, asked, 68, &mut parts);
    }
    Ok(parts)
}

/// `struct ebt_arp_info`, of link addresses of 6 bytes.
pub fn arp(given: &Given<'_>) -> Lowering {
    const ADDRESSES: u8 = 0x98;
    const LINK_ADDRESSES: u8 = 0x60;
    let info = given.info;
    let asked = Asked(info.u8(48), info.u8(49));
    let mut parts = vec![network(7, 1)];
    for (bit, at, field) in [(1, 6, 4), (2, 0, 0), (4, 2, 2)] {
        if let Some(inverted) = asked.of(bit) {
            parts.extend([network(at, 2), equal(&info.bytes::<2>(field), inverted)]);
        }
    }
    if info.u8(48) & ADDRESSES != 0 {
        // IPv4, and the lengths of both addresses.
        parts.extend([network(2, 4), equal(&[8, 0, 6, 4], false)]);
    }
    for (bit, at, field) in [(8, 14, 8), (0x10, 24, 16)] {
        if let Some(inverted) = asked.of(bit) {
            let (value, bits) = (info.bytes::<4>(field), info.bytes::<4>(field + 4));
            parts.extend(masked(at, &value, &bits, inverted));
        }
    }
    if let Some(inverted) = asked.of(0x80) {
        const OTHER: Register = Register(2);
        let op = BitwiseOp::Combine(BoolOp::Xor, OTHER);
        let reg = super::part::REG;
        parts.extend([
            network(14, 4),
            vm(Payload { base: PayloadBase::Network, offset: 24, len: 4, dreg: OTHER }),
            vm(Bitwise { sreg: reg, dreg: reg, len: 4, op }),
            equal(&[0; 4], inverted),
        ]);
    }
    if info.u8(48) & LINK_ADDRESSES != 0 {
        parts.extend([network(0, 2), equal(&[0, 1], false), network(4, 1), equal(&[6], false)]);
    }
    for (bit, at, field) in [(0x20, 8, 24), (0x40, 18, 36)] {
        if let Some(inverted) = asked.of(bit) {
            let (value, bits) = (info.bytes::<6>(field), info.bytes::<6>(field + 6));
            let kept: Vec<u8> = value.iter().zip(bits).map(|(v, m)| v & m).collect();
            parts.extend(masked(at, &kept, &bits, inverted));
        }
    }
    Ok(parts)
}

/// `struct ebt_vlan_info`: the outer tag.
pub fn vlan(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let asked = Asked(info.u8(6), info.u8(7));
    let link = |at, len| payload(PayloadBase::Link, at, len);
    let mut parts = Vec::new();
    if let Some(inverted) = asked.of(1) {
        let id = info.u16(0).to_be_bytes();
        parts.extend([link(14, 2), mask(&[0x0f, 0xff]), equal(&id, inverted)]);
    }
    if let Some(inverted) = asked.of(2) {
        let priority = u16::from(info.u8(2)) << 13;
        let priority = priority.to_be_bytes();
        parts.extend([link(14, 2), mask(&[0xe0, 0]), equal(&priority, inverted)]);
    }
    if let Some(inverted) = asked.of(4) {
        parts.extend([link(16, 2), equal(&info.bytes::<2>(4), inverted)]);
    }
    Ok(parts)
}

/// `struct ebt_802_3_info`: service access points, and the protocol of SNAP.
pub fn ieee_802_3(given: &Given<'_>) -> Lowering {
    const SNAP: u8 = 0xaa;
    let info = given.info;
    let asked = Asked(info.u8(4), info.u8(5));
    let link = |at, len| payload(PayloadBase::Link, at, len);
    let mut parts = Vec::new();
    if let Some(inverted) = asked.of(1) {
        let sap = [info.u8(0)];
        parts.extend([link(15, 1), equal(&sap, inverted), link(14, 1), equal(&sap, inverted)]);
    }
    if let Some(inverted) = asked.of(2) {
        let protocol = info.bytes::<2>(2);
        let kind = |unnumbered: bool, at| {
            let op = if unnumbered { CmpOp::Eq } else { CmpOp::Neq };
            vec![
                link(16, 1),
                mask(&[3]),
                compare(op, &[3]),
                link(at, 2),
                equal(&protocol, inverted),
            ]
        };
        parts.extend([
            link(14, 2),
            equal(&[SNAP, SNAP], false),
            Part::AnyOf { of: vec![kind(true, 20), kind(false, 21)], inverted: false },
        ]);
    }
    Ok(parts)
}

/// `struct ebt_mark_m_info`
pub fn mark(given: &Given<'_>) -> Lowering {
    const ANY_BIT: u8 = 1;
    let info = given.info;
    // The kernel has 64 bits of which a mark has 32.
    let (mark, bits, inverted) = (info.u64(0), info.u64(8), info.u8(16) != 0);
    let bits = (bits as u32).to_ne_bytes();
    if info.u8(17) & ANY_BIT != 0 {
        let op = if inverted { CmpOp::Eq } else { CmpOp::Neq };
        return Ok(vec![meta(MetaKey::Mark), mask(&bits), compare(op, &[0; 4])]);
    }
    Ok(match u32::try_from(mark) {
        Ok(mark) => {
            vec![meta(MetaKey::Mark), self::mask(&bits), equal(&mark.to_ne_bytes(), inverted)]
        }
        Err(_) => vec![Part::AnyOf { of: Vec::new(), inverted }],
    })
}

/// Bytes of a number in a bridge protocol data unit, and their range in the match.
struct Number {
    bit: u16,
    at: u32,
    len: u32,
    field: usize,
}

/// `struct ebt_stp_info`
pub fn stp(given: &Given<'_>) -> Lowering {
    const TYPE: u16 = 1;
    const FLAGS: u16 = 2;
    const ROOT: u16 = 8;
    const SENDER: u16 = 0x40;
    const CONFIGURATION: u16 = 0xffe;
    let info = given.info;
    let [asked, inverted] = info.u16s(STP_ASKED);
    let is = |bit: u16| (asked & bit != 0).then_some(inverted & bit != 0);
    // LLC and the protocol's number, of which the kernel leaves out a byte: what it calls the type
    // is the version, and all that follows begins a byte before it.
    let mut parts = vec![network(0, 6), equal(&[0x42, 0x42, 3, 0, 0, 0], false)];
    if let Some(inverted) = is(TYPE) {
        parts.extend([network(5, 1), equal(&[info.u8(0)], inverted)]);
    }
    if asked & CONFIGURATION == 0 {
        return Ok(parts);
    }
    parts.push(network(36, 1));
    if let Some(inverted) = is(FLAGS) {
        parts.extend([network(6, 1), equal(&[info.u8(4)], inverted)]);
    }
    for (bit, at, field) in [(ROOT, 9, 10), (SENDER, 21, 36)] {
        if let Some(inverted) = is(bit) {
            let (value, bits) = (info.bytes::<6>(field), info.bytes::<6>(field + 6));
            let kept: Vec<u8> = value.iter().zip(bits).map(|(v, m)| v & m).collect();
            parts.extend(masked(at, &kept, &bits, inverted));
        }
    }
    for number in STP_NUMBERS {
        if let Some(inverted) = is(number.bit) {
            parts.push(network(number.at, number.len));
            parts.push(match number.len {
                2 => in_ranges(vec![info.u16s(number.field).map(u16::to_be_bytes)], inverted)?,
                _ => {
                    let ends = [info.u32(number.field), info.u32(number.field + 4)];
                    in_ranges(vec![ends.map(u32::to_be_bytes)], inverted)?
                }
            });
        }
    }
    Ok(parts)
}

/// Where `struct ebt_stp_info` says what is asked.
const STP_ASKED: usize = 68;
const STP_NUMBERS: [Number; 8] = [
    Number { bit: 4, at: 7, len: 2, field: 6 },
    Number { bit: 0x10, at: 15, len: 4, field: 24 },
    Number { bit: 0x20, at: 19, len: 2, field: 32 },
    Number { bit: 0x80, at: 27, len: 2, field: 48 },
    Number { bit: 0x100, at: 29, len: 2, field: 52 },
    Number { bit: 0x200, at: 31, len: 2, field: 56 },
    Number { bit: 0x400, at: 33, len: 2, field: 60 },
    Number { bit: 0x800, at: 35, len: 2, field: 64 },
];
