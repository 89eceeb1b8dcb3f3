// SPDX-License-Identifier: Apache-2.0

//! `fwd`

use penstock_program::Family;
use serde_json::{Map, Value, json};

use crate::ast::{Expr, StmtKind};
use crate::json::read::Reader;
use crate::json::{Writer, family_word, tagged};
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
    pub(super) fn fwd(&mut self) -> Parsed<StmtKind> {
        self.take();
        let family = self.address_family();
        self.need_to(family.is_some())?;
        let first = self.target()?;
        if family.is_none() {
            return Ok(StmtKind::Fwd { dev: first, addr: None, family });
        }
        self.need("device")?;
        let dev = self.target()?;
        Ok(StmtKind::Fwd { dev, addr: Some(first), family })
    }
}

impl Printer<'_> {
    pub(super) fn fwd(&mut self, dev: &Expr, addr: Option<&Expr>, family: Option<Family>) {
        self.push("fwd");
        match addr {
            Some(addr) => {
                self.family(family);
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
    pub(super) fn fwd(&self, dev: &Expr, addr: Option<&Expr>, family: Option<Family>) -> Value {
        let mut m = Map::new();
        m.insert("dev".into(), self.expr(dev));
        if let Some(addr) = addr {
            if let Some(word) = family_word(family) {
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
        let family = self.address_family(object)?;
        if family.is_none() {
            return Some(StmtKind::Fwd { dev, addr: None, family });
        }
        let addr = self.member(object, "addr", 0)?;
        match self.stmt_expr(addr) {
            Some(addr) => Some(StmtKind::Fwd { dev, addr: Some(addr), family }),
            None => self.error("Invalid fwd addr value."),
        }
    }
}
