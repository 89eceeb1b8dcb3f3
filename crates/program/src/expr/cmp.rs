// SPDX-License-Identifier: Apache-2.0

//! `cmp`: compare a register with a constant (`NFTA_CMP_*`, `net/netfilter/nft_cmp.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::{Data, Register};

/// `enum nft_cmp_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CmpOp {
    /// Equal.
    Eq,
    /// Not equal.
    Neq,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
}

impl fmt::Display for CmpOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CmpOp::Eq => "eq",
            CmpOp::Neq => "neq",
            CmpOp::Lt => "lt",
            CmpOp::Lte => "lte",
            CmpOp::Gt => "gt",
            CmpOp::Gte => "gte",
        })
    }
}

/// Breaks unless the first `data.len()` bytes of the register compare so, byte by byte as `memcmp`
/// does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cmp {
    /// `NFTA_CMP_OP`.
    pub op: CmpOp,
    /// `NFTA_CMP_SREG`.
    pub sreg: Register,
    /// `NFTA_CMP_DATA`, 1 to 16 bytes.
    pub data: Data,
}

impl Cmp {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.data.bytes().len() as u32)));
    }
}

impl fmt::Display for Cmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cmp {} {} {}", self.op, self.sreg, self.data)
    }
}
