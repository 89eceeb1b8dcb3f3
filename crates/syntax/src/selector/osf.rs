// SPDX-License-Identifier: Apache-2.0

//! `osf`

use serde_json::{Map, Value, json};

use crate::ast::{Expr, ExprKind, Key};
use crate::json::read::{Reader, expr, maybe_text};
use crate::json::{Object, Writer, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::source::Loc;

impl Parser<'_> {
    pub(super) fn osf(&mut self, start: Loc) -> Parsed<Expr> {
        self.take();
        let mut ttl = 0;
        if self.eat("ttl") {
            let token = self.peek();
            ttl = match self.word() {
                "loose" => 1,
                "skip" => 2,
                _ if token.tok == Tok::Word => return self.error(token.loc, "invalid ttl option"),
                _ => return self.unexpected(&["string"]),
            };
            self.take();
        }
        let version = match self.word() {
            "version" => true,
            "name" => false,
            _ => return self.unexpected(&["version", "name"]),
        };
        self.take();
        Ok(Expr::new(ExprKind::Key(Key::Osf { ttl, version }), self.since(start)))
    }
}

impl Writer<'_> {
    pub(super) fn osf(&self, ttl: u8, version: bool) -> Value {
        let mut m = Map::new();
        m.insert("key".into(), json!(if version { "version" } else { "name" }));
        match ttl {
            1 => _ = m.insert("ttl".into(), json!("loose")),
            2 => _ = m.insert("ttl".into(), json!("skip")),
            _ => {}
        }
        tagged("osf", m)
    }
}

impl Reader<'_> {
    pub(super) fn osf(&mut self, object: &Object) -> Option<Expr> {
        let ttl = match maybe_text(object, "ttl") {
            None => 0,
            Some("loose") => 1,
            Some("skip") => 2,
            Some(other) => return self.error(format!("Invalid osf ttl option '{other}'.")),
        };
        let version = match self.text(object, "key", 0)? {
            "name" => false,
            "version" => true,
            _ => return self.error("Invalid osf key value."),
        };
        Some(expr(ExprKind::Key(Key::Osf { ttl, version })))
    }
}
