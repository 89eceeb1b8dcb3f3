// SPDX-License-Identifier: Apache-2.0

//! Matches of transport headers (`net/netfilter/xt_tcpudp.c`, `xt_sctp.c`, `xt_multiport.c`,
//! `xt_esp.c`, `xt_ipcomp.c`, `xt_dccp.c`, `xt_tcpmss.c`, `xt_ecn.c`,
//! `net/ipv4/netfilter/ip_tables.c`, `ipt_ah.c`).
//!
//! That a packet is of the protocol is another expression of the rule, without which the kernel
//! refuses it.

use super::part::{
    Part, compare, equal, in_ranges, mask, network, own, range16, range32, transport,
};
use super::{Given, Lowering};
use crate::Family;
use crate::c_struct::CStruct;
use crate::op::{ChunkFlags, ChunkRule, ChunksWanted, Extension};
use crate::operand::CmpOp;

/// A header of `len` bytes.
fn header(len: u8) -> Part {
    own(Extension::TransportHeader { len, drops_overlap: false })
}

/// A range of ports at an offset of the header, unless it is that of all ports.
fn ports(at: u32, range: [u16; 2], inverted: bool, parts: &mut Vec<Part>) {
    if range != [0, u16::MAX] || inverted {
        parts.extend([transport(at, 2), range16(range, inverted)]);
    }
}

/// `struct xt_tcp`
pub fn tcp(given: &Given<'_>) -> Lowering {
    const SOURCE: u8 = 1;
    const DESTINATION: u8 = 2;
    const FLAGS: u8 = 4;
    const OPTION: u8 = 8;
    let info = given.info;
    let (option, flags, wanted, inverted) = (info.u8(8), info.u8(9), info.u8(10), info.u8(11));
    // Later fragments over IPv6 begin at other offsets (`ipv6_find_hdr()`).
    let drops_overlap = given.family == Family::Ip;
    let mut parts = vec![own(Extension::TransportHeader { len: 20, drops_overlap })];
    ports(0, info.u16s(0), inverted & SOURCE != 0, &mut parts);
    ports(2, info.u16s(4), inverted & DESTINATION != 0, &mut parts);
    if flags != 0 || wanted != 0 || inverted & FLAGS != 0 {
        parts.extend([transport(13, 1), mask(&[flags]), equal(&[wanted], inverted & FLAGS != 0)]);
    }
    if option != 0 {
        parts.push(own(Extension::TcpOption { kind: option, inverted: inverted & OPTION != 0 }));
    }
    Ok(parts)
}

/// `struct xt_udp`, also for UDP-Lite.
pub fn udp(given: &Given<'_>) -> Lowering {
    let (info, inverted) = (given.info, given.info.u8(8));
    let mut parts = vec![header(8)];
    ports(0, info.u16s(0), inverted & 1 != 0, &mut parts);
    ports(2, info.u16s(4), inverted & 2 != 0, &mut parts);
    Ok(parts)
}

/// `struct xt_sctp_info`
pub fn sctp(given: &Given<'_>) -> Lowering {
    const SOURCE: u32 = 1;
    const DESTINATION: u32 = 2;
    const CHUNKS: u32 = 4;
    let info = given.info;
    let (flags, inverted) = (info.u32(284), info.u32(288));
    let mut parts = vec![header(12)];
    for (flag, at, range) in [(SOURCE, 0, info.u16s(4)), (DESTINATION, 2, info.u16s(0))] {
        if flags & flag != 0 {
            parts.extend([transport(at, 2), range16(range, inverted & flag != 0)]);
        }
    }
    if flags & CHUNKS != 0 {
        parts.push(own(Extension::SctpChunks(chunks(info, inverted & CHUNKS != 0)?)));
    }
    Ok(parts)
}

/// `struct xt_dccp_info`
pub fn dccp(given: &Given<'_>) -> Lowering {
    const SOURCE: u16 = 1;
    const DESTINATION: u16 = 2;
    const TYPE: u16 = 4;
    const OPTION: u16 = 8;
    let info = given.info;
    let ([flags, inverted], types) = (info.u16s(8), info.u16(12));
    let mut parts = vec![header(12)];
    for (flag, at, range) in [(SOURCE, 0, info.u16s(4)), (DESTINATION, 2, info.u16s(0))] {
        if flags & flag != 0 {
            parts.extend([transport(at, 2), range16(range, inverted & flag != 0)]);
        }
    }
    if flags & TYPE != 0 {
        // Between the bit of long sequence numbers and reserved ones.
        let wanted = (0..16u8).filter(|kind| types & 1 << kind != 0).map(|kind| [[kind << 1]; 2]);
        let is_wanted = in_ranges(wanted.collect(), inverted & TYPE != 0)?;
        parts.extend([transport(8, 1), mask(&[0x1e]), is_wanted]);
    }
    if flags & OPTION != 0 {
        let (kind, inverted) = (info.u8(14), inverted & OPTION != 0);
        parts.push(own(Extension::DccpOption { kind, inverted }));
    }
    Ok(parts)
}

/// Which chunks `struct xt_sctp_info` asks for.
fn chunks(info: CStruct<'_>, inverted: bool) -> Result<ChunkRule, &'static str> {
    const FLAGS: usize = 4;
    let wanted = match info.u32(264) {
        1 => ChunksWanted::Any,
        2 => ChunksWanted::All,
        4 => ChunksWanted::Only,
        _ => return Err("it asks for chunks in no known way"),
    };
    let mut types = [0; 8];
    for (n, word) in types.iter_mut().enumerate() {
        *word = info.u32(8 + 4 * n);
    }
    let count = usize::try_from(info.u32(280)).unwrap_or(usize::MAX);
    if count > FLAGS {
        return Err("it asks for flags of too many chunk types");
    }
    let flags = (0..count).map(|n| {
        let [kind, flags, mask] = info.bytes(268 + 3 * n);
        ChunkFlags { kind, flags, mask }
    });
    Ok(ChunkRule { wanted, types, flags: flags.collect(), inverted })
}

/// `struct ipt_icmp`, `struct ip6t_icmp`: a type and a range of codes. Type 255 of IPv4 stands for
/// all.
pub fn icmp(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let ([kind, first, last], inverted) = (info.bytes(0), info.u8(3) & 1 != 0);
    let mut parts = vec![header(8)];
    if kind == u8::MAX && given.family == Family::Ip {
        if inverted {
            parts.push(super::part::never());
        }
    } else {
        let ends = [first, last].map(|code| u16::from_be_bytes([kind, code]));
        parts.extend([transport(0, 2), range16(ends, inverted)]);
    }
    Ok(parts)
}

/// `struct xt_multiport_v1`
pub fn multiport(given: &Given<'_>) -> Lowering {
    const LISTED: usize = 15;
    let info = given.info;
    let (which, count) = (info.u8(0), usize::from(info.u8(1)));
    if count > LISTED {
        return Err("it has more than 15 ports");
    }
    let port = |i: usize| info.u16(2 + 2 * i);
    let begins_range = |i: usize| info.u8(32 + i) != 0;
    let inverted = info.u8(47) != 0;
    let mut ranges = Vec::new();
    let mut i = 0;
    while i < count {
        let last = if begins_range(i) { i + 1 } else { i };
        if last >= LISTED {
            return Err("its last range has no end");
        }
        ranges.push([port(i).to_be_bytes(), port(last).to_be_bytes()]);
        i = last + 1;
    }
    let mut parts = vec![header(4)];
    match which {
        0 => parts.extend([transport(0, 2), in_ranges(ranges, inverted)?]),
        1 => parts.extend([transport(2, 2), in_ranges(ranges, inverted)?]),
        2 => parts.push(Part::AnyOf {
            of: vec![
                vec![transport(0, 2), in_ranges(ranges.clone(), false)?],
                vec![transport(2, 2), in_ranges(ranges, false)?],
            ],
            inverted,
        }),
        _ => return Err("it asks for unknown ports"),
    }
    Ok(parts)
}

/// `struct xt_esp`
pub fn esp(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let spis = range32([info.u32(0), info.u32(4)], info.u8(8) & 1 != 0);
    Ok(vec![header(8), transport(0, 4), spis])
}

/// `struct xt_ipcomp`: compression parameter indexes, which are numbers of 16 bits in a packet.
pub fn ipcomp(given: &Given<'_>) -> Lowering {
    let (first, last) = (given.info.u32(0), given.info.u32(4).min(u16::MAX.into()));
    let ends = [first, last].map(|index| (index as u16).to_be_bytes());
    let within = if first > last { vec![] } else { vec![ends] };
    Ok(vec![header(4), transport(2, 2), in_ranges(within, given.info.u8(8) & 1 != 0)?])
}

/// `struct ipt_ah`
pub fn ah(given: &Given<'_>) -> Lowering {
    let info = given.info;
    let spis = range32([info.u32(0), info.u32(4)], info.u8(8) & 1 != 0);
    Ok(vec![header(12), transport(4, 4), spis])
}

/// `struct xt_tcpmss_match_info`
pub fn tcpmss(given: &Given<'_>) -> Lowering {
    let (range, inverted) = (given.info.u16s(0), given.info.u8(4) != 0);
    Ok(vec![own(Extension::TcpMss { range, inverted })])
}

/// `struct xt_ecn_info`: two bits of the network header, and flags of TCP.
pub fn ecn(given: &Given<'_>) -> Lowering {
    const IP: u8 = 1;
    const ECE: u8 = 0x10;
    const CWR: u8 = 0x20;
    let info = given.info;
    let (operation, inverted, ect) = (info.u8(0), info.u8(1), info.u8(2));
    let mut parts = Vec::new();
    if operation & IP != 0 {
        let inverted = inverted & IP != 0;
        match given.ip()? {
            Family::Ip6 => {
                parts.extend([network(1, 1), mask(&[0x30]), equal(&[ect << 4], inverted)]);
            }
            _ => parts.extend([network(1, 1), mask(&[3]), equal(&[ect], inverted)]),
        }
    }
    // Flags ECE and CWR of TCP, 64 and 128.
    for (flag, bit) in [(ECE, 0x40), (CWR, 0x80)] {
        if operation & flag != 0 {
            let op = if inverted & flag != 0 { CmpOp::Eq } else { CmpOp::Neq };
            parts.extend([
                // The last byte of the header: all of it has to be there.
                transport(19, 1),
                transport(13, 1),
                mask(&[bit]),
                compare(op, &[0]),
            ]);
        }
    }
    Ok(parts)
}
