// SPDX-License-Identifier: Apache-2.0

//! What is written to: `meta … set`, `ct … set`, header fields and options

use penstock_program::Register;
use penstock_program::expr::{
    self as vm, ChecksumType, CtDir, CtKey, Expr as Op, MetaKey, PayloadBase,
};
use penstock_syntax::ast::expr::Exthdr;
use penstock_syntax::ast::{Expr, ExprKind, StmtKind};
use penstock_syntax::datatype::{ByteOrder, Type};
use penstock_syntax::keys::{self, ValueType};
use penstock_syntax::proto::{Proto, Template, transport};
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::delinearize::{fields, raw, set_type};
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::lower::Program;
use crate::lower::expr::bytes_of;

/// `NFT_PAYLOAD_L4CSUM_PSEUDOHDR`.
const PSEUDO_HEADER: u32 = 1;

impl Eval<'_, '_> {
    pub(super) fn ct_set(&mut self, key: CtKey, expr: &mut Expr, loc: Loc) -> Result {
        if key == CtKey::Zone
            && let ExprKind::Value(v) = expr.kind
            && v > 65535
        {
            return error(expr.loc, format!("Value {v} exceeds valid range 0-65535"));
        }
        self.set_arg(expr, loc, Expected::of(keys::ct(key).value))
    }

    pub(super) fn exthdr_set(&mut self, target: &mut Expr, value: &mut Expr, loc: Loc) -> Result {
        self.exthdr(target)?;
        let expected = Expected::like(target);
        self.arg(value, loc, expected)?;
        self.convert(value, ByteOrder::Big)
    }

    /// What metadata is set to, at its width.
    pub(super) fn set_arg(&mut self, e: &mut Expr, stmt: Loc, expected: Expected) -> Result {
        self.written = expected.len;
        let result = self.arg(e, stmt, expected);
        self.written = 0;
        result
    }
}

impl Program<'_, '_> {
    /// The register of an argument that the next operation reads last.
    fn source(&mut self, e: &Expr) -> Register {
        let base = self.next;
        let sreg = self.argument(e);
        self.release(base);
        sreg
    }

    pub(super) fn meta_set(&mut self, key: MetaKey, expr: &Expr) {
        let sreg = self.source(expr);
        self.ops.push(Op::MetaSet(vm::MetaSet { key, sreg }));
    }

    pub(super) fn ct_set(&mut self, key: CtKey, dir: Option<CtDir>, expr: &Expr) {
        let sreg = self.source(expr);
        self.ops.push(Op::CtSet(vm::CtSet { key, dir, sreg }));
    }

    pub(super) fn payload_set(&mut self, target: &Expr, value: &Expr) {
        let sreg = self.source(value);
        let ExprKind::Payload(p) = &target.kind else { return };
        let (csum_type, csum_offset) = match p.proto.and_then(|p| p.checksum) {
            Some((offset, kind)) => (kind, offset),
            None => (ChecksumType::None, 0),
        };
        let csum_flags = match (p.proto, p.field) {
            // What is written there is data under the transport checksum.
            _ if p.base == PayloadBase::Inner => PSEUDO_HEADER,
            (Some(proto), Some(field)) => pseudo_header(proto, field),
            _ => 0,
        };
        self.ops.push(Op::PayloadSet(vm::PayloadSet {
            base: p.base,
            offset: p.offset / 8,
            len: bytes_of(target.len),
            sreg,
            csum_type,
            csum_offset,
            csum_flags,
        }));
    }

    pub(super) fn exthdr_set(&mut self, target: &Expr, value: &Expr) {
        let sreg = self.source(value);
        let ExprKind::Exthdr(x) = &target.kind else { return };
        self.ops.push(Op::ExthdrSet(vm::ExthdrSet {
            op: x.op,
            kind: x.raw_type,
            offset: x.offset / 8,
            len: bytes_of(target.len),
            sreg,
        }));
    }

    pub(super) fn exthdr_reset(&mut self, target: &Expr) {
        if let ExprKind::Exthdr(x) = &target.kind {
            self.ops.push(Op::ExthdrReset(vm::ExthdrReset { op: x.op, kind: x.raw_type }));
        }
    }
}

/// Whether the transport checksum covers the field through the pseudo header.
fn pseudo_header(proto: &Proto, field: &Template) -> u32 {
    if proto.base == PayloadBase::Network
        && proto.in_pseudo_header(field)
        && !std::ptr::eq(proto, &transport::TH)
    {
        PSEUDO_HEADER
    } else {
        0
    }
}

impl Reader<'_, '_> {
    /// What a register holds, as of a key that is set to it.
    fn written(&mut self, sreg: Register, value: ValueType) -> Option<Expr> {
        let mut expr = self.registers.get(sreg)?;
        set_type(&mut expr, &Type::Base(value.dtype), value.order);
        Some(expr)
    }

    pub(super) fn meta_set(&mut self, e: &vm::MetaSet) -> Option<()> {
        let expr = self.written(e.sreg, keys::meta(e.key).value)?;
        self.push(StmtKind::MetaSet { key: e.key, expr });
        Some(())
    }

    pub(super) fn ct_set(&mut self, e: &vm::CtSet) -> Option<()> {
        let expr = self.written(e.sreg, keys::ct(e.key).value)?;
        self.push(StmtKind::CtSet { key: e.key, dir: e.dir, expr });
        Some(())
    }

    pub(super) fn payload_set(&mut self, e: &vm::PayloadSet) -> Option<()> {
        let value = self.registers.get_long(e.sreg, e.len * 8)?;
        let target = fields::raw_payload(e.base, e.offset * 8, e.len * 8);
        self.push(StmtKind::PayloadSet { target, value });
        Some(())
    }

    pub(super) fn exthdr_set(&mut self, e: &vm::ExthdrSet) -> Option<()> {
        let mut value = self.registers.get_long(e.sreg, e.len * 8)?;
        let target = fields::raw_exthdr(e.op, e.kind, e.offset * 8, e.len * 8, false);
        set_type(&mut value, &target.dtype, target.order);
        self.push(StmtKind::ExthdrSet { target, value });
        Some(())
    }

    pub(super) fn exthdr_reset(&mut self, e: &vm::ExthdrReset) {
        let exthdr = Exthdr::presence(e.op, None, e.kind);
        self.push(StmtKind::ExthdrReset { target: raw(ExprKind::Exthdr(exthdr), 8) });
    }
}
