// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to a listener, and what comes back of them (`net/netfilter/nf_queue.c`).
//!
//! A held packet keeps its place in its hook list, and its course.
//! [`Dataplane::verdict`](crate::Dataplane::verdict) lets it continue at the next stage, or ends
//! it. Packets are dropped if their hook list changes during that time, as in the kernel when a
//! hook goes.

use std::collections::BTreeMap;

use penstock_packet::Packet;
use penstock_program::Context;
use penstock_program::image::RuleIndex;

use crate::course::Course;

/// Above this number of held packets, reassembled ones are fragmented by MTU on their way out.
const PARTS_KEPT: usize = 4096;

/// What a listener makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueVerdict {
    /// It ends.
    Drop,
    /// It continues with the next chain of its hook.
    Accept,
    /// It passes the chain that queued it again.
    Repeat,
    /// It continues after its hook, without the chains that are left (`NF_STOP`).
    Stop,
    /// It goes to another queue.
    Queue {
        /// Number of the queue.
        num: u16,
        /// Without a listener there it continues with the next chain; otherwise it is dropped.
        bypass: bool,
    },
}

/// A listener's answer.
#[derive(Clone, Copy, Debug)]
pub struct QueueAnswer<'a> {
    /// The verdict on the packet.
    pub verdict: QueueVerdict,
    /// Its new mark.
    pub mark: Option<u32>,
    /// Its new priority.
    pub priority: Option<u32>,
    /// New bytes from the network header on, at most 65535; the listener has made lengths and
    /// checksums right.
    pub payload: Option<&'a [u8]>,
    /// Another link header, or another tag, for a bridged frame.
    pub link: Option<&'a NewLink>,
}

impl QueueAnswer<'_> {
    /// An answer that changes nothing.
    pub const fn new(verdict: QueueVerdict) -> Self {
        QueueAnswer { verdict, mark: None, priority: None, payload: None, link: None }
    }
}

/// What a listener makes of the link layer of a bridged frame (`nfqa_parse_bridge()`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewLink {
    /// Its VLAN tag: protocol and `TCI`. `Some(None)` for one that is not whole, which ends the
    /// frame.
    pub vlan: Option<Option<[u16; 2]>>,
    /// Its link header. One of another length ends the frame.
    pub header: Option<Box<[u8]>>,
}

/// There is no packet with this number: it was answered before, or dropped since rules changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotQueued;

/// A packet in a queue.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) packet: Packet,
    pub(crate) queue: u16,
    /// The rule that did; `None` for the helper of its connection.
    pub(crate) rule: Option<RuleIndex>,
    pub(crate) context: Context,
    /// The stage that queued it.
    pub(crate) at: usize,
    /// Where it continues after its hook.
    pub(crate) course: Course,
}

/// All packets in queues, by number.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) held: BTreeMap<u64, Held>,
    pub(crate) last: u64,
}

impl Queues {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Numbers of the packets in a queue, the oldest first.
    pub(crate) fn of(&self, queue: u16) -> Vec<u64> {
        self.held.iter().filter(|(_, h)| h.queue == queue).map(|(id, _)| *id).collect()
    }

    /// Takes all packets out; how many they were.
    pub(crate) fn clear(&mut self) -> u64 {
        let count = self.held.len() as u64;
        self.held.clear();
        count
    }

    /// Whether what is known about fragments is still needed. When it becomes too much it is
    /// forgotten.
    #[inline]
    pub(crate) fn needs_parts(&mut self, known: usize) -> bool {
        if self.held.is_empty() {
            return false;
        }
        if known > PARTS_KEPT {
            self.held.values_mut().for_each(|held| held.packet.meta.reassembled = 0);
            return false;
        }
        true
    }
}
