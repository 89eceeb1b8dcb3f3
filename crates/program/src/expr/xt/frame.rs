// SPDX-License-Identifier: Apache-2.0

//! Targets of ebtables and arptables that change or answer frames (`net/bridge/netfilter/ebt_*.c`,
//! `net/ipv4/netfilter/arpt_mangle.c`).

use super::super::{Log, MetaSet, PayloadSet};
use super::part::{Part, REG, bits, constant, equal, meta, network, own, vm};
use super::{Given, Lowering};
use crate::linked::LinkedVerdict;
use crate::op::{Extension, Op};
use crate::operand::{ChecksumType, MetaKey, PayloadBase};

/// What follows a target: `EBT_ACCEPT` and on, which leaves the lowest 4 bits of a number.
fn verdict(target: u32) -> Result<Option<LinkedVerdict>, &'static str> {
    match (target | !0xf) as i32 {
        -1 => Ok(Some(LinkedVerdict::Accept)),
        -2 => Ok(Some(LinkedVerdict::Drop)),
        -3 => Ok(None),
        -4 => Ok(Some(LinkedVerdict::Return)),
        _ => Err("it ends with an unknown verdict"),
    }
}

fn end(verdict: Option<LinkedVerdict>) -> Option<Part> {
    verdict.map(|verdict| Part::Op(Op::Verdict(verdict)))
}

/// Writes a register to a header.
fn write(base: PayloadBase, offset: u32, len: u32) -> Part {
    vm(PayloadSet {
        base,
        offset,
        len,
        sreg: REG,
        csum_type: ChecksumType::None,
        csum_offset: 0,
        csum_flags: 0,
    })
}

/// Says how the packet came (`PACKET_*`).
fn set_type(kind: u8) -> [Part; 2] {
    [constant(REG, &[kind]), vm(MetaSet { key: MetaKey::PktType, sreg: REG })]
}

const HOST: u8 = 0;
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
const OTHER_HOST: u8 = 3;

/// `struct ebt_mark_t_info`: what is done is above the verdict.
pub fn mark(given: &Given<'_>) -> Lowering {
    let (mark, target) = (given.info.u64(0) as u32, given.info.u32(8));
    let (keep, flip) = match target | 0xf {
        0xffff_ffff => (0, mark),
        0xffff_ffef => (!mark, mark),
        0xffff_ffdf => (mark, 0),
        0xffff_ffcf => (u32::MAX, mark),
        _ => return Err("it does something unknown"),
    };
    let mut parts = vec![
        meta(MetaKey::Mark),
        bits(&keep.to_ne_bytes(), &flip.to_ne_bytes()),
        vm(MetaSet { key: MetaKey::Mark, sreg: REG }),
    ];
    parts.extend(end(verdict(target)?));
    Ok(parts)
}

/// `struct ebt_nat_info` of the destination.
pub fn dnat(given: &Given<'_>) -> Lowering {
    let (address, target) = (given.info.bytes::<6>(0), given.info.u32(8));
    let mut parts = vec![constant(REG, &address), write(PayloadBase::Link, 0, 6)];
    if address[0] & 1 != 0 {
        parts.extend(set_type(if address == [0xff; 6] { BROADCAST } else { MULTICAST }));
    } else {
        // At other hooks than prerouting there is no bridge to ask.
        let one = |inverted, kind| {
            let mut list = vec![meta(MetaKey::BriIifHwAddr), equal(&address, inverted)];
            list.extend(set_type(kind));
            list
        };
        let of = vec![one(false, HOST), one(true, OTHER_HOST)];
        parts.push(Part::Try(vec![Part::AnyOf { of, inverted: false }]));
    }
    parts.extend(end(verdict(target)?));
    Ok(parts)
}

/// `struct ebt_nat_info` of the source.
pub fn snat(given: &Given<'_>) -> Lowering {
    const NO_ARP: u32 = 0x10;
    const ARP: u16 = 0x0806;
    let (address, target) = (given.info.bytes::<6>(0), given.info.u32(8));
    let mut parts = vec![constant(REG, &address), write(PayloadBase::Link, 6, 6)];
    if target & NO_ARP == 0 {
        parts.push(Part::Try(vec![
            meta(MetaKey::Protocol),
            equal(&ARP.to_be_bytes(), false),
            network(4, 1),
            equal(&[6], false),
            constant(REG, &address),
            write(PayloadBase::Network, 8, 6),
        ]));
    }
    parts.extend(end(verdict(target)?));
    Ok(parts)
}

/// `struct ebt_redirect_info`: to the bridge itself.
pub fn redirect(given: &Given<'_>) -> Lowering {
    let mut parts = vec![meta(MetaKey::BriIifHwAddr), write(PayloadBase::Link, 0, 6)];
    parts.extend(set_type(HOST));
    parts.extend(end(verdict(given.info.u32(0))?));
    Ok(parts)
}

/// `struct ebt_arpreply_info`
pub fn arpreply(given: &Given<'_>) -> Lowering {
    let verdict = verdict(given.info.u32(8))?;
    Ok(vec![own(Extension::ArpReply { address: given.info.bytes(0), verdict })])
}

/// `struct ebt_log_info`: the line is as one of `log`.
pub fn log(given: &Given<'_>) -> Lowering {
    const NFLOG: u32 = 4;
    let info = given.info;
    if info.u32(32) & NFLOG != 0 {
        return Err("it leaves to the machine where it is recorded");
    }
    let prefix = info.text(1, 30).ok_or("its prefix is no UTF-8")?;
    Ok(vec![vm(Log {
        prefix: (!prefix.is_empty()).then(|| prefix.into()),
        level: Some(info.u8(0).into()),
        flags: Some(super::super::LOG_MACDECODE),
        ..Log::default()
    })])
}

/// `struct arpt_mangle`, of link addresses of 6 and network addresses of 4 bytes, which the rule
/// asks for before.
pub fn mangle(given: &Given<'_>) -> Lowering {
    let (info, flags) = (given.info, given.info.u8(40));
    let mut parts = Vec::new();
    for (bit, field, offset, len) in [(1, 0, 8, 6), (4, 32, 14, 4), (2, 16, 18, 6), (8, 36, 24, 4)]
    {
        if flags & bit != 0 {
            parts.push(constant(REG, &info.bytes::<6>(field)[..len]));
            parts.push(write(PayloadBase::Network, offset, len as u32));
        }
    }
    match info.u32(44) as i32 {
        0 => parts.extend(end(Some(LinkedVerdict::Drop))),
        1 => parts.extend(end(Some(LinkedVerdict::Accept))),
        -1 => {}
        _ => return Err("it ends with an unknown verdict"),
    }
    Ok(parts)
}
