// SPDX-License-Identifier: Apache-2.0

//! `exthdr`: options and extension headers (`NFTA_EXTHDR_*`, `net/netfilter/nft_exthdr.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, BYTE, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::ExthdrOp;
use crate::{Family, Register};

/// Loads bytes of a header, option or chunk, as they stand in the packet, or whether it is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exthdr {
    /// `NFTA_EXTHDR_OP`.
    pub op: ExthdrOp,
    /// `NFTA_EXTHDR_TYPE`: header, option or chunk number.
    pub kind: u8,
    /// `NFTA_EXTHDR_OFFSET`: bytes from its start.
    pub offset: u32,
    /// `NFTA_EXTHDR_LEN`: bytes.
    pub len: u32,
    /// `NFT_EXTHDR_F_PRESENT`: load 1 or 0 for there or not.
    pub present: bool,
    /// `NFTA_EXTHDR_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Exthdr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = if self.present { " present" } else { "" };
        write!(
            f,
            "exthdr load{} {}b @ {} + {}{present} => {}",
            self.op, self.len, self.kind, self.offset, self.dreg
        )
    }
}

impl Expression for Exthdr {
    fn name(&self) -> &'static str {
        "exthdr"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.offset > BYTE || self.len > BYTE, Reason::TooLarge)
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Exthdr {
            op: self.op,
            kind: self.kind,
            offset: linking::narrow(self.offset)?,
            len: linking::narrow(self.len)?,
            present: self.present,
            dst: linking::slot(self.dreg, self.len)?,
        })
    }
}

/// Writes bytes of a TCP option, where there is one. A maximum segment size is only ever lowered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExthdrSet {
    /// `NFTA_EXTHDR_OP`: TCP options.
    pub op: ExthdrOp,
    /// `NFTA_EXTHDR_TYPE`: option number.
    pub kind: u8,
    /// `NFTA_EXTHDR_OFFSET`: bytes from the start of the option, at least 2.
    pub offset: u32,
    /// `NFTA_EXTHDR_LEN`: 2 or 4 bytes.
    pub len: u32,
    /// `NFTA_EXTHDR_SREG`, in network order.
    pub sreg: Register,
}

impl fmt::Display for ExthdrSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exthdr write{} {} => {}b @ {} + {}",
            self.op, self.sreg, self.len, self.kind, self.offset
        )
    }
}

impl Expression for ExthdrSet {
    fn name(&self) -> &'static str {
        "exthdr"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.op != ExthdrOp::TcpOpt, Reason::Misplaced)?;
        check::refuse(self.offset > BYTE || self.len > BYTE, Reason::TooLarge)?;
        check::refuse(self.offset < 2, Reason::Misplaced)?;
        let fits = matches!(self.len, 2 | 4);
        check::refuse(!fits, Reason::Operand("2 or 4 bytes of an option can be written"))
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        if self.op != ExthdrOp::TcpOpt || self.offset < 2 || !matches!(self.len, 2 | 4) {
            return Err(LinkReason::Malformed("only 2 or 4 bytes of a TCP option can be written"));
        }
        let (offset, len) = (linking::narrow(self.offset)?, linking::narrow(self.len)?);
        let src = linking::slot(self.sreg, self.len)?;
        Ok(Op::TcpOptionSet { kind: self.kind, offset, len, src })
    }
}

/// Replaces a TCP option by no-operations, where there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExthdrReset {
    /// `NFTA_EXTHDR_OP`: TCP options.
    pub op: ExthdrOp,
    /// `NFTA_EXTHDR_TYPE`: option number.
    pub kind: u8,
}

impl fmt::Display for ExthdrReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exthdr reset tcpopt {}", self.kind)
    }
}

impl Expression for ExthdrReset {
    fn name(&self) -> &'static str {
        "exthdr"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.op != ExthdrOp::TcpOpt, Reason::Misplaced)
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        match self.op {
            ExthdrOp::TcpOpt => Ok(Op::TcpOptionReset { kind: self.kind }),
            _ => Err(LinkReason::Malformed("only TCP options can be reset")),
        }
    }
}
