// SPDX-License-Identifier: Apache-2.0

//! Connections that a flowtable forwards (`nf_ct_offload_timeout()`, `flow_offload_fixup_ct()`):
//! they are not tracked during that time, and return as if the latest packet had been.

use super::Conntrack;
use super::counters::Counter;
use crate::outline::Outline;
use crate::settings::SECOND;
use crate::tracker::Untracked;
use crate::{Direction, status};

/// How long a connection lives while its packets are not seen (`NF_CT_DAY`).
const DAY: u64 = 86_400 * SECOND;
/// If less time is left, it is extended (`nf_flow_table_extend_ct_timeout()`); also the timeout of
/// a closing TCP connection.
const LITTLE: u64 = 300 * SECOND;

/// How a connection comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// When: with it a timeout of its state begins, in nanoseconds.
    pub since: u64,
    /// What of that is over already, in nanoseconds: the flow's timeout, if it ended by that.
    pub over: u64,
    /// A FIN or a reset was seen: TCP is closed.
    pub closing: bool,
}

/// An offloaded connection that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its token.
    pub token: u64,
    /// What it was.
    pub outline: Outline,
}

impl Conntrack {
    fn put_offload(&mut self, n: u32, token: u64) {
        if self.offloads.len() <= n as usize {
            self.offloads.resize(n as usize + 1, 0);
        }
        if let Some(place) = self.offloads.get_mut(n as usize) {
            *place = token;
        }
    }

    /// Keeps a note of why packets of a connection are tracked although they need not be.
    #[inline]
    pub fn note_refusal(&mut self, n: u32, note: u32) {
        let e = &self.store[n];
        if !e.has(status::OFFLOAD) {
            self.put_offload(n, u64::from(e.serial) << 32 | u64::from(note));
        }
    }

    /// That note.
    pub fn refusal(&self, n: u32) -> Option<u32> {
        let e = self.store.get_live(n).filter(|e| !e.has(status::OFFLOAD))?;
        let note = *self.offloads.get(n as usize)?;
        (note >> 32 == u64::from(e.serial)).then_some(note as u32)
    }

    /// Marks a confirmed connection as offloaded: its packets are no longer tracked.
    /// [`Conntrack::next_ended`] returns `token` if the connection ends before
    /// [`Conntrack::return_offloaded`].
    pub fn set_offloaded(&mut self, n: u32, token: u64) {
        self.put_offload(n, token);
        let e = &mut self.store[n];
        e.status |= status::OFFLOAD;
        e.proto.leave_tracking();
        self.forget_memo(n);
        self.set_timeout(n, DAY);
    }

    /// The token of an offloaded connection.
    pub fn offloaded(&self, n: u32) -> Option<u64> {
        self.store.get_live(n).filter(|e| e.has(status::OFFLOAD))?;
        self.offloads.get(n as usize).copied()
    }

    /// Extends the timeout of an offloaded connection if little of it is left: packets on the slow
    /// path may have shortened it.
    pub fn extend_offloaded(&mut self, n: u32) {
        let e = &self.store[n];
        if !e.has(status::OFFLOAD) || e.expires > self.now.saturating_add(LITTLE) {
            return;
        }
        let timeout = match e.proto.while_untracked() {
            Untracked::Lasting => DAY,
            Untracked::Closing => LITTLE,
            Untracked::AsItIs => return,
        };
        self.set_timeout(n, timeout);
    }

    /// Tracks a connection again. Its life only gets shorter.
    pub fn return_offloaded(&mut self, n: u32, how: Return) {
        let e = &mut self.store[n];
        e.status &= !(status::OFFLOAD | status::HW_OFFLOAD);
        self.forget_memo(n);
        let e = &mut self.store[n];
        let replied = e.has(status::SEEN_REPLY);
        let Some((tracker, state)) = e.proto.return_to_tracking(how.closing, replied) else {
            return;
        };
        let over = if how.closing { 0 } else { how.over };
        let timeout = self.timeouts(n, tracker)[state].saturating_sub(over);
        let expires = how.since.saturating_add(timeout);
        if expires < self.store[n].expires {
            self.store[n].expires = expires;
            let now = self.now;
            self.store.hasten(n, now);
        }
    }

    /// Notes whether a device forwards its packets (`[HW_OFFLOAD]`).
    pub fn set_hardware(&mut self, n: u32, on: bool) {
        let e = &mut self.store[n];
        if on {
            e.status |= status::HW_OFFLOAD;
        } else {
            e.status &= !status::HW_OFFLOAD;
        }
        self.forget_memo(n);
    }

    /// Counts packets that were not tracked, if the connection is counted.
    #[inline]
    pub fn count_offloaded(&mut self, n: u32, direction: Direction, packets: u64, bytes: u64) {
        if let Some(counters) = self.counters_mut(n) {
            let Counter { packets: p, bytes: b } = &mut counters[direction as usize];
            *p += packets;
            *b += bytes;
        }
    }

    /// Whether offloaded connections have ended.
    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        !self.offloads_ended.is_empty()
    }

    /// One of them.
    pub fn next_ended(&mut self) -> Option<Ended> {
        self.offloads_ended.pop()
    }

    /// A connection ends.
    pub(crate) fn tell_offload(&mut self, n: u32) {
        if let Some(token) = self.offloaded(n)
            && let Some(connection) = self.connection_at(n)
        {
            let outline = connection.outline();
            self.offloads_ended.push(Ended { token, outline });
            self.store[n].status &= !(status::OFFLOAD | status::HW_OFFLOAD);
        }
    }
}
