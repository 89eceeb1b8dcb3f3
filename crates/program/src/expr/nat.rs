// SPDX-License-Identifier: Apache-2.0

//! `nat`, `masq`, `redir`: address and port translation (`NFTA_NAT_*`, `NFTA_MASQ_*`,
//! `NFTA_REDIR_*`, `net/netfilter/nft_nat.c`, `nft_masq.c`, `nft_redir.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{NFPROTO_IPV4, Use, Width, family_word};
use crate::Register;

/// `enum nft_nat_types`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NatType {
    /// Source.
    Snat,
    /// Destination.
    Dnat,
}

/// Binds the connection to translated addresses and ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nat {
    /// `NFTA_NAT_TYPE`.
    pub kind: NatType,
    /// `NFTA_NAT_FAMILY`: 1 (ports only), 2 (IPv4) or 10 (IPv6).
    pub family: u8,
    /// `NFTA_NAT_REG_ADDR_MIN`: first address, network order.
    pub addr_min: Option<Register>,
    /// `NFTA_NAT_REG_ADDR_MAX`: last address.
    pub addr_max: Option<Register>,
    /// `NFTA_NAT_REG_PROTO_MIN`: first port, network order.
    pub proto_min: Option<Register>,
    /// `NFTA_NAT_REG_PROTO_MAX`: last port.
    pub proto_max: Option<Register>,
    /// `NFTA_NAT_FLAGS`: `NF_NAT_RANGE_*`.
    pub flags: u32,
}

impl Nat {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        let addr = if self.family == NFPROTO_IPV4 { 4 } else { 16 };
        for reg in [self.addr_min, self.addr_max].into_iter().flatten() {
            visit(Use::Read(reg, Width::Bytes(addr)));
        }
        read_ports(self.proto_min, self.proto_max, visit);
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            NatType::Snat => "snat",
            NatType::Dnat => "dnat",
        };
        write!(f, "nat {kind} {}", family_word(self.family))?;
        if let Some(reg) = self.addr_min {
            write!(f, " addr_min {reg}")?;
        }
        if let Some(reg) = self.addr_max {
            write!(f, " addr_max {reg}")?;
        }
        write_ports(f, self.proto_min, self.proto_max, self.flags)
    }
}

/// Source translation to an address of the interface on the way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Masq {
    /// `NFTA_MASQ_REG_PROTO_MIN`: first port, network order.
    pub proto_min: Option<Register>,
    /// `NFTA_MASQ_REG_PROTO_MAX`: last port.
    pub proto_max: Option<Register>,
    /// `NFTA_MASQ_FLAGS`: `NF_NAT_RANGE_*`.
    pub flags: u32,
}

impl Masq {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        read_ports(self.proto_min, self.proto_max, visit);
    }
}

impl fmt::Display for Masq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("masq")?;
        write_ports(f, self.proto_min, self.proto_max, self.flags)
    }
}

/// Destination translation to this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Redir {
    /// `NFTA_REDIR_REG_PROTO_MIN`: first port, network order.
    pub proto_min: Option<Register>,
    /// `NFTA_REDIR_REG_PROTO_MAX`: last port.
    pub proto_max: Option<Register>,
    /// `NFTA_REDIR_FLAGS`: `NF_NAT_RANGE_*`.
    pub flags: u32,
}

impl Redir {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        read_ports(self.proto_min, self.proto_max, visit);
    }
}

impl fmt::Display for Redir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redir")?;
        write_ports(f, self.proto_min, self.proto_max, self.flags)
    }
}

fn read_ports(min: Option<Register>, max: Option<Register>, visit: &mut dyn FnMut(Use)) {
    for reg in [min, max].into_iter().flatten() {
        visit(Use::Read(reg, Width::Bytes(2)));
    }
}

fn write_ports(
    f: &mut fmt::Formatter<'_>,
    min: Option<Register>,
    max: Option<Register>,
    flags: u32,
) -> fmt::Result {
    if let Some(reg) = min {
        write!(f, " proto_min {reg}")?;
    }
    if let Some(reg) = max {
        write!(f, " proto_max {reg}")?;
    }
    if flags != 0 {
        write!(f, " flags 0x{flags:x}")?;
    }
    Ok(())
}
