// SPDX-License-Identifier: Apache-2.0

//! Stateful expressions: what elements of sets can have as statements, and what listings show of
//! their state.

use std::sync::Arc;

use super::{Connlimit, Counter, Expr, Last, Quota};
use crate::Errno;
use crate::linked::Stateful;
use crate::linking::LinkReason;
use crate::state::dynamic::{NewStatement, SetStatement};
use crate::state::{State, Words};

/// An expression that elements of sets can have as a statement (`NFT_EXPR_STATEFUL`).
pub trait Statement {
    /// Checks the state to begin with.
    ///
    /// # Errors
    /// The kernel's error (`ops->init`).
    fn check(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// As engines run it.
    ///
    /// # Errors
    /// An operand is malformed.
    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason>;

    /// As packets run it at elements that they add.
    fn in_set(&self) -> SetStatement;

    /// Words that it starts with.
    fn initial_words(&self) -> Words;

    /// Words that it has after a reset; `None` if a reset changes nothing.
    fn reset_words(&self) -> Option<Words>;

    /// The expression with the values that words of its state stand for, at time `now` (ns).
    fn shown(&self, words: Words, now: u64) -> Expr;

    /// Whether it frees what has ended while the set is searched for that (`NFT_EXPR_GC`): sets
    /// with timeouts do not take it.
    fn collects(&self) -> bool {
        false
    }
}

/// Statements as elements of a set that packets change have them. Expressions that cannot be
/// statements are left out.
pub fn set_statements(exprs: &[Expr]) -> Vec<NewStatement> {
    let new = |statement: &dyn Statement| NewStatement {
        statement: statement.in_set(),
        state: statement.initial_words(),
    };
    exprs.iter().filter_map(Expr::as_statement).map(new).collect()
}

/// The statement with values of zero.
impl From<&SetStatement> for Expr {
    fn from(statement: &SetStatement) -> Expr {
        match statement {
            SetStatement::Counter => Expr::Counter(Counter::default()),
            SetStatement::Quota { bytes, over } => {
                Expr::Quota(Quota { bytes: *bytes, consumed: 0, over: *over, depleted: false })
            }
            SetStatement::Limit(bucket) => Expr::Limit(bucket.limit()),
            SetStatement::BadLimit(limit) => Expr::Limit(limit.clone()),
            SetStatement::Last => Expr::Last(Last::default()),
            SetStatement::Connlimit { limit, over } => {
                Expr::Connlimit(Connlimit { count: *limit, over: *over })
            }
        }
    }
}

impl Expr {
    /// Whether another statement is of the same kind, whatever its values are: the kernel has one
    /// kind for limits of packets and one for those of bytes (`ops` of `struct nft_expr`).
    pub fn is_of_kind(&self, other: &Expr) -> bool {
        match (self, other) {
            (Expr::Limit(a), Expr::Limit(b)) => a.kind == b.kind,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The expression with the present values of its state, at time `now` (ns).
    pub fn snapshot(&self, state: &State, now: u64) -> Expr {
        self.with(now, |_| state.words())
    }

    /// Takes an [`Expr::snapshot`] and resets the state: counters at zero, quotas unused, `last`
    /// never. Concurrent counts are not lost.
    pub fn reset(&self, state: &State, now: u64) -> Expr {
        self.with(now, |statement| match statement.reset_words() {
            Some(fresh) => state.reset(fresh),
            None => state.words(),
        })
    }

    /// The expression with the values that words stand for, if there are some.
    fn with(&self, now: u64, words: impl FnOnce(&dyn Statement) -> Option<Words>) -> Expr {
        let shown = |statement: &dyn Statement| Some(statement.shown(words(statement)?, now));
        self.as_statement().and_then(shown).unwrap_or_else(|| self.clone())
    }
}
