// SPDX-License-Identifier: Apache-2.0

//! What surrounds an expression while it is evaluated: the type that is expected, the protocols
//! known so far.

use std::sync::Arc;

use penstock_program::expr::PayloadBase;
use penstock_ruleset::Family;
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::keys::ValueType;
use penstock_syntax::proto::{self, Proto, tunnel};
use penstock_syntax::source::Loc;

use crate::key_type::Field;

/// What a symbol or number at this place would be (nft's `struct expr_ctx`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Its type; `None` where any will do.
    pub dtype: Option<Type>,
    /// Its byte order.
    pub order: ByteOrder,
    /// Its length in bits.
    pub len: u32,
    /// The largest value, where it is less than the length allows; 0 otherwise.
    pub max: u32,
    /// The fields of the concatenation on the left.
    pub key: Option<Arc<[Field]>>,
    /// Where that concatenation stands.
    pub key_loc: Option<Loc>,
}

impl Expected {
    /// A value of this type and length.
    pub fn new(dtype: Type, order: ByteOrder, len: u32) -> Self {
        Expected { dtype: Some(dtype), order, len, max: 0, key: None, key_loc: None }
    }

    /// A value of the type of a selector.
    pub fn of(value: ValueType) -> Self {
        Expected::new(Type::Base(value.dtype), value.order, value.len)
    }

    /// A basic type at its own length and order.
    pub fn base(dtype: DataType) -> Self {
        Expected::new(Type::Base(dtype), dtype.order(), dtype.size())
    }

    /// What stands on the other side of `expr`.
    pub fn like(expr: &Expr) -> Self {
        Expected {
            key: fields_of(expr),
            key_loc: Some(expr.loc),
            ..Expected::new(expr.dtype.clone(), expr.order, expr.len)
        }
    }
}

/// The fields of a concatenation; `None` for other expressions.
pub(crate) fn fields_of(expr: &Expr) -> Option<Arc<[Field]>> {
    let ExprKind::Concat(parts) = &expr.kind else { return None };
    Some(parts.iter().map(Field::of).collect())
}

/// Index of a base in [`Protocols`].
fn index(base: PayloadBase) -> usize {
    match base {
        PayloadBase::Link => 0,
        PayloadBase::Network => 1,
        PayloadBase::Transport => 2,
        PayloadBase::Inner => 3,
        PayloadBase::Tunnel => 4,
    }
}

/// A protocol that a relational expression named but nft does not know.
pub(crate) static UNKNOWN: Proto = Proto {
    name: "unknown",
    base: PayloadBase::Tunnel,
    templates: &[],
    protocol_key: None,
    upper: &[],
    checksum: None,
    pseudo_header: &[],
    len: 0,
};

/// The headers that the matches so far imply, per base (nft's `struct proto_ctx`).
#[derive(Clone, Debug)]
pub(crate) struct Protocols {
    /// Where the hooks of the family start.
    pub start: (PayloadBase, &'static Proto),
    known: [Option<&'static Proto>; 5],
    places: [Option<Loc>; 5],
    /// A transport header that nft 1.0.6 does not know (of a tunnel) was told by `meta l4proto`.
    pub unknown_transport: bool,
    /// Transport headers of a set (`meta l4proto { tcp, udp }`).
    pub transports: Vec<&'static Proto>,
    /// Link headers below the current one (Ethernet below VLAN).
    pub stacked: Vec<&'static Proto>,
}

impl Protocols {
    /// At the start of a rule.
    pub fn new(family: Family) -> Self {
        let start = proto::of_family(family);
        let mut known = [None; 5];
        known[index(start.0)] = Some(start.1);
        Protocols {
            start,
            known,
            places: [None; 5],
            unknown_transport: false,
            transports: Vec::new(),
            stacked: Vec::new(),
        }
    }

    /// The header at a base.
    pub fn at(&self, base: PayloadBase) -> Option<&'static Proto> {
        self.known[index(base)]
    }

    /// The header below a base.
    pub fn below(&self, base: PayloadBase) -> Option<&'static Proto> {
        index(base).checked_sub(1).and_then(|i| self.known[i])
    }

    /// The header above a base.
    pub fn above(&self, base: PayloadBase) -> Option<&'static Proto> {
        self.known.get(index(base) + 1).copied().flatten()
    }

    /// How far a base is below where the family starts: 1 for link fields in `ip` tables, 0 or less
    /// otherwise.
    pub fn depth(&self, base: PayloadBase) -> isize {
        index(self.start.0) as isize - index(base) as isize
    }

    /// Where the match is that told the header at a base.
    pub fn place(&self, base: PayloadBase) -> Option<Loc> {
        self.places[index(base)]
    }

    /// A match says which header is at `base`.
    pub fn set(&mut self, base: PayloadBase, proto: &'static Proto, loc: Loc) {
        self.places[index(base)] = Some(loc);
        self.known[index(base)] = Some(proto);
        if base == PayloadBase::Transport && !self.transports.contains(&proto) {
            self.transports.push(proto);
        }
    }

    /// Where matches so far leave open which of several headers is at a base, one that is not this
    /// one.
    pub fn other_than(&self, base: PayloadBase, proto: &Proto) -> Option<&'static Proto> {
        let said =
            |p: &&&'static Proto| self.unknown_transport || !tunnel::is_tunnel(p) || **p == proto;
        if base != PayloadBase::Transport || self.transports.iter().filter(said).count() < 2 {
            return None;
        }
        let other = self.transports.iter().filter(said).find(|p| **p != proto);
        other.map(|p| if tunnel::is_tunnel(p) { &UNKNOWN } else { *p })
    }

    /// The transport header that was told last and that nft 1.0.6 knows.
    pub fn last_but_tunnels(&self) -> Option<&'static Proto> {
        self.transports.iter().rfind(|p| !tunnel::is_tunnel(p)).copied()
    }

    /// Bits of the link headers below the current one.
    pub fn stacked_bits(&self) -> u32 {
        self.stacked.iter().map(|p| p.len).sum()
    }
}

/// Whether a header stands for where a family starts rather than for bytes of the packet.
pub(crate) fn is_dummy(proto: &Proto) -> bool {
    *proto == proto::link::INET || *proto == proto::link::NETDEV
}

/// nft's message for two headers that cannot both be there.
pub(crate) fn conflicting(known: &Proto, other: &Proto) -> String {
    format!("conflicting protocols specified: {} vs. {}", known.name, other.name)
}
