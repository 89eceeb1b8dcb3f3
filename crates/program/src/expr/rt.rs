// SPDX-License-Identifier: Apache-2.0

//! `rt`: the packet's route (`NFTA_RT_*`, `net/netfilter/nft_rt.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::hook::{Hook, Hooks};
use crate::link::{self, LinkReason, Linking};
use crate::op::Op;
use crate::{Family, Register};

/// `enum nft_rt_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RtKey {
    /// Realm in host order, 4 bytes.
    Classid,
    /// Next hop, 4 bytes in network order.
    Nexthop4,
    /// Next hop, 16 bytes in network order.
    Nexthop6,
    /// Maximum segment size in host order, 2 bytes.
    TcpMss,
    /// Whether the route is through IPsec, 1 byte.
    Xfrm,
}

impl RtKey {
    /// Bytes in the register.
    pub fn width(self) -> u32 {
        match self {
            RtKey::Classid | RtKey::Nexthop4 => 4,
            RtKey::Nexthop6 => 16,
            RtKey::TcpMss => 2,
            RtKey::Xfrm => 1,
        }
    }
}

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
        Ok(Op::Rt { key: self.key, dst: link::slot(self.dreg, self.key.width())? })
    }
}
