// SPDX-License-Identifier: Apache-2.0

//! Packets, bytes and times of connections, for those that are counted.

use super::entry::flag;
use super::{Conntrack, grow};
use crate::Direction;
use serde::{Deserialize, Serialize};

/// Packets and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes from the network header on.
    pub bytes: u64,
}

impl Conntrack {
    /// Allocates what the settings require for a new entry; returns its flags.
    #[inline]
    pub(super) fn begin_counting(&mut self, n: u32) -> u16 {
        let mut flags = 0;
        if self.settings.acct {
            flags |= flag::ACCT;
            grow(&mut self.accounting, n);
            self.accounting[n as usize] = Default::default();
        }
        if self.settings.timestamp {
            flags |= flag::STAMP;
            grow(&mut self.stamps, n);
            self.stamps[n as usize] = [0; 2];
        }
        flags
    }

    /// Neither counts nor times an entry from now on.
    pub(crate) fn stop_counting(&mut self, n: u32) {
        self.store[n].flags &= !(flag::ACCT | flag::STAMP);
    }

    /// Counts a packet of a connection that is counted.
    #[inline(never)]
    pub(crate) fn account(&mut self, n: u32, direction: Direction, len: usize) {
        if self.store[n].flags & flag::ACCT == 0 {
            return;
        }
        let c = &mut self.accounting[n as usize][direction as usize];
        c.packets += 1;
        c.bytes += len as u64;
    }

    fn stamped(&self, n: u32) -> bool {
        self.store[n].flags & flag::STAMP != 0
    }

    pub(crate) fn stamp_start(&mut self, n: u32) {
        if self.stamped(n) {
            self.stamps[n as usize][0] = self.now;
        }
    }

    /// Notes when a connection ended.
    #[inline]
    pub(super) fn stamp_end(&mut self, n: u32) {
        if self.stamped(n) {
            self.stamps[n as usize][1] = self.now;
        }
    }

    pub(crate) fn stamps(&self, n: u32) -> Option<[u64; 2]> {
        self.stamped(n).then(|| self.stamps[n as usize])
    }

    pub(crate) fn counters(&self, n: u32) -> Option<&[Counter; 2]> {
        (self.store[n].flags & flag::ACCT != 0).then(|| &self.accounting[n as usize])
    }

    pub(crate) fn counters_mut(&mut self, n: u32) -> Option<&mut [Counter; 2]> {
        (self.store[n].flags & flag::ACCT != 0).then(|| &mut self.accounting[n as usize])
    }

    /// Gives an entry counters, also if none were wanted.
    pub(crate) fn put_counters(&mut self, n: u32, counters: [Counter; 2]) {
        self.store[n].flags |= flag::ACCT;
        grow(&mut self.accounting, n);
        self.accounting[n as usize] = counters;
    }

    /// Gives an entry a start, also if none was wanted.
    pub(crate) fn put_start(&mut self, n: u32, start: u64) {
        self.store[n].flags |= flag::STAMP;
        grow(&mut self.stamps, n);
        self.stamps[n as usize] = [start, 0];
    }
}
