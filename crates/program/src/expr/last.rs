// SPDX-License-Identifier: Apache-2.0

//! `last`: when it was last reached (`NFTA_LAST_*`, `net/netfilter/nft_last.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Notes the time.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Last {
    /// `NFTA_LAST_SET`: reached at all.
    pub set: bool,
    /// `NFTA_LAST_MSECS`: milliseconds since then.
    pub msecs: u64,
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.set { write!(f, "last {}", self.msecs) } else { f.write_str("last never") }
    }
}
