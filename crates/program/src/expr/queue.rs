// SPDX-License-Identifier: Apache-2.0

//! `queue`: hand the packet to a listener (`NFTA_QUEUE_*`, `net/netfilter/nft_queue.c`).

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{Use, Width};
use crate::Register;

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
    /// `NFT_QUEUE_FLAG_BYPASS`: without a listener, go on.
    pub bypass: bool,
    /// `NFT_QUEUE_FLAG_CPU_FANOUT`: queue by processor.
    pub fanout: bool,
}

impl Queue {
    pub(super) fn uses(&self, visit: &mut dyn FnMut(Use)) {
        if let Some(reg) = self.sreg {
            visit(Use::Read(reg, Width::Bytes(4)));
        }
    }
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
