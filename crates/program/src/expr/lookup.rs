// SPDX-License-Identifier: Apache-2.0

//! `lookup`: find a register in a set or map (`NFTA_LOOKUP_*`, `net/netfilter/nft_lookup.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Use, Width};
use crate::Register;

/// Breaks unless the set holds the key (or holds it, if `inverse`); loads what a map has for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lookup {
    /// `NFTA_LOOKUP_SET`.
    pub set: Arc<str>,
    /// `NFTA_LOOKUP_SREG`: the key, as long as the set's keys.
    pub sreg: Register,
    /// `NFTA_LOOKUP_DREG`: a map's data goes here; the verdict register for verdict maps.
    pub dreg: Option<Register>,
    /// `NFT_LOOKUP_F_INV`.
    pub inverse: bool,
}

impl Lookup {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.sreg, Width::Key(&self.set)));
        match self.dreg {
            Some(Register::VERDICT) => visit(Use::Verdict(Register::VERDICT)),
            Some(dreg) => visit(Use::Write(dreg, Width::Value(&self.set))),
            None => {}
        }
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lookup {} set {}", self.sreg, self.set)?;
        if let Some(dreg) = self.dreg {
            write!(f, " dreg {}", dreg.0)?;
        }
        if self.inverse {
            f.write_str(" 0x1")?;
        }
        Ok(())
    }
}
