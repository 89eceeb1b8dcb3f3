// SPDX-License-Identifier: Apache-2.0

//! Counters by name, which rules of x_tables share with programs
//! (`net/netfilter/nfnetlink_acct.c`).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use serde::{Deserialize, Serialize};

/// What an account may count up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Packets are counted against it (`NFACCT_F_QUOTA_PKTS`); else bytes.
    pub packets: bool,
    /// How many.
    pub most: u64,
}

/// Values of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// The quota was reached since the last reset (`NFACCT_F_OVERQUOTA`).
    pub over: bool,
}

/// A packet against the quota of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Against {
    /// It is within the quota. An account without one has none that packets could be within.
    pub within: bool,
    /// It is the first one since the last reset with which the quota is reached.
    pub reached: bool,
}

/// An account: packets and bytes of all rules that name it.
#[derive(Debug)]
pub struct AccountState {
    packets: AtomicU64,
    bytes: AtomicU64,
    over: AtomicBool,
    quota: Option<Quota>,
}

impl AccountState {
    /// An account with these values.
    pub fn new(counted: Counted, quota: Option<Quota>) -> Self {
        let Counted { packets, bytes, over } = counted;
        AccountState {
            packets: AtomicU64::new(packets),
            bytes: AtomicU64::new(bytes),
            over: AtomicBool::new(over),
            quota,
        }
    }

    /// What it may count up to.
    pub fn quota(&self) -> Option<Quota> {
        self.quota
    }

    /// Counts a packet (`nfacct_mt()`, `nfnl_acct_overquota()`).
    #[inline]
    pub fn count(&self, bytes: u64) -> Against {
        let packets = self.packets.fetch_add(1, Relaxed).wrapping_add(1);
        let bytes = self.bytes.fetch_add(bytes, Relaxed).wrapping_add(bytes);
        let Some(quota) = self.quota else { return Against { within: false, reached: false } };
        let now = if quota.packets { packets } else { bytes };
        let is_new = now >= quota.most && !self.over.load(Relaxed);
        Against { within: now <= quota.most, reached: is_new && !self.over.swap(true, Relaxed) }
    }

    /// The values.
    pub fn read(&self) -> Counted {
        let [packets, bytes] = [&self.packets, &self.bytes].map(|word| word.load(Relaxed));
        Counted { packets, bytes, over: self.over.load(Relaxed) }
    }

    /// The values, which then start at zero. Concurrent counts are not lost.
    pub fn reset(&self) -> Counted {
        let over = self.over.swap(false, Relaxed);
        let [packets, bytes] = [&self.packets, &self.bytes].map(|word| word.swap(0, Relaxed));
        Counted { packets, bytes, over }
    }
}
