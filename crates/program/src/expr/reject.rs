// SPDX-License-Identifier: Apache-2.0

//! `reject`: answer with an error (`NFTA_REJECT_*`, `net/netfilter/nft_reject.c`).

use std::fmt;

use super::{Expression, Use};
use crate::check::{self, Reason};
use crate::hook::{Hook, Hooks};
use crate::linking::{LinkReason, Linking};
use crate::op::Op;
use crate::operand::{Reject, RejectType};
use crate::{Errno, Family};

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
        check::refuse(self.code > codes, Reason::Operand("the code is unknown"))
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
