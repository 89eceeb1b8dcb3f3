// SPDX-License-Identifier: Apache-2.0

//! What is written to: `meta … set`, `ct … set`, header fields and options, `reset tcp option`

use penstock_program::expr::{CtDir, CtKey, MetaKey};
use serde_json::{Value, json};

use crate::ast::expr::BinOp;
use crate::ast::{Expr, ExprKind, StmtKind};
use crate::exthdr;
use crate::json::read::Reader;
use crate::json::read::exprs::Contexts;
use crate::json::{Writer, one_or_many, tagged};
use crate::keys;
use crate::parse::{Parsed, Parser, words};
use crate::print::Printer;
use crate::source::Loc;

impl Parser<'_> {
    /// `reset tcp option …`, which began at `start`
    pub(super) fn reset_option(&mut self, start: Loc) -> Parsed<StmtKind> {
        self.take();
        self.keywords = words::keywords_after("reset");
        self.need("tcp")?;
        self.keywords = words::keywords_after("tcp");
        if !self.at("option") {
            return self.unexpected(&["option"]);
        }
        let target = self.whole_tcp_option(start)?;
        self.ends_by_itself();
        Ok(StmtKind::ExthdrReset { target })
    }
}

impl Printer<'_> {
    pub(super) fn meta_set(&mut self, key: MetaKey, expr: &Expr) {
        if !keys::meta_is_listed_unqualified(key) {
            self.push("meta ");
        }
        self.push(keys::meta(key).name);
        self.push(" set ");
        self.expr(expr);
    }

    pub(super) fn ct_set(&mut self, key: CtKey, dir: Option<CtDir>, expr: &Expr) {
        self.push("ct ");
        self.direction(dir);
        self.push(keys::ct(key).name);
        self.push(" set ");
        self.expr(expr);
    }

    pub(super) fn set_field(&mut self, target: &Expr, value: &Expr) {
        self.expr(target);
        self.push(" set ");
        self.expr(value);
    }

    pub(super) fn reset_option(&mut self, target: &Expr) {
        self.push("reset tcp option ");
        if let ExprKind::Exthdr(exthdr) = &target.kind {
            self.exthdr_name(exthdr)
        } else {
            self.expr(target)
        }
    }
}

impl Writer<'_> {
    pub(super) fn ct_set(&self, key: CtKey, dir: Option<CtDir>, expr: &Expr) -> Value {
        let target = self.ct(key, dir);
        if key != CtKey::EventMask {
            return self.mangle(target, expr);
        }
        let mut events = Vec::new();
        self.alternatives(expr, &mut events);
        json!({"mangle": {"key": target, "value": one_or_many(events)}})
    }

    pub(super) fn reset_option(&self, target: &Expr) -> Value {
        let ExprKind::Exthdr(x) = &target.kind else { return tagged("reset", self.expr(target)) };
        let name = match x.desc.or_else(|| exthdr::find_kind(x.op, x.raw_type)) {
            Some(desc) => json!(desc.name),
            None => json!(x.raw_type),
        };
        json!({"reset": {"tcp option": {"name": name}}})
    }

    /// The parts of `a | b | c`.
    fn alternatives(&self, expr: &Expr, out: &mut Vec<Value>) {
        if let ExprKind::Binop { op: BinOp::Or, left, right } = &expr.kind {
            self.alternatives(left, out);
            self.alternatives(right, out);
        } else if let ExprKind::List(parts) = &expr.kind {
            parts.iter().for_each(|p| self.alternatives(p, out));
        } else {
            out.push(self.expr(expr));
        }
    }

    pub(super) fn mangle(&self, key: Value, value: &Expr) -> Value {
        json!({"mangle": {"key": key, "value": self.expr(value)}})
    }
}

impl Reader<'_> {
    pub(super) fn mangle(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let value = self.member(object, "value", 1)?;
        let Some(target) = self.expr_in(Contexts::MANGLE, key) else {
            return self.error("Invalid mangle statement key");
        };
        let Some(value) = self.stmt_expr(value) else {
            return self.error("Invalid mangle statement value");
        };
        match StmtKind::assign(target, value) {
            Some(assignment) => Some(assignment),
            None => self.error("Invalid mangle statement key expression type."),
        }
    }

    pub(super) fn reset_option(&mut self, body: &Value) -> Option<StmtKind> {
        match self.expr(body) {
            Some(target) if matches!(target.kind, ExprKind::Exthdr(_)) => {
                Some(StmtKind::ExthdrReset { target })
            }
            Some(_) | None => self.error("Illegal TCP optstrip argument"),
        }
    }
}
