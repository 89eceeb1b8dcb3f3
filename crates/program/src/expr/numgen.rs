// SPDX-License-Identifier: Apache-2.0

//! `numgen`: running and random numbers (`NFTA_NG_*`, `net/netfilter/nft_numgen.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::state::NumgenState;
use crate::{Family, Register, State};

/// `enum nft_ng_types`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NumgenMode {
    /// One more each time, from 0 up to the modulus.
    Inc,
    /// Random.
    Random,
}

/// Loads a number in host order, 4 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numgen {
    /// `NFTA_NG_TYPE`.
    pub mode: NumgenMode,
    /// `NFTA_NG_MODULUS`: how many numbers, not 0.
    pub modulus: u32,
    /// `NFTA_NG_OFFSET`: added at the end.
    pub offset: u32,
    /// `NFTA_NG_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Numgen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            NumgenMode::Inc => "inc",
            NumgenMode::Random => "random",
        };
        write!(f, "numgen {} = {mode} mod {}", self.dreg, self.modulus)?;
        if self.offset != 0 {
            write!(f, " offset {}", self.offset)?;
        }
        Ok(())
    }
}

impl Expression for Numgen {
    fn name(&self) -> &'static str {
        "numgen"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(4)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.modulus == 0, Reason::TooLarge)?;
        check::refuse(self.offset.checked_add(self.modulus - 1).is_none(), Reason::Overflow)
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn is_stateful(&self) -> bool {
        self.mode == NumgenMode::Inc
    }

    fn new_state(&self, _: u64) -> Option<State> {
        (self.mode == NumgenMode::Inc).then(|| State::Numgen(NumgenState::new(self.modulus)))
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let (modulus, offset, dst) = (self.modulus, self.offset, linking::slot(self.dreg, 4)?);
        if modulus == 0 {
            return Err(LinkReason::Malformed("the modulus is zero"));
        }
        Ok(match self.mode {
            NumgenMode::Inc => {
                Op::NumgenInc { modulus, offset, dst, state: linking.state()?.clone() }
            }
            NumgenMode::Random => Op::NumgenRandom { modulus, offset, dst },
        })
    }
}
