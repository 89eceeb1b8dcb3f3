// SPDX-License-Identifier: Apache-2.0

//! `fwd`: send the packet on a device (`NFTA_FWD_*`, `net/netfilter/nft_fwd_netdev.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{NFPROTO_IPV6, Use, Width};
use crate::Register;

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

impl Fwd {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        visit(Use::Read(self.dev, Width::Bytes(4)));
        if let Some(reg) = self.addr {
            visit(Use::Read(reg, Width::Bytes(if self.nfproto == NFPROTO_IPV6 { 16 } else { 4 })));
        }
    }
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
