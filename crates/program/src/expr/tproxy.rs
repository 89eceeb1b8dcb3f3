// SPDX-License-Identifier: Apache-2.0

//! `tproxy`: assign a local socket (`NFTA_TPROXY_*`, `net/netfilter/nft_tproxy.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{NFPROTO_IPV4, Use, Width, family_word};
use crate::Register;

/// Breaks without such a socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tproxy {
    /// `NFTA_TPROXY_FAMILY`: 0 (both), 2 or 10.
    pub family: u8,
    /// `NFTA_TPROXY_REG_ADDR`: network order, 4 or 16 bytes.
    pub addr: Option<Register>,
    /// `NFTA_TPROXY_REG_PORT`: network order, 2 bytes.
    pub port: Option<Register>,
}

impl Tproxy {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        if let Some(reg) = self.addr {
            visit(Use::Read(reg, Width::Bytes(if self.family == NFPROTO_IPV4 { 4 } else { 16 })));
        }
        if let Some(reg) = self.port {
            visit(Use::Read(reg, Width::Bytes(2)));
        }
    }
}

impl fmt::Display for Tproxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tproxy")?;
        if self.family != 0 {
            write!(f, " {}", family_word(self.family))?;
        }
        if let Some(reg) = self.addr {
            write!(f, " addr {reg}")?;
        }
        if let Some(reg) = self.port {
            write!(f, " port {reg}")?;
        }
        Ok(())
    }
}
