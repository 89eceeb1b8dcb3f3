// SPDX-License-Identifier: Apache-2.0

//! What rules, NAT and listings see of a connection, and what they may change.

use super::counters::Counter;
use super::entry::{Entry, flag};
use super::{Conntrack, grow};
use crate::expectation::Follow;
use crate::outline::Outline;
use crate::reference::Ref;
use crate::seqadj::SeqAdjust;
use crate::settings::Tracker;
use crate::tracker::ProtocolState;
use crate::{Direction, Tuple, event, status};
use penstock_packet::Ct;

/// Read view of a connection.
#[derive(Clone, Copy)]
pub struct Connection<'a> {
    table: &'a Conntrack,
    n: u32,
}

impl<'a> Connection<'a> {
    fn entry(&self) -> &'a Entry {
        &self.table.store[self.n]
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.n
    }

    /// Number and serial.
    pub fn reference(&self) -> Ref {
        Ref { entry: self.n, serial: self.entry().serial }
    }

    /// The tuple of one direction.
    #[inline]
    pub fn tuple(&self, direction: Direction) -> &'a Tuple {
        self.entry().tuple(direction)
    }

    /// Bits of [`crate::status`].
    #[inline]
    pub fn status(&self) -> u32 {
        self.entry().status
    }

    /// `ct mark`.
    #[inline]
    pub fn mark(&self) -> u32 {
        self.entry().mark
    }

    /// What filters look at.
    pub fn outline(&self) -> Outline {
        Outline {
            tuples: [Direction::Original, Direction::Reply].map(|d| *self.tuple(d)),
            status: self.status(),
            state: self.state(),
            mark: self.mark(),
            labels: self.labels(),
        }
    }

    /// `ct secmark`.
    pub fn secmark(&self) -> u32 {
        self.table.extra(self.n).map_or(0, |x| x.secmark)
    }

    /// `ct zone` in a direction.
    pub fn zone(&self, direction: Direction) -> u16 {
        self.tuple(direction).zone
    }

    /// `ct label`: bit n in word n / 32. `None` if the connection began before rules used labels
    /// and none was set.
    pub fn labels(&self) -> Option<[u32; 4]> {
        self.table.extra(self.n).filter(|x| x.has_labels).map(|x| x.labels)
    }

    /// What is left of its life in nanoseconds (`ct expiration`); nothing while it is not
    /// confirmed, as rules of the kernel see it (observed on Linux 6.18).
    pub fn remaining(&self) -> u64 {
        let e = self.entry();
        if e.has(status::CONFIRMED) { e.expires.saturating_sub(self.table.now) } else { 0 }
    }

    /// How long it lives from now on, in nanoseconds, as programs see it: one that is not confirmed,
    /// from when it is (`ctnetlink_dump_timeout()`).
    pub(crate) fn life(&self) -> u64 {
        let e = self.entry();
        if e.has(status::CONFIRMED) { self.remaining() } else { e.expires }
    }

    /// Packets and bytes of a direction, if accounting was on when it began.
    pub fn counters(&self, direction: Direction) -> Option<Counter> {
        self.table.counters(self.n).map(|c| c[direction as usize])
    }

    /// Packets and bytes of both directions, as [`Connection::counters`].
    pub fn both_counters(&self) -> Option<[Counter; 2]> {
        self.table.counters(self.n).copied()
    }

    /// Shifts of sequence numbers by direction, where text was rewritten.
    pub fn shifts(&self) -> Option<[SeqAdjust; 2]> {
        self.table.sequence_adjustments(self.n).copied()
    }

    /// Whether there is room for what a SYN proxy keeps.
    pub fn has_synproxy(&self) -> bool {
        self.table.is_made(self.n) || self.table.is_synproxied(self.n)
    }

    /// When it was confirmed and, of one that ended, when that was: nanoseconds since the epoch, 0
    /// for not yet; if timestamps were on when it began.
    pub fn times(&self) -> Option<(u64, u64)> {
        self.table.stamps(self.n).map(|[start, stop]| (start, stop))
    }

    /// Device through which its source is masqueraded, 0 for none.
    #[inline]
    pub fn masquerade(&self) -> u32 {
        self.table.masqueraded.get(self.n as usize).copied().unwrap_or(0)
    }

    /// The connection that expected it, if that still is there.
    pub fn master(&self) -> Option<Connection<'a>> {
        let master = self.table.extra(self.n)?.master?;
        self.table.connection_ref(master)
    }

    /// How many connections that it expected are there.
    pub fn children(&self) -> u32 {
        self.table.extra(self.n).map_or(0, |x| x.children)
    }

    /// Which of its events are reported (`ct event`): bits of [`event`].
    pub fn asked_events(&self) -> u16 {
        self.table.asked_events(self.n)
    }

    /// How it is translated, if another connection expected it and that one is translated.
    pub fn follow(&self) -> Option<Follow> {
        self.table.extra(self.n)?.follow.as_deref().copied()
    }

    /// Which tracker has it.
    pub fn tracker(&self) -> Tracker {
        Tracker::of(self.entry().original.protocol)
    }

    /// A number that names it and tells nothing else (`ct id`).
    pub fn id(&self) -> u32 {
        self.table.hasher.word(u64::from(self.n) << 32 | u64::from(self.entry().serial), 0) as u32
    }

    /// Whether TCP is established, and data went both ways (`nf_conntrack_tcp_established()`).
    pub fn is_established(&self) -> bool {
        self.proto().is_established() && self.status() & status::ASSURED != 0
    }

    /// Name of the state of protocols that have one.
    pub fn state(&self) -> Option<&'static str> {
        self.proto().name()
    }

    /// Name of its helper.
    pub fn helper(&self) -> Option<&'a str> {
        self.table.extra(self.n)?.helper.as_ref().map(|helping| helping.name())
    }

    /// Whether a program is its helper.
    pub(crate) fn is_helped_by_program(&self) -> bool {
        let helping = self.table.extra(self.n).and_then(|x| x.helper.as_ref());
        helping.is_some_and(|helping| helping.is_program())
    }

    /// What the program that is its helper keeps with it (`CTA_HELP_INFO`).
    pub fn helper_data(&self) -> Option<Box<[u8]>> {
        let helping = self.table.extra(self.n)?.helper.as_ref()?;
        Some(helping.data()?.get(..helping.data_len())?.into())
    }

    /// The clock of the table, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.table.now
    }

    pub(crate) fn proto(&self) -> &'a ProtocolState {
        &self.entry().proto
    }
}

impl Conntrack {
    /// The connection that a packet holds.
    #[inline]
    pub fn connection(&self, ct: &Ct) -> Option<Connection<'_>> {
        self.resolve(ct).map(|n| Connection { table: self, n })
    }

    /// The connection of a reference.
    pub fn connection_ref(&self, r: Ref) -> Option<Connection<'_>> {
        self.resolve_ref(r).map(|n| Connection { table: self, n })
    }

    /// The connection of this number, also one that is not confirmed or dying.
    pub fn connection_at(&self, n: u32) -> Option<Connection<'_>> {
        self.store.get_live(n).map(|_| Connection { table: self, n })
    }

    /// All connections in the table that have not ended, in the order of their numbers. Those that
    /// are found by their reply tuple only ([`status::NAT_CLASH`]) are not among them, as in the
    /// kernel, which lists original tuples.
    pub fn iter(&self) -> impl Iterator<Item = Connection<'_>> {
        self.iter_from(0)
    }

    /// All connections in the table that have not ended, from a number on ([`Connection::number`]).
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = Connection<'_>> {
        (first..self.store.end()).filter_map(|n| {
            let e = &self.store[n];
            let known = e.is_listed() && e.expires > self.now && !e.has(status::NAT_CLASH);
            known.then_some(Connection { table: self, n })
        })
    }

    /// No connection has this number, or a greater one.
    pub(crate) fn end(&self) -> u32 {
        self.store.end()
    }

    /// Ends all connections for which `which` returns `true`; returns how many.
    pub fn kill_if(&mut self, mut which: impl FnMut(Connection<'_>) -> bool) -> usize {
        let mut killed = 0;
        for n in 0..self.store.end() {
            if self.store[n].is_listed() && which(Connection { table: self, n }) {
                self.kill(n);
                killed += 1;
            }
        }
        killed
    }

    /// Sets `ct mark`.
    pub fn set_mark(&mut self, n: u32, mark: u32) {
        if self.store[n].mark != mark {
            self.store[n].mark = mark;
            self.forget_memo(n);
            self.note(n, event::MARK);
        }
    }

    /// Sets `ct secmark`.
    pub fn set_secmark(&mut self, n: u32, secmark: u32) {
        if self.extra(n).map_or(0, |x| x.secmark) != secmark {
            self.extra_mut(n).secmark = secmark;
            self.note(n, event::SECMARK);
        }
    }

    /// Changes the labels in `mask` to those in `labels`. `false` if the connection has no room for
    /// labels, since it began before rules used them.
    pub fn set_labels(&mut self, n: u32, labels: [u32; 4], mask: [u32; 4]) -> bool {
        if !self.extra(n).is_some_and(|x| x.has_labels) {
            return false;
        }
        let x = self.extra_mut(n);
        let before = x.labels;
        for ((old, new), mask) in x.labels.iter_mut().zip(labels).zip(mask) {
            *old = *old & !mask | new & mask;
        }
        if x.labels != before {
            self.note(n, event::LABEL);
        }
        true
    }

    /// Sets status bits.
    pub fn set_status(&mut self, n: u32, bits: u32) {
        self.store[n].status |= bits;
        self.forget_memo(n);
    }

    /// Clears status bits.
    pub fn clear_status(&mut self, n: u32, bits: u32) {
        self.store[n].status &= !bits;
        self.forget_memo(n);
    }

    /// Notes that a program entered the connection, and no packet.
    pub(crate) fn mark_made(&mut self, n: u32) {
        self.store[n].flags |= flag::MADE;
    }

    /// Whether a program entered the connection.
    pub(crate) fn is_made(&self, n: u32) -> bool {
        self.store[n].flags & flag::MADE != 0
    }

    /// Says that SYN proxy answers for the server (`nfct_synproxy_ext_add()`).
    pub fn set_synproxied(&mut self, n: u32) {
        self.extra_mut(n).synproxy = true;
    }

    /// Whether SYN proxy answers for the server.
    pub fn is_synproxied(&self, n: u32) -> bool {
        self.extra(n).is_some_and(|x| x.synproxy)
    }

    /// Notes the device through which the source is masqueraded.
    pub fn set_masquerade(&mut self, n: u32, device: u32) {
        grow(&mut self.masqueraded, n);
        if let Some(place) = self.masqueraded.get_mut(n as usize) {
            *place = device;
        }
    }

    /// Changes where answers of an unconfirmed connection come from and go to
    /// (`nf_conntrack_alter_reply()`). The zone stays. `false` if it is confirmed already.
    pub fn alter_reply(&mut self, n: u32, reply: &Tuple) -> bool {
        let e = &mut self.store[n];
        if e.has(status::CONFIRMED) {
            return false;
        }
        let reply = Tuple { zone: e.reply.zone, ..*reply };
        e.reply = reply;
        self.note_reply(n, &reply);
        true
    }
}
