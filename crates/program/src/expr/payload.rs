// SPDX-License-Identifier: Apache-2.0

//! `payload`: bytes of the packet into a register and back (`NFTA_PAYLOAD_*`,
//! `net/netfilter/nft_payload.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// `enum nft_payload_bases`: which header offsets count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PayloadBase {
    /// Link header, with a VLAN tag held beside the frame put back in.
    Link,
    /// Network header.
    Network,
    /// Transport header; breaks without one and on later fragments.
    Transport,
    /// What the transport header carries.
    Inner,
    /// Header of a tunnel, inside `inner` only.
    Tunnel,
}

impl fmt::Display for PayloadBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadBase::Link => "link",
            PayloadBase::Network => "network",
            PayloadBase::Transport => "transport",
            PayloadBase::Inner => "inner",
            PayloadBase::Tunnel => "tunnel",
        })
    }
}

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

impl Payload {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.len)));
    }
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

/// `NFT_PAYLOAD_CSUM_*`: which checksum the header that is written to has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChecksumType {
    /// None.
    None = 0,
    /// Internet checksum, updated incrementally.
    Inet = 1,
    /// CRC32c, computed anew.
    Sctp = 2,
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

impl PayloadSet {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.len)));
    }
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
