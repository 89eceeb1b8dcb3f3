// SPDX-License-Identifier: Apache-2.0

//! The tree to canonical text: what `nft list` prints, to the byte.
//!
//! [`Printer`] writes expressions and statements; [`trace`] writes the lines of
//! `nft monitor trace`. Tables and what is in them the crate `penstock-lang` lists.

use crate::ast::{Expr, Stmt};
use crate::datatype::Format;
use crate::names::Names;

mod expr;
mod stmt;
pub mod trace;

/// Collects text.
pub struct Printer<'a> {
    /// What the options change.
    pub format: Format,
    /// Names that the system knows.
    pub names: &'a dyn Names,
    /// The text so far.
    pub out: String,
}

impl<'a> Printer<'a> {
    /// With nothing written yet.
    pub fn new(format: Format, names: &'a dyn Names) -> Self {
        Printer { format, names, out: String::new() }
    }

    /// Text as it is.
    pub fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Formatted text. Writing to a String does not fail.
    pub fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = std::fmt::Write::write_fmt(&mut self.out, text);
    }

    /// Runs something with other options.
    pub fn with_format(&mut self, format: Format, body: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.format, format);
        body(self);
        self.format = before;
    }
}

/// An expression as text: what `typeof` of a set is kept and listed as.
pub fn expr_text(expr: &Expr, format: Format, names: &dyn Names) -> String {
    let mut printer = Printer::new(format, names);
    printer.expr(expr);
    printer.out
}

/// Statements of a rule as text.
pub fn stmts_text(stmts: &[Stmt], format: Format, names: &dyn Names) -> String {
    let mut printer = Printer::new(format, names);
    printer.stmts(stmts);
    printer.out
}
