// SPDX-License-Identifier: Apache-2.0

//! Reports changes of connections to an observer (`nf_conntrack_ecache.c`, `conntrack -E`). Costs
//! nothing without one.

use super::Conntrack;
use super::connection::Connection;
use crate::expectation::Expectation;
use crate::{event, status};

/// Where the pending events stand among the flags of an entry.
const SHIFT: u32 = 5;

/// What kind of message an event makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A connection was entered into the table.
    New,
    /// Something changed.
    Update,
    /// It ended.
    Destroy,
}

impl EventKind {
    /// As `conntrack -E` has it at the beginning of a line.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::New => "[NEW]",
            EventKind::Update => "[UPDATE]",
            EventKind::Destroy => "[DESTROY]",
        }
    }
}

/// Who listens.
pub trait Observer: Send {
    /// Told when a packet that changed something leaves, and when a connection ends. `what` are
    /// bits of [`event`].
    fn event(&mut self, kind: EventKind, what: u16, connection: Connection<'_>);

    /// Told when a connection is expected, or no longer (`ends`). `left` is what is left of the
    /// expectation's life, in nanoseconds.
    fn expectation(
        &mut self,
        ends: bool,
        expectation: &Expectation,
        left: u64,
        master: Connection<'_>,
    ) {
        let _ = (ends, expectation, left, master);
    }
}

impl Conntrack {
    /// Sets who listens; returns who did.
    pub fn set_observer(
        &mut self,
        observer: Option<Box<dyn Observer>>,
    ) -> Option<Box<dyn Observer>> {
        std::mem::replace(&mut self.observer, observer)
    }

    /// Whether there is an observer.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Keeps an event until the packet leaves (`nf_conntrack_event_cache()`).
    #[inline]
    pub fn note(&mut self, n: u32, what: u16) {
        if self.observer.is_some() {
            self.store[n].flags |= what << SHIFT;
        }
    }

    /// Forgets what was kept of a connection: who changed it has told of that.
    pub fn forget_noted(&mut self, n: u32) {
        self.store[n].flags &= (1 << SHIFT) - 1;
    }

    /// Tells that a connection is expected, or no longer.
    pub(crate) fn tell_expected(&mut self, ends: bool, expectation: &Expectation, left: u64) {
        let Some(mut observer) = self.observer.take() else { return };
        if let Some(master) = self.connection_ref(expectation.master) {
            let silent = self.extra(master.number()).map_or(0, |x| x.silent[1]);
            if silent & 1 << u16::from(ends) == 0 {
                observer.expectation(ends, expectation, left, master);
            }
        }
        self.observer = Some(observer);
    }

    /// Sets which events of a connection are reported (`ct event set`); the default is all. Changes
    /// that come with one of them are reported, too.
    pub fn set_event_mask(&mut self, n: u32, mask: u16) {
        self.extra_mut(n).silent[0] = !mask;
    }

    /// Sets which events of a connection and of its expectations are reported
    /// (`nf_ct_ecache_ext_add()`): bits of [`event`]; 1 for an expectation that begins, 2 for one
    /// that ends.
    pub(crate) fn set_event_masks(&mut self, n: u32, masks: [u16; 2]) {
        self.extra_mut(n).silent = masks.map(|mask| !mask);
    }

    /// Which events of a connection are reported.
    pub(crate) fn asked_events(&self, n: u32) -> u16 {
        self.extra(n).map_or(u16::MAX, |x| !x.silent[0])
    }

    /// Ends a connection (`nf_ct_delete()`), of which who asked for that tells; what it expected ends
    /// with it, of which the observer is told.
    pub fn kill_untold(&mut self, n: u32) {
        if self.is_observed() {
            self.set_event_mask(n, 0);
        }
        self.kill(n);
    }

    /// Tells what was kept of a packet's connection, as [`Conntrack::confirm`] does of one that is
    /// in the table.
    #[inline]
    pub fn tell_noted(&mut self, ct: &penstock_packet::Ct) {
        if self.observer.is_some()
            && let Some(n) = self.resolve(ct)
        {
            self.tell(n);
        }
    }

    /// Tells what was kept (`nf_ct_deliver_cached_events()`).
    #[inline]
    pub(crate) fn tell(&mut self, n: u32) {
        if self.observer.is_some() && self.store[n].flags >> SHIFT != 0 {
            self.tell_now(n);
        }
    }

    #[cold]
    fn tell_now(&mut self, n: u32) {
        let what = self.store[n].flags >> SHIFT;
        self.forget_noted(n);
        if self.store[n].has(status::DYING) || !self.store[n].has(status::CONFIRMED) {
            return;
        }
        let kind = if what & (event::NEW | event::RELATED) != 0 {
            EventKind::New
        } else {
            EventKind::Update
        };
        self.send(n, kind, what);
    }

    /// Tells that a connection ended.
    pub(crate) fn tell_end(&mut self, n: u32) {
        if self.observer.is_some() {
            self.send(n, EventKind::Destroy, event::DESTROY);
        }
    }

    /// One message has all that was kept, if any of it is asked for (`nf_conntrack_ecache.c`).
    fn send(&mut self, n: u32, kind: EventKind, what: u16) {
        let asked = self.asked_events(n);
        // The observer is taken out during the call, so it cannot change while it is notified.
        let Some(mut observer) = self.observer.take() else { return };
        if what & asked != 0
            && let Some(connection) = self.connection_at(n)
        {
            observer.event(kind, what, connection);
        }
        self.observer = Some(observer);
    }
}
