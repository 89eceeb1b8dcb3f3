// SPDX-License-Identifier: Apache-2.0

//! Statements that change sets from packets.

use std::sync::Arc;

use penstock_program::expr::DynsetOp;

use super::{Parsed, Parser};
use crate::ast::{Expr, StmtKind};
use crate::lex::Tok;

impl Parser<'_> {
    pub(super) fn set_op(&mut self) -> Parsed<DynsetOp> {
        let op = match self.word() {
            "add" => DynsetOp::Add,
            "update" => DynsetOp::Update,
            "delete" => DynsetOp::Delete,
            _ => return self.unexpected(&["add", "update", "delete"]),
        };
        self.take();
        Ok(op)
    }

    /// `set add key @name`, the older order
    pub(super) fn set_stmt(&mut self) -> Parsed<StmtKind> {
        self.take();
        let op = self.set_op()?;
        let key = self.update_key()?;
        let set = self.set_ref()?;
        self.updates_sets = true;
        Ok(StmtKind::SetUpdate { op, set, key, stmts: Vec::new() })
    }

    /// `add @name { key [statements] [: data] }`
    pub(super) fn update(&mut self, op: DynsetOp) -> Parsed<StmtKind> {
        let set = self.set_ref()?;
        self.need_tok(Tok::LeftBrace)?;
        let key = self.update_key()?;
        let stmts = self.stateful_stmts()?;
        if self.eat_tok(Tok::Colon) {
            let data = self.map_value()?;
            self.need_tok(Tok::RightBrace)?;
            self.updates_sets = true;
            return Ok(StmtKind::MapUpdate { op, map: set, key, data, stmts });
        }
        if !self.eat_tok(Tok::RightBrace) {
            return self.unexpected(&[]);
        }
        self.updates_sets = true;
        Ok(StmtKind::SetUpdate { op, set, key, stmts })
    }

    pub(super) fn map_value(&mut self) -> Parsed<Expr> {
        match self.verdict()? {
            Some(verdict) => Ok(verdict),
            None => self.update_key(),
        }
    }

    /// `meter name [size N] { key statement }`
    pub(super) fn meter(&mut self) -> Parsed<StmtKind> {
        self.take();
        let name = self.identifier()?.text;
        let size = if self.eat("size") {
            self.number_as()?
        } else if self.tok() == Tok::LeftBrace {
            0
        } else {
            return self.unexpected(&["size", "'{'"]);
        };
        self.meter_block(name, size)
    }

    pub(super) fn meter_block(&mut self, name: Arc<str>, size: u32) -> Parsed<StmtKind> {
        self.need_tok(Tok::LeftBrace)?;
        let key = self.update_key()?;
        let stmt = Box::new(self.deeper(|p| p.stmt())?);
        self.need_tok(Tok::RightBrace)?;
        self.updates_sets = true;
        Ok(StmtKind::Meter { name, size, key, stmt })
    }
}
