// SPDX-License-Identifier: Apache-2.0

//! What was found out about the connection that began last: it is mostly entered next.

use super::Conntrack;
use crate::Tuple;

/// The connection that began last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    n: u32,
    /// 0 before the first one.
    serial: u32,
    hashes: [u64; 2],
    /// Connections that had been entered.
    entered: u64,
}

impl Conntrack {
    /// Notes a connection that begins with tuples of these hashes. The first of them is not in the
    /// table.
    pub(crate) fn note_begun(&mut self, n: u32, hashes: [u64; 2]) {
        let entered = self.statistics.insert;
        self.begun = Begun { n, serial: self.store[n].serial, hashes, entered };
    }

    /// Notes that a connection has another reply tuple.
    pub(super) fn note_reply(&mut self, n: u32, reply: &Tuple) {
        if self.begun.n == n {
            self.begun.hashes[1] = self.hash(reply);
        }
    }

    /// The hashes of the tuples of a connection that is not confirmed, and whether it is known that
    /// the first tuple is not in the table: it was not when the connection began, and no other one
    /// was entered since.
    pub(crate) fn hashes_begun(&self, n: u32) -> ([u64; 2], bool) {
        let (e, begun) = (&self.store[n], &self.begun);
        if (begun.n, begun.serial) != (n, e.serial) {
            return ([self.hash(&e.original), self.hash(&e.reply)], false);
        }
        let hashes = begun.hashes;
        debug_assert_eq!(hashes, [self.hash(&e.original), self.hash(&e.reply)]);
        (hashes, begun.entered == self.statistics.insert)
    }
}
