// SPDX-License-Identifier: Apache-2.0

//! Matches, and verdict maps

use serde_json::Value;

use crate::ast::expr::RelOp;
use crate::ast::{ExprKind, StmtKind};
use crate::json::read::exprs::Contexts;
use crate::json::read::{Reader, expr};

impl Reader<'_> {
    pub(super) fn matching(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let left = self.member(object, "left", 0)?;
        let right = self.member(object, "right", 1)?;
        let word = self.text(object, "op", 2)?;
        let op = match word {
            "==" => RelOp::Eq,
            "!=" => RelOp::Neq,
            "<" => RelOp::Lt,
            "<=" => RelOp::Lte,
            ">" => RelOp::Gt,
            ">=" => RelOp::Gte,
            "!" => RelOp::Neg,
            "in" => RelOp::Implicit,
            other => return self.error(format!("Unknown relational op '{other}'.")),
        };
        let Some(left) = self.expr(left) else { return self.error("Invalid LHS of relational.") };
        let Some(right) = self.expr_in(Contexts::RHS, right) else {
            return self.error("Invalid RHS of relational.");
        };
        let kind = ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) };
        Some(StmtKind::Match(expr(kind)))
    }

    pub(super) fn vmap(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let data = self.member(object, "data", 1)?;
        let key = self.expr_in(Contexts::MAP, key);
        let data = if key.is_some() { self.expr_in(Contexts::RHS, data) } else { None };
        match (key, data) {
            (Some(key), Some(mappings)) => {
                let kind = ExprKind::Map { key: Box::new(key), mappings: Box::new(mappings) };
                Some(StmtKind::Verdict(expr(kind)))
            }
            _ => self.error("Illegal vmap statement."),
        }
    }
}
