// SPDX-License-Identifier: Apache-2.0

//! One request of a program and what comes of it.

use penstock_conntrack::{Flow, event};

use super::{SUBSYSTEM, connection};
use crate::connections::Connections;
use crate::message::{Message, Pages, Writer, flags};
use crate::socket::Notification;
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

/// Where a request came from, and where its answers go.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Sequence number of the request.
    pub sequence: u32,
    /// Port id of the sender.
    pub port: u32,
}

impl Address {
    /// Writes one message with its headers. The last number is `res_id`.
    pub fn message(
        self,
        to: &mut Writer,
        (subsystem, number, flags): (u8, u8, u16),
        (family, resource): (u8, u16),
        write: impl FnOnce(&mut Writer),
    ) {
        let kind = u16::from(subsystem) << 8 | u16::from(number);
        let start = to.begin(kind, flags, self.sequence, self.port);
        to.raw(&[family, 0]);
        to.raw(&resource.to_be_bytes());
        write(to);
        to.end(start);
    }
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

/// What members of groups are told.
#[derive(Debug)]
pub struct Events {
    /// Port id of who caused them, 0 for nobody.
    port: u32,
    /// Whether anybody wants them.
    listened: bool,
    /// Those so far.
    pub notifications: Vec<Notification>,
}

impl Events {
    /// None so far.
    pub fn new(port: u32, listened: bool) -> Self {
        Events { port, listened, notifications: Vec::new() }
    }

    /// Adds a message. A request is not a part of it, so its sequence number is 0.
    pub fn add(
        &mut self,
        group: u32,
        head: (u8, u8, u16),
        family: u8,
        write: impl FnOnce(&mut Writer),
    ) {
        if !self.listened {
            return;
        }
        let mut to = Writer::default();
        let address = Address { sequence: 0, port: self.port };
        address.message(&mut to, head, (family, 0), write);
        self.notifications.push(Notification { group, datagram: to.finish() });
    }

    /// Adds what happened to a connection: `what` are bits of [`event`].
    pub fn add_flow(&mut self, flow: &Flow, what: u16) {
        let (group, number, flags) = if what & event::DESTROY != 0 {
            (NFNLGRP_CONNTRACK_DESTROY, IPCTNL_MSG_CT_DELETE, 0)
        } else if what & (event::NEW | event::RELATED) != 0 {
            (NFNLGRP_CONNTRACK_NEW, IPCTNL_MSG_CT_NEW, flags::CREATE | flags::EXCL)
        } else {
            (NFNLGRP_CONNTRACK_UPDATE, IPCTNL_MSG_CT_NEW, 0)
        };
        let head = (SUBSYSTEM, number, flags);
        self.add(group, head, flow.original.l3, |to| connection::write_event(to, flow, what));
    }
}

/// One request and its answers so far.
pub struct Exchange<'a> {
    /// What it reads and changes.
    pub connections: &'a mut dyn Connections,
    /// Whether connections or expectations changed.
    pub changed: bool,
    /// Answers, a datagram each.
    pub datagrams: Vec<Vec<u8>>,
    /// What members of groups are told.
    pub events: Events,
    to: Address,
    listing: Listing,
}

impl<'a> Exchange<'a> {
    /// A request without answers yet. `limit` is how long datagrams of dumps are, in bytes;
    /// `listened` says whether anybody wants events.
    pub fn new(
        connections: &'a mut dyn Connections,
        message: &Message<'_>,
        port: u32,
        limit: usize,
        listened: bool,
    ) -> Self {
        let to = Address { sequence: message.header.sequence, port };
        Exchange {
            connections,
            changed: false,
            datagrams: Vec::new(),
            events: Events::new(port, listened),
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

    /// Tells what happened to a connection: `what` are bits of [`event`].
    pub fn tell(&mut self, flow: &Flow, what: u16) {
        self.changed = true;
        self.events.add_flow(flow, what);
    }
}
