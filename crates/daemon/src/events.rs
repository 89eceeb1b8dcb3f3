// SPDX-License-Identifier: Apache-2.0

//! What happens to connections, flows and quotas, on its way from the workers to those who listen.
//! A worker never waits: who is too slow misses events, and learns of which groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use penstock_conntrack::{Connection, EventKind, Expectation, Observer, Outline, Style};
use penstock_dataplane::{FlowEvent, FlowObserver, ListedFlow};
use penstock_net::Network;
use penstock_nfnetlink::{ConnectionEvent, Notification};
use penstock_print::json;
use penstock_print::show::{connections, flows};
use penstock_program::State;

use crate::control::{ConnectionTable, TableCall, kinds};
use crate::peer_watcher::PeerWatcher;

/// Events that wait for one who listens.
const WAITING: usize = 16 << 10;

/// What happened. Events of connections are many, and cost no memory of their own.
#[allow(clippy::large_enum_variant)]
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

/// Lines that wait for one who reads them.
const LINES: usize = 4096;

/// Somebody who reads lines of events.
#[derive(Clone, Debug)]
pub(crate) struct LineWatcher {
    call: Arc<TableCall>,
    to: SyncSender<String>,
    /// How many were missed.
    missed: Arc<AtomicU64>,
}

impl LineWatcher {
    /// Somebody who reads what a call asks for, the lines, and the number of those missed.
    pub(crate) fn new(call: TableCall) -> (LineWatcher, Receiver<String>, Arc<AtomicU64>) {
        let (to, from) = sync_channel(LINES);
        let missed = Arc::new(AtomicU64::new(0));
        (LineWatcher { call: Arc::new(call), to, missed: missed.clone() }, from, missed)
    }

    /// Whether both are the same one.
    pub(crate) fn is(&self, other: &LineWatcher) -> bool {
        Arc::ptr_eq(&self.call, &other.call)
    }

    fn tell_of_connection(&self, kind: EventKind, what: u16, connection: &Connection<'_>) {
        let style = Style { event: Some((kind, what)), ..self.call.style };
        self.tell(
            kind,
            || connection.outline(),
            |json| match json {
                true => connections::event_json(kind, connection),
                false => connection.line(style).to_string(),
            },
        );
    }

    fn tell_of_flow(&self, event: FlowEvent, flow: &ListedFlow<'_>, network: &Network) {
        self.tell(
            flows::Event::kind(event),
            || flow.outline,
            |json| {
                let event = flows::Event::of(event, flow, network, crate::now());
                if json { json::line(&event) } else { event.to_string() }
            },
        );
    }

    /// Tells of an event, if it is wanted: as JSON, or as a line without the word for its kind.
    fn tell(
        &self,
        kind: EventKind,
        outline: impl FnOnce() -> Outline,
        told: impl FnOnce(bool) -> String,
    ) {
        let bit = match kind {
            EventKind::New => kinds::NEW,
            EventKind::Update => kinds::UPDATES,
            EventKind::Destroy => kinds::DESTROY,
        };
        if self.call.kinds & bit == 0 || !self.call.filter.has_outline(&outline()) {
            return;
        }
        let line = match self.call.json {
            true => told(true),
            false => format!("{:>9} {}\n", kind.word(), told(false).trim_end()),
        };
        if self.to.try_send(line).is_err() {
            self.missed.fetch_add(1, Relaxed);
        }
    }
}

/// All who listen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    /// Programs with netfilter sockets.
    pub(crate) sockets: Arc<[Watcher]>,
    /// Readers of lines about connections.
    pub(crate) readers: Arc<[LineWatcher]>,
    /// Readers of lines about flows.
    pub(crate) flow_readers: Arc<[LineWatcher]>,
    /// The other firewall of a pair.
    pub(crate) peer: Option<PeerWatcher>,
}

impl Listeners {
    /// Programs, readers of lines, and the other firewall of a pair.
    pub(crate) fn new(
        sockets: &[Watcher],
        readers: &[LineWatcher],
        peer: Option<PeerWatcher>,
    ) -> Self {
        let of = |table| {
            let readers = readers.iter().filter(|reader| reader.call.table == table);
            readers.cloned().collect()
        };
        Listeners {
            sockets: sockets.into(),
            readers: of(ConnectionTable::Connections),
            flow_readers: of(ConnectionTable::Flows),
            peer,
        }
    }

    /// Who tells them of connections, if any of them listens to that.
    pub(crate) fn connection_observer(&self) -> Option<Box<dyn Observer>> {
        let nobody = self.sockets.is_empty() && self.readers.is_empty() && self.peer.is_none();
        (!nobody).then(|| Box::new(Tellers(self.clone())) as _)
    }

    /// Who tells them of flows through a network, if any of them listens to that.
    pub(crate) fn flow_observer(&self, network: &Arc<Network>) -> Option<Box<dyn FlowObserver>> {
        let (readers, network) = (self.flow_readers.clone(), network.clone());
        (!readers.is_empty()).then(|| Box::new(FlowTellers { readers, network }) as _)
    }
}

/// Tells all who listen of what happens to a worker's flows.
struct FlowTellers {
    readers: Arc<[LineWatcher]>,
    /// Has the names of devices.
    network: Arc<Network>,
}

impl FlowObserver for FlowTellers {
    fn event(&mut self, event: FlowEvent, flow: &ListedFlow<'_>) {
        self.readers.iter().for_each(|reader| reader.tell_of_flow(event, flow, &self.network));
    }
}

/// Tells all who listen of what happens in a worker's table.
struct Tellers(Listeners);

impl Observer for Tellers {
    fn event(&mut self, kind: EventKind, what: u16, connection: Connection<'_>) {
        for reader in &*self.0.readers {
            reader.tell_of_connection(kind, what, &connection);
        }
        let group = ConnectionEvent::group_of(what);
        for watcher in &*self.0.sockets {
            watcher.tell(group, || ConnectionEvent::of(&connection, what), 0);
        }
        if let Some(peer) = &self.0.peer {
            peer.tell(kind, &connection);
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
        for watcher in &*self.0.sockets {
            watcher.tell(group, event, 0);
        }
        if let Some(peer) = &self.0.peer {
            peer.tell_expected(ends, expectation, left, &master);
        }
    }
}
