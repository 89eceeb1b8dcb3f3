// SPDX-License-Identifier: Apache-2.0

//! `connlimit`: number of connections (`NFTA_CONNLIMIT_*`, `net/netfilter/nft_connlimit.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Breaks when there are more connections than `count`, or unless there are (`over`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connlimit {
    /// `NFTA_CONNLIMIT_COUNT`.
    pub count: u32,
    /// `NFT_CONNLIMIT_F_INV`: `over`.
    pub over: bool,
}

impl fmt::Display for Connlimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connlimit count {} flags {:x}", self.count, u32::from(self.over))
    }
}
