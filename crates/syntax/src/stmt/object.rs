// SPDX-License-Identifier: Apache-2.0

//! References to objects by name: `counter name …`, `ct timeout set …`

use penstock_program::expr::ObjectType;
use serde_json::Value;

use crate::ast::{Expr, StmtKind};
use crate::json::read::Reader;
use crate::parse::{Parsed, Parser, words};
use crate::print::Printer;

impl Parser<'_> {
    pub(crate) fn object_ref(&mut self, kind: ObjectType) -> Parsed<StmtKind> {
        self.need("name")?;
        Ok(StmtKind::ObjRef { kind, expr: self.target()? })
    }

    /// `ct timeout set …`, `ct expectation set …`
    pub(super) fn ct_object(&mut self) -> Parsed<StmtKind> {
        self.take();
        let kind = if self.at("timeout") { ObjectType::CtTimeout } else { ObjectType::CtExpect };
        self.take();
        self.keywords = words::keywords_after("ct");
        self.need("set")?;
        Ok(StmtKind::ObjRef { kind, expr: self.scoped("ct", Self::target)? })
    }
}

impl Printer<'_> {
    pub(super) fn object_ref(&mut self, kind: ObjectType, expr: &Expr) {
        self.push(match kind {
            ObjectType::Counter => "counter name ",
            ObjectType::Quota => "quota name ",
            ObjectType::CtHelper => "ct helper set ",
            ObjectType::Limit => "limit name ",
            ObjectType::Connlimit => "ct count name ",
            ObjectType::Tunnel => "tunnel name ",
            ObjectType::CtTimeout => "ct timeout set ",
            ObjectType::SecMark => "meta secmark set ",
            ObjectType::CtExpect => "ct expectation set ",
            ObjectType::Synproxy => "synproxy name ",
        });
        self.expr(expr);
    }
}

impl Reader<'_> {
    /// A named object, or a map that gives one.
    pub(super) fn reference(
        &mut self,
        body: &Value,
        kind: ObjectType,
        message: &str,
    ) -> Option<StmtKind> {
        match self.stmt_expr(body) {
            Some(expr) => Some(StmtKind::ObjRef { kind, expr }),
            None => self.error(message),
        }
    }
}
