// SPDX-License-Identifier: Apache-2.0

//! Operands of `tunnel`: metadata of a tunnel (`NFTA_TUNNEL_*`, `net/netfilter/nft_tunnel.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_tunnel_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunnelKey {
    /// Whether there is any, 1 byte.
    Path,
    /// Tunnel id in host order, 4 bytes.
    Id,
}

impl TunnelKey {
    /// Bytes in the register.
    pub fn width(self) -> u32 {
        match self {
            TunnelKey::Path => 1,
            TunnelKey::Id => 4,
        }
    }
}
