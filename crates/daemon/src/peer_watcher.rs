// SPDX-License-Identifier: Apache-2.0

//! What workers leave for the thread that speaks with the other firewall of a pair. They never
//! wait: where there is no place an event is missed, and counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use penstock_conntrack::tuple::IPV4;
use penstock_conntrack::{Connection, EventKind, Expectation, Flow, ProtocolInfo, event};
use penstock_ctsync::config::{Expectations, Filter};
use penstock_ctsync::{Change, ConnectionState};
use penstock_nfnetlink::{ConnectionEvent, Expected};

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

/// Whether messages can say which expectation it is, and how it is translated.
pub(crate) fn is_expectation_nameable(expected: &Expected) -> bool {
    let translated = expected.expectation.follow.is_some();
    expected.master.zone == 0 && (!translated || expected.master.l3 == IPV4)
}

/// What happened.
#[allow(
    clippy::large_enum_variant,
    reason = "connections are many, and cost no memory of their own"
)]
pub(crate) enum Told {
    /// To a connection.
    Connection(Change, Flow),
    /// To an expectation.
    Expectation(Change, Expected),
}

/// Where workers leave what happens.
#[derive(Clone)]
pub(crate) struct PeerWatcher {
    to: SyncSender<Told>,
    filter: Arc<Filter>,
    expectations: Arc<Expectations>,
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
    pub(crate) expectations: Arc<Expectations>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) waker: Arc<Waker>,
}

impl PeerWatcher {
    pub(crate) fn new(
        filter: Filter,
        expectations: Expectations,
        waker: Arc<Waker>,
    ) -> (Self, TellingEnd) {
        let (to, from) = sync_channel(WAITING);
        let (filter, counts) = (Arc::new(filter), Arc::new(Counts::default()));
        let expectations = Arc::new(expectations);
        let end = TellingEnd {
            from,
            filter: filter.clone(),
            expectations: expectations.clone(),
            counts: counts.clone(),
            waker: waker.clone(),
        };
        (PeerWatcher { to, filter, expectations, counts, waker }, end)
    }

    fn leave(&self, change: Change, flow: Flow) {
        if !passes(&self.filter, &flow) {
            return;
        }
        let nameable = is_nameable(&flow);
        self.put(nameable, Told::Connection(change, flow));
    }

    fn leave_expected(&self, ends: bool, expected: Expected) {
        if self.expectations.has(expected.helper.as_deref()) {
            let change = if ends { Change::Delete } else { Change::New };
            let nameable = is_expectation_nameable(&expected);
            self.put(nameable, Told::Expectation(change, expected));
        }
    }

    fn put(&self, nameable: bool, told: Told) {
        if !nameable {
            self.counts.not_told.fetch_add(1, Ordering::Relaxed);
        } else if self.to.try_send(told).is_err() {
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

    /// Tells that a connection is expected, or no longer.
    pub(crate) fn tell_expected(
        &self,
        ends: bool,
        expectation: &Expectation,
        left: u64,
        master: &Connection<'_>,
    ) {
        if *self.expectations == Expectations::None {
            return;
        }
        let event = ConnectionEvent::of_expected(expectation, left, master, ends);
        self.tell_caused(&event);
    }

    /// Tells of what a program has caused.
    pub(crate) fn tell_caused(&self, told: &ConnectionEvent) {
        let (flow, what) = match told {
            ConnectionEvent::Connection { flow, what } => (flow, what),
            ConnectionEvent::Expectation { expected, ends } => {
                return self.leave_expected(*ends, expected.clone());
            }
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_conntrack::{Conntrack, FlowChange, Settings, Tuple};
    use penstock_ctsync::config::{List, Policy};

    /// A connection of UDP with a zone for each direction.
    fn flow(zones: [u16; 2], protocol: u8) -> Flow {
        let mut table = Conntrack::new(Settings::default());
        let tuple = Tuple { src_id: 9, dst_id: 53, l3: IPV4, protocol, ..Tuple::ZERO };
        let original = Tuple { src: [1; 16], zone: zones[0], ..tuple };
        let reply = Tuple { zone: zones[1], ..original.invert().unwrap() };
        let change = FlowChange { timeout: Some(1 << 40), ..FlowChange::default() };
        let entered = table.insert_flow([&original, &reply], None, &change, |_, _| true).unwrap();
        table.flow(entered.entry).unwrap()
    }

    #[test]
    fn what_finds_no_place_or_has_no_name_is_counted() {
        let only_udp = List { policy: Policy::Accept, items: vec![17, 136] };
        let filter = Filter { protocols: Some(only_udp), ..Filter::default() };
        let waker = Arc::new(Waker::new().unwrap());
        let (watcher, end) = PeerWatcher::new(filter, Expectations::None, waker);
        let counts = || {
            [&end.counts.missed, &end.counts.not_told].map(|count| count.load(Ordering::Relaxed))
        };
        for (zones, protocol, expected) in
            [([3, 3], 17, [0, 0]), ([0, 3], 17, [0, 1]), ([0, 0], 136, [0, 2]), ([0, 0], 6, [0, 2])]
        {
            watcher.leave(Change::New, flow(zones, protocol));
            assert_eq!(counts(), expected, "{zones:?} {protocol}");
        }
        let flow = flow([0, 0], 17);
        (0..WAITING + 4).for_each(|_| watcher.leave(Change::Update, flow.clone()));
        assert_eq!(counts(), [5, 2]);
        assert_eq!(std::iter::from_fn(|| end.from.try_recv().ok()).count(), WAITING);
    }
}
