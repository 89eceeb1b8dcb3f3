// SPDX-License-Identifier: Apache-2.0

//! What happened to connections, and packets, that a client has yet to be told.

use std::collections::VecDeque;

use crate::control::netfilter::{Datagram, Recipient};

/// Bytes of messages that are kept; further ones are missed.
const MOST: usize = 4 << 20;

/// Messages for members of groups, in their order.
#[derive(Debug, Default)]
pub(super) struct Kept {
    datagrams: VecDeque<Datagram>,
    bytes: usize,
    /// The groups of which something was missed since, group 1 in the lowest bit.
    missed: u32,
}

impl Kept {
    /// Keeps what is told: groups, and their messages. `missed` are the groups of which something
    /// was missed before.
    pub(super) fn keep(&mut self, told: Vec<(u32, Vec<u8>)>, missed: u32) {
        self.missed |= missed;
        self.note_missed();
        for (group, bytes) in told {
            if self.is_full() {
                self.missed |= group.checked_sub(1).map_or(0, |n| 1u32.checked_shl(n).unwrap_or(0));
                continue;
            }
            self.bytes += bytes.len();
            self.datagrams.push_back(Datagram { to: Recipient::All(group), bytes });
        }
    }

    /// Keeps packets for sockets with port ids. They always find room: those of queues are counted,
    /// and wait for an answer.
    pub(super) fn keep_packets(&mut self, given: Vec<(u32, Vec<u8>)>) {
        for (port, bytes) in given {
            self.bytes += bytes.len();
            self.datagrams.push_back(Datagram { to: Recipient::Port(port), bytes });
        }
    }

    /// Tells of what was missed in its place: an empty message for each group.
    fn note_missed(&mut self) {
        if self.missed == 0 || self.is_full() {
            return;
        }
        let missed = std::mem::take(&mut self.missed);
        let groups = (1..=u32::BITS).filter(|group| missed >> (group - 1) & 1 != 0);
        let empty = |group| Datagram { to: Recipient::All(group), bytes: Vec::new() };
        self.datagrams.extend(groups.map(empty));
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST
    }

    /// Whether there is anything to tell.
    pub(super) fn is_empty(&self) -> bool {
        self.datagrams.is_empty() && self.missed == 0
    }

    /// Takes the first messages, of so many bytes or a little more.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<Datagram> {
        let (mut some, mut taken) = (Vec::new(), 0);
        while taken < bytes
            && let Some(datagram) = self.datagrams.pop_front()
        {
            taken += datagram.bytes.len();
            some.push(datagram);
        }
        self.bytes -= taken;
        self.note_missed();
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_missed_in_its_place() {
        let mut kept = Kept::default();
        let message = |byte: u8| (3, vec![byte; MOST / 4]);
        kept.keep((0..5).map(message).collect(), 0);
        assert!(kept.is_full());
        let all = |kept: &mut Kept| {
            let taken = kept.take(usize::MAX);
            taken.iter().map(|d| (d.to, d.bytes.first().copied())).collect::<Vec<_>>()
        };
        let to = Recipient::All(3);
        let mut expected: Vec<_> = (0..4).map(|byte| (to, Some(byte))).collect();
        assert_eq!(all(&mut kept), expected);
        expected = vec![(to, None)];
        assert_eq!(all(&mut kept), expected, "the fifth");
        kept.keep(vec![message(7)], 1 << 2 | 1);
        expected = vec![(Recipient::All(1), None), (to, None), (to, Some(7))];
        assert_eq!(all(&mut kept), expected);
        assert!(kept.is_empty());
    }
}
