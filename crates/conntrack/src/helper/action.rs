// SPDX-License-Identifier: Apache-2.0

//! What a message asks to be done, as values.

use super::Memory;
use crate::Direction;
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
    /// Expectations of a class become active, for `timeout` nanoseconds from now on.
    Activate { class: u8, timeout: u64 },
    /// Source identifiers that the connection entered are forgotten.
    ForgetKeys,
    /// Ends the connections with source identifiers that this one entered, and removes the
    /// identifiers.
    EndKeyed,
    /// The text changes.
    Edit(Edit),
    /// A number in the text grows by what edits change from byte `since` on.
    EditLength { at: usize, len: usize, old: i64, since: usize },
    /// The helper remembers this.
    Remember(Memory),
    /// The packet is dropped: what it announces cannot be tracked. Nothing else is done.
    Drop,
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
    /// The direction for which its source identifier is entered: packets do not carry it.
    pub keyed: Option<Direction>,
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
    /// free pair, or with `search` unset only this one. If the connection has the same expectation
    /// already, nothing happens. `asked` is the port that the text names, one of the pair.
    Pair { asked: u16, search: bool },
}

/// The fate of a message if its connection cannot be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// It continues.
    Pass,
    /// It is dropped.
    Drop,
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
