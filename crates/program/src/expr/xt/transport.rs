// SPDX-License-Identifier: Apache-2.0

//! Matches of transport headers (`net/netfilter/xt_tcpudp.c`, `xt_sctp.c`, `xt_multiport.c`,
//! `xt_esp.c`, `xt_ipcomp.c`, `xt_dccp.c`, `xt_l2tp.c`, `xt_tcpmss.c`, `xt_ecn.c`,
//! `net/ipv4/netfilter/ip_tables.c`, `ipt_ah.c`).
//!
//! That a packet is of the protocol is another expression of the rule, without which the kernel
//! refuses it.

use super::part::{
    Part, compare, equal, in_ranges, mask, meta, network, never, own, range16, range32, transport,
};
use super::{Given, Lowering};
use crate::Family;
use crate::c_struct::CStruct;
use crate::op::{ChunkFlags, ChunkRule, ChunksWanted, Extension, WordStep, WordTest, Words};
use crate::operand::{CmpOp, MetaKey};

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

/// `struct xt_l2tp_info`: L2TP over UDP, of version 2 (RFC 2661) or 3 (RFC 3931), and version 3 over
/// IP. Tunnels are compared where control messages, and all of version 2, name one; sessions where
/// data does.
pub fn l2tp(given: &Given<'_>) -> Lowering {
    const CONTROL: u8 = 0;
    const DATA: u8 = 1;
    const UDP: u8 = 17;
    const L2TP: u8 = 115;
    const ANY: Option<u8> = None;
    let info = given.info;
    let asked = |bit: u8| info.u8(10) & bit != 0;
    let tunnel = asked(1).then(|| info.u32(0));
    let session = asked(2).then(|| info.u32(4));
    let version = asked(4).then(|| info.u8(8));
    let kind = asked(8).then(|| info.u8(9));
    let of_protocol = |number: u8| match given.family {
        Family::Ip => [network(9, 1), equal(&[number], false)],
        _ => [meta(MetaKey::L4Proto), equal(&[number], false)],
    };
    let mut of = Vec::new();
    for each in [CONTROL, DATA].into_iter().filter(|each| kind == ANY || kind == Some(*each)) {
        let first = if each == CONTROL { 0x80 } else { 0 };
        if version == ANY || version == Some(3) {
            let number = if each == CONTROL { tunnel } else { session };
            let mut over_udp = Vec::from(of_protocol(UDP));
            over_udp.extend([transport(8, 2), mask(&[0x80, 0x0f]), equal(&[first, 3], false)]);
            over_udp.push(transport(12, 4));
            over_udp.extend(number.map(|number| equal(&number.to_be_bytes(), false)));
            // Where a session's number would be, control messages have 0, and their tunnel's later.
            let mut over_ip = Vec::from(of_protocol(L2TP));
            match (each, number) {
                (CONTROL, number) => {
                    over_ip.push(after_header(given.family, 0, [0, 0]));
                    over_ip.push(after_header(
                        given.family,
                        8,
                        number.map_or([0, u32::MAX], |n| [n; 2]),
                    ));
                }
                (_, Some(0)) => over_ip.push(never()),
                (_, number) => over_ip.push(after_header(
                    given.family,
                    0,
                    number.map_or([1, u32::MAX], |n| [n; 2]),
                )),
            }
            of.extend([over_udp, over_ip]);
        }
        let session = session.filter(|_| each == DATA);
        let fits = |number: Option<u32>| number.is_none_or(|number| number <= 0xffff);
        if (version == ANY || version == Some(2)) && fits(tunnel) && fits(session) {
            let half = |number: Option<u32>| number.map_or(0u32, |_| 0xffff);
            let bits = half(tunnel) << 16 | half(session);
            let wanted = tunnel.unwrap_or(0) << 16 | session.unwrap_or(0);
            for (length, at) in [(0, 10), (0x40, 12)] {
                let mut list = Vec::from(of_protocol(UDP));
                let start = [first | length, 2];
                list.extend([transport(8, 2), mask(&[0xc0, 0x0f]), equal(&start, false)]);
                list.extend([transport(at, 4), mask(&bits.to_be_bytes())]);
                list.push(equal(&wanted.to_be_bytes(), false));
                of.push(list);
            }
        }
    }
    Ok(vec![Part::AnyOf { of, inverted: false }])
}

/// Passes if the word so many bytes after the IP header is in a range. Of IPv4 later fragments have
/// one, too.
fn after_header(family: Family, at: u32, range: [u32; 2]) -> Part {
    if family == Family::Ip {
        let to_header = [WordStep::ShiftRight(22), WordStep::And(0x3c), WordStep::At(at)];
        let test = WordTest { position: 0, steps: to_header.into(), ranges: [range].into() };
        return own(Extension::U32(Words { tests: [test].into(), inverted: false }));
    }
    Part::AnyOf { of: vec![vec![transport(at, 4), range32(range, false)]], inverted: false }
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
