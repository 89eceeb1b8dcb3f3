// SPDX-License-Identifier: Apache-2.0

//! `bitwise`: mask, exclusive-or and shifts (`NFTA_BITWISE_*`, `net/netfilter/nft_bitwise.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::{Data, Register};

/// `enum nft_bitwise_ops`: what two registers are combined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BoolOp {
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
}

/// `NFTA_BITWISE_OP` and its operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BitwiseOp {
    /// `(register & mask) ^ xor`, bit by bit.
    MaskXor {
        /// `NFTA_BITWISE_MASK`, as long as the register.
        mask: Data,
        /// `NFTA_BITWISE_XOR`, as long as the register.
        xor: Data,
    },
    /// By a number of bits below 32, over words in host order, bits carried into the word before.
    Lshift(u32),
    /// By a number of bits below 32, over words in host order, bits carried into the word after.
    Rshift(u32),
    /// Bit by bit with a second register of the same length (`NFTA_BITWISE_SREG2`, Linux 6.13).
    Combine(BoolOp, Register),
}

/// Computes on a register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bitwise {
    /// `NFTA_BITWISE_SREG`.
    pub sreg: Register,
    /// `NFTA_BITWISE_DREG`.
    pub dreg: Register,
    /// `NFTA_BITWISE_LEN`: bytes; whole words are computed.
    pub len: u32,
    /// What.
    pub op: BitwiseOp,
}

impl Bitwise {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
        if let BitwiseOp::Combine(_, sreg2) = self.op {
            visit(Use::Read(sreg2, Width::Bytes(self.len)));
        }
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }
}

impl fmt::Display for Bitwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bitwise {} = ( {} ", self.dreg, self.sreg)?;
        match &self.op {
            BitwiseOp::MaskXor { mask, xor } => write!(f, "& {mask} ) ^ {xor}"),
            BitwiseOp::Lshift(bits) => write!(f, "<< {bits:#010x} )"),
            BitwiseOp::Rshift(bits) => write!(f, ">> {bits:#010x} )"),
            BitwiseOp::Combine(BoolOp::And, sreg2) => write!(f, "& {sreg2} )"),
            BitwiseOp::Combine(BoolOp::Or, sreg2) => write!(f, "| {sreg2} )"),
            BitwiseOp::Combine(BoolOp::Xor, sreg2) => write!(f, "^ {sreg2} )"),
        }
    }
}
