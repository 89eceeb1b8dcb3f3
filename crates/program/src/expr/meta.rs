// SPDX-License-Identifier: Apache-2.0

//! `meta`: a packet's metadata (`NFTA_META_*`, `net/netfilter/nft_meta.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::MetaKey;
use crate::{Errno, Family, Register};

/// Loads a key; breaks where the packet does not have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// `NFTA_META_KEY`.
    pub key: MetaKey,
    /// `NFTA_META_DREG`.
    pub dreg: Register,
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meta load {} => {}", self.key, self.dreg)
    }
}

impl Expression for Meta {
    fn name(&self) -> &'static str {
        "meta"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.key.width())));
    }

    fn verify(&self) -> Result<(), Reason> {
        let only_set = matches!(self.key, MetaKey::NfTrace | MetaKey::BriBroute);
        check::refuse(only_set, Reason::Key)
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        match self.key {
            MetaKey::BriIifName
            | MetaKey::BriOifName
            | MetaKey::BriIifPvid
            | MetaKey::BriIifVproto
            | MetaKey::BriBroute
            | MetaKey::BriIifHwAddr
                if family != Family::Bridge =>
            {
                Err(Errno::Eopnotsupp)
            }
            _ => Ok(()),
        }
    }

    fn hooks(&self, family: Family) -> Hooks {
        match self.key {
            MetaKey::SecPath => match family {
                Family::Netdev => Hooks::of(&[Hook::Ingress]),
                Family::Ip | Family::Ip6 | Family::Inet => {
                    Hooks::of(&[Hook::Prerouting, Hook::Input, Hook::Forward])
                }
                Family::Arp | Family::Bridge => Hooks::NONE,
            },
            MetaKey::Sdif | MetaKey::SdifName if family.is_ip() => {
                Hooks::of(&[Hook::Input, Hook::Forward])
            }
            MetaKey::Sdif | MetaKey::SdifName => Hooks::NONE,
            _ => Hooks::ANY,
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        Ok(Op::Meta { key: self.key, dst: linking::slot(self.dreg, self.key.width())? })
    }
}

/// Sets a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetaSet {
    /// `NFTA_META_KEY`: mark, priority, packet type, nftrace, secmark or broute.
    pub key: MetaKey,
    /// `NFTA_META_SREG`.
    pub sreg: Register,
}

impl fmt::Display for MetaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meta set {} with {}", self.key, self.sreg)
    }
}

impl Expression for MetaSet {
    fn name(&self) -> &'static str {
        "meta"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Read(self.sreg, Width::Bytes(self.key.width())));
    }

    fn verify(&self) -> Result<(), Reason> {
        check::refuse(!self.key.can_be_set(), Reason::Key)
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        let bridge = self.key != MetaKey::BriBroute || family == Family::Bridge;
        if self.key.can_be_set() && bridge { Ok(()) } else { Err(Errno::Eopnotsupp) }
    }

    fn hooks(&self, family: Family) -> Hooks {
        match self.key {
            MetaKey::PktType => match family {
                Family::Netdev => Hooks::of(&[Hook::Ingress]),
                Family::Bridge | Family::Ip | Family::Ip6 | Family::Inet => {
                    Hooks::of(&[Hook::Prerouting])
                }
                Family::Arp => Hooks::NONE,
            },
            MetaKey::BriBroute => Hooks::of(&[Hook::Prerouting]),
            _ => Hooks::ANY,
        }
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        if !self.key.can_be_set() {
            return Err(LinkReason::Malformed("a meta key that cannot be set"));
        }
        Ok(Op::MetaSet { key: self.key, src: linking::slot(self.sreg, self.key.width())? })
    }
}
