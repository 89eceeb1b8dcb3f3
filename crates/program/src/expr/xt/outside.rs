// SPDX-License-Identifier: Apache-2.0

//! Programs, clusters, marks by a hash, systems and IPsec (`net/netfilter/xt_bpf.c`, `xt_cluster.c`,
//! `xt_HMARK.c`, `xt_osf.c`, `xt_policy.c`).

use super::part::{Part, own};
use super::{Given, Lowering};
use crate::op::{
    BpfProgram, Cluster, Extension, HashMark, IpsecElement, IpsecPolicy, Masked, SystemLog,
};

/// `struct xt_bpf_info` and `_v1`
pub fn bpf(given: &Given<'_>) -> Lowering {
    const BYTECODE: u16 = 0;
    const LONGEST: u16 = 64;
    let info = given.info;
    let (len, at) = match (given.rev, info.u16(0)) {
        (0, len) => (len, 4),
        (_, BYTECODE) => (info.u16(2), 8),
        _ => return Err("only programs that are in the rule run, not those of files"),
    };
    if len > LONGEST {
        return Err("its program is empty or too long");
    }
    let one = |i: usize| {
        let at = at + 8 * i;
        (info.u16(at), info.u8(at + 2), info.u8(at + 3), info.u32(at + 4))
    };
    let filter: Vec<_> = (0..usize::from(len)).map(one).collect();
    Ok(vec![own(Extension::Bpf(BpfProgram::new(&filter)?))])
}

/// `struct xt_cluster_match_info`
pub fn cluster(given: &Given<'_>) -> Lowering {
    let info = given.info;
    given.ip()?;
    let (nodes, mask, flags) = (info.u32(0), info.u32(4), info.u32(12));
    if !(1..=32).contains(&nodes) || u64::from(mask) >= 1 << nodes {
        return Err("it has no node, too many, or one that is not there");
    }
    let cluster = Cluster { nodes, mask, seed: info.u32(8), inverted: flags & 1 != 0 };
    Ok(vec![Part::Tracks, own(Extension::Cluster(cluster))])
}

/// `struct xt_hmark_info`
pub fn hmark(given: &Given<'_>) -> Lowering {
    const SPI: u32 = 1 << 2 | 1 << 3;
    const PORTS: u32 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
    const PROTOCOL: u32 = 1 << 8;
    const CONNECTION: u32 = 1 << 12;
    const ADDRESSES: u32 = 1 << 13;
    let info = given.info;
    let (flags, modulus) = (info.u32(40), info.u32(52));
    let addresses_only = flags & ADDRESSES != 0;
    if modulus == 0 {
        return Err("it has no marks to choose from");
    }
    if addresses_only && flags & PROTOCOL != 0 || flags & SPI != 0 && flags & PORTS != 0 {
        return Err("what it hashes excludes each other");
    }
    let of_connection = flags & CONNECTION != 0;
    let mark = HashMark {
        source: info.bytes(0),
        destination: info.bytes(16),
        port_mask: u32::from_be_bytes(info.bytes(32)),
        port_set: u32::from_be_bytes(info.bytes(36)),
        protocol: info.u16(44),
        addresses_only,
        of_connection,
        seed: info.u32(48),
        modulus,
        offset: info.u32(56),
    };
    Ok(vec![own(Extension::HashMark(mark))])
}

/// `struct xt_osf_info`
pub fn osf(given: &Given<'_>) -> Lowering {
    const TTL: u32 = 1 << 1;
    const LOG: u32 = 1 << 2;
    let info = given.info;
    let flags = info.u32(36);
    const FIRST: u32 = 1;
    let log = (flags & LOG != 0).then(|| match info.u32(40) {
        FIRST => SystemLog::First,
        _ => SystemLog::All,
    });
    let genre = info.text(0, 32).ok_or("its genre is no UTF-8")?;
    let ttl = if flags & TTL != 0 { info.u32(44).min(2) as u8 } else { 0 };
    Ok(vec![Part::System(genre.into(), ttl, log)])
}

/// `struct xt_policy_info`
pub fn policy(given: &Given<'_>) -> Lowering {
    const IN: u16 = 1;
    const OUT: u16 = 2;
    const NONE: u16 = 4;
    const STRICT: u16 = 8;
    /// Bytes of `struct xt_policy_elem`.
    const ELEMENT: usize = 76;
    given.ip()?;
    let info = given.info;
    let [flags, len] = info.u16s(4 * ELEMENT);
    if flags & (IN | OUT) == 0 || len > 4 {
        return Err("it has no direction, or too many elements");
    }
    let element = |i: usize| {
        let at = i * ELEMENT;
        let (asked, inverted) = (info.u8(at + 74), info.u8(at + 75));
        let wants = |bit: u8| (asked & 1 << bit != 0).then_some(inverted & 1 << bit != 0);
        let masked = |at: usize| Masked { address: info.bytes(at), mask: info.bytes(at + 16) };
        let tunnel = wants(3).map(|not| (info.u8(at + 73) == 1, not));
        let has_address = wants(0).is_some() || wants(1).is_some();
        if has_address && tunnel != Some((true, false)) {
            return Err("only addresses of tunnels are known");
        }
        Ok(IpsecElement {
            source: wants(0).map(|not| (masked(at), not)),
            destination: wants(1).map(|not| (masked(at + 32), not)),
            protocol: wants(2).map(|not| (info.u8(at + 72), not)),
            tunnel,
            spi: wants(4).map(|not| (u32::from_be_bytes(info.bytes(at + 64)), not)),
            reqid: wants(5).map(|not| (info.u32(at + 68), not)),
        })
    };
    let elements = (0..usize::from(len)).map(element).collect::<Result<_, _>>()?;
    Ok(vec![own(Extension::Policy(IpsecPolicy {
        out: flags & IN == 0,
        none: flags & NONE != 0,
        strict: flags & STRICT != 0,
        elements,
    }))])
}
