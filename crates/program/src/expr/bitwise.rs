// SPDX-License-Identifier: Apache-2.0

//! `bitwise`: mask, exclusive-or and shifts (`NFTA_BITWISE_*`, `net/netfilter/nft_bitwise.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, BYTE, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::BoolOp;
use crate::{Data, Family, Register};

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

impl Expression for Bitwise {
    fn name(&self) -> &'static str {
        "bitwise"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
        if let BitwiseOp::Combine(_, sreg2) = self.op {
            visit(Use::Read(sreg2, Width::Bytes(self.len)));
        }
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.len > BYTE, Reason::TooLarge)?;
        match &self.op {
            BitwiseOp::MaskXor { mask, xor } => {
                check::constant(mask)?;
                check::constant(xor)?;
                let fits = |data: &Data| data.bytes().len() == self.len as usize;
                let reason = Reason::Operand("mask and xor are as long as the register");
                check::refuse(!fits(mask) || !fits(xor), reason)
            }
            BitwiseOp::Lshift(bits) | BitwiseOp::Rshift(bits) => check::refuse(
                !(1..32).contains(bits),
                Reason::Operand("a shift is by 1 to 31 bits"),
            ),
            BitwiseOp::Combine(..) => Ok(()),
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let (src, dst) = (linking::slot(self.sreg, self.len)?, linking::slot(self.dreg, self.len)?);
        let words = self.len.div_ceil(4) as u8;
        let shift = |bits: u32| {
            let below = u8::try_from(bits).ok().filter(|b| *b < 32);
            below.ok_or(LinkReason::Malformed("a shift of 32 bits or more"))
        };
        Ok(match &self.op {
            BitwiseOp::MaskXor { mask, xor } => {
                let (mask, mask_len) = linking::constant(mask)?;
                let (xor, xor_len) = linking::constant(xor)?;
                if u32::from(mask_len) != self.len || u32::from(xor_len) != self.len {
                    let reason = "mask or xor is not as long as the register";
                    return Err(LinkReason::Malformed(reason));
                }
                let (mask, xor) = (linking::words(mask), linking::words(xor));
                if words == 1 {
                    Op::MaskXorWord { src, dst, mask: mask[0], xor: xor[0] }
                } else {
                    Op::MaskXor { src, dst, words, mask_xor: Box::new([mask, xor]) }
                }
            }
            BitwiseOp::Lshift(bits) => Op::Lshift { src, dst, words, bits: shift(*bits)? },
            BitwiseOp::Rshift(bits) => Op::Rshift { src, dst, words, bits: shift(*bits)? },
            BitwiseOp::Combine(op, sreg2) => {
                Op::Combine { op: *op, src, other: linking::slot(*sreg2, self.len)?, dst, words }
            }
        })
    }
}
