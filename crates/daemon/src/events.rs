// SPDX-License-Identifier: Apache-2.0

//! What happens to connections and quotas, on its way from the workers to those who listen. A worker
//! never waits: who is too slow misses events, and learns of which groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use penstock_conntrack::{Connection, EventKind, Expectation, Observer};
use penstock_nfnetlink::{ConnectionEvent, Notification};
use penstock_program::State;

/// Events that wait for one who listens.
const WAITING: usize = 16 << 10;

/// What happened.
#[derive(Debug)]
enum Told {
    /// To a connection, and the port id of the socket that caused it, 0 for none.
    Connection(ConnectionEvent, u32),
    /// The quota with this state is used up.
    UsedUp(Arc<State>),
}

/// Groups that hear of quotas: of objects, and of accounts.
const OF_QUOTAS: [u32; 2] = [penstock_nfnetlink::GROUP, penstock_nfnetlink::ACCOUNT_GROUP];

/// Somebody who listens, for those who tell.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    to: SyncSender<Told>,
    /// The groups that are wanted, group 1 in the lowest bit.
    groups: Arc<AtomicU32>,
    /// The groups of which something was missed.
    missed: Arc<AtomicU32>,
}

/// Events for one who listens.
#[derive(Debug)]
pub(crate) struct Heard {
    from: Receiver<Told>,
    missed: Arc<AtomicU32>,
}

/// A group in a set of groups.
fn bit(group: u32) -> u32 {
    group.checked_sub(1).and_then(|n| 1u32.checked_shl(n)).unwrap_or(0)
}

impl Watcher {
    /// Somebody who listens to groups, group 1 in the lowest bit.
    pub(crate) fn new(groups: u32) -> (Watcher, Heard) {
        let (to, from) = sync_channel(WAITING);
        let missed = Arc::new(AtomicU32::new(0));
        let groups = Arc::new(AtomicU32::new(groups));
        (Watcher { to, groups, missed: missed.clone() }, Heard { from, missed })
    }

    /// Listens to other groups.
    pub(crate) fn set_groups(&self, groups: u32) {
        self.groups.store(groups, Relaxed);
    }

    /// Whether both are the same one.
    pub(crate) fn is(&self, other: &Watcher) -> bool {
        Arc::ptr_eq(&self.groups, &other.groups)
    }

    /// Tells of an event of a group, if that is wanted.
    fn tell(&self, group: u32, event: impl FnOnce() -> ConnectionEvent, port: u32) {
        if self.groups.load(Relaxed) & bit(group) != 0
            && self.to.try_send(Told::Connection(event(), port)).is_err()
        {
            self.missed.fetch_or(bit(group), Relaxed);
        }
    }

    /// Tells that a quota is used up, if that is wanted: whose it is, who listens finds out.
    pub(crate) fn tell_used_up(&self, state: &Arc<State>) {
        let of_quotas = OF_QUOTAS.map(bit).into_iter().fold(0, |all, group| all | group);
        let wanted = self.groups.load(Relaxed) & of_quotas;
        if wanted != 0 && self.to.try_send(Told::UsedUp(state.clone())).is_err() {
            self.missed.fetch_or(wanted, Relaxed);
        }
    }

    /// Tells of what a socket with a port id has caused.
    pub(crate) fn tell_caused(&self, event: &ConnectionEvent, port: u32) {
        self.tell(event.group(), || event.clone(), port);
    }
}

impl Heard {
    /// Waits for events, and takes those that are there, up to so many bytes. `used_up` tells of a
    /// quota, if it is still there.
    ///
    /// # Errors
    /// None comes in that time, or nobody tells any more.
    pub(crate) fn next(
        &self,
        time: Duration,
        bytes: usize,
        used_up: impl Fn(&Arc<State>) -> Option<Notification>,
    ) -> Result<Vec<Notification>, RecvTimeoutError> {
        let notification = |told| match told {
            Told::Connection(event, port) => Some(penstock_nfnetlink::notification(&event, port)),
            Told::UsedUp(state) => used_up(&state),
        };
        let mut all = Vec::new();
        let mut left = bytes;
        let mut told = self.from.recv_timeout(time)?;
        loop {
            if let Some(next) = notification(told) {
                left = left.saturating_sub(next.datagram.len());
                all.push(next);
            }
            if left == 0 {
                return Ok(all);
            }
            match self.from.try_recv() {
                Ok(next) => told = next,
                Err(_) => return Ok(all),
            }
        }
    }

    /// The groups of which something was missed since this was asked for the last time.
    pub(crate) fn take_missed(&self) -> u32 {
        self.missed.swap(0, Relaxed)
    }
}

/// Tells all who listen of what happens in a worker's table.
pub(crate) struct Tellers(pub(crate) Arc<[Watcher]>);

impl Observer for Tellers {
    fn event(&mut self, _: EventKind, what: u16, connection: Connection<'_>) {
        let group = ConnectionEvent::group_of(what);
        for watcher in &*self.0 {
            watcher.tell(group, || ConnectionEvent::of(&connection, what), 0);
        }
    }

    fn expectation(
        &mut self,
        ends: bool,
        expectation: &Expectation,
        left: u64,
        master: Connection<'_>,
    ) {
        let group = ConnectionEvent::group_of_expected(ends);
        let event = || ConnectionEvent::of_expected(expectation, left, &master, ends);
        for watcher in &*self.0 {
            watcher.tell(group, event, 0);
        }
    }
}
