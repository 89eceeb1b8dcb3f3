// SPDX-License-Identifier: Apache-2.0

//! `osf`: guess the sender's operating system (`NFTA_OSF_*`, `net/netfilter/nft_osf.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::{Family, Register};

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

impl fmt::Display for Osf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "osf dreg {}", self.dreg.0)
    }
}

impl Expression for Osf {
    fn name(&self) -> &'static str {
        "osf"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(16)));
    }

    fn hooks(&self, family: Family) -> Hooks {
        match family {
            Family::Ip | Family::Inet => Hooks::of(&[Hook::Input, Hook::Prerouting, Hook::Forward]),
            Family::Ip6 | Family::Arp | Family::Netdev | Family::Bridge => Hooks::NONE,
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let (ttl, version, dst) = (self.ttl, self.version, linking::slot(self.dreg, 16)?);
        Ok(Op::Osf { ttl, version, dst, added: linking.names.fingerprints() })
    }
}
