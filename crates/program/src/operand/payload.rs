// SPDX-License-Identifier: Apache-2.0

//! Operands of `payload`: bytes of the packet into a register and back (`NFTA_PAYLOAD_*`,
//! `net/netfilter/nft_payload.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// `enum nft_payload_bases`: which header offsets count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PayloadBase {
    /// Link header, with the VLAN tag of the metadata put back in.
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

/// `NFT_PAYLOAD_CSUM_*`: which checksum the header that is written to has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChecksumType {
    /// None.
    None = 0,
    /// Internet checksum, updated incrementally.
    Inet = 1,
    /// CRC32c, recomputed.
    Sctp = 2,
}
