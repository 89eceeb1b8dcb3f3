// SPDX-License-Identifier: Apache-2.0

//! SNMP (`nf_nat_snmp_basic_main.c`; RFC 1157, RFC 3416): addresses in traps and answers follow the
//! translation of the manager or agent that they name.
//!
//! Messages of versions 1 and 2c are read, by the basic encoding rules (X.690) as the kernel reads
//! them (`asn1_decoder.c`, `nf_nat_snmp_basic.asn1`): parts that are missing at the end of a
//! sequence are none the worse, bytes after the message are not looked at, and what cannot be read
//! is dropped. There are no traps of version 1 among them.

use super::{Action, Edit, Message};
use crate::Direction;
use crate::complaint::Wrong;
use std::net::IpAddr;

/// Ports of agents, and of managers for traps.
const AGENT: u16 = 161;
const MANAGER: u16 = 162;

/// Tags of BER.
mod tag {
    pub const INTEGER: u8 = 0x02;
    pub const OCTETS: u8 = 0x04;
    pub const OBJECT: u8 = 0x06;
    pub const SEQUENCE: u8 = 0x30;
    pub const ADDRESS: u8 = 0x40;
    /// Requests, answers, and traps of version 2.
    pub const MESSAGES: [u8; 8] = [0xa0, 0xa1, 0xa5, 0xa2, 0xa3, 0xa6, 0xa7, 0xa8];
    /// What else a variable may be: a simple value, a counter, nothing, or not there.
    pub const VALUES: [u8; 12] =
        [INTEGER, OCTETS, OBJECT, 0x41, 0x43, 0x44, 0x46, 0x42, 0x05, 0x80, 0x81, 0x82];
    /// Something made of others.
    pub const CONSTRUCTED: u8 = 0x20;
    /// The number of the tag is in the bytes that follow.
    pub const LONG: u8 = 0x1f;
}

/// Rewrites the addresses of a message of a translated connection.
pub(super) fn read(m: &Message<'_>) -> Vec<Action> {
    // Ports as the receiver sees them.
    let (source, destination) = (m.back().dst_id, m.back().src_id);
    let answer = m.direction == Direction::Reply;
    if !m.translated || source == AGENT && !answer || destination == MANAGER && answer {
        return Vec::new();
    }
    let refused = |why| vec![Action::Drop(Some(Wrong::Text(why)))];
    if !m.whole {
        return refused("dropping malformed packet");
    }
    let [original, reply] = &m.tuples;
    let (IpAddr::V4(from), IpAddr::V4(to)) = (original.source(), reply.destination()) else {
        return Vec::new();
    };
    if from == to {
        return Vec::new();
    }
    let mut reader = Reader { data: m.data, at: 0, addresses: Vec::new() };
    if reader.message().is_none() {
        return refused("parser failed");
    }
    let own = |at: &usize| m.data.get(*at..at + 4) == Some(&from.octets());
    let edit = |at| Action::Edit(Edit { at, len: 4, text: to.octets().into() });
    reader.addresses.into_iter().filter(own).map(edit).collect()
}

/// Reads from the front. `None` is what the kernel refuses.
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    /// Where the addresses are.
    addresses: Vec<usize>,
}

impl Reader<'_> {
    fn message(&mut self) -> Option<()> {
        let message = self.enter(self.data.len(), &[tag::SEQUENCE])?;
        if let Some(version) = self.value(message, &[tag::INTEGER])? {
            // Version 1 and 2c.
            let [0 | 1] = self.data[version..self.at] else { return None };
        }
        self.value(message, &[tag::OCTETS])?;
        if self.at != message {
            let pdu = self.enter(message, &tag::MESSAGES)?;
            self.variables(pdu)?;
        }
        self.leave(message)
    }

    /// What follows the type of a message: numbers, and a list of variables that is not empty.
    fn variables(&mut self, pdu: usize) -> Option<()> {
        for _ in 0..3 {
            self.value(pdu, &[tag::INTEGER])?;
        }
        let list = self.enter(pdu, &[tag::SEQUENCE])?;
        loop {
            let variable = self.enter(list, &[tag::SEQUENCE])?;
            self.value(variable, &[tag::OBJECT])?;
            if self.at != variable {
                self.variable(variable)?;
            }
            self.leave(variable)?;
            if self.at == list {
                return self.leave(pdu);
            }
        }
    }

    fn variable(&mut self, end: usize) -> Option<()> {
        if self.data.get(self.at) != Some(&tag::ADDRESS) {
            return self.value(end, &tag::VALUES).map(drop);
        }
        let start = self.value(end, &[tag::ADDRESS])??;
        self.addresses.push(start);
        (self.at - start == 4).then_some(())
    }

    /// Goes into a part with one of these tags; returns where it ends.
    fn enter(&mut self, end: usize, tags: &[u8]) -> Option<usize> {
        let len = self.header(end, tags)?;
        Some(self.at + len)
    }

    /// Passes a value with one of these tags; returns where it begins, or `Some(None)` if the part
    /// around it, which ends at `end`, is over.
    fn value(&mut self, end: usize, tags: &[u8]) -> Option<Option<usize>> {
        if self.at == end {
            return Some(None);
        }
        let len = self.header(end, tags)?;
        let start = self.at;
        self.at += len;
        Some(Some(start))
    }

    /// Passes tag and length of a part; returns its length, which ends it before `end`.
    fn header(&mut self, end: usize, tags: &[u8]) -> Option<usize> {
        let bytes = self.data.get(self.at..end)?;
        let (&[tag, len], rest) = bytes.split_first_chunk()?;
        // A part of others may also say that it is none.
        let is = |wanted: &u8| (wanted ^ tag) & !(wanted & tag::CONSTRUCTED) == 0;
        if tag & tag::LONG == tag::LONG || !tags.iter().any(is) {
            return None;
        }
        // Longer lengths, and parts without one, are refused.
        let (len, more) = match len {
            0..=0x7f => (usize::from(len), 0),
            0x81 => (usize::from(*rest.first()?), 1),
            0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 2),
            _ => return None,
        };
        (len <= rest.len() - more).then(|| {
            self.at += 2 + more;
            len
        })
    }

    /// Goes out of a part, which must be over.
    fn leave(&self, end: usize) -> Option<()> {
        (self.at == end).then_some(())
    }
}
