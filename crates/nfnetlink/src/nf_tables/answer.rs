// SPDX-License-Identifier: Apache-2.0

//! Messages of nf_tables on their way to a program.

use penstock_ruleset::Family;

use crate::message::{DONE, Writer, flags};

/// `NFNL_SUBSYS_NFTABLES`.
pub const SUBSYSTEM: u8 = 10;

/// What all answers to a request have in common.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Sequence number of the request.
    pub sequence: u32,
    /// Port id of the receiver.
    pub port: u32,
    /// Number of the generation that they show.
    pub generation: u32,
}

impl Stamp {
    /// Writes one message with its headers (`nfnl_msg_put()`). `family` is 0 for none.
    pub fn message(
        self,
        to: &mut Writer,
        number: u8,
        flags: u16,
        family: Option<Family>,
        write: impl FnOnce(&mut Writer),
    ) {
        let kind = u16::from(SUBSYSTEM) << 8 | u16::from(number);
        let start = to.begin(kind, flags, self.sequence, self.port);
        to.raw(&[family.map_or(0, |f| f as u8), 0]);
        // `res_id`: the low bits of the generation.
        to.raw(&(self.generation as u16).to_be_bytes());
        write(to);
        to.end(start);
    }
}

/// Messages of a dump, put together to datagrams.
#[derive(Debug)]
pub struct Dump {
    stamp: Stamp,
    /// Longest datagram in bytes, unless one message is longer.
    limit: usize,
    current: Writer,
    datagrams: Vec<Vec<u8>>,
}

impl Dump {
    /// With nothing in it.
    pub fn new(stamp: Stamp, limit: usize) -> Self {
        Dump { stamp, limit, current: Writer::default(), datagrams: Vec::new() }
    }

    /// What its messages have in common.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Longest datagram in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Adds one message, with `NLM_F_MULTI`.
    pub fn message(
        &mut self,
        number: u8,
        more_flags: u16,
        family: Family,
        write: impl FnOnce(&mut Writer),
    ) {
        let before = self.current.len();
        let flags = flags::MULTI | more_flags;
        self.stamp.message(&mut self.current, number, flags, Some(family), write);
        if self.current.len() > self.limit && before > 0 {
            let message = self.current.split_off(before);
            self.flush();
            self.current.raw(&message);
        }
    }

    /// Begins a new datagram.
    pub fn flush(&mut self) {
        let current = std::mem::take(&mut self.current);
        if !current.is_empty() {
            self.datagrams.push(current.finish());
        }
    }

    /// Its datagrams. The end has one of its own, as the kernel sends it.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.flush();
        self.finish_here()
    }

    /// Its datagrams. The end is in the current one.
    pub fn finish_here(mut self) -> Vec<Vec<u8>> {
        let start = self.current.begin(DONE, flags::MULTI, self.stamp.sequence, self.stamp.port);
        self.current.raw(&0i32.to_ne_bytes());
        self.current.end(start);
        self.flush();
        self.datagrams
    }
}
