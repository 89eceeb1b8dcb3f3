// SPDX-License-Identifier: Apache-2.0

//! `last`: when it was last reached (`NFTA_LAST_*`, `net/netfilter/nft_last.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, Statement, Use};
use crate::linked::Stateful;
use crate::linking::{LinkReason, Linking};
use crate::op::Op;
use crate::state::dynamic::SetStatement;
use crate::state::{LastState, Words};
use crate::{Family, State};

/// Notes the time.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Last {
    /// `NFTA_LAST_SET`: reached at all.
    pub set: bool,
    /// `NFTA_LAST_MSECS`: milliseconds since then.
    pub msecs: u64,
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.set { write!(f, "last {}", self.msecs) } else { f.write_str("last never") }
    }
}

impl Expression for Last {
    fn name(&self) -> &'static str {
        "last"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn only_matches(&self) -> bool {
        false
    }

    fn is_stateful(&self) -> bool {
        true
    }

    fn new_state(&self, now: u64) -> Option<State> {
        let at = now.saturating_sub(self.msecs.saturating_mul(1_000_000));
        Some(State::Last(LastState::new(self.set.then_some(at))))
    }

    fn as_statement(&self) -> Option<&dyn Statement> {
        Some(self)
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Stateful(Arc::new(self.link_statement(linking.state()?)?)))
    }
}

impl Statement for Last {
    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason> {
        Ok(Stateful::Last(state.clone()))
    }

    fn in_set(&self) -> SetStatement {
        SetStatement::Last
    }

    fn initial_words(&self) -> Words {
        [if self.set { 0 } else { LastState::NEVER }, 0]
    }

    fn reset_words(&self) -> Option<Words> {
        Some([LastState::NEVER, 0])
    }

    fn shown(&self, [at, _]: Words, now: u64) -> Expr {
        let since = LastState::since(at, now);
        Expr::Last(Last { set: since.is_some(), msecs: since.unwrap_or(0) })
    }
}
