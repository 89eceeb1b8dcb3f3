// SPDX-License-Identifier: Apache-2.0

//! Operands of `reject`: answer with an error (`NFTA_REJECT_*`, `net/netfilter/nft_reject.c`).

use serde::{Deserialize, Serialize};

/// `NFT_REJECT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum RejectType {
    /// ICMP or ICMPv6 destination unreachable, code of that protocol.
    IcmpUnreach = 0,
    /// TCP reset.
    TcpRst = 1,
    /// Destination unreachable of the packet's own family, code `NFT_REJECT_ICMPX_*`.
    IcmpxUnreach = 2,
}

/// Answers, and drops the packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reject {
    /// `NFTA_REJECT_TYPE`.
    pub kind: RejectType,
    /// `NFTA_REJECT_ICMP_CODE`.
    pub code: u8,
}
