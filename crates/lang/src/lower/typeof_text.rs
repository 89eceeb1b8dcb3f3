// SPDX-License-Identifier: Apache-2.0

//! What `typeof` was given, as sets list it.

use penstock_syntax::ast::Expr;
use penstock_syntax::datatype::Format;
use penstock_syntax::names::NoNames;
use penstock_syntax::print;

/// The text.
pub(crate) fn typeof_text(e: &Expr) -> String {
    print::expr_text(e, Format::default(), &NoNames)
}
