// SPDX-License-Identifier: Apache-2.0

//! Messages of nf_tables on their way to a program.

use penstock_ruleset::Family;

use crate::message::{Pages, Writer, flags};

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
    pages: Pages,
}

impl Dump {
    /// With nothing in it, and datagrams of a limited length in bytes.
    pub fn new(stamp: Stamp, limit: usize) -> Self {
        Dump { stamp, pages: Pages::new(limit) }
    }

    /// Longest datagram in bytes.
    pub fn limit(&self) -> usize {
        self.pages.limit()
    }

    /// Adds one message, with `NLM_F_MULTI`.
    pub fn message(
        &mut self,
        number: u8,
        more_flags: u16,
        family: Family,
        write: impl FnOnce(&mut Writer),
    ) {
        let (stamp, flags) = (self.stamp, flags::MULTI | more_flags);
        self.pages.add(|page| stamp.message(page, number, flags, Some(family), write));
    }

    /// Begins a new datagram.
    pub fn flush(&mut self) {
        self.pages.flush();
    }

    /// Its datagrams. The end has one of its own, as the kernel sends it.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.pages.finish(self.stamp.sequence, self.stamp.port)
    }

    /// Its datagrams. The end is in the current one.
    pub fn finish_here(self) -> Vec<Vec<u8>> {
        self.pages.finish_here(self.stamp.sequence, self.stamp.port)
    }
}
