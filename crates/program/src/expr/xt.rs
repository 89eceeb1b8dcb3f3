// SPDX-License-Identifier: Apache-2.0

//! `match`, `target`: x_tables extensions (`NFTA_MATCH_*`, `NFTA_TARGET_*`,
//! `net/netfilter/nft_compat.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expression, Use};
use crate::Family;
use crate::linking::{LinkReason, Linking, Unsupported};
use crate::op::Op;

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

impl Expression for Xt {
    fn name(&self) -> &'static str {
        if self.target { "target" } else { "match" }
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn runnable(&self) -> Result<(), &'static str> {
        Err("x_tables extensions are kept, never run")
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let (expression, reason) = (self.name(), "not linked");
        Err(LinkReason::Unsupported(Unsupported { expression, reason }))
    }
}
