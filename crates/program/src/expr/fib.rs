// SPDX-License-Identifier: Apache-2.0

//! `fib`: ask the routing table (`NFTA_FIB_*`, `net/netfilter/nft_fib.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::Op;
use crate::operand::{FIB_DADDR, FIB_IIF, FIB_MARK, FIB_OIF, FIB_PRESENT, FIB_SADDR, FibResult};
use crate::{Errno, Family, Register};

/// Loads the result of a lookup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fib {
    /// `NFTA_FIB_RESULT`.
    pub result: FibResult,
    /// `NFTA_FIB_FLAGS`: what is looked up ([`FIB_SADDR`] and its like).
    pub flags: u32,
    /// `NFTA_FIB_DREG`.
    pub dreg: Register,
}

impl Fib {
    /// Bytes in the register. The kernel asks for a whole word also for `present`.
    pub fn width(&self) -> u32 {
        match self.result {
            FibResult::Oif | FibResult::AddrType => 4,
            FibResult::OifName if self.flags & FIB_PRESENT != 0 => 4,
            FibResult::OifName => 16,
        }
    }
}

impl fmt::Display for Fib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "fib ";
        for (bit, word) in [
            (FIB_SADDR, "saddr"),
            (FIB_DADDR, "daddr"),
            (FIB_MARK, "mark"),
            (FIB_IIF, "iif"),
            (FIB_OIF, "oif"),
        ] {
            if self.flags & bit != 0 {
                write!(f, "{gap}{word}")?;
                gap = " . ";
            }
        }
        let result = match self.result {
            FibResult::Oif => "oif",
            FibResult::OifName => "oifname",
            FibResult::AddrType => "type",
        };
        let present = if self.flags & FIB_PRESENT != 0 { " present" } else { "" };
        write!(f, " {result}{present} => {}", self.dreg)
    }
}

impl Expression for Fib {
    fn name(&self) -> &'static str {
        "fib"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        visit(Use::Write(self.dreg, Width::Bytes(self.width())));
    }

    fn verify(&self) -> Result<(), Reason> {
        const ALL: u32 = FIB_SADDR | FIB_DADDR | FIB_MARK | FIB_IIF | FIB_OIF | FIB_PRESENT;
        let flags = self.flags;
        check::refuse(flags & !ALL != 0 || flags == 0, Reason::Operand("a fib flag is unknown"))?;
        let one = (flags & FIB_SADDR != 0) != (flags & FIB_DADDR != 0);
        check::refuse(!one, Reason::Operand("fib looks up the source or the destination"))?;
        check::refuse(
            flags & FIB_PRESENT != 0 && self.result != FibResult::Oif,
            Reason::Operand("fib tells of an index only whether it is there"),
        )?;
        let both = FIB_IIF | FIB_OIF;
        check::refuse(flags & both == both, Reason::Operand("fib looks at one interface"))
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        let there = family.is_ip() || family == Family::Netdev;
        if there { Ok(()) } else { Err(Errno::Enoent) }
    }

    fn hooks(&self, family: Family) -> Hooks {
        const RECEIVED: &[Hook] = &[Hook::Prerouting, Hook::Input, Hook::Forward];
        const SENT: &[Hook] = &[Hook::Forward, Hook::Output, Hook::Postrouting, Hook::Egress];
        let received = match family {
            Family::Netdev => Hooks::of(RECEIVED).or(Hooks::of(&[Hook::Ingress])),
            Family::Ip | Family::Ip6 | Family::Inet | Family::Arp | Family::Bridge => {
                Hooks::of(RECEIVED)
            }
        };
        match self.result {
            FibResult::Oif | FibResult::OifName => received,
            FibResult::AddrType if self.flags & FIB_IIF != 0 => received,
            FibResult::AddrType if self.flags & FIB_OIF != 0 => Hooks::of(SENT),
            FibResult::AddrType => received.or(Hooks::of(SENT)),
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let (flags, dst) = (linking::narrow(self.flags)?, linking::slot(self.dreg, self.width())?);
        Ok(Op::Fib { result: self.result, flags, dst })
    }
}
