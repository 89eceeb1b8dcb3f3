// SPDX-License-Identifier: Apache-2.0

//! Matches and targets of the host's routes and sockets (`net/ipv4/netfilter/ipt_rpfilter.c`,
//! `net/ipv6/netfilter/ip6t_rpfilter.c`, `net/netfilter/xt_socket.c`, `xt_TPROXY.c`,
//! `net/ipv4/netfilter/ipt_SYNPROXY.c`).

use super::super::{Bitwise, BitwiseOp, Fib, Meta, MetaSet, Socket, Synproxy, Tproxy};
use super::part::{Part, REG, constant, equal, network, vm};
use super::{Given, Lowering};
use crate::linked::LinkedVerdict;
use crate::op::Op;
use crate::operand::{FIB_IIF, FIB_MARK, FIB_PRESENT, FIB_SADDR, FibResult, MetaKey, SocketKey};
use crate::{Data, Family, Register};

/// `struct xt_rpfilter_info`
pub fn rpfilter(given: &Given<'_>) -> Lowering {
    const LOOSE: u8 = 1;
    const MARK: u8 = 2;
    const ACCEPT_LOCAL: u8 = 4;
    const INVERTED: u8 = 8;
    let flags = given.info.u8(0);
    let device = if flags & LOOSE != 0 { 0 } else { FIB_IIF };
    let mark = if flags & MARK != 0 { FIB_MARK } else { 0 };
    let fib =
        Fib { result: FibResult::Oif, flags: FIB_SADDR | FIB_PRESENT | device | mark, dreg: REG };
    let mut of = vec![vec![vm(fib), equal(&[1], false)]];
    if flags & ACCEPT_LOCAL != 0 {
        const LOCAL: u32 = 2;
        let kind = Fib { result: FibResult::AddrType, flags: FIB_SADDR | device, dreg: REG };
        of.push(vec![vm(kind), equal(&LOCAL.to_ne_bytes(), false)]);
    }
    if given.ip()? == Family::Ip6 {
        of.push(vec![network(8, 16), equal(&[0; 16], false)]);
    }
    Ok(vec![Part::AnyOf { of, inverted: flags & INVERTED != 0 }])
}

/// `struct xt_socket_mtinfo1` to `3`; revision 0 has no structure.
pub fn socket(given: &Given<'_>) -> Lowering {
    const TRANSPARENT: u8 = 1;
    const NO_WILDCARD: u8 = 2;
    const RESTORE_MARK: u8 = 4;
    let flags = if given.rev == 0 { 0 } else { given.info.u8(0) };
    let load = |key| vm(Socket { key, level: 0, dreg: REG });
    let mut parts = vec![Part::Defrag, load(SocketKey::Transparent)];
    if flags & TRANSPARENT != 0 {
        parts.push(equal(&[1], false));
    }
    if flags & NO_WILDCARD == 0 {
        // Only full sockets are bound to all addresses.
        let bound_to_all = vec![load(SocketKey::Wildcard), equal(&[1], false)];
        parts.push(Part::AnyOf { of: vec![bound_to_all], inverted: true });
    }
    if flags & RESTORE_MARK != 0 {
        let set = vm(MetaSet { key: MetaKey::Mark, sreg: REG });
        parts.push(Part::Try(vec![load(SocketKey::Mark), set]));
    }
    Ok(parts)
}

/// `struct xt_tproxy_target_info`, `struct xt_tproxy_target_info_v1`: without a socket the packet
/// is dropped.
pub fn tproxy(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let (cleared, mark) = (info.u32(0), info.u32(4));
    let (address, port) = match given.rev {
        0 => ([info.bytes::<4>(8), [0; 4], [0; 4], [0; 4]].concat(), info.bytes::<2>(12)),
        _ => (info.bytes::<16>(8).to_vec(), info.bytes::<2>(24)),
    };
    let family = given.ip()?;
    let len = if family == Family::Ip6 { 16 } else { 4 };
    let address = address.get(..len).filter(|address| address.iter().any(|b| *b != 0));
    let port = Some(port).filter(|port| *port != [0; 2]);
    if address.is_none() && port.is_none() {
        return Err("it names neither an address nor a port");
    }
    let mut parts = Vec::new();
    let addr = address.map(|address| {
        parts.push(constant(REG, address));
        REG
    });
    let port = port.map(|port| {
        const PORT: Register = Register(2);
        parts.push(constant(PORT, &port));
        PORT
    });
    let op = BitwiseOp::MaskXor {
        mask: Data::new(&(!cleared).to_ne_bytes()),
        xor: Data::new(&mark.to_ne_bytes()),
    };
    parts.extend([
        vm(Tproxy { family: family as u8, addr, port }),
        vm(Meta { key: MetaKey::Mark, dreg: REG }),
        vm(Bitwise { sreg: REG, dreg: REG, len: 4, op }),
        vm(MetaSet { key: MetaKey::Mark, sreg: REG }),
        Part::Op(Op::Verdict(LinkedVerdict::Accept)),
    ]);
    Ok(vec![Part::Try(parts), Part::Op(Op::Verdict(LinkedVerdict::Drop))])
}

/// `struct xt_synproxy_info`
pub fn synproxy(given: &Given<'_>) -> Lowering {
    // With ECN, which rules of nft cannot ask for.
    const KNOWN: u8 = 0x1f;
    let info = given.info;
    let flags = u32::from(info.u8(0) & KNOWN);
    Ok(vec![vm(Synproxy { mss: info.u16(2), wscale: info.u8(1), flags })])
}
