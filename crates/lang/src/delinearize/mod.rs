// SPDX-License-Identifier: Apache-2.0

//! VM programs back to the tree (nft's `netlink_delinearize.c`), in two passes.
//!
//! `program` follows the registers and turns each VM expression into raw statements: payload by
//! offset and length, constants as bytes. `postprocess` then walks the statements with what is
//! known of the packet so far (`context`): it gives payload its names, constants their types,
//! drops the matches that a later one implies (`dependency`), folds masks and shifts into fields,
//! prefixes and flag tests (`binop`). [`set`] turns the elements of sets back into expressions.

use std::sync::Arc;

use penstock_program::State;
use penstock_ruleset::model::{Chain, Rule, Set, Table};
use penstock_syntax::ast::{Expr, ExprKind, RuleBlock, Stmt, StmtKind};
use penstock_syntax::bits::swap_bytes;
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::source::Loc;

pub(crate) use fields::{has_prefixes, prefix_length};

use crate::userdata;

mod binop;
mod context;
mod dependency;
pub(crate) mod fields;
mod postprocess;
pub(crate) mod program;
pub mod set;
mod statements;

/// Turns what a table holds back into the tree.
#[derive(Clone, Copy)]
pub struct Delinearizer<'a> {
    /// The table that rules and sets belong to: sets, chains and objects are found in it.
    pub table: &'a Table,
    /// Time of the listing in nanoseconds since the epoch: expiry and `last` are relative to it.
    pub now: u64,
}

impl<'a> Delinearizer<'a> {
    /// A rule: its statements and its comment.
    pub fn rule(&self, rule: &Rule) -> RuleBlock {
        let exprs = with_state(&rule.exprs, &rule.states, self.now);
        let stmts = program::statements(self, &exprs);
        let stmts = postprocess::rule(self, stmts);
        RuleBlock {
            stmts,
            comment: userdata::comment(&rule.userdata).map(Arc::from),
            ..RuleBlock::default()
        }
    }

    /// Stateful VM expressions of a set, an element or a dynamic update.
    pub fn stateful(&self, exprs: &[penstock_program::Expr]) -> Vec<Stmt> {
        program::statements(self, exprs)
    }

    pub(crate) fn find_set(&self, name: &str) -> Option<&'a Set> {
        self.table.sets.iter().find(|s| &*s.name == name).map(Arc::as_ref)
    }

    pub(crate) fn find_chain(&self, name: &str) -> Option<&'a Chain> {
        self.table.chains.iter().find(|c| &*c.name == name).map(Arc::as_ref)
    }
}

/// Expressions with the present values of their states.
pub(crate) fn with_state(
    exprs: &[penstock_program::Expr],
    states: &[Arc<State>],
    now: u64,
) -> Vec<penstock_program::Expr> {
    let mut states = states.iter();
    exprs
        .iter()
        .map(|expr| match expr.is_stateful().then(|| states.next()).flatten() {
            Some(state) => expr.snapshot(state, now),
            None => expr.clone(),
        })
        .collect()
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, loc: Loc::default() }
}

/// An expression with nothing but a length in bits known.
pub(crate) fn raw(kind: ExprKind, len: u32) -> Expr {
    Expr::typed(kind, Loc::default(), Type::Base(DataType::Integer), ByteOrder::Invalid, len)
}

/// Bytes of a register as a number in network order; their real order is not known yet. What
/// exceeds a number is cut: only text is that long, and concatenations are split before.
fn constant(bytes: &[u8]) -> Expr {
    let value = bytes.iter().take(16).fold(0u128, |v, b| v << 8 | u128::from(*b));
    raw(ExprKind::Value(value), bytes.len().min(16) as u32 * 8)
}

/// Gives an expression its type and byte order; constants change from bytes to numbers with it.
pub(crate) fn set_type(expr: &mut Expr, dtype: &Type, order: ByteOrder) {
    match &mut expr.kind {
        ExprKind::Value(value) => {
            // Raw constants were read as if in network order.
            let was_host = expr.order == ByteOrder::Host;
            let is_host = order == ByteOrder::Host;
            if was_host != is_host {
                *value = swap_bytes(*value, expr.len);
            }
            expr.dtype = dtype.clone();
            expr.order = order;
        }
        ExprKind::Range { left, right } => {
            set_type(left, dtype, order);
            set_type(right, dtype, order);
            expr.dtype = dtype.clone();
            expr.order = order;
        }
        ExprKind::Prefix { base, .. } => {
            set_type(base, dtype, order);
            expr.dtype = dtype.clone();
            expr.order = order;
        }
        // These know their types.
        ExprKind::Set { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Map { .. }
        | ExprKind::Concat(_) => {}
        ExprKind::Binop { left, right, .. } => {
            if matches!(left.kind, ExprKind::Value(_) | ExprKind::Binop { .. }) {
                set_type(left, dtype, order);
            }
            if matches!(right.kind, ExprKind::Value(_)) {
                set_type(right, dtype, order);
            }
            expr.dtype = dtype.clone();
            expr.order = order;
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::List(_)
        | ExprKind::SetElem(_)
        | ExprKind::CatchAll
        | ExprKind::Mapping { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => {}
    }
}
