// SPDX-License-Identifier: Apache-2.0

//! `synproxy`: answer for a server until the client is real (`NFTA_SYNPROXY_*`,
//! `net/netfilter/nft_synproxy.c`).

use std::fmt;

use super::{Expression, Use};
use crate::hook::{Hook, Hooks};
use crate::linking::{LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::operand::Synproxy;
use crate::{Errno, Family};

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
