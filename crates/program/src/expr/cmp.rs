// SPDX-License-Identifier: Apache-2.0

//! `cmp`: compare a register with a constant (`NFTA_CMP_*`, `net/netfilter/nft_cmp.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::CmpOp;
use crate::{Data, Family, Register};

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

impl fmt::Display for Cmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cmp {} {} {}", self.op, self.sreg, self.data)
    }
}

impl Expression for Cmp {
    fn name(&self) -> &'static str {
        "cmp"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.data.bytes().len() as u32)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::constant(&self.data)
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let (data, len) = linking::constant(&self.data)?;
        let src = linking::slot(self.sreg, len.into())?;
        if len > 4 || !matches!(self.op, CmpOp::Eq | CmpOp::Neq) {
            return Ok(Op::Cmp { op: self.op, src, len, data });
        }
        let mut mask = [0; 16];
        mask[..usize::from(len)].fill(0xff);
        let (mask, data) = (linking::words(mask)[0], linking::words(data)[0]);
        Ok(Op::CmpWord { src, equal: self.op == CmpOp::Eq, mask, data })
    }
}
