// SPDX-License-Identifier: Apache-2.0

//! `range`: compare a register with an interval (`NFTA_RANGE_*`, `net/netfilter/nft_range.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::CmpOp;
use crate::{Data, Family, Register};

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

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "range {} {} {} {}", self.op, self.sreg, self.from, self.to)
    }
}

impl Expression for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.from.bytes().len() as u32)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::constant(&self.from)?;
        check::constant(&self.to)?;
        let differ = self.from.bytes().len() != self.to.bytes().len();
        check::refuse(differ, Reason::Operand("the ends of a range differ in length"))?;
        let equality = matches!(self.op, CmpOp::Eq | CmpOp::Neq);
        check::refuse(!equality, Reason::Operand("a range is eq or neq"))
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let ((from, len), (to, to_len)) =
            (linking::constant(&self.from)?, linking::constant(&self.to)?);
        if len != to_len {
            return Err(LinkReason::Malformed("the ends of a range differ in length"));
        }
        let inside = match self.op {
            CmpOp::Eq => true,
            CmpOp::Neq => false,
            CmpOp::Lt | CmpOp::Lte | CmpOp::Gt | CmpOp::Gte => {
                return Err(LinkReason::Malformed("a range is neither eq nor neq"));
            }
        };
        let src = linking::slot(self.sreg, len.into())?;
        Ok(Op::Range { inside, src, len, ends: Box::new([from, to]) })
    }
}
