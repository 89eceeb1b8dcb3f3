// SPDX-License-Identifier: Apache-2.0

//! `payload`: bytes of the packet into a register and back (`NFTA_PAYLOAD_*`,
//! `net/netfilter/nft_payload.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, BYTE, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::{ChecksumType, PayloadBase};
use crate::{Family, Register};

/// Loads bytes as they stand in the packet; the last word of the register is padded with zeros.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// `NFTA_PAYLOAD_BASE`.
    pub base: PayloadBase,
    /// `NFTA_PAYLOAD_OFFSET`: bytes from the start of the base header.
    pub offset: u32,
    /// `NFTA_PAYLOAD_LEN`: bytes.
    pub len: u32,
    /// `NFTA_PAYLOAD_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "payload load {}b @ {} header + {} => {}",
            self.len, self.base, self.offset, self.dreg
        )
    }
}

impl Expression for Payload {
    fn name(&self) -> &'static str {
        "payload"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.base == PayloadBase::Tunnel, Reason::Misplaced)?;
        check::refuse(self.offset > u32::from(u16::MAX) || self.len > BYTE, Reason::TooLarge)
    }

    fn runnable(&self) -> Result<(), &'static str> {
        match self.base {
            PayloadBase::Tunnel => Err("tunnel headers exist inside inner only"),
            PayloadBase::Link
            | PayloadBase::Network
            | PayloadBase::Transport
            | PayloadBase::Inner => Ok(()),
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let dst = linking::slot(self.dreg, self.len)?;
        let (len, offset) = (linking::narrow(self.len)?, linking::narrow(self.offset)?);
        Ok(match self.base {
            PayloadBase::Link => Op::LoadLink { dst, len, offset },
            PayloadBase::Network => Op::LoadNetwork { dst, len, offset },
            PayloadBase::Transport => Op::LoadTransport { dst, len, offset },
            PayloadBase::Inner => Op::LoadInner { dst, len, offset },
            PayloadBase::Tunnel => {
                return Err(LinkReason::Malformed("a tunnel header outside of inner"));
            }
        })
    }
}

/// `NFT_PAYLOAD_L4CSUM_PSEUDOHDR` of [`PayloadSet::csum_flags`]: what is written is part of the
/// transport protocol's pseudo-header.
pub const L4CSUM_PSEUDOHDR: u32 = 1;

/// Writes a register's bytes into the packet and brings its checksums up to date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PayloadSet {
    /// `NFTA_PAYLOAD_BASE`.
    pub base: PayloadBase,
    /// `NFTA_PAYLOAD_OFFSET`: bytes from the start of the base header.
    pub offset: u32,
    /// `NFTA_PAYLOAD_LEN`: bytes.
    pub len: u32,
    /// `NFTA_PAYLOAD_SREG`.
    pub sreg: Register,
    /// `NFTA_PAYLOAD_CSUM_TYPE`.
    pub csum_type: ChecksumType,
    /// `NFTA_PAYLOAD_CSUM_OFFSET`: bytes from the start of the base header.
    pub csum_offset: u32,
    /// `NFTA_PAYLOAD_CSUM_FLAGS`: 0 or [`L4CSUM_PSEUDOHDR`].
    pub csum_flags: u32,
}

impl fmt::Display for PayloadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "payload write {} => {}b @ {} header + {} csum_type {} csum_off {} csum_flags 0x{:x}",
            self.sreg,
            self.len,
            self.base,
            self.offset,
            self.csum_type as u32,
            self.csum_offset,
            self.csum_flags
        )
    }
}

impl Expression for PayloadSet {
    fn name(&self) -> &'static str {
        "payload"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(self.base == PayloadBase::Tunnel, Reason::Misplaced)?;
        let large = self.offset > BYTE || self.len > BYTE || self.csum_offset > BYTE;
        check::refuse(large, Reason::TooLarge)?;
        let unknown = self.csum_flags & !L4CSUM_PSEUDOHDR != 0;
        check::refuse(unknown, Reason::Operand("a checksum flag is unknown"))?;
        let sctp = self.csum_type == ChecksumType::Sctp;
        let fits = self.base == PayloadBase::Transport && self.csum_offset == 8;
        check::refuse(
            sctp && !fits,
            Reason::Operand("the CRC of SCTP is at byte 8 of the transport header"),
        )
    }

    fn runnable(&self) -> Result<(), &'static str> {
        match self.base {
            PayloadBase::Tunnel => Err("tunnel headers cannot be written"),
            PayloadBase::Link
            | PayloadBase::Network
            | PayloadBase::Transport
            | PayloadBase::Inner => Ok(()),
        }
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::PayloadSet {
            base: self.base,
            src: linking::slot(self.sreg, self.len)?,
            len: linking::narrow(self.len)?,
            offset: linking::narrow(self.offset)?,
            csum_type: self.csum_type,
            csum_offset: linking::narrow(self.csum_offset)?,
            pseudo: self.csum_flags & L4CSUM_PSEUDOHDR != 0,
        })
    }
}
