// SPDX-License-Identifier: Apache-2.0

//! `match`, `target`: x_tables extensions (`NFTA_MATCH_*`, `NFTA_TARGET_*`,
//! `net/netfilter/nft_compat.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// An x_tables match or target, kept and listed, never run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Xt {
    /// A target; else a match.
    pub target: bool,
    /// `NFTA_MATCH_NAME`, `NFTA_TARGET_NAME`.
    pub name: Arc<str>,
    /// `NFTA_MATCH_REV`, `NFTA_TARGET_REV`.
    pub rev: u32,
    /// `NFTA_MATCH_INFO`, `NFTA_TARGET_INFO`: the extension's own structure.
    pub info: Arc<[u8]>,
}

impl fmt::Display for Xt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} name {} rev {}",
            if self.target { "target" } else { "match" },
            self.name,
            self.rev
        )
    }
}
