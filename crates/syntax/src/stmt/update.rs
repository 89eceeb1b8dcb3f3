// SPDX-License-Identifier: Apache-2.0

//! Statements that change sets from packets: `add @s { … }`, `meter`

use std::sync::Arc;

use penstock_program::expr::DynsetOp;
use serde_json::{Value, json};

use crate::ast::expr::SymbolKind;
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::json::read::exprs::Contexts;
use crate::json::read::{Reader, expr, maybe_text};
use crate::json::{Object, Writer, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::print::Printer;
use crate::source::Loc;

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

    pub(crate) fn map_value(&mut self) -> Parsed<Expr> {
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

impl Printer<'_> {
    fn update(&mut self, op: DynsetOp, set: &Expr, key: &Expr, stmts: &[Stmt]) {
        self.push(match op {
            DynsetOp::Add => "add ",
            DynsetOp::Update => "update ",
            DynsetOp::Delete => "delete ",
        });
        self.expr(set);
        self.push(" { ");
        self.expr(key);
        self.stateless(|p| {
            for stmt in stmts {
                p.push(" ");
                p.stmt(stmt);
            }
        });
    }

    pub(super) fn set_update(&mut self, op: DynsetOp, set: &Expr, key: &Expr, stmts: &[Stmt]) {
        self.update(op, set, key, stmts);
        self.push(" }");
    }

    pub(super) fn map_update(
        &mut self,
        op: DynsetOp,
        map: &Expr,
        (key, data): (&Expr, &Expr),
        stmts: &[Stmt],
    ) {
        self.update(op, map, key, stmts);
        self.push(" : ");
        self.expr(data);
        self.push(" }");
    }

    pub(super) fn meter(&mut self, name: &str, size: u32, key: &Expr, stmt: &Stmt) {
        self.write(format_args!("meter {name} "));
        if size != 0 {
            self.write(format_args!("size {size} "));
        }
        self.push("{ ");
        self.expr(key);
        self.push(" ");
        self.stateless(|p| p.stmt(stmt));
        self.push(" }");
    }
}

impl Writer<'_> {
    pub(super) fn set_update(&self, op: DynsetOp, set: &Expr, key: &Expr, stmts: &[Stmt]) -> Value {
        let mut m = Object::new();
        m.insert("op".into(), json!(word(op)));
        m.insert("elem".into(), self.expr(key));
        m.insert("set".into(), self.expr(set));
        if !stmts.is_empty() {
            m.insert("stmt".into(), self.templates(stmts));
        }
        tagged("set", m)
    }

    pub(super) fn map_update(
        &self,
        op: DynsetOp,
        map: &Expr,
        (key, data): (&Expr, &Expr),
        stmts: &[Stmt],
    ) -> Value {
        let mut m = Object::new();
        m.insert("op".into(), json!(word(op)));
        m.insert("elem".into(), self.expr(key));
        m.insert("data".into(), self.expr(data));
        m.insert("map".into(), self.expr(map));
        if !stmts.is_empty() {
            m.insert("stmt".into(), self.templates(stmts));
        }
        tagged("map", m)
    }

    pub(super) fn meter(&self, name: &str, size: u32, key: &Expr, stmt: &Stmt) -> Value {
        let format = self.stateless();
        let stmt = Writer { format: &format, ..*self }.stmt(stmt);
        json!({"meter": {"key": self.expr(key), "stmt": stmt, "size": size, "name": name}})
    }
}

fn word(op: DynsetOp) -> &'static str {
    match op {
        DynsetOp::Add => "add",
        DynsetOp::Update => "update",
        DynsetOp::Delete => "delete",
    }
}

impl Reader<'_> {
    fn set_op(&mut self, object: &Object) -> Option<DynsetOp> {
        match self.text(object, "op", 0)? {
            "add" => Some(DynsetOp::Add),
            "update" => Some(DynsetOp::Update),
            "delete" => Some(DynsetOp::Delete),
            other => self.error(format!("Unknown set statement op '{other}'.")),
        }
    }

    /// `@name` of the member `key`.
    fn set_name(&mut self, object: &Object, key: &str, nth: u32) -> Option<Expr> {
        match self.text(object, key, nth)?.strip_prefix('@') {
            Some(name) => Some(expr(ExprKind::Symbol { kind: SymbolKind::Set, text: name.into() })),
            None => self.error("Illegal set reference in set statement."),
        }
    }

    fn update_stmts(&mut self, object: &Object) -> Option<Vec<Stmt>> {
        match object.get("stmt") {
            Some(stmts) => self.stateful_stmts(stmts),
            None => Some(Vec::new()),
        }
    }

    pub(super) fn set_update(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let op = self.set_op(object)?;
        let elem = self.member(object, "elem", 1)?;
        let Some(key) = self.expr_in(Contexts::SES, elem) else {
            return self.error("Illegal set statement element.");
        };
        let set = self.set_name(object, "set", 2)?;
        Some(StmtKind::SetUpdate { op, set, key, stmts: self.update_stmts(object)? })
    }

    pub(super) fn map_update(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let op = self.set_op(object)?;
        let elem = self.member(object, "elem", 1)?;
        let Some(key) = self.expr_in(Contexts::SES, elem) else {
            return self.error("Illegal set statement element.");
        };
        let data = self.member(object, "data", 2)?;
        let data = self.expr_in(Contexts::SET_RHS, data)?;
        let map = self.set_name(object, "map", 3)?;
        Some(StmtKind::MapUpdate { op, map, key, data, stmts: self.update_stmts(object)? })
    }

    pub(super) fn meter(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let key = self.member(object, "key", 0)?;
        let stmt = self.member(object, "stmt", 1)?;
        let name = maybe_text(object, "name").unwrap_or("").into();
        let size = self.maybe_number(object, "size")?.unwrap_or(0);
        let Some(key) = self.expr(key) else { return self.error("Invalid meter key.") };
        let stmt = self.only(stmt).and_then(|(name, body)| self.stateful(name, body).flatten());
        match stmt {
            Some(kind) => {
                let stmt = Box::new(Stmt { kind, loc: Loc::NOWHERE });
                Some(StmtKind::Meter { name, size, key, stmt })
            }
            None => self.error("Invalid meter statement."),
        }
    }
}
