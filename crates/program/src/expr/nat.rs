// SPDX-License-Identifier: Apache-2.0

//! `nat`, `masq`, `redir`: address and port translation (`NFTA_NAT_*`, `NFTA_MASQ_*`,
//! `NFTA_REDIR_*`, `net/netfilter/nft_nat.c`, `nft_masq.c`, `nft_redir.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, NFPROTO_IPV4, NFPROTO_IPV6, Use, Width, family_word};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::needs::Needs;
use crate::op::{LinkedNat, Op};
use crate::operand::NatKind;
use crate::{Errno, Family, Register};

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

impl Expression for Nat {
    fn name(&self) -> &'static str {
        "nat"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        let addr = if self.family == NFPROTO_IPV4 { 4 } else { 16 };
        for reg in [self.addr_min, self.addr_max].into_iter().flatten() {
            visit(Use::Read(reg, Width::Bytes(addr)));
        }
        read_ports(self.proto_min, self.proto_max, visit);
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        let hooks = match self.kind {
            NatType::Snat => Hooks::of(&[Hook::Postrouting, Hook::Input]),
            NatType::Dnat => Hooks::of(&[Hook::Prerouting, Hook::Output]),
        };
        hooks.of_type_nat()
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        // Only what it translates, whatever the family of the table is (nft_nat_init()).
        needs.track(match self.family {
            NFPROTO_IPV4 => Family::Ip,
            NFPROTO_IPV6 => Family::Ip6,
            _ => family,
        });
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        self.linked().map(Op::Nat)
    }
}

impl Nat {
    /// With registers as slots.
    ///
    /// # Errors
    /// A register is none.
    pub(super) fn linked(&self) -> Result<LinkedNat, LinkReason> {
        let kind = match self.kind {
            NatType::Snat => NatKind::Source,
            NatType::Dnat => NatKind::Destination,
        };
        let len = if self.family == NFPROTO_IPV4 { 4 } else { 16 };
        let addr = slots(self.addr_min, self.addr_max, len)?;
        let mut nat = link_ports(kind, self.proto_min, self.proto_max, self.flags)?;
        if addr.is_some() {
            nat.flags |= NAT_MAP_IPS;
        }
        Ok(LinkedNat { family: self.family, addr, ..nat })
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

impl fmt::Display for Masq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("masq")?;
        write_ports(f, self.proto_min, self.proto_max, self.flags)
    }
}

impl Expression for Masq {
    fn name(&self) -> &'static str {
        "masq"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        read_ports(self.proto_min, self.proto_max, visit);
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Enoent) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Postrouting]).of_type_nat()
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        link_ports(NatKind::Masquerade, self.proto_min, self.proto_max, self.flags).map(Op::Nat)
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

impl fmt::Display for Redir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redir")?;
        write_ports(f, self.proto_min, self.proto_max, self.flags)
    }
}

impl Expression for Redir {
    fn name(&self) -> &'static str {
        "redir"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        read_ports(self.proto_min, self.proto_max, visit);
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Enoent) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Prerouting, Hook::Output]).of_type_nat()
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        link_ports(NatKind::Redirect, self.proto_min, self.proto_max, self.flags).map(Op::Nat)
    }
}

fn read_ports<'a>(min: Option<Register>, max: Option<Register>, visit: &mut dyn FnMut(Use<'a>)) {
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

/// `NF_NAT_RANGE_MAP_IPS`.
const NAT_MAP_IPS: u32 = 1 << 0;
/// `NF_NAT_RANGE_PROTO_SPECIFIED`.
const NAT_PROTO_SPECIFIED: u32 = 1 << 1;

/// Slots of both ends of a range; one register alone is both.
fn slots(
    min: Option<Register>,
    max: Option<Register>,
    len: u32,
) -> Result<Option<(u8, u8)>, LinkReason> {
    let Some(min) = min else { return Ok(None) };
    Ok(Some((linking::slot(min, len)?, linking::slot(max.unwrap_or(min), len)?)))
}

/// A translation without addresses.
fn link_ports(
    kind: NatKind,
    min: Option<Register>,
    max: Option<Register>,
    mut flags: u32,
) -> Result<LinkedNat, LinkReason> {
    const INET: u8 = 1;
    let port = slots(min, max, 2)?;
    if port.is_some() {
        flags |= NAT_PROTO_SPECIFIED;
    }
    Ok(LinkedNat { kind, family: INET, addr: None, port, base_port: 0, flags })
}
