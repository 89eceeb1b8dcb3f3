// SPDX-License-Identifier: Apache-2.0

//! Matches of network headers (`net/netfilter/xt_iprange.c`, `xt_length.c`, `xt_hl.c`,
//! `xt_dscp.c`).

use super::part::{Part, compare, equal, mask, network, never, range, range16};
use super::{Given, Lowering};
use crate::Family;
use crate::operand::CmpOp;

/// `struct xt_iprange_mtinfo`
pub fn iprange(given: &Given<'_>) -> Lowering {
    const SOURCE: u8 = 1;
    const DESTINATION: u8 = 2;
    let (info, flags) = (given.info, given.info.u8(64));
    let (len, source, destination) = given.addresses()?;
    let mut parts = Vec::new();
    for (flag, at, ends) in [(SOURCE, source, 0), (DESTINATION, destination, 32)] {
        if flags & flag != 0 {
            let (first, last) = (info.bytes::<16>(ends), info.bytes::<16>(ends + 16));
            let inverted = flags & flag << 4 != 0;
            let ends = (&first[..len as usize], &last[..len as usize]);
            parts.extend([network(at, len), range(ends.0, ends.1, inverted)]);
        }
    }
    Ok(parts)
}

/// `struct xt_length_info`: with the header of IPv6, which its length does not count.
pub fn length(given: &Given<'_>) -> Lowering {
    const HEADER: u16 = 40;
    let (ends, inverted) = (given.info.u16s(0), given.info.u8(4) != 0);
    Ok(match given.ip()? {
        Family::Ip6 if ends[1] < HEADER => match inverted {
            true => vec![],
            false => vec![never()],
        },
        Family::Ip6 => {
            vec![network(4, 2), range16(ends.map(|end| end.saturating_sub(HEADER)), inverted)]
        }
        _ => vec![network(2, 2), range16(ends, inverted)],
    })
}

/// A mode and a number, of TTL and hop limit: `struct ipt_ttl_info`, `struct ip6t_hl_info`.
pub fn ttl(given: &Given<'_>) -> Lowering {
    let [mode, limit] = given.info.bytes(0);
    let op = match mode {
        0 => CmpOp::Eq,
        1 => CmpOp::Neq,
        2 => CmpOp::Lt,
        3 => CmpOp::Gt,
        _ => return Err("it compares in an unknown way"),
    };
    let at = if given.ip()? == Family::Ip6 { 7 } else { 8 };
    Ok(vec![network(at, 1), compare(op, &[limit])])
}

/// Bits of the traffic class.
fn class(family: Family, bits: u8, value: u8, inverted: bool) -> Vec<Part> {
    let (bits, value) = match family {
        Family::Ip6 => (u16::from(bits) << 4, u16::from(value) << 4),
        _ => (u16::from(bits), u16::from(value)),
    };
    vec![network(0, 2), mask(&bits.to_be_bytes()), equal(&value.to_be_bytes(), inverted)]
}

/// `struct xt_dscp_info`
pub fn dscp(given: &Given<'_>) -> Lowering {
    let [dscp, inverted] = given.info.bytes(0);
    if dscp > 63 {
        return Err("its value has more than 6 bits");
    }
    Ok(class(given.ip()?, 0xfc, dscp << 2, inverted != 0))
}

/// `struct xt_tos_match_info`
pub fn tos(given: &Given<'_>) -> Lowering {
    let [bits, value, inverted] = given.info.bytes(0);
    Ok(class(given.ip()?, bits, value, inverted != 0))
}
