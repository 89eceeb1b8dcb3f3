// SPDX-License-Identifier: Apache-2.0

//! `quota`: an amount of bytes (`NFTA_QUOTA_*`, `net/netfilter/nft_quota.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, Statement, Use};
use crate::check::{self, Reason};
use crate::linked::Stateful;
use crate::linking::{LinkReason, Linking};
use crate::op::Op;
use crate::state::dynamic::SetStatement;
use crate::state::{QuotaState, Words};
use crate::{Errno, Family, State};

/// Breaks once the amount is used up, or until it is (`over`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// `NFTA_QUOTA_BYTES`: the amount.
    pub bytes: u64,
    /// `NFTA_QUOTA_CONSUMED`: bytes used, initially or at present.
    pub consumed: u64,
    /// `NFT_QUOTA_F_INV`: `over`.
    pub over: bool,
    /// `NFT_QUOTA_F_DEPLETED`: used up, as the kernel reports it.
    pub depleted: bool,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u32::from(self.over) | u32::from(self.depleted) << 1;
        write!(f, "quota bytes {} consumed {} flags {flags}", self.bytes, self.consumed)
    }
}

impl Expression for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.bytes > i64::MAX as u64, Reason::Overflow)
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn is_stateful(&self) -> bool {
        true
    }

    fn new_state(&self, _: u64) -> Option<State> {
        Some(State::Quota(QuotaState::new(self.consumed)))
    }

    fn as_statement(&self) -> Option<&dyn Statement> {
        Some(self)
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Stateful(Arc::new(self.link_statement(linking.state()?)?)))
    }
}

impl Statement for Quota {
    fn check(&self) -> Result<(), Errno> {
        if i64::try_from(self.bytes).is_err() {
            return Err(Errno::Eoverflow);
        }
        if self.consumed > self.bytes { Err(Errno::Einval) } else { Ok(()) }
    }

    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason> {
        Ok(Stateful::Quota { bytes: self.bytes, over: self.over, state: state.clone() })
    }

    fn in_set(&self) -> SetStatement {
        SetStatement::Quota { bytes: self.bytes, over: self.over }
    }

    fn initial_words(&self) -> Words {
        [self.consumed, 0]
    }

    fn reset_words(&self) -> Option<Words> {
        Some([0, 0])
    }

    fn shown(&self, [consumed, _]: Words, _: u64) -> Expr {
        let depleted = consumed >= self.bytes;
        // What is used beyond the quota is not shown.
        Expr::Quota(Quota { consumed: consumed.min(self.bytes), depleted, ..self.clone() })
    }
}
