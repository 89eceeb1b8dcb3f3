// SPDX-License-Identifier: Apache-2.0

//! Statements.

use penstock_program::Family;
use serde_json::Value;

use super::expr::Writer;
use crate::ast::Stmt;
use crate::datatype::Format;

impl Writer<'_> {
    pub(crate) fn stateless(&self) -> Format {
        Format { stateless: true, ..*self.format }
    }

    /// Statements of which each element gets its own: their counts say nothing.
    pub fn templates(&self, stmts: &[Stmt]) -> Value {
        let format = self.stateless();
        let writer = Writer { format: &format, ..*self };
        stmts.iter().map(|s| writer.stmt(s)).collect()
    }
}

pub(crate) fn family_word(family: Option<Family>) -> Option<&'static str> {
    match family {
        Some(Family::Ip) => Some("ip"),
        Some(Family::Ip6) => Some("ip6"),
        _ => None,
    }
}
