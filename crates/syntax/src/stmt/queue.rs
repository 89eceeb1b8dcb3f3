// SPDX-License-Identifier: Apache-2.0

//! `queue`

use serde_json::{Map, Value, json};

use crate::ast::{Expr, ExprKind, StmtKind};
use crate::json::read::Reader;
use crate::json::read::several;
use crate::json::{Writer, one_or_many, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
    /// `queue`, `queue [flags F] to …`, and the older `queue num N bypass`
    pub(super) fn queue(&mut self) -> Parsed<StmtKind> {
        self.take();
        let (mut expr, mut bypass, mut fanout) = (None, false, false);
        if self.eat("flags") {
            self.queue_flags(&mut bypass, &mut fanout)?;
            if self.eat("to") {
                expr = Some(self.queue_target()?);
            } else if self.eat("num") {
                expr = Some(self.queue_numbers()?);
            } else {
                return self.unexpected(&["comma", "to", "num"]);
            }
            return Ok(StmtKind::Queue { expr, bypass, fanout });
        }
        if self.eat("to") {
            expr = Some(self.queue_target()?);
            return Ok(StmtKind::Queue { expr, bypass, fanout });
        }
        loop {
            match self.word() {
                "num" => {
                    let start = self.take().loc;
                    let numbers = self.queue_numbers()?;
                    expr = Some(Expr { loc: self.since(start), ..numbers });
                }
                "bypass" | "fanout" => self.queue_flags(&mut bypass, &mut fanout)?,
                _ => return Ok(StmtKind::Queue { expr, bypass, fanout }),
            }
        }
    }

    fn queue_flags(&mut self, bypass: &mut bool, fanout: &mut bool) -> Parsed<()> {
        loop {
            match self.word() {
                "bypass" => *bypass = true,
                "fanout" => *fanout = true,
                _ => return self.unexpected(&["bypass", "fanout"]),
            }
            self.take();
            if !self.eat_tok(Tok::Comma) {
                return Ok(());
            }
        }
    }

    /// A number, a range of them, or an expression that gives one.
    fn queue_target(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Num(_) | Tok::Dollar => self.queue_numbers(),
            Tok::LeftBrace => self.unexpected(&[]),
            Tok::Word if self.at_keyword() => self.unexpected(&[]),
            _ => {
                let expr = self.lhs()?;
                // Only these give a number by themselves.
                let number = matches!(expr.kind, ExprKind::Map { .. } | ExprKind::Hash { .. });
                if number || expr.is_generator() {
                    Ok(expr)
                } else {
                    self.unexpected(&[".", "map"])
                }
            }
        }
    }

    fn queue_numbers(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let left = self.queue_number()?;
        if !self.eat_tok(Tok::Dash) {
            return Ok(left);
        }
        let right = self.queue_number()?;
        Ok(Expr::new(
            ExprKind::Range { left: Box::new(left), right: Box::new(right) },
            self.since(start),
        ))
    }

    fn queue_number(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Num(_) | Tok::Dollar => self.symbol_or_number(),
            _ => self.unexpected(&["number", "'$'"]),
        }
    }
}

impl Printer<'_> {
    pub(super) fn queue(&mut self, expr: Option<&Expr>, bypass: bool, fanout: bool) {
        self.push("queue");
        match (bypass, fanout) {
            (true, true) => self.push(" flags bypass,fanout"),
            (true, false) => self.push(" flags bypass"),
            (false, true) => self.push(" flags fanout"),
            (false, false) => {}
        }
        if let Some(expr) = expr {
            self.push(" to ");
            self.expr(expr);
        }
    }
}

impl Writer<'_> {
    pub(super) fn queue(&self, expr: Option<&Expr>, bypass: bool, fanout: bool) -> Value {
        let mut m = Map::new();
        if let Some(e) = expr {
            m.insert("num".into(), self.expr(e));
        }
        let mut flags = Vec::new();
        if bypass {
            flags.push(json!("bypass"));
        }
        if fanout {
            flags.push(json!("fanout"));
        }
        if !flags.is_empty() {
            m.insert("flags".into(), one_or_many(flags));
        }
        tagged("queue", if m.is_empty() { Value::Null } else { Value::Object(m) })
    }
}

impl Reader<'_> {
    pub(super) fn queue(&mut self, body: &Value) -> Option<StmtKind> {
        let empty = Map::new();
        let object = body.as_object().unwrap_or(&empty);
        let expr = self.maybe_expr(object, "num", "Invalid queue num.")?;
        let (mut bypass, mut fanout) = (false, false);
        for (i, word) in object.get("flags").map_or(&[][..], several).iter().enumerate() {
            match word.as_str() {
                Some("bypass") => bypass = true,
                Some("fanout") => fanout = true,
                Some(other) => return self.error(format!("Invalid queue flag '{other}'.")),
                None => {
                    return self.error(format!("Invalid object in queue flag array at index {i}."));
                }
            }
        }
        Some(StmtKind::Queue { expr, bypass, fanout })
    }
}
