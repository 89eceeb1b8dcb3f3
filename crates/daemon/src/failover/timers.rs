// SPDX-License-Identifier: Apache-2.0

//! What is done a while after something has happened, whatever the protocol.

use penstock_ctsync::config::Filter;

use super::take_over::purge;
use crate::connections::Tables;
use crate::log;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How long no event is missed before all connections are told again, and how long that is not done
/// again (`NetlinkOverrunResync`).
const OVERRUN: [u64; 2] = [SECOND, 30 * SECOND];

/// Events that found no place: all connections are told again then.
#[derive(Debug, Default)]
pub(super) struct Overrun {
    /// How many there were at the last look.
    seen: u64,
    /// When there were more than before, until all connections are told again.
    since: Option<u64>,
    /// When all connections were told the last time.
    told: u64,
}

impl Overrun {
    /// All connections are being told from now on.
    pub(super) fn told(&mut self, now: u64) {
        self.told = now;
    }

    /// Whether something is not told yet that was missed.
    pub(super) fn is_open(&self, missed: u64) -> bool {
        self.since.is_some() || missed != self.seen
    }

    /// Whether all connections are to be told again now: `missed` events were missed so far.
    pub(super) fn tick(&mut self, now: u64, missed: u64) -> bool {
        if missed != self.seen {
            (self.seen, self.since) = (missed, Some(now));
        }
        let due = self.since.is_some_and(|since| {
            now.saturating_sub(since) >= OVERRUN[0] && now.saturating_sub(self.told) >= OVERRUN[1]
        });
        if due {
            self.since = None;
            log(format_args!(
                "{missed} events of connections found no place: all are told to the peer again"
            ));
        }
        due
    }
}

/// The end of own connections after the addresses have moved to the peer.
#[derive(Debug, Default)]
pub(super) struct Purge {
    at: Option<u64>,
}

impl Purge {
    /// They end in so many seconds, or earlier if that was announced before.
    pub(super) fn begin(&mut self, now: u64, seconds: u32) {
        self.at.get_or_insert(now + u64::from(seconds) * SECOND);
    }

    /// They do not end.
    pub(super) fn cancel(&mut self) {
        self.at = None;
    }

    /// Seconds until they end, if they are to.
    pub(super) fn left(&self, now: u64) -> Option<f64> {
        self.at.map(|at| at.saturating_sub(now) as f64 / SECOND as f64)
    }

    /// Ends them if that is due.
    pub(super) fn tick(&mut self, now: u64, tables: &Tables, filter: &Filter) {
        if self.at.is_some_and(|at| now >= at) {
            self.at = None;
            let ended = purge(tables, filter);
            log(format_args!("{ended} connections are ended: the peer has them"));
        }
    }
}
