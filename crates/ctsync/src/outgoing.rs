// SPDX-License-Identifier: Apache-2.0

//! Messages that wait to be sent.

use std::collections::VecDeque;

use penstock_conntrack::Tuple;

use crate::message::{control, flag};

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The connection with this original tuple.
    Connection(Tuple),
    /// The expectation with this tuple.
    Expectation(Tuple),
}

/// A message about a connection or an expectation, without flags and sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// What it is about.
    pub key: Key,
    /// Header and attributes.
    pub bytes: Box<[u8]>,
}

/// A message that waits to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// What it is about; nothing for a control message.
    pub(crate) key: Option<Key>,
    pub(crate) bytes: Box<[u8]>,
}

/// Messages that wait, in their order, and the sequence number of the next one.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Outgoing>,
    next: u32,
    sent: u64,
}

impl Queue {
    /// None waits. conntrackd's first sequence number is the time.
    pub(crate) fn new(first: u32) -> Self {
        Queue { waiting: VecDeque::new(), next: first, sent: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many messages were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn push(&mut self, message: Outgoing) {
        self.waiting.push_back(message);
    }

    pub(crate) fn push_data(&mut self, Encoded { key, bytes }: Encoded) {
        self.push(Outgoing { key: Some(key), bytes });
    }

    pub(crate) fn push_control(&mut self, flags: u8, range: Option<(u32, u32)>) {
        self.push(Outgoing { key: None, bytes: control(flags, range) });
    }

    /// Forgets all that waits.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Appends the first message to a datagram, if it fits. It becomes its sequence number, and
    /// further flags.
    pub(crate) fn send(
        &mut self,
        datagram: &mut Vec<u8>,
        limit: usize,
        flags: impl FnOnce() -> u8,
    ) -> Option<(u32, Outgoing)> {
        let len = self.waiting.front()?.bytes.len();
        if !datagram.is_empty() && datagram.len() + len > limit {
            return None;
        }
        let message = self.waiting.pop_front()?;
        let (begin, sequence) = (datagram.len(), self.next);
        self.next = self.next.wrapping_add(1);
        self.sent += 1;
        datagram.extend(&message.bytes);
        if let Some(place) = datagram.get_mut(begin + 1) {
            *place |= flags();
        }
        if let Some(place) = datagram.get_mut(begin + 4..begin + 8) {
            place.copy_from_slice(&sequence.to_be_bytes());
        }
        Some((sequence, message))
    }
}

impl Outgoing {
    /// Whether the peer is to acknowledge it, so that it is kept: data, and control messages with a
    /// range.
    pub(crate) fn is_kept(&self) -> bool {
        self.key.is_some() || self.bytes.get(1).is_some_and(|flags| flags & flag::RANGED != 0)
    }
}
