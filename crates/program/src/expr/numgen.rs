// SPDX-License-Identifier: Apache-2.0

//! `numgen`: running and random numbers (`NFTA_NG_*`, `net/netfilter/nft_numgen.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

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

impl Numgen {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Write(self.dreg, Width::Bytes(4)));
    }
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
