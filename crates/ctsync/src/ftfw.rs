// SPDX-License-Identifier: Apache-2.0

//! FT-FW (`sync-ftfw.c`): the receiver acknowledges messages window by window and says which are
//! missing; the sender keeps messages until then. Those who begin say HELLO until the other one
//! says that it has heard it: they forget what was sent before.

use crate::message::{Kind, Message, flag};
use crate::outgoing::{Encoded, Queue};
use crate::received::Received;
use crate::resend::Resend;
use crate::sequence::{Follows, Tracked, is_before};

/// How long it may be silent, in nanoseconds (`ALIVE_INT`).
pub(crate) const ALIVE: u64 = 1_000_000_000;

/// Whether the peer knows that this side has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hello {
    Say,
    Heard,
}

/// Both directions of the exchange.
#[derive(Debug)]
pub(crate) struct FtFw {
    pub(crate) queue: Queue,
    pub(crate) resend: Resend,
    pub(crate) tracked: Tracked,
    hello: Hello,
    /// The next message says that the peer's HELLO was heard.
    hello_back: bool,
    window: u32,
    /// Messages until the next acknowledgement.
    left: u32,
    /// The first message that is not acknowledged.
    ack_from: Option<u32>,
    /// When something is to be sent, whatever it is.
    due: u64,
}

impl FtFw {
    pub(crate) fn new(window: u32, resend: usize, first: u32, now: u64) -> Self {
        FtFw {
            queue: Queue::new(first),
            resend: Resend::new(resend),
            tracked: Tracked::default(),
            hello: Hello::Say,
            hello_back: false,
            window: window.max(1),
            left: window.max(1),
            ack_from: None,
            due: now + ALIVE,
        }
    }

    pub(crate) fn enqueue(&mut self, message: Encoded) {
        self.resend.supersede(&message.key);
        self.queue.push_data(message);
    }

    /// Appends a message to a datagram, if one waits and fits.
    pub(crate) fn send(&mut self, now: u64, datagram: &mut Vec<u8>, limit: usize) -> bool {
        let flags = || {
            let back = std::mem::take(&mut self.hello_back);
            let hello = if self.hello == Hello::Say { flag::HELLO } else { 0 };
            hello | if back { flag::HELLO_BACK } else { 0 }
        };
        let Some((sequence, message)) = self.queue.send(datagram, limit, flags) else {
            return false;
        };
        self.due = now + ALIVE;
        if message.is_kept() {
            self.resend.keep(sequence, message);
        }
        true
    }

    /// When [`FtFw::tick`] has something to do.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Says that it is there, or acknowledges what has come.
    pub(crate) fn tick(&mut self, now: u64) {
        if now < self.due {
            return;
        }
        self.due = now + ALIVE;
        match self.ack_from.take().zip(self.tracked.last) {
            Some(range) => self.queue.push_control(flag::ACK, Some(range)),
            None => self.queue.push_control(flag::ALIVE, None),
        }
    }

    pub(crate) fn receive(&mut self, message: &Message<'_>) -> Received {
        let sequence = message.sequence;
        if self.hello(message) {
            // It knows nothing of what was sent before, and its numbers begin anew.
            if self.ack_from.is_some_and(|from| is_before(sequence, from)) {
                self.left = self.window.saturating_sub(1);
                self.ack_from = Some(sequence);
            }
            self.resend.clear();
            return self.take_next(message);
        }
        match self.tracked.see(sequence) {
            Follows::Next => self.take_next(message),
            Follows::Before => Received::Late,
            Follows::After(expected) => {
                let received = self.digest(message);
                if received == Received::Malformed {
                    return received;
                }
                if let Some(from) = self.ack_from.take() {
                    let range = (from, expected.wrapping_sub(1));
                    self.queue.push_control(flag::ACK, Some(range));
                }
                self.queue.push_control(flag::NACK, Some((expected, sequence.wrapping_sub(1))));
                self.left = self.window.saturating_sub(1);
                self.ack_from = Some(sequence);
                self.tracked.take(sequence);
                received
            }
        }
    }

    /// Takes the flags of those who begin. Returns whether the peer has begun.
    fn hello(&mut self, message: &Message<'_>) -> bool {
        if message.flags & flag::HELLO_BACK != 0 && self.queue.sent() > 0 {
            self.hello = Hello::Heard;
        }
        let begins = message.flags & flag::HELLO != 0;
        self.hello_back |= begins;
        begins
    }

    fn take_next(&mut self, message: &Message<'_>) -> Received {
        let received = self.digest(message);
        if received == Received::Malformed {
            return received;
        }
        let from = *self.ack_from.get_or_insert(message.sequence);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.queue.push_control(flag::ACK, Some((from, message.sequence)));
            self.left = self.window;
            self.ack_from = None;
        }
        self.tracked.take(message.sequence);
        received
    }

    fn digest(&mut self, message: &Message<'_>) -> Received {
        let flags = message.flags & !(flag::HELLO | flag::HELLO_BACK);
        if message.kind.is_data() && flags == 0 {
            return Received::Data;
        }
        if message.kind != Kind::Control {
            return Received::Malformed;
        }
        match message.range {
            Some((from, to)) if flags & flag::ACK != 0 => {
                if is_before(to, from) {
                    return Received::Malformed;
                }
                self.resend.take(from, to);
                Received::Control
            }
            Some((from, to)) if flags & flag::NACK != 0 => {
                if is_before(to, from) {
                    return Received::Malformed;
                }
                self.resend.take(from, to).into_iter().for_each(|again| self.queue.push(again));
                Received::Control
            }
            Some(_) => Received::Resync,
            None if flags & flag::ALIVE != 0 => Received::Control,
            None => Received::Malformed,
        }
    }
}
