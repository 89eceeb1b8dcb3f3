// SPDX-License-Identifier: Apache-2.0

//! `osf`: guess the sender's operating system (`NFTA_OSF_*`, `net/netfilter/nft_osf.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

/// Loads a name, 16 bytes padded with zeros; breaks unless the packet is a TCP SYN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Osf {
    /// `NFTA_OSF_TTL`: 0 exact, 1 less or equal (`loose`), 2 not checked (`skip`).
    pub ttl: u8,
    /// `NFT_OSF_F_VERSION`: with version.
    pub version: bool,
    /// `NFTA_OSF_DREG`.
    pub dreg: Register,
}

impl Osf {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Write(self.dreg, Width::Bytes(16)));
    }
}

impl fmt::Display for Osf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "osf dreg {}", self.dreg.0)
    }
}
