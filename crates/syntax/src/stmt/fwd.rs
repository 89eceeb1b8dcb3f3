// SPDX-License-Identifier: Apache-2.0

//! `fwd`

use serde_json::{Map, Value, json};

use crate::ast::{Expr, StmtKind};
use crate::json::read::Reader;
use crate::json::{Writer, family_word, tagged};
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
    pub(super) fn fwd(&mut self) -> Parsed<StmtKind> {
        self.take();
        let nfproto = self.address_family();
        self.need_to(nfproto != 0)?;
        let first = self.target()?;
        if nfproto == 0 {
            return Ok(StmtKind::Fwd { dev: first, addr: None, nfproto });
        }
        self.need("device")?;
        let dev = self.target()?;
        Ok(StmtKind::Fwd { dev, addr: Some(first), nfproto })
    }
}

impl Printer<'_> {
    pub(super) fn fwd(&mut self, dev: &Expr, addr: Option<&Expr>, nfproto: u8) {
        self.push("fwd");
        match addr {
            Some(addr) => {
                self.family(nfproto);
                self.push(" to ");
                self.expr(addr);
                self.push(" device ");
            }
            None => self.push(" to "),
        }
        self.expr(dev);
    }
}

impl Writer<'_> {
    pub(super) fn fwd(&self, dev: &Expr, addr: Option<&Expr>, nfproto: u8) -> Value {
        let mut m = Map::new();
        m.insert("dev".into(), self.expr(dev));
        if let Some(addr) = addr {
            if let Some(word) = family_word(nfproto) {
                m.insert("family".into(), json!(word));
            }
            m.insert("addr".into(), self.expr(addr));
        }
        tagged("fwd", m)
    }
}

impl Reader<'_> {
    pub(super) fn fwd(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let dev = self.member(object, "dev", 0)?;
        let Some(dev) = self.stmt_expr(dev) else { return self.error("Invalid fwd dev value.") };
        let nfproto = self.address_family(object)?;
        if nfproto == 0 {
            return Some(StmtKind::Fwd { dev, addr: None, nfproto });
        }
        let addr = self.member(object, "addr", 0)?;
        match self.stmt_expr(addr) {
            Some(addr) => Some(StmtKind::Fwd { dev, addr: Some(addr), nfproto }),
            None => self.error("Invalid fwd addr value."),
        }
    }
}
