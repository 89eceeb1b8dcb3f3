// SPDX-License-Identifier: Apache-2.0

//! What a header field depends on: matches inserted before it that make sure that the header is
//! there.

use penstock_program::expr::{MetaKey, PayloadBase};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::expr::{Payload, RelOp, constant};
use penstock_syntax::ast::{Expr, ExprKind, Key, Stmt, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::proto::{IcmpField, Proto, Template, link, network, transport};
use penstock_syntax::source::Loc;

use crate::eval::context::{Expected, UNKNOWN, conflicting};
use crate::eval::{Eval, Result, error};
use crate::key_type::Field;

/// `ARPHRD_*` of devices with a known link header.
const DEVICES: &[(u16, &Proto)] = &[(1, &link::ETHER)];

/// nft's words for the bases.
pub(crate) fn base_name(base: PayloadBase) -> &'static str {
    match base {
        PayloadBase::Link => "link layer",
        PayloadBase::Network => "network layer",
        PayloadBase::Transport => "transport layer",
        PayloadBase::Inner => "payload data",
        PayloadBase::Tunnel => "inner",
    }
}

/// Whether a match of this field tells which header follows.
pub(crate) fn is_protocol_field(proto: &Proto, field: &Template) -> bool {
    let key = match field.name {
        "protocol" if *proto == network::IP => true,
        "nexthdr" if *proto == network::IP6 => true,
        _ => false,
    };
    key || proto.protocol_template().is_some_and(|t| std::ptr::eq(t, field))
}

/// A header field as an expression.
pub(crate) fn field_expr(proto: &'static Proto, field: &'static Template, loc: Loc) -> Expr {
    let payload = Payload {
        base: proto.base,
        proto: Some(proto),
        field: Some(field),
        offset: field.offset,
        raw: false,
        inner: None,
    };
    Expr::typed(ExprKind::Payload(payload), loc, Type::Base(field.dtype), ByteOrder::Big, field.len)
}

/// A number as a field of `len` bits holds it.
fn field_value(value: u32, field: &Template, loc: Loc) -> Expr {
    constant(u128::from(value), loc, Type::Base(field.dtype), ByteOrder::Big, field.len)
}

/// `left == right` as a statement.
fn matching(left: Expr, right: Expr) -> Stmt {
    let loc = left.loc;
    let kind = ExprKind::Relational { op: RelOp::Eq, left: Box::new(left), right: Box::new(right) };
    Stmt { kind: StmtKind::Match(Expr::new(kind, loc)), loc }
}

impl Eval<'_, '_> {
    /// Evaluates a match without disturbing the current expression, and puts it before the
    /// statement.
    fn insert(&mut self, mut stmt: Stmt) -> Result {
        let expected = std::mem::take(&mut self.expected);
        let set = self.set.take();
        let tunnel = self.tunnel_at_hand();
        if let StmtKind::Match(e) = &mut stmt.kind {
            if let ExprKind::Relational { left, .. } = &mut e.kind
                && let ExprKind::Payload(payload) = &mut left.kind
            {
                payload.inner = tunnel;
            }
            self.without(|eval| eval.expr(e))?;
        }
        self.expected = expected;
        self.set = set;
        self.inserted.push(stmt);
        Ok(())
    }

    /// `meta iiftype` of the devices that have such a link header.
    fn insert_iiftype(&mut self, proto: &'static Proto, loc: Loc) -> Result {
        let Some((number, _)) = DEVICES.iter().find(|(_, p)| *p == proto) else {
            return error(loc, "protocol specification is invalid for this family");
        };
        let left = self.meta_expr(MetaKey::IifType, loc);
        let right =
            constant(u128::from(*number), loc, Type::Base(DataType::ArpHrd), ByteOrder::Host, 16);
        self.insert(matching(left, right))
    }

    /// The match of `lower`'s protocol field that `upper` needs.
    fn insert_protocol(
        &mut self,
        lower: &'static Proto,
        upper: &'static Proto,
        loc: Loc,
    ) -> Result {
        let (Some(field), Some(number)) = (lower.protocol_template(), lower.number_of(upper))
        else {
            return error(loc, conflicting(lower, upper));
        };
        let left = match field.meta {
            Some(key) if !self.inside => self.meta_expr(key, loc),
            Some(_) => Expr { order: field.order, ..field_expr(lower, field, loc) },
            None => field_expr(lower, field, loc),
        };
        let mut right = field_value(number, field, loc);
        right.order = left.order;
        right.dtype = left.dtype.clone();
        self.insert(matching(left, right))
    }

    /// Makes sure that the header of a field is there when nothing is known of its base.
    pub(crate) fn payload_dependency(
        &mut self,
        proto: &'static Proto,
        base: PayloadBase,
        loc: Loc,
    ) -> Result {
        match self.protocols.depth(base) {
            1 => return self.insert_iiftype(proto, loc),
            2.. => return error(loc, "payload expression is invalid for this family"),
            _ => {}
        }
        let lower = match self.protocols.below(base) {
            Some(lower) => Some(lower),
            None => self.special_dependency(proto, base, loc)?,
        };
        let Some(mut lower) = lower else {
            let below = match base {
                PayloadBase::Network => PayloadBase::Link,
                PayloadBase::Transport => PayloadBase::Network,
                _ => PayloadBase::Transport,
            };
            return error(
                loc,
                format!(
                    "ambiguous payload specification: no {} protocol specified",
                    base_name(below)
                ),
            );
        };
        if self.family == Family::Bridge
            && *lower == link::ETHER
            && (*proto == network::IP || *proto == network::IP6)
        {
            lower = &link::NETDEV;
        }
        self.insert_protocol(lower, proto, loc)
    }

    /// What is below a base in families that carry both IPv4 and IPv6.
    fn special_dependency(
        &mut self,
        proto: &'static Proto,
        base: PayloadBase,
        loc: Loc,
    ) -> Result<Option<&'static Proto>> {
        let link_header = match self.family {
            Family::Inet => Some(&link::INET),
            Family::Bridge => Some(&link::ETHER),
            Family::Netdev => Some(&link::NETDEV),
            Family::Ip | Family::Ip6 | Family::Arp => None,
        };
        Ok(match base {
            PayloadBase::Link | PayloadBase::Network => link_header,
            PayloadBase::Transport => {
                let upper = if *proto == transport::ICMP || *proto == transport::IGMP {
                    &network::IP
                } else if *proto == transport::ICMPV6 {
                    &network::IP6
                } else {
                    return Ok(Some(&network::INET_SERVICE));
                };
                let lower = match self.protocols.at(PayloadBase::Link) {
                    Some(lower) => Some(lower),
                    None => link_header,
                };
                let Some(lower) = lower else { return Ok(None) };
                if let Err(conflict) = self.insert_protocol(lower, upper, loc) {
                    // nft then also reports that nothing is known.
                    self.ctx.queued.push(*conflict);
                }
                self.protocols.at(PayloadBase::Network)
            }
            PayloadBase::Inner | PayloadBase::Tunnel => None,
        })
    }

    /// Two headers of one base meet: fine if one can follow the other (VLAN in Ethernet), or if the
    /// known one only stands for the start of the family. `true` if it was resolved.
    pub(crate) fn resolve_conflict(
        &mut self,
        known: &'static Proto,
        payload: &mut Payload,
        loc: Loc,
    ) -> Result<bool> {
        let Some(proto) = payload.proto else { return Ok(true) };
        let mut known = known;
        if payload.base == PayloadBase::Link && crate::eval::context::is_dummy(known) {
            let ether = if *proto == link::VLAN { &link::ETHER } else { proto };
            self.insert_iiftype(ether, loc)?;
            known = ether;
            if known == proto {
                return Ok(true);
            }
        }
        if payload.base == PayloadBase::Link && self.protocols.stacked.contains(&proto) {
            return Ok(true);
        }
        // Only link headers follow one another at their base.
        if payload.base != PayloadBase::Link
            || self.protocols.above(payload.base).is_some()
            || known.base != payload.base
        {
            return Ok(false);
        }
        if known.number_of(proto).is_none() {
            return Ok(false);
        }
        self.insert_next(known, proto, loc)?;
        payload.offset += self.protocols.stacked_bits();
        Ok(true)
    }

    /// The protocol field of a header of the same base says that another one follows.
    fn insert_next(&mut self, lower: &'static Proto, upper: &'static Proto, loc: Loc) -> Result {
        let (Some(field), Some(number)) = (lower.protocol_template(), lower.number_of(upper))
        else {
            return error(loc, conflicting(lower, upper));
        };
        let left = field_expr(lower, field, loc);
        let right = field_value(number, field, loc);
        self.insert(matching(left, right))
    }

    /// After [`Eval::payload_dependency`] a link header is known, but it is another one than the
    /// field's.
    pub(crate) fn stack_link(
        &mut self,
        lower: &'static Proto,
        payload: &mut Payload,
        loc: Loc,
    ) -> Result {
        let Some(proto) = payload.proto else { return Ok(()) };
        if lower.number_of(proto).is_none() {
            return error(loc, conflicting(lower, proto));
        }
        self.insert_next(lower, proto, loc)?;
        payload.offset += self.protocols.stacked.first().map_or(0, |p| p.len);
        Ok(())
    }

    /// Fields that only some ICMP messages have need a match of the message type, unless one is
    /// there.
    pub(crate) fn icmp_dependency(
        &mut self,
        proto: &'static Proto,
        field: &Template,
        loc: Loc,
    ) -> Result {
        let types = field.icmp.types();
        if field.icmp == IcmpField::Any || types.is_empty() {
            return Ok(());
        }
        if let Some(known) = self.icmp_type {
            if types.contains(&known) {
                return Ok(());
            }
            let canonical = |t: u8| match t {
                0 => 8,
                129 => 128,
                other => other,
            };
            return error(loc, {
                let need = if field.icmp == IcmpField::Target6 {
                    NEIGHBOUR_SOLICITATION
                } else {
                    types[0]
                };
                format!("incompatible icmp match: rule has {}, need {need}", canonical(known))
            });
        }
        let Some(kind) = proto.templates.first() else { return Ok(()) };
        let left = field_expr(proto, kind, loc);
        let value = |t: u8| field_value(u32::from(t), kind, loc);
        let right = match types {
            [one] => value(*one),
            many => {
                let elements = many
                    .iter()
                    .map(|t| {
                        let key = value(*t);
                        let mut elem = Expr::typed(
                            ExprKind::SetElem(Box::new(penstock_syntax::ast::expr::SetElem {
                                key,
                                timeout: None,
                                expires: None,
                                comment: None,
                                stmts: Vec::new(),
                            })),
                            loc,
                            Type::Base(kind.dtype),
                            ByteOrder::Big,
                            kind.len,
                        );
                        elem.constant = true;
                        elem.singleton = true;
                        elem
                    })
                    .collect();
                Expr::new(ExprKind::Set { elements, flags: Default::default() }, loc)
            }
        };
        self.insert(matching(left, right))?;
        // One of several is as good as any for what follows, but for a redirection.
        let neighbour = types.iter().find(|t| **t == NEIGHBOUR_SOLICITATION);
        self.icmp_type = neighbour.or(types.last()).copied();
        Ok(())
    }

    /// Makes sure of the network header that an extension header or IP option needs.
    pub(crate) fn exthdr_dependency(&mut self, needed: &'static Proto, loc: Loc) -> Result {
        match self.protocols.at(PayloadBase::Network) {
            Some(known) if known == needed => Ok(()),
            Some(known) => error(loc, format!("cannot use exthdr with {}", known.name)),
            None => {
                let Some(lower) = self.protocols.at(PayloadBase::Link) else {
                    return error(loc, "Cannot find dependency for exthdr");
                };
                // nft puts these before everything that the rule says.
                let before = std::mem::take(&mut self.inserted);
                self.insert_protocol(lower, needed, loc)?;
                self.insert_at_head();
                self.inserted = before;
                Ok(())
            }
        }
    }

    /// Takes note of what an equality says about headers.
    pub(crate) fn note_protocol(&mut self, left: &Expr, right: &Expr, loc: Loc) {
        if let ExprKind::Payload(payload) = &left.kind
            && !self.inside
            && let Some(tunnel) = payload.inner
        {
            return self.within(tunnel, |eval| eval.note_protocol(left, right, loc));
        }
        if let Some(elements) = right.elements() {
            for element in elements {
                if let Some(value) = element.elem().and_then(|elem| elem.key.value()) {
                    self.note_value(left, value as u32, loc);
                }
            }
        } else if let Some(value) = right.value() {
            self.note_value(left, value as u32, loc);
        }
    }

    fn note_value(&mut self, left: &Expr, value: u32, loc: Loc) {
        match &left.kind {
            ExprKind::Payload(payload) => {
                let (Some(proto), Some(field)) = (payload.proto, payload.field) else { return };
                if let Some(key) = field.meta {
                    return self.note_meta(key, value, loc);
                }
                if is_icmp_type(left) {
                    self.icmp_type = Some(value as u8);
                    return;
                }
                if !is_protocol_field(proto, field) || payload.raw {
                    return;
                }
                let Some(known) = self.protocols.at(payload.base) else { return };
                let Some(upper) = known.upper_by_number(value) else { return };
                if upper.base == known.base
                    && upper.base == PayloadBase::Link
                    && self.protocols.stacked.len() < 16
                {
                    self.protocols.stacked.push(known);
                }
                self.protocols.set(upper.base, upper, loc);
            }
            ExprKind::Key(Key::Meta { key }) => self.note_meta(*key, value, loc),
            ExprKind::Key(Key::Ct { key, .. }) => {
                use penstock_program::expr::CtKey;
                // The number is read as the field of the header below would be, if that is known.
                let below = match key {
                    CtKey::L3Protocol => PayloadBase::Link,
                    CtKey::Protocol => PayloadBase::Network,
                    _ => return,
                };
                if let Some(upper) =
                    self.protocols.at(below).and_then(|lower| lower.upper_by_number(value))
                {
                    self.protocols.set(upper.base, upper, loc);
                }
            }
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => {}
        }
    }

    fn note_meta(&mut self, key: MetaKey, value: u32, loc: Loc) {
        let (base, start) = self.protocols.start;
        match key {
            MetaKey::IifType => {
                if self.family == Family::Bridge {
                    return;
                }
                if base != PayloadBase::Link && self.protocols.depth(PayloadBase::Link) < 1 {
                    return;
                }
                let found = DEVICES.iter().find(|(n, _)| u32::from(*n) == value).map(|(_, p)| *p);
                self.protocols.set(PayloadBase::Link, found.unwrap_or(&UNKNOWN), loc);
            }
            MetaKey::NfProto => {
                if base != PayloadBase::Link {
                    return;
                }
                let found = link::INET.upper_by_number(value);
                self.protocols.set(PayloadBase::Network, found.unwrap_or(&UNKNOWN), loc);
            }
            MetaKey::L4Proto => {
                let found = network::INET_SERVICE.upper_by_number(value);
                self.protocols.set(PayloadBase::Transport, found.unwrap_or(&UNKNOWN), loc);
                self.protocols.unknown_transport |=
                    found.is_some_and(penstock_syntax::proto::tunnel::is_tunnel);
            }
            MetaKey::Protocol => {
                if base != PayloadBase::Link
                    || !matches!(self.family, Family::Netdev | Family::Bridge)
                {
                    return;
                }
                let found = start.upper_by_number(value);
                match found {
                    // Be it VLAN, that stands where a network header is looked for.
                    Some(upper) => self.protocols.set(PayloadBase::Network, upper, loc),
                    None => self.protocols.set(PayloadBase::Network, &UNKNOWN, loc),
                }
            }
            _ => {}
        }
    }

    /// A meta expression with its type.
    pub(crate) fn meta_expr(&self, key: MetaKey, loc: Loc) -> Expr {
        let field = Field::of_meta(key);
        Expr::typed(
            ExprKind::Key(Key::Meta { key }),
            loc,
            Type::Base(field.dtype),
            field.order,
            field.len,
        )
    }

    /// What stands next to a header field.
    pub(crate) fn expect_field(&mut self, e: &Expr) {
        self.expected = Expected::like(e);
    }
}

/// ICMPv6 message type.
const NEIGHBOUR_SOLICITATION: u8 = 135;

fn is_icmp_type(e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Payload(p) if p.field.is_some_and(|f| f.name == "type")
        && p.proto.is_some_and(Proto::is_icmp))
}
