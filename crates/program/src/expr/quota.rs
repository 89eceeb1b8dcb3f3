// SPDX-License-Identifier: Apache-2.0

//! `quota`: an amount of bytes (`NFTA_QUOTA_*`, `net/netfilter/nft_quota.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Breaks once the amount is used up, or until it is (`over`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// `NFTA_QUOTA_BYTES`: the amount.
    pub bytes: u64,
    /// `NFTA_QUOTA_CONSUMED`: bytes used, initially or at present.
    pub consumed: u64,
    /// `NFT_QUOTA_F_INV`: `over`.
    pub over: bool,
    /// `NFT_QUOTA_F_DEPLETED`: used up, as the kernel reports it.
    pub depleted: bool,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u32::from(self.over) | u32::from(self.depleted) << 1;
        write!(f, "quota bytes {} consumed {} flags {flags}", self.bytes, self.consumed)
    }
}
