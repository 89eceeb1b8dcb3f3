// SPDX-License-Identifier: Apache-2.0

//! What happens to connections, on its way from the workers to those who listen. A worker never
//! waits: who is too slow misses events, and learns of which groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use penstock_conntrack::{Connection, EventKind, Expectation, Observer};
use penstock_nfnetlink::{ConnectionEvent, Notification};

/// Events that wait for one who listens.
const WAITING: usize = 16 << 10;

/// What happened, and the port id of the socket that caused it, 0 for none.
#[derive(Debug)]
struct Told(ConnectionEvent, u32);

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
            && self.to.try_send(Told(event(), port)).is_err()
        {
            self.missed.fetch_or(bit(group), Relaxed);
        }
    }

    /// Tells of what a socket with a port id has caused.
    pub(crate) fn tell_caused(&self, event: &ConnectionEvent, port: u32) {
        self.tell(event.group(), || event.clone(), port);
    }
}

impl Heard {
    /// Waits for events, and takes those that are there, up to so many bytes.
    ///
    /// # Errors
    /// None comes in that time, or nobody tells any more.
    pub(crate) fn next(
        &self,
        time: Duration,
        bytes: usize,
    ) -> Result<Vec<Notification>, RecvTimeoutError> {
        let notification = |Told(event, port)| penstock_nfnetlink::notification(&event, port);
        let first = notification(self.from.recv_timeout(time)?);
        let mut left = bytes.saturating_sub(first.datagram.len());
        let mut all = vec![first];
        while left > 0
            && let Ok(told) = self.from.try_recv()
        {
            let next = notification(told);
            left = left.saturating_sub(next.datagram.len());
            all.push(next);
        }
        Ok(all)
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
