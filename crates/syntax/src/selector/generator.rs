// SPDX-License-Identifier: Apache-2.0

//! `numgen`, `symhash`, `jhash`

use penstock_program::expr::NumgenMode;
use serde_json::{Map, Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr};
use crate::json::{Object, Writer, tagged};
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

impl Parser<'_> {
    pub(super) fn numgen(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let mode = match self.word() {
            "inc" => NumgenMode::Inc,
            "random" => NumgenMode::Random,
            _ => return self.unexpected(&["random", "inc"]),
        };
        self.take();
        let (modulus, _, offset) = self.hash_arguments(false)?;
        self.close("numgen")?;
        Ok(Expr::new(ExprKind::Key(Key::Numgen { mode, modulus, offset }), self.since(start)))
    }

    pub(super) fn symhash(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let (modulus, _, offset) = self.hash_arguments(false)?;
        self.close("symhash")?;
        let kind = ExprKind::Key(Key::Symhash { modulus, offset });
        Ok(Expr::new(kind, self.since(start)))
    }

    pub(super) fn jhash(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        self.close("jhash")?;
        let expr = self.lhs()?;
        let (modulus, seed, offset) = self.hash_arguments(true)?;
        self.close("jhash")?;
        let kind = ExprKind::Hash { expr: Box::new(expr), modulus, seed, offset };
        Ok(Expr::new(kind, self.since(start)))
    }

    /// `mod N [seed N] [offset N]`
    fn hash_arguments(&mut self, seeded: bool) -> Parsed<(u32, Option<u32>, u32)> {
        self.need("mod")?;
        let modulus = self.number_as()?;
        let mut seed = None;
        if seeded && self.eat("seed") {
            seed = Some(self.number_as()?);
        }
        let offset = if self.eat("offset") { self.number_as()? } else { 0 };
        Ok((modulus, seed, offset))
    }
}

impl Writer<'_> {
    pub(super) fn numgen(&self, mode: NumgenMode, modulus: u32, offset: u32) -> Value {
        let mode = match mode {
            NumgenMode::Inc => "inc",
            NumgenMode::Random => "random",
        };
        let mut m = Map::new();
        m.insert("mode".into(), json!(mode));
        m.insert("mod".into(), json!(modulus));
        m.insert("offset".into(), json!(offset));
        tagged("numgen", m)
    }

    pub(super) fn symhash(&self, modulus: u32, offset: u32) -> Value {
        let mut m = Map::new();
        m.insert("mod".into(), json!(modulus));
        if offset != 0 {
            m.insert("offset".into(), json!(offset));
        }
        tagged("symhash", m)
    }
}

impl Reader<'_> {
    pub(super) fn numgen(&mut self, object: &Object) -> Option<Expr> {
        let mode = self.text(object, "mode", 0)?;
        let modulus = self.number(object, "mod", 1)?;
        let offset = self.maybe_number(object, "offset")?.unwrap_or(0);
        let mode = match mode {
            "inc" => NumgenMode::Inc,
            "random" => NumgenMode::Random,
            other => return self.error(format!("Unknown numgen mode '{other}'.")),
        };
        Some(expr(ExprKind::Key(Key::Numgen { mode, modulus, offset })))
    }

    pub(super) fn hash(&mut self, object: &Object, of_expr: bool) -> Option<Expr> {
        let modulus = self.number(object, "mod", 0)?;
        let offset = self.maybe_number(object, "offset")?.unwrap_or(0);
        if !of_expr {
            return Some(expr(ExprKind::Key(Key::Symhash { modulus, offset })));
        }
        let hashed = self.member(object, "expr", 1)?;
        let Some(hashed) = self.expr(hashed) else {
            return self.error("Invalid jhash expression.");
        };
        let seed = self.maybe_number(object, "seed")?;
        Some(expr(ExprKind::Hash { expr: Box::new(hashed), modulus, seed, offset }))
    }
}
