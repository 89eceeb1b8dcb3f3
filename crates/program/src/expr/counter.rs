// SPDX-License-Identifier: Apache-2.0

//! `counter`: packets and bytes (`NFTA_COUNTER_*`, `net/netfilter/nft_counter.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, Statement, Use};
use crate::linked::Stateful;
use crate::linking::{LinkReason, Linking};
use crate::op::Op;
use crate::state::dynamic::SetStatement;
use crate::state::{CounterState, Words};
use crate::{Family, State};

/// Counts. The fields are initial values in a program, present ones in a snapshot.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Counter {
    /// `NFTA_COUNTER_PACKETS`.
    pub packets: u64,
    /// `NFTA_COUNTER_BYTES`.
    pub bytes: u64,
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counter pkts {} bytes {}", self.packets, self.bytes)
    }
}

impl Expression for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn only_matches(&self) -> bool {
        false
    }

    fn is_stateful(&self) -> bool {
        true
    }

    fn new_state(&self, _: u64) -> Option<State> {
        Some(State::Counter(CounterState::new(self.packets, self.bytes)))
    }

    fn as_statement(&self) -> Option<&dyn Statement> {
        Some(self)
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Counter(linking.state()?.clone()))
    }
}

impl Statement for Counter {
    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason> {
        Ok(Stateful::Counter(state.clone()))
    }

    fn in_set(&self) -> SetStatement {
        SetStatement::Counter
    }

    fn initial_words(&self) -> Words {
        [self.packets, self.bytes]
    }

    fn reset_words(&self) -> Option<Words> {
        Some([0, 0])
    }

    fn shown(&self, [packets, bytes]: Words, _: u64) -> Expr {
        Expr::Counter(Counter { packets, bytes })
    }
}
