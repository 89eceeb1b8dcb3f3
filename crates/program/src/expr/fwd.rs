// SPDX-License-Identifier: Apache-2.0

//! `fwd`: send the packet on a device (`NFTA_FWD_*`, `net/netfilter/nft_fwd_netdev.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, NFPROTO_IPV6, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::{Errno, Family, Register};

/// Hands the frame to a device, as it is or to a neighbour there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fwd {
    /// `NFTA_FWD_SREG_DEV`: interface index in host order, 4 bytes.
    pub dev: Register,
    /// `NFTA_FWD_SREG_ADDR`: neighbour in network order, 4 or 16 bytes.
    pub addr: Option<Register>,
    /// `NFTA_FWD_NFPROTO`: 2 or 10 with `addr`.
    pub nfproto: u8,
}

impl fmt::Display for Fwd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fwd sreg_dev {}", self.dev.0)?;
        if let Some(reg) = self.addr {
            write!(f, " sreg_addr {} nfproto {}", reg.0, self.nfproto)?;
        }
        Ok(())
    }
}

impl Expression for Fwd {
    fn name(&self) -> &'static str {
        "fwd"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.dev, Width::Bytes(4)));
        if let Some(reg) = self.addr {
            visit(Use::Read(reg, Width::Bytes(if self.nfproto == NFPROTO_IPV6 { 16 } else { 4 })));
        }
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family == Family::Netdev { Ok(()) } else { Err(Errno::Enoent) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Ingress, Hook::Egress])
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let v6 = self.nfproto == NFPROTO_IPV6;
        let len = if v6 { 16 } else { 4 };
        let addr = self.addr.map(|reg| linking::slot(reg, len)).transpose()?;
        Ok(Op::Fwd { dev: linking::slot(self.dev, 4)?, addr, v6 })
    }
}
