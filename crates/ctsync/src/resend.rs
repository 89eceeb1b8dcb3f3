// SPDX-License-Identifier: Apache-2.0

//! Messages that were sent, until the peer acknowledges them. Of what several were about, the last
//! one is kept: an older one that was sent again would come after it.

use std::collections::{HashMap, VecDeque};

use crate::outgoing::{Key, Outgoing};
use crate::sequence::is_before;

/// The messages, in the order of their sequence numbers.
#[derive(Debug)]
pub(crate) struct Resend {
    kept: VecDeque<(u32, Option<Outgoing>)>,
    /// The sequence number of the message about something.
    about: HashMap<Key, u32>,
    limit: usize,
    /// Messages that were given up, since others needed their place.
    given_up: u64,
}

impl Resend {
    /// None, and as many as `limit` at most.
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Resend { kept: VecDeque::new(), about: HashMap::new(), limit, given_up: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn given_up(&self) -> u64 {
        self.given_up
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.about.clear();
    }

    /// Where a sequence number is, or would be.
    fn place(&self, sequence: u32) -> usize {
        self.kept.partition_point(|(other, _)| is_before(*other, sequence))
    }

    /// Forgets that something is kept about what a message is about, if it is that message.
    fn forget(&mut self, sequence: u32, message: &Option<Outgoing>) {
        if let Some(key) = message.as_ref().and_then(|message| message.key)
            && self.about.get(&key) == Some(&sequence)
        {
            self.about.remove(&key);
        }
    }

    /// Something else is said of it: what is kept does not count any more.
    pub(crate) fn supersede(&mut self, key: &Key) {
        if let Some(sequence) = self.about.remove(key) {
            let place = self.place(sequence);
            if let Some((_, message)) = self.kept.get_mut(place).filter(|(n, _)| *n == sequence) {
                *message = None;
            }
        }
    }

    /// Keeps a message that was sent.
    pub(crate) fn keep(&mut self, sequence: u32, message: Outgoing) {
        if self.kept.len() >= self.limit
            && let Some((first, message)) = self.kept.pop_front()
        {
            self.given_up += u64::from(message.is_some());
            self.forget(first, &message);
        }
        if let Some(key) = message.key {
            self.supersede(&key);
            self.about.insert(key, sequence);
        }
        self.kept.push_back((sequence, Some(message)));
    }

    /// Takes the messages of a range out, both ends included.
    pub(crate) fn take(&mut self, from: u32, to: u32) -> Vec<Outgoing> {
        let (begin, end) = (self.place(from), self.place(to.wrapping_add(1)));
        if begin >= end {
            return Vec::new();
        }
        let taken: Vec<_> = self.kept.drain(begin..end).collect();
        taken.iter().for_each(|(sequence, message)| self.forget(*sequence, message));
        taken.into_iter().filter_map(|(_, message)| message).collect()
    }
}
