// SPDX-License-Identifier: Apache-2.0

//! NOTRACK (`sync-notrack.c`): nothing is acknowledged, and nothing sent again. The peer can be
//! asked for all that it has.

use crate::ftfw::ALIVE;
use crate::message::{Kind, Message, flag};
use crate::outgoing::Queue;
use crate::received::Received;
use crate::sequence::Tracked;

/// Both directions of the exchange.
#[derive(Debug)]
pub(crate) struct NoTrack {
    pub(crate) queue: Queue,
    pub(crate) tracked: Tracked,
    due: u64,
}

impl NoTrack {
    pub(crate) fn new(first: u32, now: u64) -> Self {
        NoTrack { queue: Queue::new(first), tracked: Tracked::default(), due: now + ALIVE }
    }

    pub(crate) fn send(&mut self, now: u64, datagram: &mut Vec<u8>, limit: usize) -> bool {
        let sent = self.queue.send(datagram, limit, || 0).is_some();
        if sent {
            self.due = now + ALIVE;
        }
        sent
    }

    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    pub(crate) fn tick(&mut self, now: u64) {
        if now >= self.due {
            self.due = now + ALIVE;
            self.queue.push_control(flag::ALIVE, None);
        }
    }

    pub(crate) fn receive(&mut self, message: &Message<'_>) -> Received {
        self.tracked.see(message.sequence);
        let flags = message.flags & !(flag::HELLO | flag::HELLO_BACK);
        let received = match message.kind {
            kind if kind.is_data() && flags == 0 => Received::Data,
            Kind::Control if flags & flag::RESYNC != 0 => Received::Resync,
            Kind::Control if flags & flag::ALIVE != 0 => Received::Control,
            _ => return Received::Malformed,
        };
        self.tracked.take(message.sequence);
        received
    }
}
