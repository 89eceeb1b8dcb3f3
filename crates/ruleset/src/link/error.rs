// SPDX-License-Identifier: Apache-2.0

//! Why a generation cannot run, and where.

use std::fmt;
use std::sync::Arc;

use penstock_program::link::LinkReason;

use crate::model::Family;

/// What in a table cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorPlace {
    /// A chain as such.
    Chain(Arc<str>),
    /// An expression of a rule.
    Rule {
        /// Its chain.
        chain: Arc<str>,
        /// Its handle.
        handle: u64,
        /// Number of the expression, from 0.
        expression: usize,
        /// [`Expr::name`](penstock_program::Expr::name) of it.
        name: &'static str,
    },
}

/// Why a generation cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// The table's family.
    pub family: Family,
    /// The table.
    pub table: Arc<str>,
    /// Where in the table.
    pub place: ErrorPlace,
    /// Why.
    pub reason: LinkReason,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.family.name();
        write!(f, "table {family} {} ", self.table)?;
        match &self.place {
            ErrorPlace::Chain(chain) => write!(f, "chain {chain}: {}", self.reason),
            ErrorPlace::Rule { chain, handle, expression, name } => {
                write!(f, "chain {chain} rule handle {handle}, expression {expression}")?;
                match &self.reason {
                    // Names it itself.
                    LinkReason::Unsupported(_) | LinkReason::Extension(_) => {
                        write!(f, ": {}", self.reason)
                    }
                    reason => write!(f, " ({name}): {reason}"),
                }
            }
        }
    }
}

impl std::error::Error for LinkError {}
