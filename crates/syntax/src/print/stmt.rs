// SPDX-License-Identifier: Apache-2.0

//! Statements to text.

use super::Printer;
use crate::ast::RuleBlock;
use crate::ast::{Expr, ExprKind, Stmt};
use crate::datatype::{DataType, Format};
use penstock_program::Family;

impl Printer<'_> {
    /// Statements and comment of a rule.
    pub fn rule(&mut self, rule: &RuleBlock) {
        self.stmts(&rule.stmts);
        if let Some(comment) = &rule.comment {
            self.write(format_args!(" comment \"{comment}\""));
        }
    }

    /// Writes statements, a blank between them.
    pub fn stmts(&mut self, stmts: &[Stmt]) {
        for (i, stmt) in stmts.iter().enumerate() {
            if i > 0 {
                self.push(" ");
            }
            self.stmt(stmt);
        }
    }

    /// Inside update statements the state is that of elements to come: it is not listed.
    pub(crate) fn stateless(&mut self, body: impl FnOnce(&mut Self)) {
        let format = Format { stateless: true, ..self.format };
        self.with_format(format, body);
    }

    /// ` ip` or ` ip6`.
    pub(crate) fn family(&mut self, family: Option<Family>) {
        match family {
            Some(Family::Ip) => self.push(" ip"),
            Some(Family::Ip6) => self.push(" ip6"),
            _ => {}
        }
    }

    /// An address before a port: IPv6 addresses stand in brackets.
    pub(crate) fn address(&mut self, addr: &Expr, brackets: bool) {
        let bracketed = |e: &Expr| {
            brackets && matches!(e.kind, ExprKind::Value(_)) && e.dtype.base() == DataType::Ip6Addr
        };
        if let ExprKind::Range { left, right } = &addr.kind
            && bracketed(left)
        {
            self.push("[");
            self.expr(left);
            self.push("]-[");
            self.expr(right);
            self.push("]");
        } else if bracketed(addr) {
            self.push("[");
            self.expr(addr);
            self.push("]");
        } else {
            self.expr(addr);
        }
    }
}
