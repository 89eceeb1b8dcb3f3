// SPDX-License-Identifier: Apache-2.0

//! One request of a program and what comes of it.

use penstock_conntrack::{Flow, Helpers};

use super::address::Address;
use super::{SUBSYSTEM, connection};
use crate::connections::{ConnectionEvent, Connections, Expected};
use crate::message::{Message, Pages, Writer, flags};
use crate::uapi::ctnetlink::*;

/// `NLM_F_DUMP_FILTERED`
const FILTERED: u16 = 0x20;

/// What became of a request that was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is acknowledged if it wants that.
    Acknowledge,
    /// It was a dump, which has its own end.
    Dumped,
}

/// Messages of a dump.
#[derive(Debug)]
pub struct Listing {
    to: Address,
    pages: Pages,
}

impl Listing {
    /// Adds a connection; `filtered` if not all are listed.
    pub fn flow(&mut self, flow: &Flow, filtered: bool) {
        let flags = flags::MULTI | if filtered { FILTERED } else { 0 };
        let head = (SUBSYSTEM, IPCTNL_MSG_CT_NEW, flags);
        self.message(head, (flow.original.l3, 0), |to| connection::write(to, flow, 0));
    }

    /// Adds a message.
    pub fn message(&mut self, head: (u8, u8, u16), of: (u8, u16), write: impl FnOnce(&mut Writer)) {
        let to = self.to;
        self.pages.add(|page| to.message(page, head, of, write));
    }
}

/// One request and its answers so far.
pub struct Exchange<'a> {
    /// What it reads and changes.
    pub connections: &'a mut dyn Connections,
    /// Helpers that there are.
    pub helpers: Helpers,
    /// Whether connections or expectations changed.
    pub changed: bool,
    /// Answers, a datagram each.
    pub datagrams: Vec<Vec<u8>>,
    /// What members of groups are told.
    pub events: Vec<ConnectionEvent>,
    /// Whether anybody wants events.
    listened: bool,
    to: Address,
    listing: Listing,
}

impl<'a> Exchange<'a> {
    /// A request without answers yet. `limit` is how long datagrams of dumps are, in bytes;
    /// `listened` says whether anybody wants events.
    pub fn new(
        connections: &'a mut dyn Connections,
        helpers: Helpers,
        message: &Message<'_>,
        port: u32,
        limit: usize,
        listened: bool,
    ) -> Self {
        let to = Address { sequence: message.header.sequence, port };
        Exchange {
            connections,
            helpers,
            changed: false,
            datagrams: Vec::new(),
            events: Vec::new(),
            listened,
            to,
            listing: Listing { to, pages: Pages::new(limit) },
        }
    }

    /// Connections, and the dump that lists them.
    pub fn parts(&mut self) -> (&mut dyn Connections, &mut Listing) {
        (&mut *self.connections, &mut self.listing)
    }

    /// Answers with one message.
    pub fn answer(&mut self, head: (u8, u8, u16), of: (u8, u16), write: impl FnOnce(&mut Writer)) {
        let mut to = Writer::default();
        self.to.message(&mut to, head, of, write);
        self.datagrams.push(to.finish());
    }

    /// Answers with one connection, which the request refers to.
    pub fn answer_flow(&mut self, flow: &Flow) {
        let head = (SUBSYSTEM, IPCTNL_MSG_CT_NEW, flags::MULTI);
        self.answer(head, (flow.original.l3, 0), |to| connection::write(to, flow, 1));
    }

    /// Ends a dump.
    pub fn finish_dump(&mut self) -> Outcome {
        let pages = std::mem::replace(&mut self.listing.pages, Pages::new(0));
        self.datagrams.extend(pages.finish(self.to.sequence, self.to.port));
        Outcome::Dumped
    }

    /// Tells what happened to a connection, if rules have asked for any of that: `what` are bits of
    /// [`event`].
    ///
    /// [`event`]: penstock_conntrack::event
    pub fn tell(&mut self, flow: &Flow, what: u16) {
        self.changed = true;
        if self.listened && what & flow.events != 0 {
            self.events.push(ConnectionEvent::Connection { flow: flow.clone(), what });
        }
    }

    /// Tells that a connection is expected, or no longer.
    pub fn tell_expected(&mut self, expected: &Expected, ends: bool) {
        self.changed = true;
        if self.listened {
            self.events.push(ConnectionEvent::Expectation { expected: expected.clone(), ends });
        }
    }
}
