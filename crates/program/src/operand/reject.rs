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

impl Reject {
    /// The code of an error for a packet of IPv6 or of IPv4, which does not count for a reset.
    pub fn icmp_code(&self, v6: bool) -> u8 {
        match self.kind {
            RejectType::IcmpxUnreach => icmpx(self.code, v6),
            RejectType::IcmpUnreach | RejectType::TcpRst => self.code,
        }
    }
}

/// `nft_reject_icmp_code()`, `nft_reject_icmpv6_code()`.
fn icmpx(code: u8, v6: bool) -> u8 {
    match (code, v6) {
        // No route.
        (0, _) => 0,
        // Port unreachable.
        (1, false) => 3,
        (1, true) => 4,
        // Host unreachable.
        (2, false) => 1,
        (2, true) => 3,
        // Administratively prohibited.
        (3, false) => 13,
        (3, true) => 1,
        // The kernel takes no other code.
        _ => 0,
    }
}
