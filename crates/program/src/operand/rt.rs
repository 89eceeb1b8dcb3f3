// SPDX-License-Identifier: Apache-2.0

//! Operands of `rt`: the packet's route (`NFTA_RT_*`, `net/netfilter/nft_rt.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_rt_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RtKey {
    /// Realm in host order, 4 bytes.
    Classid,
    /// Next hop, 4 bytes in network order.
    Nexthop4,
    /// Next hop, 16 bytes in network order.
    Nexthop6,
    /// Maximum segment size in host order, 2 bytes.
    TcpMss,
    /// Whether the route is through IPsec, 1 byte.
    Xfrm,
}

impl RtKey {
    /// Bytes in the register.
    pub fn width(self) -> u32 {
        match self {
            RtKey::Classid | RtKey::Nexthop4 => 4,
            RtKey::Nexthop6 => 16,
            RtKey::TcpMss => 2,
            RtKey::Xfrm => 1,
        }
    }
}
