// SPDX-License-Identifier: Apache-2.0

//! `connlimit`: number of connections (`NFTA_CONNLIMIT_*`, `net/netfilter/nft_connlimit.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, Statement, Use, tracks_connections};
use crate::linked::Stateful;
use crate::linking::{LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::state::dynamic::SetStatement;
use crate::state::{ConnCountState, Words};
use crate::{Errno, Family, State};

/// Breaks when there are more connections than `count`, or unless there are (`over`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connlimit {
    /// `NFTA_CONNLIMIT_COUNT`.
    pub count: u32,
    /// `NFT_CONNLIMIT_F_INV`: `over`.
    pub over: bool,
}

impl fmt::Display for Connlimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connlimit count {} flags {:x}", self.count, u32::from(self.over))
    }
}

impl Expression for Connlimit {
    fn name(&self) -> &'static str {
        "connlimit"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn available(&self, family: Family) -> Result<(), Errno> {
        tracks_connections(family)
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn is_stateful(&self) -> bool {
        true
    }

    fn new_state(&self, _: u64) -> Option<State> {
        Some(State::Connlimit(ConnCountState::default()))
    }

    fn as_statement(&self) -> Option<&dyn Statement> {
        Some(self)
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Stateful(Arc::new(self.link_statement(linking.state()?)?)))
    }
}

impl Statement for Connlimit {
    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason> {
        Ok(Stateful::Connlimit { limit: self.count, over: self.over, state: state.clone() })
    }

    fn in_set(&self) -> SetStatement {
        SetStatement::Connlimit { limit: self.count, over: self.over }
    }

    fn initial_words(&self) -> Words {
        [0, 0]
    }

    fn reset_words(&self) -> Option<Words> {
        None
    }

    fn shown(&self, _: Words, _: u64) -> Expr {
        Expr::Connlimit(self.clone())
    }

    fn collects(&self) -> bool {
        true
    }
}
