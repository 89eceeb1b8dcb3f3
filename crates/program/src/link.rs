// SPDX-License-Identifier: Apache-2.0

//! Linking: from expressions that name sets, chains and objects to the operations of an
//! [`Image`](crate::Image).
//!
//! [`link_rule`] makes the operations of one rule and resolves names by [`Names`]. [`supported`]
//! says in advance whether an expression can be linked at all.

use std::fmt;
use std::sync::Arc;

use crate::expr::Expr;
use crate::op::Op;
use crate::{Family, State};

pub use crate::linking::{LinkReason, Linking, NO_TUNNEL, Names, Unsupported, link_verdict};

/// Whether the path can run an expression, whatever it names.
///
/// # Errors
/// What is missing.
pub fn supported(expr: &Expr) -> Result<(), Unsupported> {
    expr.runnable().map_err(|reason| Unsupported { expression: expr.name(), reason })
}

/// Why a rule could not be linked, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// Number of the expression in the rule.
    pub expression: usize,
    /// Why.
    pub reason: LinkReason,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expression {}: {}", self.expression, self.reason)
    }
}

impl std::error::Error for LinkError {}

/// Appends the operations of a rule to `ops`. `states` are those of its stateful expressions, in
/// order.
pub fn link_rule(
    exprs: &[Expr],
    states: &[Arc<State>],
    family: Family,
    names: &dyn Names,
    ops: &mut Vec<Op>,
) -> Result<(), LinkError> {
    let mut states = states.iter();
    for (expression, expr) in exprs.iter().enumerate() {
        let at = |reason| LinkError { expression, reason };
        supported(expr).map_err(|u| at(LinkReason::Unsupported(u)))?;
        let state = if expr.is_stateful() { states.next() } else { None };
        ops.push(expr.link(&Linking { family, names, state }).map_err(at)?);
    }
    Ok(())
}
