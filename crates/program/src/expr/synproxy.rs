// SPDX-License-Identifier: Apache-2.0

//! `synproxy`: answer for a server until the client is real (`NFTA_SYNPROXY_*`,
//! `net/netfilter/nft_synproxy.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use};
use crate::hook::{Hook, Hooks};
use crate::link::{LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::{Errno, Family};

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

impl Expression for Synproxy {
    fn name(&self) -> &'static str {
        "synproxy"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Eproto) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Input, Hook::Forward])
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
        needs.synproxy.add(family);
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Synproxy(*self))
    }
}
