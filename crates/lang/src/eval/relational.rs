// SPDX-License-Identifier: Apache-2.0

//! Matches: which comparison a relational expression is, and that both sides fit.

use penstock_program::expr::{CtKey, MetaKey};
use penstock_syntax::ast::expr::{RelOp, SymbolKind, UnaryOp};
use penstock_syntax::ast::{Expr, ExprKind, Key};
use penstock_syntax::datatype::{Base, ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::eval::{Eval, Result, conflict, error};
use crate::key_type::KeyType;

/// Makes a set of one a plain value, where the left side is no concatenation.
fn take_single(left: &Expr, right: &mut Expr) -> Result {
    if let ExprKind::Set { elements, flags } = &mut right.kind
        && elements.len() == 1
        && !flags.map
        && !matches!(left.kind, ExprKind::Concat(_))
        && let ExprKind::SetElem(elem) = &mut elements[0].kind
        && !matches!(elem.key.kind, ExprKind::CatchAll)
        && elem.stmts.is_empty()
    {
        *right = elem.key.take();
        same_type(left, right)?;
    }
    Ok(())
}

/// Whether the right side asks for presence (`exists`, `missing`).
fn is_boolean(e: &Expr) -> bool {
    e.dtype == Type::Base(DataType::Boolean)
}

/// Refuses sides of different types.
fn same_type(left: &Expr, right: &Expr) -> Result {
    if left.dtype.id() == right.dtype.id() {
        return Ok(());
    }
    let (expected, found) = (left.dtype.desc(), right.dtype.desc());
    let message = format!("datatype mismatch, expected {expected}, expression has type {found}");
    conflict(right.loc, left.loc, message)
}

impl Eval<'_, '_> {
    pub(crate) fn relational(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::Relational { op, left, right } = &mut e.kind else { return Ok(()) };
        if let (ExprKind::Key(Key::Fib { flags, .. }), true) = (&mut left.kind, is_boolean(right)) {
            *flags |= 32;
        }
        if let ExprKind::Symbol { kind: SymbolKind::Value, .. } = left.kind {
            return error(left.loc, "No symbol type information");
        }
        self.expr(left)?;
        self.alone = matches!(right.kind, ExprKind::Range { .. });
        self.expr(right)?;
        let symbol = op.symbol();
        if !right.constant {
            return conflict(
                right.loc,
                loc,
                format!("Right hand side of relational expression ({symbol}) must be constant"),
            );
        }
        if left.constant && !matches!(left.kind, ExprKind::Map { .. }) {
            return conflict(
                left.loc,
                right.loc,
                format!("Relational expression ({symbol}) has constant value"),
            );
        }
        same_type(left, right)?;
        let secmark = matches!(
            left.kind,
            ExprKind::Key(Key::Meta { key: MetaKey::SecMark })
                | ExprKind::Key(Key::Ct { key: CtKey::SecMark, .. })
        );
        if secmark && right.value().is_some() {
            return conflict(
                right.loc,
                left.loc,
                "Cannot be used with right hand side constant value",
            );
        }
        match *op {
            RelOp::Implicit | RelOp::Eq | RelOp::Neq | RelOp::Neg => {
                self.equality(op, left, right, loc)?
            }
            RelOp::Lt | RelOp::Lte | RelOp::Gt | RelOp::Gte => {
                if let ExprKind::Concat(_) = left.kind {
                    return conflict(
                        left.loc,
                        loc,
                        format!(
                            "Relational expression ({symbol}) is undefined for {} expressions",
                            left.word()
                        ),
                    );
                }
                take_single(left, right)?;
                if !right.singleton {
                    return conflict(
                        right.loc,
                        loc,
                        format!(
                            "Relational expression ({symbol}) is undefined for {} expressions",
                            right.word()
                        ),
                    );
                }
                self.convert(left, ByteOrder::Big)?;
                if let ExprKind::Unary { expr, .. } = &left.kind
                    && let ExprKind::Key(Key::Fib { .. }) = expr.kind
                {
                    right.len = left.len;
                }
                self.convert(right, ByteOrder::Big)?;
            }
        }
        // Whether there is a route is a word in a register, and compared as one.
        if matches!(left.kind, ExprKind::Key(Key::Fib { .. })) && left.len == 1 && right.constant {
            right.len = 32;
        }
        self.transfer(left, right)?;
        e.dtype = Type::Base(DataType::Boolean);
        e.len = 1;
        Ok(())
    }

    fn equality(&mut self, op: &mut RelOp, left: &mut Expr, right: &mut Expr, loc: Loc) -> Result {
        if matches!(op, RelOp::Implicit | RelOp::Eq) {
            self.note_protocol(left, right, loc);
        }
        if *op == RelOp::Neg && matches!(left.kind, ExprKind::Binop { .. }) {
            return conflict(left.loc, right.loc, "cannot combine negation with binary expression");
        }
        if *op == RelOp::Neg && (!right.dtype.is_bitmask() || right.value().is_none()) {
            return conflict(
                left.loc,
                right.loc,
                "negation can only be used with singleton bitmask values",
            );
        }
        if matches!(&right.kind, ExprKind::Set { elements, .. } if elements.is_empty()) {
            return error(right.loc, "Set is empty");
        }
        take_single(left, right)?;
        match &mut right.kind {
            ExprKind::Range { left: from, right: to } => {
                if from.value() > to.value() {
                    // Hours over midnight are all but those of the day between.
                    std::mem::swap(from, to);
                    *op = if *op == RelOp::Neq { RelOp::Eq } else { RelOp::Neq };
                }
                self.convert(left, ByteOrder::Big)?;
                self.convert(right, ByteOrder::Big)?;
            }
            ExprKind::Prefix { base, .. } => {
                self.convert(base, left.order)?;
                right.order = left.order;
            }
            ExprKind::Value(_) => self.convert(right, left.order)?,
            ExprKind::Set { .. } => {
                has_family(left)?;
                let key = KeyType::of(left);
                // nft keeps with a set what it is compared with, unless that is an operation.
                let key = if matches!(left.kind, ExprKind::Payload(_) | ExprKind::Concat(_)) {
                    key
                } else {
                    key.without_expression()
                };
                let interval = self.declare_set(key, None, right)?;
                if interval {
                    self.convert_key(left)?;
                }
            }
            ExprKind::SetRef { set } => {
                has_family(left)?;
                let set = self.known_set(set);
                if set.is_some_and(|s| s.interval) {
                    self.convert_key(left)?;
                }
            }
            ExprKind::Concat(_) => {
                return conflict(
                    left.loc,
                    right.loc,
                    "Use concatenations with sets and maps, not singleton values",
                );
            }
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::List(_)
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => {
                return error(right.loc, format!("invalid expression type {}", right.word()));
            }
        }
        Ok(())
    }

    /// Keys of interval sets are in network order, field by field in concatenations.
    pub(crate) fn convert_key(&mut self, left: &mut Expr) -> Result {
        let string = left.base() == Base::String;
        if let ExprKind::Concat(parts) = &mut left.kind {
            for part in parts {
                if matches!(part.base(), Base::Integer | Base::Bitmask) {
                    self.convert_part(part);
                }
            }
            Ok(())
        } else if string {
            Ok(())
        } else {
            self.convert(left, ByteOrder::Big)
        }
    }

    /// A field of a concatenation gets its bytes turned even where there is but one: nft does not
    /// look at the length here.
    fn convert_part(&mut self, part: &mut Expr) {
        if part.order == ByteOrder::Big {
            return;
        }
        if part.constant {
            crate::eval::expr::set_order(part, ByteOrder::Big);
            return;
        }
        let (loc, dtype, len) = (part.loc, part.dtype.clone(), part.len);
        let expr = Box::new(part.take());
        *part = Expr::typed(
            ExprKind::Unary { op: UnaryOp::Hton, expr },
            loc,
            dtype,
            ByteOrder::Big,
            len,
        );
    }

    /// `flags a,b / a,b,c`: the bits of the mask are compared with the value.
    pub(crate) fn flagcmp(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let ExprKind::FlagCmp { op, expr, value, mask } = &mut e.kind else { return Ok(()) };
        let op = *op;
        self.expr(expr)?;
        let expected = self.expected.clone();
        self.expr(value)?;
        self.expected = expected;
        self.expr(mask)?;
        let (left, value, mask) = (expr.take(), value.take(), mask.take());
        for side in [&value, &mask] {
            if side.value().is_none() {
                return error(side.loc, "flags must be constant");
            }
        }
        let (dtype, order, len, left_loc) = (left.dtype.clone(), left.order, left.len, left.loc);
        let mut and = Expr::typed(
            ExprKind::Binop {
                op: penstock_syntax::ast::expr::BinOp::And,
                left: Box::new(left),
                right: Box::new(mask),
            },
            left_loc,
            dtype,
            order,
            len,
        );
        and.singleton = true;
        let mut value = value;
        value.order = order;
        *e = Expr::typed(
            ExprKind::Relational { op, left: Box::new(and), right: Box::new(value) },
            loc,
            Type::Base(DataType::Boolean),
            ByteOrder::Host,
            1,
        );
        Ok(())
    }
}

/// Refuses an address of a connection that does not say of which kind it is, and is looked up.
fn has_family(left: &Expr) -> Result {
    if let ExprKind::Key(Key::Ct { key: CtKey::Src | CtKey::Dst, .. }) = left.kind {
        return error(left.loc, "specify either ip or ip6 for address matching");
    }
    Ok(())
}
