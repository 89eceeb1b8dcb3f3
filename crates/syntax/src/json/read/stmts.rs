// SPDX-License-Identifier: Apache-2.0

//! Statements of rules.

use penstock_program::Family;
use serde_json::Value;

use super::Reader;
use super::exprs::Contexts;
use super::{maybe_text, several};
use crate::ast::{Expr, Stmt};
use crate::json::Object;
use crate::source::Loc;

impl Reader<'_> {
    pub(crate) fn stmt(&mut self, value: &Value) -> Option<Stmt> {
        let (name, body) = self.only(value)?;
        let kind = self.stmt_kind(name, value, body)?;
        Some(Stmt { kind, loc: Loc::NOWHERE })
    }

    /// The statements of which each element of a set gets its own.
    pub(crate) fn stateful_stmts(&mut self, value: &Value) -> Option<Vec<Stmt>> {
        let mut stmts = Vec::new();
        for (i, value) in several(value).iter().enumerate() {
            let found = self.only(value).and_then(|(name, body)| match self.stateful(name, body) {
                Some(kind) => kind,
                None => self.error("Unexpected object type in stmt"),
            });
            match found {
                Some(kind) => stmts.push(Stmt { kind, loc: Loc::NOWHERE }),
                None => return self.error(format!("Parsing expr array at index {i} failed.")),
            }
        }
        Some(stmts)
    }

    /// An argument of a statement.
    pub(crate) fn stmt_expr(&mut self, value: &Value) -> Option<Expr> {
        self.expr_in(Contexts::STMT, value)
    }

    /// An argument that may be absent; `message` if it is wrong.
    pub(crate) fn maybe_expr(
        &mut self,
        object: &Object,
        key: &str,
        message: &str,
    ) -> Option<Option<Expr>> {
        let Some(value) = object.get(key) else { return Some(None) };
        match self.stmt_expr(value) {
            Some(expr) => Some(Some(expr)),
            None => self.error(message),
        }
    }

    pub(crate) fn address_family(&mut self, object: &Object) -> Option<Option<Family>> {
        match maybe_text(object, "family") {
            None => Some(None),
            Some("ip") => Some(Some(Family::Ip)),
            Some("ip6") => Some(Some(Family::Ip6)),
            Some(other) if Family::from_name(other).is_some() => {
                self.error(format!("Invalid family '{other}'."))
            }
            Some(other) => self.error(format!("Unknown family '{other}'.")),
        }
    }
}
