// SPDX-License-Identifier: Apache-2.0

//! Operands of `xfrm`: the packet's IPsec transformation (`NFTA_XFRM_*`,
//! `net/netfilter/nft_xfrm.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_xfrm_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum XfrmKey {
    /// Destination, 4 bytes in network order.
    DaddrIp4,
    /// Destination, 16 bytes in network order.
    DaddrIp6,
    /// Source, 4 bytes in network order.
    SaddrIp4,
    /// Source, 16 bytes in network order.
    SaddrIp6,
    /// Request id, 4 bytes in host order.
    Reqid,
    /// Security parameter index, 4 bytes in network order.
    Spi,
}

impl XfrmKey {
    /// Bytes in the register.
    pub fn width(self) -> u32 {
        match self {
            XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6 => 16,
            XfrmKey::DaddrIp4 | XfrmKey::SaddrIp4 | XfrmKey::Reqid | XfrmKey::Spi => 4,
        }
    }
}
