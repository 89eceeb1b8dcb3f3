// SPDX-License-Identifier: Apache-2.0

//! `reject`: answer with an error (`NFTA_REJECT_*`, `net/netfilter/nft_reject.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use};
use crate::hook::{Hook, Hooks};
use crate::link::{LinkReason, Linking};
use crate::op::Op;
use crate::verify::{self, Reason};
use crate::{Errno, Family};

/// `NFT_REJECT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum RejectType {
    /// ICMP or ICMPv6 destination unreachable, code of that protocol.
    IcmpUnreach = 0,
    /// TCP reset.
    TcpRst = 1,
    /// Destination unreachable of the packet's own family, code `NFT_REJECT_ICMPX_*`.
    IcmpxUnreach = 2,
}

/// Answers, and drops the packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reject {
    /// `NFTA_REJECT_TYPE`.
    pub kind: RejectType,
    /// `NFTA_REJECT_ICMP_CODE`.
    pub code: u8,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reject type {} code {}", self.kind as u8, self.code)
    }
}

impl Expression for Reject {
    fn name(&self) -> &'static str {
        "reject"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn verify(&self) -> Result<(), Reason> {
        let codes = if self.kind == RejectType::IcmpxUnreach { 3 } else { u8::MAX };
        verify::refuse(self.code > codes, Reason::Operand("the code is unknown"))
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        match (family, self.kind) {
            (Family::Arp, _) => Err(Errno::Enoent),
            (Family::Ip | Family::Ip6, RejectType::IcmpxUnreach) => Err(Errno::Einval),
            (Family::Ip | Family::Ip6 | Family::Inet | Family::Bridge | Family::Netdev, _) => {
                Ok(())
            }
        }
    }

    fn hooks(&self, family: Family) -> Hooks {
        const IP: &[Hook] = &[Hook::Input, Hook::Forward, Hook::Output, Hook::Prerouting];
        match family {
            Family::Inet => Hooks::of(IP).or(Hooks::of(&[Hook::Ingress])),
            Family::Ip | Family::Ip6 => Hooks::of(IP),
            Family::Bridge => Hooks::of(&[Hook::Prerouting, Hook::Input]),
            Family::Netdev => Hooks::of(&[Hook::Ingress]),
            Family::Arp => Hooks::NONE,
        }
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Reject(self.clone()))
    }
}
