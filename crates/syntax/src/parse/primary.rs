// SPDX-License-Identifier: Apache-2.0

//! What left sides and arguments are made of: selectors, header fields, names and numbers.

use super::{Parsed, Parser};
use crate::ast::Expr;
use crate::lex::Tok;
impl Parser<'_> {
    /// An operand of a left side.
    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Word => {}
            Tok::At => return self.raw_payload(),
            _ => return self.symbol_or_number(),
        }
        let start = self.here();
        if let Some(selector) = self.selector(start)? {
            return Ok(selector);
        }
        match self.header()? {
            Some(expr) => Ok(expr),
            None => self.symbol_or_number(),
        }
    }

    /// What `describe` takes: a type's name is a symbol like any other.
    pub(super) fn describable(&mut self) -> Parsed<Expr> {
        self.primary()
    }
}
