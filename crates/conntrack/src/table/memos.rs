// SPDX-License-Identifier: Apache-2.0

//! A word for each direction of a connection that the user of the table keeps there.
//!
//! It is about what a packet of that direction met. So it is forgotten as soon as anything about
//! the connection changes that a packet could ask for: its status, marks, labels, helper, and all
//! that few connections have. What packets change all the time is not among that: timeouts,
//! counters of packets, the state of the protocol.

use super::{Conntrack, grow};
use penstock_packet::Ct;
use penstock_wire::cache::prefetch;

impl Conntrack {
    /// The word for the direction of a packet of connection `n`; 0 if there is none.
    #[inline(always)]
    pub fn memo(&self, n: u32, reply: bool) -> u32 {
        self.memos.get(n as usize).map_or(0, |words| words[usize::from(reply)])
    }

    /// The word for the direction of a packet with its connection; 0 if there is none.
    #[inline(always)]
    pub fn memo_of(&self, ct: &Ct) -> u32 {
        self.resolve(ct).map_or(0, |n| self.memo(n, ct.info.is_reply()))
    }

    /// Keeps a word for the direction of a packet until something about the connection changes.
    pub fn set_memo(&mut self, ct: &Ct, word: u32) {
        let Some(n) = self.resolve(ct) else { return };
        grow(&mut self.memos, n);
        if let Some(words) = self.memos.get_mut(n as usize) {
            words[usize::from(ct.info.is_reply())] = word;
        }
    }

    /// Forgets the words of all connections.
    pub fn forget_memos(&mut self) {
        self.memos.clear();
    }

    /// Something about a connection changes that packets may ask for.
    #[inline(always)]
    pub(crate) fn forget_memo(&mut self, n: u32) {
        if let Some(words) = self.memos.get_mut(n as usize) {
            *words = [0; 2];
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_memo(&self, n: u32) {
        self.memos.get(n as usize).map(prefetch);
    }
}
