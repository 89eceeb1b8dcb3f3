// SPDX-License-Identifier: Apache-2.0

//! Header fields, raw payload, extension headers and options.

use penstock_program::expr::{ExthdrOp, PayloadBase};
use penstock_syntax::ast::expr::{BinOp, Payload, constant};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::proto::tunnel::is_tunnel;
use penstock_syntax::proto::{network, transport};
use penstock_syntax::source::Loc;

use crate::eval::context::conflicting;
use crate::eval::tunnel::is_meta;
use crate::eval::{Eval, Result, error};

impl Eval<'_, '_> {
    pub(crate) fn payload(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Payload(payload) = &mut e.kind else { return Ok(()) };
        let tunnel = payload.tunnel();
        if let Some(tunnel) = tunnel
            && !is_meta(payload)
        {
            self.tunnel_dependency(tunnel, payload.base, loc)?;
        }
        if let Some(field) = payload.field {
            e.dtype = Type::Base(field.dtype);
            e.order = if is_meta(payload) { field.order } else { ByteOrder::Big };
            e.len = field.len;
        } else {
            // Raw bits where all transport headers have their ports are those.
            if payload.base == PayloadBase::Transport
                && e.len == 16
                && matches!(payload.offset, 0 | 16)
            {
                e.dtype = Type::Base(DataType::InetService);
            } else if e.dtype == Type::default() {
                e.dtype = Type::Base(DataType::RawInteger);
            }
            e.order = ByteOrder::Big;
            if e.len > 128 {
                return error(
                    loc,
                    format!("raw payload length {} exceeds the maximum of 128 bits", e.len),
                );
            }
        }
        let bits = e.len;
        if !payload.raw && payload.proto.is_some_and(|p| *p != transport::TH) {
            match tunnel {
                // The tunnel's own header gives no more information.
                Some(_) if payload.inner.is_none() || is_meta(payload) => {}
                Some(tunnel) => self.within(tunnel, |eval| eval.header(payload, loc))?,
                None => self.header(payload, loc)?,
            }
        }
        let offset = payload.offset;
        e.constant = false;
        e.singleton = true;
        self.expect_field(e);
        if offset % 8 != 0 || !bits.is_multiple_of(8) {
            align(e, offset);
            self.turn_before_shift(e)?;
        }
        Ok(())
    }

    /// What a statement takes from a field of several bytes is shifted in the order of the machine.
    fn turn_before_shift(&mut self, e: &mut Expr) -> Result {
        if self.written == 0 {
            return Ok(());
        }
        if let ExprKind::Binop { op: BinOp::Rshift, left, .. } = &mut e.kind {
            self.convert(left, ByteOrder::Host)?;
            e.order = ByteOrder::Host;
        }
        Ok(())
    }

    /// Makes sure that the header is there and finds the field's offset.
    fn header(&mut self, payload: &mut Payload, loc: Loc) -> Result {
        let Some(proto) = payload.proto else { return Ok(()) };
        let base = payload.base;
        // nft 1.0.6 has no headers of tunnels: a protocol field that says one says nothing,
        // `meta l4proto` something unknown.
        let known = match self.protocols.at(base) {
            Some(known) if is_tunnel(known) && known != proto => {
                match self.protocols.unknown_transport {
                    true => Some(&crate::eval::context::UNKNOWN),
                    false => self.protocols.last_but_tunnels(),
                }
            }
            known => known,
        };
        if let (Some(_), Some(other)) = (known, self.protocols.other_than(base, proto)) {
            return error(loc, conflicting(other, proto));
        }
        let known = match known {
            None => {
                let depended = if proto.base == PayloadBase::Link
                    && *proto == penstock_syntax::proto::link::VLAN
                {
                    &penstock_syntax::proto::link::ETHER
                } else {
                    proto
                };
                self.payload_dependency(depended, base, loc)?;
                match self.protocols.at(base) {
                    Some(known) if known != proto && base == PayloadBase::Link => {
                        return self.stack_link(known, payload, loc);
                    }
                    _ => {}
                }
                proto
            }
            Some(known) if known == proto => {
                if base == PayloadBase::Link {
                    payload.offset += self.protocols.stacked_bits();
                }
                known
            }
            Some(known) => {
                if self.resolve_conflict(known, payload, loc)? {
                    return Ok(());
                }
                return match self.protocols.at(base) {
                    Some(now) if now == proto => Ok(()),
                    Some(now) if is_tunnel(now) => error(loc, conflicting(known, proto)),
                    Some(now) => error(loc, conflicting(now, proto)),
                    None => Ok(()),
                };
            }
        };
        match payload.field {
            Some(field) if known.is_icmp() => self.icmp_dependency(known, field, loc),
            _ => Ok(()),
        }
    }

    pub(crate) fn exthdr(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Exthdr(exthdr) = &mut e.kind else { return Ok(()) };
        match exthdr.op {
            ExthdrOp::Ipv6 => self.exthdr_dependency(&network::IP6, loc)?,
            ExthdrOp::Ipv4Opt => self.exthdr_dependency(&network::IP, loc)?,
            ExthdrOp::TcpOpt | ExthdrOp::Sctp | ExthdrOp::Dccp => {}
        }
        let ExprKind::Exthdr(exthdr) = &mut e.kind else { return Ok(()) };
        if exthdr.present {
            e.dtype = Type::Base(DataType::Boolean);
            e.order = ByteOrder::Big;
            e.len = 1;
        } else if let Some(field) = exthdr.field {
            e.dtype = Type::Base(field.dtype);
            e.order = ByteOrder::Big;
            e.len = field.len;
        } else {
            if e.dtype == Type::default() {
                e.dtype = Type::Base(DataType::Integer);
            }
            e.order = ByteOrder::Big;
        }
        let (limit, what) = match exthdr.op {
            ExthdrOp::TcpOpt => (40 * 8, "max tcp headerlen"),
            ExthdrOp::Ipv4Opt => (40 * 8, "max ip option len"),
            ExthdrOp::Ipv6 | ExthdrOp::Sctp | ExthdrOp::Dccp => (u32::MAX, ""),
        };
        let total = exthdr.offset.saturating_add(e.len);
        if total > limit {
            return error(loc, format!("offset and size {total} exceeds {what} ({limit})"));
        }
        let (offset, present) = (exthdr.offset, exthdr.present);
        e.singleton = true;
        self.expect_field(e);
        if !present && (offset % 8 != 0 || !e.len.is_multiple_of(8)) {
            align(e, offset);
        }
        Ok(())
    }
}

/// Reads the bytes around a field that does not fill them, masks the rest out and shifts the field
/// down.
fn align(e: &mut Expr, offset: u32) {
    let bits = e.len;
    let within = offset % 8;
    let mut extra = 0;
    let mut shift = bits.div_ceil(8) as i32 * 8 - (within + bits) as i32;
    while shift < 0 {
        shift += 8;
        extra += 8;
    }
    let shift = shift as u32;
    let loc = e.loc;
    let (dtype, order, masked) = (e.dtype.clone(), e.order, bits + shift);
    let mut field = e.take();
    field.dtype = dtype.clone();
    field.order = order;
    field.len = bits + extra;
    let integer = Type::Base(DataType::Integer);
    let mask = constant(bitmask(bits) << shift, loc, integer.clone(), ByteOrder::Host, masked);
    let and = ExprKind::Binop { op: BinOp::And, left: Box::new(field), right: Box::new(mask) };
    *e = Expr::typed(and, loc, dtype.clone(), order, masked);
    if shift > 0 {
        let by = constant(u128::from(shift), loc, integer, ByteOrder::Host, 8);
        let and = e.take();
        let and = Expr { dtype: dtype.clone(), order, len: masked, ..and };
        let kind = ExprKind::Binop { op: BinOp::Rshift, left: Box::new(and), right: Box::new(by) };
        *e = Expr::typed(kind, loc, dtype, order, masked);
    }
    e.singleton = true;
}
