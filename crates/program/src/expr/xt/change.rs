// SPDX-License-Identifier: Apache-2.0

//! Targets that change the packet or its connection (`net/netfilter/xt_mark.c`, `xt_connmark.c`,
//! `xt_HL.c`, `xt_DSCP.c`, `xt_CLASSIFY.c`, `xt_TCPMSS.c`, `xt_TCPOPTSTRIP.c`, `xt_CHECKSUM.c`,
//! `xt_CT.c`, `xt_TRACE.c`, `net/ipv4/netfilter/ipt_ECN.c`, `net/ipv6/netfilter/ip6t_NPT.c`).

use super::super::{Bitwise, BitwiseOp, Ct, CtSet, Meta, MetaSet, Notrack, PayloadSet};
use super::part::{Part, REG, bits, constant, meta, network, own, transport, vm};
use super::{Given, Lowering, named};
use crate::linked::NewConnection;
use crate::op::{Extension, PrefixChange, SegmentSize, TtlChange};
use crate::operand::{BoolOp, ChecksumType, CtDir, CtKey, MetaKey, PayloadBase};
use crate::{Data, Family, Register};

fn set_meta(key: MetaKey) -> Part {
    vm(MetaSet { key, sreg: REG })
}

/// `(register & !cleared) ^ value` of a number in host order.
fn replaced(cleared: u32, value: u32) -> Part {
    bits(&(!cleared).to_ne_bytes(), &value.to_ne_bytes())
}

/// `struct xt_mark_tginfo2`
pub fn mark(given: &Given<'_>) -> Lowering {
    let (mark, cleared) = (given.info.u32(0), given.info.u32(4));
    Ok(vec![meta(MetaKey::Mark), replaced(cleared, mark), set_meta(MetaKey::Mark)])
}

/// The second register here.
const OTHER: Register = Register(2);

/// Shifts a register as `struct xt_connmark_tginfo2` says before its mode.
fn shift(given: &Given<'_>, register: Register, parts: &mut Vec<Part>) -> Result<(), &'static str> {
    let [right, by] = match given.rev {
        1 => [0, 0],
        _ => given.info.bytes(12),
    };
    let op = match (right, by) {
        (_, 0) => return Ok(()),
        (0, 1..32) => BitwiseOp::Lshift(by.into()),
        (1, 1..32) => BitwiseOp::Rshift(by.into()),
        _ => return Err("it shifts in an unknown way"),
    };
    parts.push(vm(Bitwise { sreg: register, dreg: register, len: 4, op }));
    Ok(())
}

/// `struct xt_connmark_tginfo1` and `2`
pub fn connmark(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let (mark, ct_mask, mask) = (info.u32(0), info.u32(4), info.u32(8));
    let load_ct = |dreg| vm(Ct { key: CtKey::Mark, dir: None, dreg });
    let load = |dreg| vm(Meta { key: MetaKey::Mark, dreg });
    let set_ct = || vm(CtSet { key: CtKey::Mark, dir: None, sreg: REG });
    let masked = |register, kept: u32| {
        let op =
            BitwiseOp::MaskXor { mask: Data::new(&kept.to_ne_bytes()), xor: Data::new(&[0; 4]) };
        vm(Bitwise { sreg: register, dreg: register, len: 4, op })
    };
    let combined = || {
        let op = BitwiseOp::Combine(BoolOp::Xor, OTHER);
        vm(Bitwise { sreg: REG, dreg: REG, len: 4, op })
    };
    let mut parts = Vec::new();
    match info.u8(if given.rev == 1 { 12 } else { 14 }) {
        0 => {
            parts.extend([load_ct(REG), replaced(ct_mask, mark)]);
            shift(given, REG, &mut parts)?;
            parts.push(set_ct());
        }
        1 => {
            parts.extend([load_ct(REG), masked(REG, !ct_mask), load(OTHER), masked(OTHER, mask)]);
            shift(given, OTHER, &mut parts)?;
            parts.extend([combined(), set_ct()]);
        }
        2 => {
            parts.extend([load_ct(OTHER), masked(OTHER, ct_mask)]);
            shift(given, OTHER, &mut parts)?;
            parts.extend([load(REG), masked(REG, !mask), combined(), set_meta(MetaKey::Mark)]);
        }
        _ => return Err("it has an unknown mode"),
    }
    Ok(vec![Part::Try(parts)])
}

/// `struct ipt_TTL_info`, `struct ip6t_HL_info`
pub fn ttl(given: &Given<'_>) -> Lowering {
    let [mode, number] = given.info.bytes(0);
    Ok(vec![own(Extension::Ttl(match mode {
        0 => TtlChange::Set(number),
        1 => TtlChange::Add(number),
        2 => TtlChange::Subtract(number),
        _ => return Err("it has an unknown mode"),
    }))])
}

/// The traffic class becomes `(class & kept) ^ value`.
fn class(given: &Given<'_>, kept: u8, value: u8) -> Lowering {
    let v6 = given.ip()? == Family::Ip6;
    let (kept, value, csum_type) = match v6 {
        true => (0xf00f | u16::from(kept) << 4, u16::from(value) << 4, ChecksumType::None),
        false => (0xff00 | u16::from(kept), u16::from(value), ChecksumType::Inet),
    };
    Ok(vec![
        network(0, 2),
        bits(&kept.to_be_bytes(), &value.to_be_bytes()),
        vm(PayloadSet {
            base: PayloadBase::Network,
            offset: 0,
            len: 2,
            sreg: REG,
            csum_type,
            csum_offset: if v6 { 0 } else { 10 },
            csum_flags: 0,
        }),
    ])
}

/// `struct xt_DSCP_info`
pub fn dscp(given: &Given<'_>) -> Lowering {
    match given.info.u8(0) {
        dscp @ 0..64 => class(given, 3, dscp << 2),
        _ => Err("its value has more than 6 bits"),
    }
}

/// `struct xt_tos_target_info`
pub fn tos(given: &Given<'_>) -> Lowering {
    let [value, cleared] = given.info.bytes(0);
    class(given, !cleared, value)
}

/// `struct ipt_ECN_info`: two bits of the network header, and flags of TCP.
pub fn ecn(given: &Given<'_>) -> Lowering {
    const IP: u8 = 1;
    /// Flags ECE and CWR of TCP, and their bits in byte 13 of its header.
    const FLAGS: [(u8, u8, u8); 2] = [(0x10, 1, 0x40), (0x20, 2, 0x80)];
    let [operation, ect, flags] = given.info.bytes(0);
    let mut parts = match operation & IP {
        0 => Vec::new(),
        _ => class(given, !3, ect & 3)?,
    };
    let (mut kept, mut value) = (u8::MAX, 0);
    for (flag, wanted, bit) in FLAGS {
        if operation & flag != 0 {
            kept &= !bit;
            value |= if flags & wanted != 0 { bit } else { 0 };
        }
    }
    if kept != u8::MAX {
        // Where there is no TCP header the rule continues, and a cut one is dropped.
        parts.push(Part::Try(vec![
            own(Extension::TransportHeader { len: 20, drops_overlap: false }),
            transport(12, 2),
            bits(&[u8::MAX, kept], &[0, value]),
            vm(PayloadSet {
                base: PayloadBase::Transport,
                offset: 12,
                len: 2,
                sreg: REG,
                csum_type: ChecksumType::Inet,
                csum_offset: 16,
                csum_flags: 0,
            }),
        ]));
    }
    Ok(parts)
}

/// `struct ip6t_npt_tginfo`: another prefix for the destination (`DNPT`), or else the source
/// (`SNPT`).
fn prefix(given: &Given<'_>, destination: bool) -> Lowering {
    const LONGEST: u8 = 64;
    let info = given.info;
    let (from, to) = ((info.bytes(0), info.u8(32)), (info.bytes(16), info.u8(33)));
    if from.1.max(to.1) > LONGEST {
        return Err("its prefixes are too long");
    }
    Ok(vec![own(Extension::Npt(PrefixChange::new(destination, from, to)))])
}

/// `DNPT`
pub fn dnpt(given: &Given<'_>) -> Lowering {
    prefix(given, true)
}

/// `SNPT`
pub fn snpt(given: &Given<'_>) -> Lowering {
    prefix(given, false)
}

/// `struct xt_classify_target_info`
pub fn classify(given: &Given<'_>) -> Lowering {
    Ok(vec![constant(REG, &given.info.bytes::<4>(0)), set_meta(MetaKey::Priority)])
}

/// `struct xt_tcpmss_info`
pub fn tcpmss(given: &Given<'_>) -> Lowering {
    const PATH_MTU: u16 = 0xffff;
    let size = match given.info.u16(0) {
        PATH_MTU => SegmentSize::PathMtu,
        size => SegmentSize::Fixed(size),
    };
    Ok(vec![own(Extension::SetTcpMss(size))])
}

/// `struct xt_tcpoptstrip_target_info`
pub fn tcpoptstrip(given: &Given<'_>) -> Lowering {
    let options = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| given.info.u32(4 * i));
    Ok(vec![own(Extension::StripTcpOptions { options })])
}

/// `struct xt_CHECKSUM_info`: packets here always have their checksums.
pub fn checksum(given: &Given<'_>) -> Lowering {
    match given.info.u8(0) {
        1 => Ok(vec![]),
        _ => Err("it does something unknown"),
    }
}

/// `NOTRACK`, without a structure.
pub fn notrack(_: &Given<'_>) -> Lowering {
    Ok(vec![vm(Notrack)])
}

/// `struct xt_ct_target_info_v1`
pub fn ct(given: &Given<'_>) -> Lowering {
    const NOTRACK: u16 = 1;
    const ALIAS: u16 = 2;
    const ORIGINAL: u16 = 4;
    const REPLY: u16 = 8;
    let info = given.info;
    let [flags, zone] = info.u16s(0);
    if flags & NOTRACK != 0 {
        return Ok(vec![vm(Notrack)]);
    }
    let masks = [info.u32(4) as u16, info.u32(8) as u16];
    let events = (masks != [0; 2]).then_some(masks);
    let dir = match flags & !ALIAS {
        0 => None,
        ORIGINAL => Some(CtDir::Original),
        REPLY => Some(CtDir::Reply),
        _ => return Err("zones of marks are not known"),
    };
    let helper = named::helper(info)?;
    let timeout = named::timeout(given.rev, info)?;
    if helper.is_some() || timeout.is_some() || events.is_some() {
        let helper = helper.unwrap_or_default().into();
        let new = NewConnection { helper, timeout: None, events, zone, dir };
        return Ok(vec![Part::Template(new, timeout.map(Into::into))]);
    }
    // A zone that nobody asks for is the one of all packets.
    if zone == 0 && dir.is_none() {
        return Ok(vec![]);
    }
    let set = vm(CtSet { key: CtKey::Zone, dir, sreg: REG });
    Ok(vec![constant(REG, &zone.to_ne_bytes()), set])
}

/// `TRACE`, without a structure.
pub fn trace(_: &Given<'_>) -> Lowering {
    Ok(vec![constant(REG, &[1]), set_meta(MetaKey::NfTrace)])
}
