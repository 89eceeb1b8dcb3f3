// SPDX-License-Identifier: Apache-2.0

//! `queue`: hand the packet to a listener (`NFTA_QUEUE_*`, `net/netfilter/nft_queue.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Expression, Use, Width};
use crate::check::{self, Reason};
use crate::hook::{Hook, Hooks};
use crate::linking::{self, LinkReason, Linking};
use crate::op::{LinkedQueue, Op};
use crate::{Errno, Family, Register};

/// To one of `total` queues from `num` on, or to the queue a register names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// `NFTA_QUEUE_NUM`.
    pub num: u16,
    /// `NFTA_QUEUE_TOTAL`.
    pub total: u16,
    /// `NFTA_QUEUE_SREG_QNUM`: queue number in host order, 4 bytes; `num` and `total` are then
    /// unused.
    pub sreg: Option<Register>,
    /// `NFT_QUEUE_FLAG_BYPASS`: without a listener, continue.
    pub bypass: bool,
    /// `NFT_QUEUE_FLAG_CPU_FANOUT`: queue by processor.
    pub fanout: bool,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sreg {
            Some(reg) => write!(f, "queue sreg_qnum {}", reg.0)?,
            None => write!(f, "queue num {}", self.num)?,
        }
        if self.sreg.is_none() && self.total > 1 {
            write!(f, "-{}", u32::from(self.num) + u32::from(self.total) - 1)?;
        }
        if self.bypass {
            f.write_str(" bypass")?;
        }
        if self.fanout {
            f.write_str(" fanout")?;
        }
        Ok(())
    }
}

impl Expression for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn uses<'a>(&'a self, _: Family, visit: &mut dyn FnMut(Use<'a>)) {
        if let Some(reg) = self.sreg {
            visit(Use::Read(reg, Width::Bytes(4)));
        }
    }

    fn verify(&self) -> Result<(), Reason> {
        let none = self.sreg.is_none() && self.total == 0;
        check::refuse(none, Reason::Operand("there is no queue"))
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        let there = family.is_ip() || family == Family::Bridge;
        if there { Ok(()) } else { Err(Errno::Enoent) }
    }

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting])
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let sreg = self.sreg.map(|sreg| linking::slot(sreg, 4)).transpose()?;
        let (num, total, bypass, fanout) = (self.num, self.total, self.bypass, self.fanout);
        if sreg.is_none() && (total == 0 || num.checked_add(total - 1).is_none()) {
            return Err(LinkReason::Malformed("queues have numbers from 0 to 65535"));
        }
        Ok(Op::Queue(LinkedQueue { num, total, sreg, bypass, fanout }))
    }
}
