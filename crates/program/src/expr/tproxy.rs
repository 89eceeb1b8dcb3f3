// SPDX-License-Identifier: Apache-2.0

//! `tproxy`: assign a local socket (`NFTA_TPROXY_*`, `net/netfilter/nft_tproxy.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, NFPROTO_IPV4, Use, Width, family_word};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::{Errno, Family, Register};

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
    /// Bytes of the address.
    fn addr_len(&self) -> u32 {
        if self.family == NFPROTO_IPV4 { 4 } else { 16 }
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

impl Expression for Tproxy {
    fn name(&self) -> &'static str {
        "tproxy"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        if let Some(reg) = self.addr {
            visit(Use::Read(reg, Width::Bytes(self.addr_len())));
        }
        if let Some(reg) = self.port {
            visit(Use::Read(reg, Width::Bytes(2)));
        }
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Prerouting])
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.defrag.add(family);
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let addr = self.addr.map(|reg| linking::slot(reg, self.addr_len())).transpose()?;
        let port = self.port.map(|reg| linking::slot(reg, 2)).transpose()?;
        Ok(Op::Tproxy { family: self.family, addr, port })
    }
}
