// SPDX-License-Identifier: Apache-2.0

//! `rt`: the packet's route (`NFTA_RT_*`, `net/netfilter/nft_rt.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::RtKey;
use crate::{Family, Register};

/// Loads a property of the route; breaks without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rt {
    /// `NFTA_RT_KEY`.
    pub key: RtKey,
    /// `NFTA_RT_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Rt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            RtKey::Classid => "classid",
            RtKey::Nexthop4 => "nexthop4",
            RtKey::Nexthop6 => "nexthop6",
            RtKey::TcpMss => "tcpmss",
            RtKey::Xfrm => "ipsec",
        };
        write!(f, "rt load {key} => {}", self.dreg)
    }
}

impl Expression for Rt {
    fn name(&self) -> &'static str {
        "rt"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width())));
    }

    fn hooks(&self, family: Family) -> Hooks {
        match self.key {
            _ if !family.is_ip() => Hooks::NONE,
            RtKey::TcpMss => Hooks::of(&[Hook::Forward, Hook::Output, Hook::Postrouting]),
            RtKey::Classid | RtKey::Nexthop4 | RtKey::Nexthop6 | RtKey::Xfrm => Hooks::ANY,
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Rt { key: self.key, dst: linking::slot(self.dreg, self.key.width())? })
    }
}
