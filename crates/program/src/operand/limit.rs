// SPDX-License-Identifier: Apache-2.0

//! Operands of `limit`: a token bucket (`NFTA_LIMIT_*`, `net/netfilter/nft_limit.c`).

use serde::{Deserialize, Serialize};

/// `enum nft_limit_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LimitType {
    /// `NFT_LIMIT_PKTS`.
    Packets,
    /// `NFT_LIMIT_PKT_BYTES`.
    Bytes,
}

/// Breaks when the rate is exceeded, or while it is not (`over`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// `NFTA_LIMIT_RATE`: packets or bytes per unit.
    pub rate: u64,
    /// `NFTA_LIMIT_UNIT`: seconds of the unit: 1, 60, 3600, 86400, 604800.
    pub unit: u64,
    /// `NFTA_LIMIT_BURST`: packets or bytes.
    pub burst: u32,
    /// `NFTA_LIMIT_TYPE`.
    pub kind: LimitType,
    /// `NFT_LIMIT_F_INV`: `over`.
    pub over: bool,
}
