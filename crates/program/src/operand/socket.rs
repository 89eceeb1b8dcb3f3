// SPDX-License-Identifier: Apache-2.0

//! Operands of `socket`: a local socket for the packet (`NFTA_SOCKET_*`,
//! `net/netfilter/nft_socket.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_socket_keys`. Integers are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SocketKey {
    /// `IP_TRANSPARENT`, 1 byte.
    Transparent,
    /// `SO_MARK`, 4 bytes.
    Mark,
    /// Bound to all addresses, 1 byte.
    Wildcard,
    /// cgroup v2 identifier at a level, 8 bytes.
    Cgroupv2,
}

impl SocketKey {
    /// Bytes in the register.
    pub fn width(self) -> u32 {
        match self {
            SocketKey::Transparent | SocketKey::Wildcard => 1,
            SocketKey::Mark => 4,
            SocketKey::Cgroupv2 => 8,
        }
    }
}
