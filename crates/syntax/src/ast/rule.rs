// SPDX-License-Identifier: Apache-2.0

//! Rules.

use std::sync::Arc;

use super::Stmt;
use crate::source::Loc;

/// A rule: statements and a comment. As an implicit chain: several rules.
#[derive(Clone, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub struct RuleBlock {
    pub stmts: Vec<Stmt>,
    pub comment: Option<Arc<str>>,
    /// Rules of an implicit chain; `stmts` is empty then.
    pub rules: Vec<RuleBlock>,
    /// Only the place is known: the rule is right, and is read again when it is evaluated.
    pub unread: bool,
    pub loc: Loc,
}
