// SPDX-License-Identifier: Apache-2.0

//! What `typeof` was given, as sets list it.

use crate::ast::Expr;
use crate::datatype::Format;
use crate::names::NoNames;
use crate::print;

/// The text.
pub(crate) fn typeof_text(e: &Expr) -> String {
    print::expr_text(e, Format::default(), &NoNames)
}
