// SPDX-License-Identifier: Apache-2.0

//! ALARM (`sync-alarm.c`): each connection is told again and again; what the peer does not tell any
//! more is forgotten after a while.

use crate::message::Message;
use crate::outgoing::Queue;
use crate::received::Received;
use crate::sequence::Tracked;

/// Both directions of the exchange.
#[derive(Debug)]
pub(crate) struct Alarm {
    pub(crate) queue: Queue,
    pub(crate) tracked: Tracked,
    /// Nanoseconds in which everything is told again.
    refresh: u64,
    /// When the last part was told.
    told: u64,
    /// What is left of one connection: connections times nanoseconds.
    rest: u128,
}

impl Alarm {
    pub(crate) fn new(refresh: u64, first: u32, now: u64) -> Self {
        let refresh = refresh.max(1);
        let (queue, tracked) = (Queue::new(first), Tracked::default());
        Alarm { queue, tracked, refresh, told: now, rest: 0 }
    }

    /// How many of `count` connections are to be told again now.
    pub(crate) fn refresh(&mut self, now: u64, count: usize) -> usize {
        let passed = now.saturating_sub(self.told).min(self.refresh);
        self.told = now;
        let (count, refresh) = (count as u128, u128::from(self.refresh));
        let due = self.rest + count * u128::from(passed);
        self.rest = due % refresh;
        (due / refresh).min(count) as usize
    }

    pub(crate) fn receive(&mut self, message: &Message<'_>) -> Received {
        // Messages of other modes: there is nothing to answer.
        if message.flags != 0 {
            return Received::Control;
        }
        self.tracked.see(message.sequence);
        if !message.kind.is_data() {
            return Received::Malformed;
        }
        self.tracked.take(message.sequence);
        Received::Data
    }
}
