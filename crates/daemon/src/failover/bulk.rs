// SPDX-License-Identifier: Apache-2.0

//! The table is told part by part: all of it when the peer asks for that, and again and again in
//! ALARM mode.

use penstock_conntrack::Flow;
use penstock_ruleset::Errno;

use crate::connections::Tables;

/// Connections of a part at most: a worker lists them between two bursts.
const PAGE: usize = 1024;

/// Where the next part of the tables of all workers begins: a worker, and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(u32, u32);

impl Place {
    /// The next part, of `most` connections at most, and where the one after it begins; `None` at
    /// the end.
    ///
    /// # Errors
    /// A worker does not answer.
    pub(super) fn part(
        self,
        tables: &Tables,
        most: usize,
    ) -> Result<(Vec<Flow>, Option<Place>), Errno> {
        let (flows, next) = tables.page((self.0, self.1), most.min(PAGE))?;
        Ok((flows, next.map(|(worker, number)| Place(worker, number))))
    }
}

/// All connections are being told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    /// Where the next part begins.
    pub(super) next: Place,
    /// Since when the peer has acknowledged nothing.
    pub(super) waits_since: Option<u64>,
}

impl Bulk {
    /// From the beginning.
    pub(super) fn new() -> Self {
        Bulk { next: Place::default(), waits_since: None }
    }
}

/// How long a peer that acknowledges nothing is waited for, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

impl Bulk {
    /// Whether the next part may be sent: `unacknowledged` messages are on their way, which are to be
    /// `limit` at most. A peer that is not there is not waited for.
    pub(super) fn may_send(&mut self, now: u64, unacknowledged: usize, limit: usize) -> bool {
        if unacknowledged <= limit {
            self.waits_since = None;
            return true;
        }
        let since = *self.waits_since.get_or_insert(now);
        now.saturating_sub(since) >= PATIENCE
    }
}
