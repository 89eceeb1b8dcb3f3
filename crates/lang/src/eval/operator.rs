// SPDX-License-Identifier: Apache-2.0

//! Binary operators: constants are folded, invertible ones move from the field to the constants it
//! is compared with.

use penstock_syntax::ast::expr::{BinOp, constant};
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::bits::bitmask;
use penstock_syntax::datatype::{Base, ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::eval::context::Expected;
use crate::eval::{Eval, Result, conflict};

impl Eval<'_, '_> {
    pub(crate) fn binop(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Binop { op, left, right } = &mut e.kind else { return Ok(()) };
        let op = *op;
        let wanted = self.expected.len;
        self.expr(left)?;
        if op.is_shift() {
            self.expected =
                Expected::new(Type::Base(DataType::Integer), left.order, wanted.max(32));
        } else if self.expected.dtype.is_none() || self.expected.dtype == Some(Type::default()) {
            self.expect_like(left);
        }
        self.expr(right)?;
        if !op.is_shift() && left.constant && !right.constant {
            std::mem::swap(left, right);
        }
        check_operands(op, left, right, loc)?;
        let (dtype, order, len) = if op.is_shift() {
            let len = self.shifted_len(op, left, right, wanted)?;
            self.convert(left, ByteOrder::Host)?;
            self.convert(right, ByteOrder::Host)?;
            (left.dtype.clone(), ByteOrder::Host, len)
        } else {
            let (dtype, order, len) = if self.written > left.len {
                self.convert(left, ByteOrder::Host)?;
                (Type::Base(DataType::Integer), ByteOrder::Host, self.written)
            } else {
                (left.dtype.clone(), left.order, left.len)
            };
            self.convert(right, order)?;
            (dtype, order, len)
        };
        (e.dtype, e.order, e.len) = (dtype, order, len);
        // What stands next to a shifted value is a number, whatever was shifted.
        let operand = if op.is_shift() { Type::Base(DataType::Integer) } else { e.dtype.clone() };
        self.expected = Expected::new(operand, e.order, e.len);
        let ExprKind::Binop { left, right, .. } = &e.kind else { return Ok(()) };
        e.singleton = true;
        if let (true, Some(a), Some(b)) = (left.constant, left.value(), right.value()) {
            let value = fold(op, a, b, e.len);
            *e = constant(value, e.loc, e.dtype.clone(), e.order, e.len);
        }
        Ok(())
    }

    /// Bits of the result of a shift. `wanted` are the bits that its context expects.
    fn shifted_len(&self, op: BinOp, left: &Expr, right: &Expr, wanted: u32) -> Result<u32> {
        let shift = right.value().unwrap_or(0);
        let wanted = wanted.max(self.written);
        if shift < u128::from(left.len) {
            return Ok(if self.written > left.len { wanted } else { left.len });
        }
        if shift >= u128::from(wanted) {
            let direction = if op == BinOp::Lshift { "Left" } else { "Right" };
            let bits = left.len.max(self.written);
            return conflict(
                right.loc,
                left.loc,
                format!(
                    "{direction} shift of {shift} bits is undefined for type of {bits} bits width"
                ),
            );
        }
        Ok(wanted)
    }

    /// Moves shifts and exclusive ors that a field goes through before a comparison to the
    /// constant, so that packets are spared them.
    pub(crate) fn transfer(&mut self, left: &mut Expr, right: &mut Expr) -> Result {
        loop {
            let ExprKind::Binop { op, right: by, .. } = &left.kind else { return Ok(()) };
            let (op, Some(by)) = (*op, by.value()) else { return Ok(()) };
            if !matches!(op, BinOp::Lshift | BinOp::Rshift | BinOp::Xor) {
                return Ok(());
            }
            let done = if let ExprKind::SetRef { set } = &right.kind {
                match self.ctx.anonymous_id(set).and_then(|id| self.ctx.anonymous.get_mut(&id)) {
                    Some(set) => match &mut set.elements {
                        Some(elements) => transfer_one(op, by, elements)?,
                        None => false,
                    },
                    None => false,
                }
            } else {
                transfer_one(op, by, right)?
            };
            if !done {
                return Ok(());
            }
            let dtype = left.dtype.clone();
            if let ExprKind::Binop { left: inner, .. } = &mut left.kind {
                let mut inner = inner.take();
                inner.dtype = dtype;
                *left = inner;
            }
        }
    }
}

/// Whether an operator takes these operands. `loc` is the place of all of it.
fn check_operands(op: BinOp, left: &Expr, right: &Expr, loc: Loc) -> Result {
    let symbol = op.symbol();
    if !matches!(left.base(), Base::Integer | Base::Bitmask | Base::String) {
        return conflict(
            left.loc,
            loc,
            format!("Binary operation ({symbol}) is undefined for {} types", left.dtype.desc()),
        );
    }
    if left.constant && !left.singleton {
        return conflict(
            left.loc,
            loc,
            format!("Binary operation ({symbol}) is undefined for {} expressions", left.word()),
        );
    }
    if !right.constant && op.is_shift() {
        return conflict(
            right.loc,
            loc,
            format!("Right hand side of binary operation ({symbol}) must be constant"),
        );
    }
    if !right.constant && !matches!(right.base(), Base::Integer | Base::Bitmask) {
        return conflict(
            left.loc,
            loc,
            format!(
                "Binary operation ({symbol}) with different base types ({} vs {}) is not supported",
                left.dtype.name(),
                right.dtype.name()
            ),
        );
    }
    if right.constant && !right.singleton {
        return conflict(
            left.loc,
            loc,
            format!("Binary operation ({symbol}) is undefined for {} expressions", right.word()),
        );
    }
    Ok(())
}

/// The result of an operator on constants of `len` bits.
fn fold(op: BinOp, a: u128, b: u128, len: u32) -> u128 {
    match op {
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Lshift => a.checked_shl(b as u32).unwrap_or(0) & bitmask(len),
        BinOp::Rshift => a.checked_shr(b as u32).unwrap_or(0),
    }
}

/// Whether a constant, range, or set of them can be seen through the inverse of an operator.
fn can_transfer(op: BinOp, by: u128, left: &Expr, e: &Expr) -> Result<bool> {
    Ok(match &e.kind {
        ExprKind::Value(value) => {
            if op == BinOp::Lshift && u128::from(value.trailing_zeros()) < by && *value != 0 {
                return conflict(e.loc, left.loc, "Comparison is always false");
            }
            true
        }
        ExprKind::Range { left: a, right: b } => {
            can_transfer(op, by, left, a)? && can_transfer(op, by, left, b)?
        }
        ExprKind::SetElem(elem) => can_transfer(op, by, left, &elem.key)?,
        ExprKind::Mapping { left: key, .. } => can_transfer(op, by, left, key)?,
        ExprKind::CatchAll => true,
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => false,
    })
}

fn transfer_one(op: BinOp, by: u128, e: &mut Expr) -> Result<bool> {
    if let ExprKind::Set { elements, .. } = &mut e.kind {
        for element in elements.iter() {
            if !can_transfer(op, by, element, element)? {
                return Ok(false);
            }
        }
        for element in elements.iter_mut() {
            apply_inverse(op, by, element);
        }
        return Ok(true);
    }
    if !can_transfer(op, by, e, e)? {
        return Ok(false);
    }
    apply_inverse(op, by, e);
    Ok(true)
}

fn apply_inverse(op: BinOp, by: u128, e: &mut Expr) {
    match &mut e.kind {
        ExprKind::Value(value) => match op {
            BinOp::Xor => *value ^= by,
            BinOp::Lshift => *value >>= by.min(127),
            BinOp::Rshift => {
                *value <<= by.min(127);
                e.len += by as u32;
            }
            BinOp::And | BinOp::Or => {}
        },
        ExprKind::Range { left, right } => {
            apply_inverse(op, by, left);
            apply_inverse(op, by, right);
            e.len = left.len;
        }
        ExprKind::SetElem(elem) => {
            apply_inverse(op, by, &mut elem.key);
            e.len = elem.key.len;
        }
        ExprKind::Mapping { left, .. } => {
            apply_inverse(op, by, left);
            e.len = left.len;
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::CatchAll
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => {}
    }
}
