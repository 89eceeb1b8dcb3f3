// SPDX-License-Identifier: Apache-2.0

//! Requests for one thing.

use penstock_ruleset::Generation;
use penstock_ruleset::reset::Reset;

use super::answer::Stamp;
use crate::message::Writer;

/// A request for one thing, and its answer.
pub struct Get<'g> {
    /// What is asked.
    pub generation: &'g Generation,
    /// Time of the packet clock in nanoseconds.
    pub now: u64,
    /// What the answers have in common.
    pub stamp: Stamp,
    /// The answer.
    pub answer: Writer,
    /// Answers before it, a datagram each.
    pub datagrams: Vec<Vec<u8>>,
    /// What must be reset after the answer.
    pub resets: Vec<Reset>,
}

impl<'g> Get<'g> {
    /// A request without an answer yet.
    pub fn new(generation: &'g Generation, now: u64, stamp: Stamp) -> Self {
        Get {
            generation,
            now,
            stamp,
            answer: Writer::default(),
            datagrams: Vec::new(),
            resets: Vec::new(),
        }
    }

    /// Begins another datagram.
    pub fn flush(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        if !answer.is_empty() {
            self.datagrams.push(answer.finish());
        }
    }
}
