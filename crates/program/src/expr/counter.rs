// SPDX-License-Identifier: Apache-2.0

//! `counter`: packets and bytes (`NFTA_COUNTER_*`, `net/netfilter/nft_counter.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// Counts. The fields are initial values in a program, present ones in a snapshot.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Counter {
    /// `NFTA_COUNTER_PACKETS`.
    pub packets: u64,
    /// `NFTA_COUNTER_BYTES`.
    pub bytes: u64,
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counter pkts {} bytes {}", self.packets, self.bytes)
    }
}
