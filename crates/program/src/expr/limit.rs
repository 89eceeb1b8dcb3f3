// SPDX-License-Identifier: Apache-2.0

//! `limit`: a token bucket (`NFTA_LIMIT_*`, `net/netfilter/nft_limit.c`).

use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, Statement, Use};
use crate::check::Reason;
use crate::linked::Stateful;
use crate::linking::{LinkReason, Linking};
use crate::op::Op;
use crate::operand::{Limit, LimitType};
use crate::state::dynamic::SetStatement;
use crate::state::limit;
use crate::state::{BadLimit, Bucket, LimitState, Words};
use crate::{Family, State};

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            1 => "second",
            60 => "minute",
            3600 => "hour",
            86400 => "day",
            604800 => "week",
            _ => "error",
        };
        let kind = match self.kind {
            LimitType::Packets => "packets",
            LimitType::Bytes => "bytes",
        };
        let flags = u32::from(self.over);
        write!(
            f,
            "limit rate {}/{unit} burst {} type {kind} flags 0x{flags:x}",
            self.rate, self.burst
        )
    }
}

impl Expression for Limit {
    fn name(&self) -> &'static str {
        "limit"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn verify(&self) -> Result<(), Reason> {
        match Bucket::new(self) {
            Ok(_) => Ok(()),
            Err(BadLimit::ZeroRate) => Err(Reason::Operand("the rate is not zero")),
            Err(BadLimit::Overflow) => Err(Reason::Overflow),
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn is_stateful(&self) -> bool {
        true
    }

    fn new_state(&self, _: u64) -> Option<State> {
        Some(State::Limit(LimitState::default()))
    }

    fn as_statement(&self) -> Option<&dyn Statement> {
        Some(self)
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Stateful(Arc::new(self.link_statement(linking.state()?)?)))
    }
}

impl Statement for Limit {
    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason> {
        let bucket = Bucket::new(self).map_err(|bad| {
            LinkReason::Malformed(match bad {
                BadLimit::ZeroRate => "the rate of a limit is zero",
                BadLimit::Overflow => "rate and burst of a limit exceed 64 bits",
            })
        })?;
        Ok(Stateful::Limit { bucket, state: state.clone() })
    }

    fn in_set(&self) -> SetStatement {
        Bucket::new(self).map_or_else(|_| SetStatement::BadLimit(self.clone()), SetStatement::Limit)
    }

    fn initial_words(&self) -> Words {
        [limit::FULL, 0]
    }

    fn reset_words(&self) -> Option<Words> {
        None
    }

    fn shown(&self, _: Words, _: u64) -> Expr {
        Expr::Limit(self.clone())
    }
}
