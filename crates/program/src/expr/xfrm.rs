// SPDX-License-Identifier: Apache-2.0

//! `xfrm`: the packet's IPsec transformation (`NFTA_XFRM_*`, `net/netfilter/nft_xfrm.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::XfrmKey;
use crate::{Errno, Family, Register};

/// Loads a property of a transformation; breaks without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Xfrm {
    /// `NFTA_XFRM_KEY`.
    pub key: XfrmKey,
    /// `NFTA_XFRM_DIR`: `false` in, `true` out.
    pub out: bool,
    /// `NFTA_XFRM_SPNUM`: which one, from 0.
    pub spnum: u32,
    /// `NFTA_XFRM_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Xfrm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            XfrmKey::DaddrIp4 => "daddr4",
            XfrmKey::DaddrIp6 => "daddr6",
            XfrmKey::SaddrIp4 => "saddr4",
            XfrmKey::SaddrIp6 => "saddr6",
            XfrmKey::Reqid => "reqid",
            XfrmKey::Spi => "spi",
        };
        let dir = if self.out { "out" } else { "in" };
        write!(f, "xfrm load {dir} {} {key} => {}", self.spnum, self.dreg)
    }
}

impl Expression for Xfrm {
    fn name(&self) -> &'static str {
        "xfrm"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width())));
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        if family.is_ip() { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        if self.out {
            Hooks::of(&[Hook::Forward, Hook::Output, Hook::Postrouting])
        } else {
            Hooks::of(&[Hook::Forward, Hook::Input, Hook::Prerouting])
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let dst = linking::slot(self.dreg, self.key.width())?;
        Ok(Op::Xfrm { key: self.key, out: self.out, spnum: self.spnum, dst })
    }
}
