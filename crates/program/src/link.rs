// SPDX-License-Identifier: Apache-2.0

//! Linking: from expressions that name sets, chains and objects to the operations of an
//! [`Image`](crate::Image).
//!
//! [`link_rule`] makes the operations of one rule and resolves names by [`Names`]. [`supported`]
//! says in advance whether an expression can be linked at all.

use std::fmt;
use std::sync::Arc;

use crate::expr::Expr;
use crate::op::{Extension, Op};
use crate::{Family, State};

pub use crate::linking::{
    LinkReason, Linking, NO_TUNNEL, Names, NotRun, Unsupported, link_verdict,
};

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
    let first = ops.len();
    let mut states = states.iter();
    let mut has_extensions = false;
    for (expression, expr) in exprs.iter().enumerate() {
        let at = |reason| LinkError { expression, reason };
        supported(expr).map_err(|u| at(LinkReason::Unsupported(u)))?;
        let state = if expr.is_stateful() { states.next() } else { None };
        ops.push(expr.link(&Linking { family, names, state }).map_err(at)?);
        has_extensions |= matches!(expr, Expr::Xt(_));
    }
    if has_extensions {
        unfold(first, ops);
    }
    Ok(())
}

/// Puts the operations of extensions, from the operation `first` on, in their place, so that they
/// are classified and compiled like all others: where none that follows reads a register that they
/// write.
fn unfold(first: usize, ops: &mut Vec<Op>) {
    let rule = ops.split_off(first);
    for (i, op) in rule.iter().enumerate() {
        match sequence(op) {
            Some(inner) if !disturbs(inner, &rule[i + 1..]) => ops.extend(inner.iter().cloned()),
            Some(_) | None => ops.push(op.clone()),
        }
    }
}

/// Operations that run one after the other as those of the rule do.
fn sequence(op: &Op) -> Option<&[Op]> {
    let Op::Extension(extension) = op else { return None };
    match &**extension {
        Extension::Sequence { ops, continues: false } => Some(ops),
        _ => None,
    }
}

/// Whether operations write registers that later ones read.
fn disturbs(ops: &[Op], later: &[Op]) -> bool {
    let mut written = ops.iter().fold(0, |all, op| all | op.info().writes);
    for op in later {
        let info = op.info();
        if info.reads & written != 0 {
            return true;
        }
        written &= !info.writes;
    }
    false
}
