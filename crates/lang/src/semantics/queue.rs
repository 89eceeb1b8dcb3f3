// SPDX-License-Identifier: Apache-2.0

//! `queue`

use penstock_program::expr::{Expr as Op, Queue};
use penstock_syntax::ast::{Expr, ExprKind, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::delinearize::{raw, set_type};
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::lower::Program;

impl Eval<'_, '_> {
    pub(super) fn queue(&mut self, expr: &mut Expr, fanout: bool, loc: Loc) -> Result {
        self.arg(expr, loc, Expected::new(Type::Base(DataType::Integer), ByteOrder::Host, 16))?;
        if fanout && !matches!(expr.kind, ExprKind::Range { .. }) {
            return error(expr.loc, "fanout requires a range to be specified");
        }
        if self.expected.max > u32::from(u16::MAX) {
            return error(expr.loc, "queue expression max value exceeds 65535");
        }
        Ok(())
    }
}

impl Program<'_, '_> {
    pub(super) fn queue(&mut self, expr: Option<&Expr>, bypass: bool, fanout: bool) {
        let mut queue = Queue { num: 0, total: 1, sreg: None, bypass, fanout };
        match expr.map(|e| &e.kind) {
            None => {}
            Some(ExprKind::Value(num)) => queue.num = *num as u16,
            Some(ExprKind::Range { left, right }) => {
                let from = left.value().unwrap_or(0) as u16;
                let to = right.value().unwrap_or(0) as u16;
                queue.num = from;
                queue.total = to.saturating_sub(from).saturating_add(1);
            }
            Some(_) => {
                if let Some(e) = expr {
                    let base = self.next;
                    queue.sreg = Some(self.argument(e));
                    self.release(base);
                }
            }
        }
        self.ops.push(Op::Queue(queue));
    }
}

impl Reader<'_, '_> {
    pub(super) fn queue(&mut self, e: &Queue) -> Option<()> {
        let expr = match e.sreg {
            Some(reg) => {
                let mut expr = self.registers.get(reg)?;
                set_type(&mut expr, &Type::Base(DataType::Integer), ByteOrder::Host);
                expr
            }
            None => {
                let number = |n: u16| {
                    let kind = ExprKind::Value(n.into());
                    let dtype = Type::Base(DataType::Integer);
                    Expr::typed(kind, Loc::default(), dtype, ByteOrder::Big, 16)
                };
                let first = number(e.num);
                match e.total {
                    0 | 1 => first,
                    total => {
                        let last = number(e.num.saturating_add(total - 1));
                        raw(ExprKind::Range { left: Box::new(first), right: Box::new(last) }, 16)
                    }
                }
            }
        };
        self.push(StmtKind::Queue { expr: Some(expr), bypass: e.bypass, fanout: e.fanout });
        Some(())
    }
}
