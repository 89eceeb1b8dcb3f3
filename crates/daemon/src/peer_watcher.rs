// SPDX-License-Identifier: Apache-2.0

//! What workers leave for the thread that speaks with the other firewall of a pair. They never wait: where there is no
//! place an event is missed, and counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use penstock_conntrack::{Connection, EventKind, Flow, ProtocolInfo, event};
use penstock_ctsync::config::Filter;
use penstock_ctsync::{Change, ConnectionState};
use penstock_nfnetlink::ConnectionEvent;

use crate::event::Event;

/// Events that wait.
const WAITING: usize = 64 << 10;

/// Wakes the thread if it sleeps. While it is awake, an event costs no system call.
pub(crate) struct Waker {
    pub(crate) event: Event,
    sleeps: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Waker { event: Event::new()?, sleeps: AtomicBool::new(false) })
    }

    /// The thread is about to wait for the descriptor. It looks once more whether something came
    /// after this.
    pub(crate) fn fall_asleep(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
    }

    /// The thread is awake.
    pub(crate) fn wake_up(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
        self.event.clear();
    }

    fn wake(&self) {
        if self.sleeps.load(Ordering::SeqCst) && self.sleeps.swap(false, Ordering::SeqCst) {
            self.event.signal();
        }
    }
}

/// Whether connections like this one are told.
pub(crate) fn passes(filter: &Filter, flow: &Flow) -> bool {
    let state = match flow.protocol {
        ProtocolInfo::Tcp { state, .. } => Some(state),
        ProtocolInfo::None | ProtocolInfo::Sctp { .. } | ProtocolInfo::Dccp { .. } => None,
    };
    // Only the real ends count.
    filter.passes(flow.original.protocol, [flow.original.source(), flow.reply.source()], state)
}

/// Whether messages can say which connection it is: they have one zone, and ports of some protocols.
pub(crate) fn is_nameable(flow: &Flow) -> bool {
    let state = ConnectionState { original: flow.original, ..ConnectionState::default() };
    flow.original.zone == flow.reply.zone && state.is_nameable()
}

/// What happened to a connection.
pub(crate) type Told = (Change, Flow);

/// Where workers leave what happens.
#[derive(Clone)]
pub(crate) struct PeerWatcher {
    to: SyncSender<Told>,
    filter: Arc<Filter>,
    counts: Arc<Counts>,
    waker: Arc<Waker>,
}

impl std::fmt::Debug for PeerWatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerWatcher").finish_non_exhaustive()
    }
}

/// What is not told.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// There was no place.
    pub(crate) missed: AtomicU64,
    /// Messages cannot name the connection.
    pub(crate) not_told: AtomicU64,
}

/// The end of the thread.
pub(crate) struct TellingEnd {
    pub(crate) from: Receiver<Told>,
    pub(crate) filter: Arc<Filter>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) waker: Arc<Waker>,
}

impl PeerWatcher {
    pub(crate) fn new(filter: Filter, waker: Arc<Waker>) -> (Self, TellingEnd) {
        let (to, from) = sync_channel(WAITING);
        let (filter, counts) = (Arc::new(filter), Arc::new(Counts::default()));
        let end = TellingEnd {
            from,
            filter: filter.clone(),
            counts: counts.clone(),
            waker: waker.clone(),
        };
        (PeerWatcher { to, filter, counts, waker }, end)
    }

    fn leave(&self, change: Change, flow: Flow) {
        if !passes(&self.filter, &flow) {
            return;
        }
        if !is_nameable(&flow) {
            self.counts.not_told.fetch_add(1, Ordering::Relaxed);
        } else if self.to.try_send((change, flow)).is_err() {
            self.counts.missed.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.wake();
    }

    /// Tells of an event of a connection.
    pub(crate) fn tell(&self, kind: EventKind, connection: &Connection<'_>) {
        let change = match kind {
            EventKind::New => Change::New,
            EventKind::Update => Change::Update,
            EventKind::Destroy => Change::Delete,
        };
        self.leave(change, connection.flow());
    }

    /// Tells of what a program has caused.
    pub(crate) fn tell_caused(&self, told: &ConnectionEvent) {
        if let ConnectionEvent::Connection { flow, what } = told {
            let change = if what & event::DESTROY != 0 {
                Change::Delete
            } else if what & (event::NEW | event::RELATED) != 0 {
                Change::New
            } else {
                Change::Update
            };
            self.leave(change, flow.clone());
        }
    }
}
