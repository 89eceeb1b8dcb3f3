// SPDX-License-Identifier: Apache-2.0

//! Operands of `synproxy`: answer for a server until the client is real (`NFTA_SYNPROXY_*`,
//! `net/netfilter/nft_synproxy.c`).

use serde::{Deserialize, Serialize};

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
