// SPDX-License-Identifier: Apache-2.0

//! NAT statements: addresses and ports, alone, as ranges, from maps, or both from one map

use penstock_program::expr::{self as vm, Expr as Op, PayloadBase};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::stmt::{Nat, NatKind};
use penstock_syntax::ast::{Expr, ExprKind, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::proto::{network, tunnel};
use penstock_syntax::source::Loc;

use crate::cache::DataKind;
use crate::delinearize::fields;
use crate::delinearize::program::Reader;
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, conflict, error};
use crate::key_type::{Field, KeyType};
use crate::lower::{Program, register};

/// `NF_NAT_RANGE_*`.
const RANGE_PROTO_SPECIFIED: u32 = 1 << 1;
const RANGE_NETMAP: u32 = 1 << 6;

pub(super) fn address_type(family: Family) -> DataType {
    if family == Family::Ip6 { DataType::Ip6Addr } else { DataType::IpAddr }
}

impl Eval<'_, '_> {
    pub(super) fn nat(&mut self, nat: &mut Nat, loc: Loc) -> Result {
        self.nat_family(nat, loc)?;
        if let Some(addr) = &mut nat.addr {
            if nat.concat || is_concat_map(addr, self) {
                nat.concat = true;
                return self.nat_concat(nat, loc);
            }
            let Some(family) = nat.family else {
                return error(loc, "ip or ip6 must be specified with address for inet tables.");
            };
            if let ExprKind::Map { mappings, .. } = &mut addr.kind
                && let ExprKind::Set { elements, .. } = &mappings.kind
                && elements.iter().any(has_concat_data)
            {
                nat.concat = true;
                return self.nat_concat(nat, loc);
            }
            self.arg(addr, loc, Expected::base(address_type(family)))?;
            if let ExprKind::Prefix { .. } = addr.kind {
                to_range(addr);
                if nat.prefix {
                    nat.flags |= RANGE_NETMAP;
                }
            }
            if let ExprKind::Map { mappings, .. } = &addr.kind
                && let ExprKind::SetRef { set } = &mappings.kind
                && let Some(set) = self.known_set(set)
                && matches!(set.data, Some(DataKind::Value { interval: true, .. }))
            {
                nat.interval = true;
            }
            if nat.prefix {
                nat.flags |= RANGE_NETMAP;
            }
        }
        if nat.port.is_some() {
            self.transport_needed(nat, loc)?;
            if let Some(port) = &mut nat.port {
                self.arg(port, loc, Expected::base(DataType::InetService))?;
            }
        }
        Ok(())
    }

    /// Finds whether addresses are IPv4 or IPv6: written, of the table, of the rule, or of the map.
    fn nat_family(&mut self, nat: &mut Nat, loc: Loc) -> Result {
        match self.family {
            Family::Ip | Family::Ip6 => {
                let written = *nat.family.get_or_insert(self.family);
                if written != self.family {
                    let (own, written) = (self.family.name(), written.name());
                    return error(
                        loc,
                        format!(
                            "conflicting protocols specified: {own} vs. {written}. You must specify ip or ip6 family in nat statement"
                        ),
                    );
                }
            }
            Family::Inet => {
                if let Some(written) = nat.family {
                    let wanted = if written == Family::Ip6 { &network::IP6 } else { &network::IP };
                    match self.protocols.at(PayloadBase::Network) {
                        // Other protocols are no concern of it, nor of nft.
                        Some(known)
                            if *known != *wanted
                                && [&network::IP, &network::IP6].contains(&known) =>
                        {
                            return self.against(
                                loc,
                                PayloadBase::Network,
                                format!(
                                    "conflicting protocols specified: {} vs. {}. You must specify ip or ip6 family in nat statement",
                                    known.name, wanted.name
                                ),
                            );
                        }
                        _ => {}
                    }
                } else {
                    nat.family = match self.protocols.at(PayloadBase::Network) {
                        Some(known) if *known == network::IP => Some(Family::Ip),
                        Some(known) if *known == network::IP6 => Some(Family::Ip6),
                        _ => self.map_family(nat),
                    };
                    if nat.family.is_none() && nat.addr.is_some() {
                        return error(
                            loc,
                            "ip or ip6 must be specified with address for inet tables.",
                        );
                    }
                }
            }
            Family::Arp | Family::Bridge | Family::Netdev => {
                return error(loc, "NAT is only supported for IPv4/IPv6");
            }
        }
        Ok(())
    }

    /// What the data of a named map say.
    fn map_family(&mut self, nat: &Nat) -> Option<Family> {
        let addr = nat.addr.as_ref()?;
        let ExprKind::Map { mappings, .. } = &addr.kind else { return None };
        let ExprKind::Symbol { text, .. } = &mappings.kind else { return None };
        match self.known_set(text).as_ref().map(|s| &s.data) {
            Some(Some(DataKind::Value { ty, .. })) => match &*ty.fields {
                [Field { dtype: DataType::IpAddr, .. }] => Some(Family::Ip),
                [Field { dtype: DataType::Ip6Addr, .. }] => Some(Family::Ip6),
                // nft requires the family of addresses with ports.
                _ => None,
            },
            _ => None,
        }
    }

    /// Ports need a header that has them.
    fn transport_needed(&mut self, nat: &Nat, loc: Loc) -> Result {
        let Some(port) = &nat.port else { return Ok(()) };
        match self.protocols.at(PayloadBase::Transport) {
            Some(known) if !tunnel::is_tunnel(known) => Ok(()),
            None if matches!(port.kind, ExprKind::Map { .. }) => Ok(()),
            _ => conflict(
                port.loc,
                loc,
                "transport protocol mapping is only valid after transport protocol match",
            ),
        }
    }

    /// `dnat to KEY map { … : ADDRESS . PORT }`.
    fn nat_concat(&mut self, nat: &mut Nat, loc: Loc) -> Result {
        let Some(addr) = &mut nat.addr else { return Ok(()) };
        let Some(family) = nat.family else {
            return error(loc, "ip or ip6 must be specified with address for inet tables.");
        };
        let address = address_type(family);
        let ty = KeyType {
            dtype: Type::Concat([address, DataType::InetService].into()),
            fields: [Field::base(address), Field::base(DataType::InetService)].into(),
        };
        if let ExprKind::Map { .. } = &mut addr.kind {
            self.expected = ty.expected();
            self.map(addr)?;
            self.ports_need_transport(addr, loc)?;
            if addr.dtype != ty.dtype {
                return conflict(
                    addr.loc,
                    loc,
                    format!(
                        "datatype mismatch: expected {}, expression has type {}",
                        ty.dtype.desc(),
                        addr.dtype.desc()
                    ),
                );
            }
            if let ExprKind::Map { mappings, .. } = &addr.kind
                && let ExprKind::SetRef { set } = &mappings.kind
                && let Some(set) = self.known_set(set)
                && matches!(set.data, Some(DataKind::Value { interval: true, .. }))
            {
                nat.interval = true;
            }
        } else {
            self.arg(addr, loc, ty.expected())?;
            self.ports_need_transport(addr, loc)?;
        }
        Ok(())
    }

    /// Ports next to addresses need a header that has them, which the key of a map may bring along.
    fn ports_need_transport(&self, addr: &Expr, loc: Loc) -> Result {
        if self.protocols.at(PayloadBase::Transport).is_some() {
            return Ok(());
        }
        conflict(
            addr.loc,
            loc,
            "transport protocol mapping is only valid after transport protocol match",
        )
    }
}

/// Whether an anonymous mapping gives addresses with ports.
fn has_concat_data(element: &Expr) -> bool {
    matches!(&element.kind, ExprKind::Mapping { right, .. } if matches!(right.kind, ExprKind::Concat(_)))
}

/// Whether a named map gives addresses with ports.
fn is_concat_map(addr: &Expr, eval: &Eval<'_, '_>) -> bool {
    let ExprKind::Map { mappings, .. } = &addr.kind else { return false };
    let ExprKind::Symbol { text, .. } = &mappings.kind else { return false };
    matches!(
        eval.known_set(text).as_ref().map(|s| &s.data),
        Some(Some(DataKind::Value { ty, .. })) if ty.is_concat()
    )
}

/// First and last address of a prefix.
fn to_range(e: &mut Expr) {
    let ExprKind::Prefix { base, len } = &e.kind else { return };
    let Some(from) = base.value() else { return };
    let last = from | penstock_syntax::bits::bitmask(base.len.saturating_sub(*len));
    let mut right = (**base).clone();
    right.kind = ExprKind::Value(last);
    e.kind = ExprKind::Range { left: base.clone(), right: Box::new(right) };
    e.order = ByteOrder::Big;
}

impl Program<'_, '_> {
    pub(super) fn nat(&mut self, nat: &Nat) {
        let base = self.next;
        let (mut addr_min, mut addr_max, mut proto_min, mut proto_max) = (None, None, None, None);
        let mut flags = nat.flags;
        if let Some(addr) = &nat.addr {
            let slot = self.take_wide();
            let words = if nat.family == Some(Family::Ip6) { 4 } else { 1 };
            if let ExprKind::Range { left, right } = &addr.kind {
                let second = self.take_wide();
                self.load(left, slot);
                self.load(right, second);
                addr_min = Some(register(slot));
                addr_max = Some(register(second));
            } else {
                self.load(addr, slot);
                addr_min = Some(register(slot));
                let mut next = slot + words;
                if nat.concat {
                    proto_min = Some(register(next));
                    next += 1;
                }
                if nat.interval {
                    addr_max = Some(register(next));
                    next += words;
                    if nat.concat {
                        proto_max = Some(register(next));
                    }
                }
            }
        }
        if let Some(port) = &nat.port {
            flags |= RANGE_PROTO_SPECIFIED;
            let slot = self.take_wide();
            if let ExprKind::Range { left, right } = &port.kind {
                let second = self.take_wide();
                self.load(left, slot);
                self.load(right, second);
                proto_max = Some(register(second));
            } else {
                self.load(port, slot);
            }
            proto_min = Some(register(slot));
        }
        self.release(base);
        // Ports alone are for whatever the table is for.
        let family = nat.family.unwrap_or(self.family) as u8;
        self.ops.push(match nat.kind {
            NatKind::Nat(kind) => {
                Op::Nat(vm::Nat { kind, family, addr_min, addr_max, proto_min, proto_max, flags })
            }
            NatKind::Masquerade => Op::Masq(vm::Masq { proto_min, proto_max, flags }),
            NatKind::Redirect => Op::Redir(vm::Redir { proto_min, proto_max, flags }),
        });
    }
}

impl Reader<'_, '_> {
    pub(super) fn nat(&mut self, e: &vm::Nat) -> Option<()> {
        let kind = NatKind::Nat(e.kind);
        let mut nat = translation(kind, None, e.flags & !RANGE_NETMAP);
        nat.prefix = e.flags & RANGE_NETMAP != 0;
        // Where the table has one family, it goes without saying.
        let family = Family::from_number(e.family);
        nat.family = family.filter(|_| self.family() == Family::Inet);
        if let Some(min) = e.addr_min {
            let mut addr = self.address(min, family)?;
            if matches!(addr.kind, ExprKind::Map { .. }) {
                // The map gives everything needed, ports and ends of ranges included.
                nat.family = family;
                nat.concat = e.proto_min.is_some();
                nat.interval = e.addr_max.is_some_and(|max| max != min);
                nat.addr = Some(addr);
                if nat.concat && self.port_is_apart(e) {
                    nat.concat = false;
                    nat.port = self.ports(e.proto_min, e.proto_max)?;
                }
                if self.family() != Family::Inet && !nat.prefix && !nat.interval && !nat.concat {
                    nat.family = None;
                }
                self.push(StmtKind::Nat(nat));
                return Some(());
            }
            if let Some(max) = e.addr_max.filter(|max| *max != min) {
                let last = self.address(max, family)?;
                let (dtype, len) = (addr.dtype.clone(), addr.len);
                let range = ExprKind::Range { left: Box::new(addr), right: Box::new(last) };
                addr = Expr::typed(range, Loc::default(), dtype, ByteOrder::Big, len);
                fields::range_to_prefix(&mut addr);
            }
            nat.addr = Some(addr);
        }
        nat.port = self.ports(e.proto_min, e.proto_max)?;
        self.push(StmtKind::Nat(nat));
        Some(())
    }

    /// Whether the port comes from a separate register rather than from the map that gives the
    /// address.
    fn port_is_apart(&self, e: &vm::Nat) -> bool {
        e.proto_min.is_some_and(|reg| self.registers.get(reg).is_some())
    }

    pub(super) fn masquerade(&mut self, e: &vm::Masq) -> Option<()> {
        let port = self.ports(e.proto_min, e.proto_max)?;
        self.push(StmtKind::Nat(translation(NatKind::Masquerade, port, e.flags)));
        Some(())
    }

    pub(super) fn redirect(&mut self, e: &vm::Redir) -> Option<()> {
        let port = self.ports(e.proto_min, e.proto_max)?;
        self.push(StmtKind::Nat(translation(NatKind::Redirect, port, e.flags)));
        Some(())
    }
}

fn translation(kind: NatKind, port: Option<Expr>, flags: u32) -> Nat {
    Nat {
        kind,
        family: None,
        addr: None,
        port,
        flags,
        interval: false,
        concat: false,
        prefix: false,
    }
}
