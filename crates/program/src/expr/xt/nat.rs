// SPDX-License-Identifier: Apache-2.0

//! Targets that translate (`net/netfilter/xt_nat.c`, `xt_MASQUERADE.c`, `xt_REDIRECT.c`,
//! `xt_NETMAP.c`).

use super::super::{Masq, Nat, NatType, Redir};
use super::part::{Part, constant, vm};
use super::{Given, Lowering};
use crate::{Family, Register};

/// `NF_NAT_RANGE_*`
const MAP_IPS: u32 = 1;
const PROTO_SPECIFIED: u32 = 1 << 1;
const PROTO_OFFSET: u32 = 1 << 5;
const NETMAP: u32 = 1 << 6;
/// Those that VM expressions have as they are: `random`, `persistent`, `fully-random`.
const PLAIN: u32 = 0x1c;

/// Where the ends of a range are for the kernel: addresses in two registers of 16 bytes, ports in
/// two of 4 bytes after them.
const ADDRESSES: [Register; 2] = [Register(1), Register(2)];
const PORTS: [Register; 2] = [Register(3), Register(4)];

/// A range of addresses and ports, in network order.
struct Range {
    flags: u32,
    addresses: [[u8; 16]; 2],
    ports: [[u8; 2]; 2],
    /// The port from which ports keep their distance in the range, in host order.
    base_port: u16,
    /// Bytes of an address.
    len: usize,
    family: Family,
}

impl Range {
    /// `struct nf_nat_ipv4_multi_range_compat` of one range.
    fn ipv4(given: &Given<'_>) -> Result<Range, &'static str> {
        let info = given.info;
        let address = |at| {
            let mut padded = [0; 16];
            padded[..4].copy_from_slice(&info.bytes::<4>(at));
            padded
        };
        if info.u32(0) != 1 {
            return Err("it has other than one range");
        }
        Range {
            flags: info.u32(4),
            addresses: [address(8), address(12)],
            ports: [info.bytes(16), info.bytes(18)],
            base_port: 0,
            len: 4,
            family: Family::Ip,
        }
        .checked()
    }

    /// `struct nf_nat_range`, `struct nf_nat_range2`
    fn any(given: &Given<'_>) -> Result<Range, &'static str> {
        let (info, family) = (given.info, given.ip()?);
        Range {
            flags: info.u32(0),
            addresses: [info.bytes(4), info.bytes(20)],
            ports: [info.bytes(36), info.bytes(38)],
            base_port: if given.rev == 2 { u16::from_be_bytes(info.bytes(40)) } else { 0 },
            len: if family == Family::Ip6 { 16 } else { 4 },
            family,
        }
        .checked()
    }

    fn checked(self) -> Result<Range, &'static str> {
        const KNOWN: u32 = MAP_IPS | PROTO_SPECIFIED | PROTO_OFFSET | PLAIN | NETMAP;
        match self.flags {
            flags if flags & !KNOWN != 0 => Err("it has unknown flags"),
            _ => Ok(self),
        }
    }

    /// Loads the addresses, if there are some.
    fn load_addresses(&self, parts: &mut Vec<Part>) -> [Option<Register>; 2] {
        if self.flags & MAP_IPS == 0 {
            return [None; 2];
        }
        for (register, address) in ADDRESSES.into_iter().zip(self.addresses) {
            parts.push(constant(register, &address[..self.len]));
        }
        ADDRESSES.map(Some)
    }

    /// Loads the ports, if there are some.
    fn load_ports(&self, parts: &mut Vec<Part>) -> [Option<Register>; 2] {
        if self.flags & PROTO_SPECIFIED == 0 {
            return [None; 2];
        }
        for (register, port) in PORTS.into_iter().zip(self.ports) {
            parts.push(constant(register, &port));
        }
        PORTS.map(Some)
    }

    fn nat(&self, kind: NatType, more: u32) -> Vec<Part> {
        let mut parts = Vec::new();
        let [addr_min, addr_max] = self.load_addresses(&mut parts);
        let [proto_min, proto_max] = self.load_ports(&mut parts);
        let flags = self.flags & (PLAIN | PROTO_OFFSET) | more;
        let family = self.family as u8;
        let nat = Nat { kind, family, addr_min, addr_max, proto_min, proto_max, flags };
        parts.push(Part::Nat(nat, self.base_port));
        parts
    }
}

/// `DNAT`, `SNAT`: revision 0 has a range of IPv4.
fn translated(given: &Given<'_>, kind: NatType) -> Lowering {
    let range = if given.rev == 0 { Range::ipv4(given)? } else { Range::any(given)? };
    Ok(range.nat(kind, 0))
}

/// `DNAT`
pub fn dnat(given: &Given<'_>) -> Lowering {
    translated(given, NatType::Dnat)
}

/// `SNAT`
pub fn snat(given: &Given<'_>) -> Lowering {
    translated(given, NatType::Snat)
}

/// The range of a target that has the same revision for both families.
fn of_family(given: &Given<'_>) -> Result<Range, &'static str> {
    match given.ip()? {
        Family::Ip6 => Range::any(given),
        _ => Range::ipv4(given),
    }
}

/// `MASQUERADE`
pub fn masquerade(given: &Given<'_>) -> Lowering {
    let (range, mut parts) = (of_family(given)?, Vec::new());
    let [proto_min, proto_max] = range.load_ports(&mut parts);
    parts.push(vm(Masq { proto_min, proto_max, flags: range.flags & PLAIN }));
    Ok(parts)
}

/// `REDIRECT`
pub fn redirect(given: &Given<'_>) -> Lowering {
    let (range, mut parts) = (of_family(given)?, Vec::new());
    let [proto_min, proto_max] = range.load_ports(&mut parts);
    parts.push(vm(Redir { proto_min, proto_max, flags: range.flags & PLAIN }));
    Ok(parts)
}

/// `NETMAP`: the network becomes another one, the host stays. The hook says which address.
pub fn netmap(given: &Given<'_>) -> Lowering {
    let range = of_family(given)?;
    if range.flags & MAP_IPS == 0 {
        return Err("it has no addresses");
    }
    Ok(vec![Part::ByHook {
        destination: range.nat(NatType::Dnat, NETMAP),
        source: range.nat(NatType::Snat, NETMAP),
    }])
}
