// SPDX-License-Identifier: Apache-2.0

//! `range`: compare a register with an interval (`NFTA_RANGE_*`, `net/netfilter/nft_range.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{CmpOp, Use, Width};
use crate::{Data, Register};

/// Breaks unless the register is inside (`Eq`) or outside (`Neq`) of the interval; both ends belong
/// to it, and bytes compare as `memcmp` does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// `NFTA_RANGE_OP`: `Eq` or `Neq`.
    pub op: CmpOp,
    /// `NFTA_RANGE_SREG`.
    pub sreg: Register,
    /// `NFTA_RANGE_FROM_DATA`, 1 to 16 bytes.
    pub from: Data,
    /// `NFTA_RANGE_TO_DATA`, as long as `from`.
    pub to: Data,
}

impl Range {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.from.bytes().len() as u32)));
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "range {} {} {} {}", self.op, self.sreg, self.from, self.to)
    }
}
