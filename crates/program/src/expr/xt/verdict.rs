// SPDX-License-Identifier: Apache-2.0

//! Targets that answer, record, copy and hand on packets (`net/ipv4/netfilter/ipt_REJECT.c`,
//! `net/ipv6/netfilter/ip6t_REJECT.c`, `net/netfilter/xt_LOG.c`, `xt_NFLOG.c`, `xt_NFQUEUE.c`,
//! `xt_TEE.c`).

use super::super::{Dup, Log, Queue, Reject, RejectType};
use super::part::{REG, constant, own, vm};
use super::{Given, Lowering};
use crate::Family;
use crate::op::Extension;

/// `struct ipt_reject_info`, `struct ip6t_reject_info`
pub fn reject(given: &Given<'_>) -> Lowering {
    let icmp = |code| Reject { kind: RejectType::IcmpUnreach, code };
    let reset = Reject { kind: RejectType::TcpRst, code: 0 };
    // Codes of ICMP and ICMPv6 in the order of `enum ipt_reject_with`, `enum ip6t_reject_with`.
    let reject = match (given.ip()?, given.info.u32(0)) {
        (Family::Ip6, with) => match with {
            0 => icmp(0),
            1 => icmp(1),
            2 => icmp(2),
            3 => icmp(3),
            4 => icmp(4),
            6 => reset,
            7 => icmp(5),
            8 => icmp(6),
            _ => return Err("it answers in an unknown way"),
        },
        (_, with) => match with {
            0 => icmp(0),
            1 => icmp(1),
            2 => icmp(2),
            3 => icmp(3),
            5 => icmp(9),
            6 => icmp(10),
            7 => reset,
            8 => icmp(13),
            _ => return Err("it answers in an unknown way"),
        },
    };
    Ok(vec![vm(reject)])
}

/// `struct xt_log_info`
pub fn log(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let prefix = info.text(2, 30).ok_or("its prefix is no UTF-8")?;
    let log = Log {
        prefix: (!prefix.is_empty()).then(|| prefix.into()),
        level: Some(info.u8(0).into()),
        flags: Some(info.u8(1).into()),
        ..Log::default()
    };
    Ok(vec![vm(log)])
}

/// `struct xt_audit_info`: the type only says what the rule does next.
pub fn audit(given: &Given<'_>) -> Lowering {
    const AUDIT: u32 = 8;
    match given.info.u8(0) {
        0..3 => Ok(vec![vm(Log { level: Some(AUDIT), ..Log::default() })]),
        _ => Err("it has an unknown type"),
    }
}

/// `struct xt_nflog_info`
pub fn nflog(given: &Given<'_>) -> Lowering {
    const COPY_LEN: u16 = 1;
    let info = given.info;
    let prefix = info.text(12, 64).ok_or("its prefix is no UTF-8")?;
    let log = Log {
        prefix: (!prefix.is_empty()).then(|| prefix.into()),
        group: Some(info.u16(4)),
        snaplen: (info.u16(8) & COPY_LEN != 0).then(|| info.u32(0)),
        queue_threshold: Some(info.u16(6)),
        ..Log::default()
    };
    Ok(vec![vm(log)])
}

/// `struct xt_NFQ_info` and its successors: a number, how many queues, and whether packets pass
/// without a listener; with revision 3 flags instead.
pub fn nfqueue(given: &Given<'_>) -> Lowering {
    const BYPASS: u16 = 1;
    const FANOUT: u16 = 2;
    let info = given.info;
    let total = if given.rev == 0 { 1 } else { info.u16(2) };
    let flags = match given.rev {
        0 | 1 => 0,
        2 => u16::from(info.u16(4) != 0),
        _ => info.u16(4),
    };
    if total == 0 || u32::from(info.u16(0)) + u32::from(total) - 1 > u16::MAX.into() {
        return Err("it has no queue, or too many");
    }
    let (bypass, fanout) = (flags & BYPASS != 0, flags & FANOUT != 0);
    Ok(vec![vm(Queue { num: info.u16(0), total, sreg: None, bypass, fanout })])
}

/// A name without what is after its first zero.
fn padded(name: [u8; 16]) -> [u8; 16] {
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let mut padded = [0; 16];
    padded[..len].copy_from_slice(&name[..len]);
    padded
}

/// `struct xt_tee_tginfo`
pub fn tee(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let v6 = given.ip()? == Family::Ip6;
    let device = info.bytes::<16>(16);
    if device[0] != 0 {
        let gateway = match v6 {
            true => info.bytes::<16>(0).into(),
            false => info.bytes::<4>(0).into(),
        };
        return Ok(vec![own(Extension::CopyTo { gateway, device: padded(device) })]);
    }
    let len = if v6 { 16 } else { 4 };
    let gateway = constant(REG, &info.bytes::<16>(0)[..len]);
    Ok(vec![gateway, vm(Dup { addr: Some(REG), dev: None })])
}
