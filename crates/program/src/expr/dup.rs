// SPDX-License-Identifier: Apache-2.0

//! `dup`: send a copy elsewhere (`NFTA_DUP_*`, `net/ipv4/netfilter/nft_dup_ipv4.c`,
//! `net/netfilter/nft_dup_netdev.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{NFPROTO_IPV6, Use, Width};
use crate::Register;

/// In ip and ip6 tables a copy is routed to a gateway; in netdev tables it is sent on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dup {
    /// `NFTA_DUP_SREG_ADDR`: gateway in network order, 4 or 16 bytes as the table's family has it.
    pub addr: Option<Register>,
    /// `NFTA_DUP_SREG_DEV`: interface index in host order, 4 bytes.
    pub dev: Option<Register>,
}

impl Dup {
    pub(super) fn uses(&self, nfproto: u8, visit: &mut dyn FnMut(Use)) {
        if let Some(reg) = self.addr {
            visit(Use::Read(reg, Width::Bytes(if nfproto == NFPROTO_IPV6 { 16 } else { 4 })));
        }
        if let Some(reg) = self.dev {
            visit(Use::Read(reg, Width::Bytes(4)));
        }
    }
}

impl fmt::Display for Dup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dup")?;
        if let Some(reg) = self.addr {
            write!(f, " sreg_addr {}", reg.0)?;
        }
        if let Some(reg) = self.dev {
            write!(f, " sreg_dev {}", reg.0)?;
        }
        Ok(())
    }
}
