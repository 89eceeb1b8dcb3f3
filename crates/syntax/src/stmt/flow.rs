// SPDX-License-Identifier: Apache-2.0

//! `flow`

use std::sync::Arc;

use serde_json::Value;

use crate::ast::StmtKind;
use crate::json::read::Reader;
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};

impl Parser<'_> {
    /// `flow add @ft`, `flow offload @ft`
    pub(super) fn flow(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.at("table") || self.tok() == Tok::LeftBrace {
            let mut name = Arc::from("");
            if self.eat("table") {
                name = self.identifier()?.text;
            }
            return self.meter_block(name, 0);
        }
        if !self.eat("add") && !self.eat("offload") {
            return self.unexpected(&["table"]);
        }
        self.need_tok(Tok::At)?;
        Ok(StmtKind::FlowOffload { table: self.string()?.text })
    }
}

impl Reader<'_> {
    pub(super) fn flow(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let op = self.text(object, "op", 0)?;
        let table = self.text(object, "flowtable", 1)?;
        if op != "add" {
            return self.error(format!("Unknown flow offload statement op '{op}'."));
        }
        match table.strip_prefix('@') {
            Some(name) if !name.is_empty() => Some(StmtKind::FlowOffload { table: name.into() }),
            _ => self.error("Illegal flowtable reference in flow offload statement."),
        }
    }
}
