// SPDX-License-Identifier: Apache-2.0

//! `tproxy`

use penstock_program::Family;
use serde_json::{Map, Value, json};

use crate::ast::{Expr, StmtKind};
use crate::json::read::Reader;
use crate::json::{Writer, family_word, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
    pub(super) fn tproxy(&mut self) -> Parsed<StmtKind> {
        self.take();
        let family = self.address_family();
        self.need_to(family.is_some())?;
        let addr = if self.tok() == Tok::Colon { None } else { Some(self.target()?) };
        let port = if self.eat_tok(Tok::Colon) { Some(self.target()?) } else { None };
        Ok(StmtKind::Tproxy { family, addr, port })
    }
}

impl Printer<'_> {
    pub(super) fn tproxy(
        &mut self,
        family: Option<Family>,
        addr: Option<&Expr>,
        port: Option<&Expr>,
    ) {
        self.push("tproxy");
        self.family(family);
        self.push(" to ");
        if let Some(addr) = addr {
            self.address(addr, true);
        }
        if let Some(port) = port {
            self.push(":");
            self.expr(port);
        }
    }
}

impl Writer<'_> {
    pub(super) fn tproxy(
        &self,
        family: Option<Family>,
        addr: Option<&Expr>,
        port: Option<&Expr>,
    ) -> Value {
        let mut m = Map::new();
        if let Some(word) = family_word(family) {
            m.insert("family".into(), json!(word));
        }
        if let Some(addr) = addr {
            m.insert("addr".into(), self.expr(addr));
        }
        if let Some(port) = port {
            m.insert("port".into(), self.expr(port));
        }
        tagged("tproxy", m)
    }
}

impl Reader<'_> {
    pub(super) fn tproxy(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let family = self.address_family(object)?;
        let addr = self.maybe_expr(object, "addr", "Invalid addr.")?;
        let port = self.maybe_expr(object, "port", "Invalid port.")?;
        Some(StmtKind::Tproxy { family, addr, port })
    }
}
