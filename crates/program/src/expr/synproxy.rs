// SPDX-License-Identifier: Apache-2.0

//! `synproxy`: answer for a server until the client is real (`NFTA_SYNPROXY_*`,
//! `net/netfilter/nft_synproxy.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// What to offer the client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synproxy {
    /// `NFTA_SYNPROXY_MSS`.
    pub mss: u16,
    /// `NFTA_SYNPROXY_WSCALE`.
    pub wscale: u8,
    /// `NFTA_SYNPROXY_FLAGS`: `NF_SYNPROXY_OPT_*`: 1 mss, 2 window scale, 4 SACK permitted, 8
    /// timestamp.
    pub flags: u32,
}

impl fmt::Display for Synproxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "synproxy mss {} wscale {}", self.mss, self.wscale)
    }
}
