// SPDX-License-Identifier: Apache-2.0

//! Raw payload and extension headers, and the header fields that they stand for.

use penstock_program::expr::{ExthdrOp, MetaKey, PayloadBase};
use penstock_syntax::ast::expr::{Exthdr, Payload};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::exthdr;
use penstock_syntax::proto::{Proto, Template, link, network, transport};
use penstock_syntax::source::Loc;

use super::{constant, raw, set_type};
use crate::key_type::KeyType;

/// Bits of the packet. Ports are known as such even where the transport header is not.
pub(crate) fn raw_payload(base: PayloadBase, offset: u32, len: u32) -> Expr {
    let mut payload = Payload { base, proto: None, field: None, offset, raw: true, inner: None };
    let mut dtype = DataType::RawInteger;
    if base == PayloadBase::Transport
        && let Some(field) = transport::TH.template_at(offset, len)
    {
        payload.proto = Some(&transport::TH);
        payload.field = Some(field);
        payload.raw = false;
        dtype = field.dtype;
    }
    Expr::typed(ExprKind::Payload(payload), Loc::default(), Type::Base(dtype), ByteOrder::Big, len)
}

/// Bits of the header of a tunnel, or of the packet in it.
pub(super) fn inner_payload(
    tunnel: &'static Proto,
    base: PayloadBase,
    offset: u32,
    len: u32,
) -> Expr {
    if base == PayloadBase::Tunnel
        && let Some(template) = tunnel.template_at(offset, len)
    {
        return field(tunnel, template, offset);
    }
    inside(Some(tunnel), raw_payload(base, offset, len))
}

/// What a `meta` key tells of the packet in a tunnel: of which protocol it, or what it carries, is.
pub(super) fn inner_meta(tunnel: &'static Proto, key: MetaKey) -> Option<Expr> {
    let proto = [&link::NETDEV, &network::INET_SERVICE]
        .into_iter()
        .find(|p| p.protocol_template().is_some_and(|t| t.meta == Some(key)))?;
    let mut expr = field(proto, proto.protocol_template()?, 0);
    expr.order = proto.protocol_template()?.order;
    Some(inside(Some(tunnel), expr))
}

/// Says of a field which tunnel it is inside of.
pub(super) fn inside(tunnel: Option<&'static Proto>, mut expr: Expr) -> Expr {
    if let ExprKind::Payload(payload) = &mut expr.kind {
        payload.inner = tunnel;
    }
    expr
}

/// A header's field. `offset` is where it was found from the base, which for stacked headers is not
/// the template's.
pub(super) fn field(proto: &'static Proto, template: &'static Template, offset: u32) -> Expr {
    let payload = Payload {
        base: proto.base,
        proto: Some(proto),
        field: Some(template),
        offset,
        raw: false,
        inner: None,
    };
    Expr::typed(
        ExprKind::Payload(payload),
        Loc::default(),
        Type::Base(template.dtype),
        ByteOrder::Big,
        template.len,
    )
}

/// Bits of an extension header, option or chunk; a field of it if they are one.
pub(crate) fn raw_exthdr(op: ExthdrOp, kind: u8, offset: u32, len: u32, present: bool) -> Expr {
    let found = if present { None } else { exthdr::find_field(op, kind, offset, len) };
    let exthdr = Exthdr {
        op,
        desc: found
            .map(|(desc, _)| desc)
            .or_else(|| exthdr::find_kind(op, kind).filter(|_| present)),
        field: found.map(|(_, field)| field),
        raw_type: kind,
        offset,
        present,
        raw: found.is_none() && !present,
    };
    let dtype = match found {
        _ if present => DataType::Boolean,
        Some((_, field)) => field.dtype,
        None => DataType::Integer,
    };
    Expr::typed(ExprKind::Exthdr(exthdr), Loc::default(), Type::Base(dtype), ByteOrder::Big, len)
}

/// Constant bytes as a concatenation with fields like those of `parts`, each padded to 32 bits.
pub(super) fn split_concat(parts: &[Expr], bytes: &[u8]) -> Expr {
    let mut rest = bytes;
    let mut fields = Vec::with_capacity(parts.len());
    for part in parts {
        let len = (part.len.div_ceil(8) as usize).min(rest.len());
        let mut field = constant(&rest[..len]);
        set_type(&mut field, &part.dtype, part.order);
        fields.push(field);
        rest = &rest[(part.len.div_ceil(32) as usize * 4).min(rest.len())..];
    }
    raw(ExprKind::Concat(fields), bytes.len() as u32 * 8)
}

/// Gives an expression, or each part of a concatenation, the type of a set's key or data.
pub(crate) fn set_types(expr: &mut Expr, types: &KeyType) {
    if let ExprKind::Concat(parts) = &mut expr.kind {
        for (part, field) in parts.iter_mut().zip(types.fields.iter()) {
            set_type(part, &Type::Base(field.dtype), field.order);
        }
    } else {
        if let Some(field) = types.fields.first() {
            set_type(expr, &Type::Base(field.dtype), field.order);
        }
    }
}

/// Types with ranges and masks that are listed as prefixes (nft's `DTYPE_F_PREFIX`).
pub(crate) fn has_prefixes(dtype: DataType) -> bool {
    matches!(
        dtype,
        DataType::IpAddr
            | DataType::Ip6Addr
            | DataType::Mark
            | DataType::DevGroup
            | DataType::Realm
    )
}

/// Length of the prefix that a range of numbers is, if it is one.
pub(crate) fn prefix_length(from: u128, to: u128, bits: u32) -> Option<u32> {
    let differing = from ^ to;
    // All ones from some bit down.
    if differing & differing.wrapping_add(1) != 0 || from & differing != 0 {
        return None;
    }
    let host = 128 - differing.leading_zeros();
    bits.checked_sub(host)
}

/// Turns a range that is a prefix into one, a range of one value into that of its full length.
pub(crate) fn range_to_prefix(expr: &mut Expr) {
    let ExprKind::Range { left, right } = &expr.kind else { return };
    let (ExprKind::Value(from), ExprKind::Value(to)) = (&left.kind, &right.kind) else { return };
    let dtype = left.dtype.base();
    let bits = left.len;
    if let Some(len) = prefix_length(*from, *to, bits).filter(|_| has_prefixes(dtype)) {
        expr.kind = ExprKind::Prefix { base: left.clone(), len };
    }
}
