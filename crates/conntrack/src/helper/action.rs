// SPDX-License-Identifier: Apache-2.0

//! What a message asks to be done, as values.

use super::Memory;
use crate::Tuple;
use crate::complaint::Wrong;
use crate::expectation::Expectation;
use std::net::IpAddr;

/// One thing to be done because of a message.
#[derive(Debug)]
pub(crate) enum Action {
    /// The connection lives for so many nanoseconds from now on.
    Live(u64),
    /// Another connection is expected.
    Expect(Announcement),
    /// Removes the expectations of this connection for which the function returns `true`.
    Unexpect(fn(&Expectation) -> bool),
    /// The first of these that is expected in this class becomes active. If none is, the packet is
    /// dropped for being wrong, or else expectations of the class are removed.
    Renew { class: u8, wanted: Vec<Renewal>, wrong: Option<Wrong> },
    /// A call is expected, in both directions: if one cannot be, neither is.
    ExpectCall(Box<[Expectation; 2]>),
    /// A call with these tuples ends: its connections, or else what is expected of them, and the
    /// source identifiers that this connection entered.
    EndCall(Box<[Tuple; 2]>),
    /// The text changes.
    Edit(Edit),
    /// A number in the text becomes `old` and what edits change from byte `since` on.
    EditLength { at: usize, len: usize, old: i64, since: usize },
    /// The datagram goes to another port of its destination.
    Redirect(u16),
    /// The helper remembers this.
    Remember(Memory),
    /// The packet is dropped: what it announces cannot be tracked. Nothing else is done. Not every
    /// reason is said.
    Drop(Option<Wrong>),
}

/// An expectation that is confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    /// Number of the transport protocol.
    pub protocol: u8,
    /// The destination.
    pub address: [u8; 16],
    pub port: u16,
    /// How long it is expected from now on, in nanoseconds.
    pub timeout: u64,
}

/// New text for a part of the data.
#[derive(Debug)]
pub(crate) struct Edit {
    pub at: usize,
    pub len: usize,
    pub text: Vec<u8>,
}

impl Edit {
    /// How many bytes longer the data becomes.
    pub fn growth(&self) -> i64 {
        self.text.len() as i64 - self.len as i64
    }
}

/// A connection to be expected.
#[derive(Debug)]
pub(crate) struct Announcement {
    pub expectation: Expectation,
    /// How many of its class the connection may expect at a time.
    pub max: u32,
    pub ports: Ports,
    pub otherwise: Otherwise,
    /// Where the text names the port.
    pub edit: Option<PortEdit>,
}

/// Which port is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// The expectation's.
    AsItIs,
    /// The first free port from the expectation's on.
    FirstFree,
    /// The expectation's, which is even, and the next, for data and control of a stream: the first
    /// free pair, or with `search` unset only this one. `asked` is the port that the text names, one
    /// of the pair.
    Pair { asked: u16, search: bool },
}

/// The fate of a message if its connection cannot be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// It continues.
    Pass,
    /// It is dropped, for these reasons.
    Drop(&'static [&'static str]),
}

/// Where the text names the port of an announcement, and how.
#[derive(Debug)]
pub(crate) struct PortEdit {
    pub at: usize,
    pub len: usize,
    /// Address that the text names with the port.
    pub address: IpAddr,
    pub write: fn(IpAddr, u16) -> String,
    /// With this port the text stays as it is.
    pub unless: Option<u16>,
}

impl PortEdit {
    /// The edit for the port that is expected.
    pub fn with(&self, port: u16) -> Option<Edit> {
        let text = (self.write)(self.address, port).into();
        (self.unless != Some(port)).then_some(Edit { at: self.at, len: self.len, text })
    }
}
