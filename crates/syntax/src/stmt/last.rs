// SPDX-License-Identifier: Apache-2.0

//! `last`

use serde_json::{Value, json};

use crate::ast::StmtKind;
use crate::json::read::Reader;
use crate::json::{Writer, tagged};
use crate::lex::Tok;
use crate::parse::{Parsed, Parser};
use crate::print::Printer;

impl Parser<'_> {
    /// `last` also is a name that a set's element may have; as a statement `used` or no operand
    /// follows.
    pub(super) fn last_is_stmt(&mut self) -> bool {
        let token = self.peek_second();
        match token.tok {
            Tok::Word => true,
            Tok::Num(_) | Tok::Str | Tok::Quoted => false,
            tok => !matches!(
                tok,
                Tok::Eq | Tok::Neq | Tok::Lt | Tok::Gt | Tok::Lte | Tok::Gte | Tok::Dot
            ),
        }
    }

    pub(super) fn last_use(&mut self) -> Parsed<StmtKind> {
        if !self.eat("used") {
            return Ok(StmtKind::Last { set: false, msecs: 0 });
        }
        if self.eat("never") {
            return Ok(StmtKind::Last { set: false, msecs: 0 });
        }
        Ok(StmtKind::Last { set: true, msecs: self.time()? })
    }
}

impl Printer<'_> {
    pub(super) fn last_use(&mut self, set: bool, msecs: u64) {
        self.push("last");
        if !self.format.stateless {
            self.push(" used ");
            if set { self.duration(msecs) } else { self.push("never") }
        }
    }
}

impl Writer<'_> {
    pub(super) fn last_use(&self, set: bool, msecs: u64) -> Value {
        if !set || self.format.stateless {
            tagged("last", Value::Null)
        } else {
            json!({"last": {"used": msecs}})
        }
    }
}

impl Reader<'_> {
    pub(super) fn last_use(&mut self, body: &Value) -> Option<StmtKind> {
        match body {
            Value::Null => Some(StmtKind::Last { set: false, msecs: 0 }),
            other => {
                let object = self.object(other)?;
                let msecs = self.maybe_number(object, "used")?;
                Some(StmtKind::Last { set: msecs.is_some(), msecs: msecs.unwrap_or(0) })
            }
        }
    }
}
