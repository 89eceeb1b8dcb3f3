// SPDX-License-Identifier: Apache-2.0

//! `ip dscp set …`: writing header fields.

use penstock_program::expr::PayloadBase;
use penstock_syntax::ast::expr::{BinOp, constant};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::{DataType, Type};
use penstock_syntax::source::Loc;

use crate::eval::context::Expected;
use crate::eval::{Eval, Result, conflict, error};

/// Where a field lies in the bytes that are read and written back.
struct Window {
    /// Bits of the field.
    bits: u32,
    /// First byte.
    offset: u32,
    /// How many.
    size: u32,
    /// Bits after the field.
    shift: u32,
}

impl Window {
    /// For a field at so many bits from its base; checksums are computed over pairs of bytes.
    fn of(field_offset: u32, bits: u32, checksum: bool) -> Self {
        let mut size = bits.div_ceil(8);
        let mut offset = field_offset / 8;
        let mut shift = size as i32 * 8 - (field_offset % 8 + bits) as i32;
        while shift < 0 {
            shift += 8;
            size += 1;
        }
        let mut shift = shift as u32;
        if checksum && size % 2 == 1 {
            size += 1;
            if offset % 2 == 1 {
                offset -= 1;
            } else {
                shift += 8;
            }
        }
        Window { bits, offset, size, shift }
    }

    /// The bits that stay as they are.
    fn others(&self) -> u128 {
        bitmask(self.size * 8) & !(bitmask(self.bits) << self.shift)
    }
}

impl Eval<'_, '_> {
    /// Fields that do not fill whole bytes, or whole pairs under a checksum, are read, changed and
    /// written back.
    pub(crate) fn payload_set(&mut self, target: &mut Expr, value: &mut Expr, loc: Loc) -> Result {
        if !matches!(&target.kind, ExprKind::Payload(p) if p.tunnel().is_none()) {
            return error(target.loc, "payload statement for this expression is not supported");
        }
        let itself = own_operators(target, value);
        self.payload(target)?;
        strip_alignment(target);
        let target_loc = target.loc;
        let (dtype, order) = (target.dtype.clone(), target.order);
        let ExprKind::Payload(payload) = &target.kind else { return Ok(()) };
        let bits = payload.field.map_or(target.len, |f| f.len);
        // What is inside is data under a checksum too.
        let checksum = payload.base == PayloadBase::Inner
            || payload.proto.is_some_and(|p| p.checksum.is_some());
        let whole = payload.offset % 8 == 0 && bits % 8 == 0 && (!checksum || bits / 8 % 2 == 0);
        let window = Window::of(payload.offset, bits, checksum);
        if let (false, Some(operators)) = (whole, itself) {
            return self.change_field(target, value, operators, &window, loc);
        }
        self.arg(value, loc, Expected::new(dtype.clone(), order, bits))?;
        if !value.constant {
            self.convert(value, order)?;
        }
        if whole {
            target.len = bits;
            value.len = bits;
            return Ok(());
        }
        let (len, shift) = (window.size * 8, window.shift);
        if shift > 0 {
            match &mut value.kind {
                ExprKind::Value(v) => *v <<= shift,
                ExprKind::Map { .. } => {
                    let message = "Binary operation (<<) is undefined for map expressions";
                    return conflict(value.loc, target_loc, message);
                }
                _ if shift >= value.len => {
                    return conflict(
                        target_loc,
                        value.loc,
                        format!(
                            "Left shift of {shift} bits is undefined for type of {} bits width",
                            value.len
                        ),
                    );
                }
                ExprKind::Symbol { .. }
                | ExprKind::Variable { .. }
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
                | ExprKind::SetRef { .. }
                | ExprKind::Payload(_)
                | ExprKind::Exthdr(_)
                | ExprKind::Key(_)
                | ExprKind::Hash { .. }
                | ExprKind::Unary { .. }
                | ExprKind::Binop { .. }
                | ExprKind::Relational { .. }
                | ExprKind::FlagCmp { .. } => {
                    return error(
                        target_loc,
                        "Right hand side of binary operation (^) must be constant",
                    );
                }
            }
        } else if value.value().is_none() {
            let message = "Right hand side of binary operation (^) must be constant";
            return conflict(value.loc, target_loc, message);
        }
        read_window(target, &window);
        let integer = Type::Base(DataType::Integer);
        let and = Expr::typed(
            ExprKind::Binop {
                op: BinOp::And,
                left: Box::new(target.clone()),
                right: Box::new(constant(window.others(), target_loc, integer, order, len)),
            },
            target_loc,
            dtype.clone(),
            order,
            len,
        );
        let new = value.take();
        let xor = ExprKind::Binop { op: BinOp::Xor, left: Box::new(and), right: Box::new(new) };
        *value = Expr::typed(xor, value.loc, dtype, order, len);
        Ok(())
    }

    /// `ip dscp set ip dscp | 0x3`: the operators apply to the bytes around the field, and leave
    /// the other bits alone.
    fn change_field(
        &mut self,
        target: &mut Expr,
        value: &mut Expr,
        operators: Vec<(BinOp, Expr)>,
        window: &Window,
        stmt: Loc,
    ) -> Result {
        let (dtype, order, loc) = (target.dtype.clone(), target.order, value.loc);
        let len = window.size * 8;
        read_window(target, window);
        let mut changed = target.clone();
        for (op, mut by) in operators {
            self.arg(&mut by, stmt, Expected::new(dtype.clone(), order, window.bits))?;
            let Some(number) = by.value().filter(|_| op != BinOp::Lshift && op != BinOp::Rshift)
            else {
                return error(by.loc, "payload statement for this expression is not supported");
            };
            let mut bits = number << window.shift;
            if op == BinOp::And {
                bits |= window.others();
            }
            let by = constant(bits, by.loc, Type::Base(DataType::Integer), order, len);
            let kind = ExprKind::Binop { op, left: Box::new(changed), right: Box::new(by) };
            changed = Expr::typed(kind, loc, dtype.clone(), order, len);
        }
        *value = changed;
        Ok(())
    }
}

/// The bytes of a window instead of the field alone.
fn read_window(target: &mut Expr, window: &Window) {
    if let ExprKind::Payload(payload) = &mut target.kind {
        payload.offset = window.offset * 8;
    }
    target.len = window.size * 8;
}

/// Where a value is the field itself under operators: those, the first to be applied first.
fn own_operators(target: &Expr, value: &Expr) -> Option<Vec<(BinOp, Expr)>> {
    fn collect(target: &Expr, value: &Expr, out: &mut Vec<(BinOp, Expr)>) -> bool {
        if (&value.kind, value.len) == (&target.kind, target.len) {
            return true;
        }
        let ExprKind::Binop { op, left, right } = &value.kind else { return false };
        let by = if collect(target, left, out) {
            right
        } else if !matches!(op, BinOp::Lshift | BinOp::Rshift) && collect(target, right, out) {
            left
        } else {
            return false;
        };
        out.push((*op, (**by).clone()));
        true
    }
    let mut operators = Vec::new();
    (collect(target, value, &mut operators) && !operators.is_empty()).then_some(operators)
}

/// The field itself under the mask and shift that evaluation put around it.
fn strip_alignment(e: &mut Expr) {
    while let ExprKind::Binop { left, .. } = &mut e.kind {
        let inner = left.take();
        *e = inner;
    }
}
