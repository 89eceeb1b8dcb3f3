// SPDX-License-Identifier: Apache-2.0

//! `dup`: send a copy elsewhere (`NFTA_DUP_*`, `net/ipv4/netfilter/nft_dup_ipv4.c`,
//! `net/netfilter/nft_dup_netdev.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::{Errno, Family, Register};

/// In ip and ip6 tables a copy is routed to a gateway; in netdev tables it is sent on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dup {
    /// `NFTA_DUP_SREG_ADDR`: gateway in network order, 4 or 16 bytes as the table's family has it.
    pub addr: Option<Register>,
    /// `NFTA_DUP_SREG_DEV`: interface index in host order, 4 bytes.
    pub dev: Option<Register>,
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

impl Expression for Dup {
    fn name(&self) -> &'static str {
        "dup"
    }

    fn uses<'a>(&'a self, family: Family, visit: &mut dyn FnMut(Use<'a>)) {
        if let Some(reg) = self.addr {
            visit(Use::Read(reg, Width::Bytes(if family == Family::Ip6 { 16 } else { 4 })));
        }
        if let Some(reg) = self.dev {
            visit(Use::Read(reg, Width::Bytes(4)));
        }
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        match family {
            Family::Ip | Family::Ip6 | Family::Netdev => Ok(()),
            Family::Inet | Family::Arp | Family::Bridge => Err(Errno::Enoent),
        }
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let v6 = linking.family == Family::Ip6;
        let len = if v6 { 16 } else { 4 };
        let addr = self.addr.map(|reg| linking::slot(reg, len)).transpose()?;
        Ok(Op::Dup { addr, v6, dev: self.dev.map(|reg| linking::slot(reg, 4)).transpose()? })
    }
}
