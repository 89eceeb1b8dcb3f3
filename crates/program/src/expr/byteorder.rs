// SPDX-License-Identifier: Apache-2.0

//! `byteorder`: between host and network order (`NFTA_BYTEORDER_*`,
//! `net/netfilter/nft_byteorder.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, BYTE, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::{Family, Register};

/// `enum nft_byteorder_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ByteorderOp {
    /// Network to host.
    Ntoh,
    /// Host to network.
    Hton,
}

/// Converts each of the numbers in a register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Byteorder {
    /// `NFTA_BYTEORDER_OP`.
    pub op: ByteorderOp,
    /// `NFTA_BYTEORDER_SREG`.
    pub sreg: Register,
    /// `NFTA_BYTEORDER_DREG`.
    pub dreg: Register,
    /// `NFTA_BYTEORDER_LEN`: bytes in all.
    pub len: u32,
    /// `NFTA_BYTEORDER_SIZE`: bytes of one number: 2, 4 or 8.
    pub size: u32,
}

impl fmt::Display for Byteorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            ByteorderOp::Ntoh => "ntoh",
            ByteorderOp::Hton => "hton",
        };
        write!(f, "byteorder {} = {op}({}, {}, {})", self.dreg, self.sreg, self.size, self.len)
    }
}

impl Expression for Byteorder {
    fn name(&self) -> &'static str {
        "byteorder"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }

    fn verify(&self) -> Result<(), Reason> {
        let known = matches!(self.size, 2 | 4 | 8);
        check::refuse(!known, Reason::Operand("numbers have 2, 4 or 8 bytes"))?;
        check::refuse(self.len > BYTE, Reason::TooLarge)
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let size = match self.size {
            2 => 2,
            4 => 4,
            8 => 8,
            _ => return Err(LinkReason::Malformed("a number of other than 2, 4 or 8 bytes")),
        };
        let (src, dst) = (linking::slot(self.sreg, self.len)?, linking::slot(self.dreg, self.len)?);
        Ok(Op::Byteorder { src, dst, len: linking::narrow(self.len)?, size })
    }
}
