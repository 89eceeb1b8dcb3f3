// SPDX-License-Identifier: Apache-2.0

//! `dup`

use serde_json::{Map, Value};

use crate::ast::{Expr, StmtKind};
use crate::json::read::Reader;
use crate::json::{Writer, tagged};
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
    pub(super) fn dup(&mut self) -> Parsed<StmtKind> {
        self.take();
        self.need("to")?;
        let to = Some(self.target()?);
        let dev = if self.eat("device") { Some(self.target()?) } else { None };
        Ok(StmtKind::Dup { to, dev })
    }
}

impl Printer<'_> {
    pub(super) fn dup(&mut self, to: Option<&Expr>, dev: Option<&Expr>) {
        self.push("dup");
        if let Some(to) = to {
            self.push(" to ");
            self.expr(to);
            if let Some(dev) = dev {
                self.push(" device ");
                self.expr(dev);
            }
        }
    }
}

impl Writer<'_> {
    pub(super) fn dup(&self, to: Option<&Expr>, dev: Option<&Expr>) -> Value {
        let mut m = Map::new();
        if let Some(addr) = to {
            m.insert("addr".into(), self.expr(addr));
        }
        if let Some(dev) = dev {
            m.insert("dev".into(), self.expr(dev));
        }
        tagged("dup", m)
    }
}

impl Reader<'_> {
    pub(super) fn dup(&mut self, body: &Value) -> Option<StmtKind> {
        let object = self.object(body)?;
        let to = self.member(object, "addr", 0)?;
        let Some(to) = self.stmt_expr(to) else { return self.error("Illegal dup addr arg.") };
        let dev = self.maybe_expr(object, "dev", "Illegal dup dev.")?;
        Some(StmtKind::Dup { to: Some(to), dev })
    }
}
