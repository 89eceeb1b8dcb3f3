// SPDX-License-Identifier: Apache-2.0

//! Netlink messages: headers, attributes, policies, answers.
//!
//! Numbers of headers are in host order (`struct nlmsghdr`, `struct nlattr`), those in netfilter's
//! attributes in network order.

mod attribute;
mod failure;
mod pages;
mod policy;
mod writer;

pub use attribute::{Attribute, Attributes, each, parse};
pub use failure::{AckOptions, Failure, acknowledge};
pub use pages::Pages;
pub use policy::{Check, Policy};
pub use writer::{NESTED, Writer};

/// Bytes of a `struct nlmsghdr`.
pub const HEADER: usize = 16;
/// Bytes of a `struct nlmsghdr` with a `struct nfgenmsg` after it: attributes begin here.
pub const HEADERS: usize = 20;

/// `NLMSG_NOOP` to `NLMSG_MIN_TYPE` - 1 are netlink's own.
pub const MIN_TYPE: u16 = 0x10;
/// `NLMSG_ERROR`.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`.
pub const DONE: u16 = 3;

/// `NLM_F_*`.
pub mod flags {
    /// It is a request.
    pub const REQUEST: u16 = 1;
    /// One of several parts, ended by `NLMSG_DONE`.
    pub const MULTI: u16 = 2;
    /// Success is acknowledged, too.
    pub const ACK: u16 = 4;
    /// The notification of the change is an answer, too.
    pub const ECHO: u16 = 8;
    /// All, not one.
    pub const DUMP: u16 = 0x300;
    /// For new objects: replace an existing one.
    pub const REPLACE: u16 = 0x100;
    /// For new objects: fail if it exists.
    pub const EXCL: u16 = 0x200;
    /// For new objects: create it if missing.
    pub const CREATE: u16 = 0x400;
    /// For new objects: add at the end.
    pub const APPEND: u16 = 0x800;
    /// For deletions: only if it is empty.
    pub const NONREC: u16 = 0x100;
    /// For errors: the request is not repeated.
    pub const CAPPED: u16 = 0x100;
    /// For errors: attributes follow.
    pub const ACK_TLVS: u16 = 0x200;
}

/// Length with padding to the next multiple of 4 (`NLMSG_ALIGN`, `NLA_ALIGN`).
pub const fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// A `struct nlmsghdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length with this header, in bytes.
    pub len: usize,
    /// Subsystem in the high byte, message in the low one.
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Answers have the same.
    pub sequence: u32,
    /// Port id of the sender, as it says.
    pub port: u32,
}

impl Header {
    /// Whether it has all of these flags.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// A message with its header.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The header.
    pub header: Header,
    /// All of it, header included, without padding.
    pub bytes: &'a [u8],
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

impl<'a> Message<'a> {
    /// The first message of some bytes, and the bytes after it; `None` if there is no whole one.
    pub fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        if bytes.len() < HEADER {
            return None;
        }
        let len = u32_at(bytes, 0) as usize;
        let header = Header {
            len,
            kind: u16_at(bytes, 4),
            flags: u16_at(bytes, 6),
            sequence: u32_at(bytes, 8),
            port: u32_at(bytes, 12),
        };
        if len < HEADER {
            return None;
        }
        let message = Message { header, bytes: bytes.get(..len)? };
        Some((message, bytes.get(align(len)..).unwrap_or_default()))
    }

    /// Whether a `struct nfgenmsg` follows the header.
    pub fn has_family(&self) -> bool {
        self.bytes.len() >= HEADERS
    }

    /// `nfgen_family`: 0 without one.
    pub fn family(&self) -> u8 {
        self.bytes.get(HEADER).copied().unwrap_or(0)
    }

    /// `version`: 0 without one.
    pub fn version(&self) -> u8 {
        self.bytes.get(HEADER + 1).copied().unwrap_or(0)
    }

    /// `res_id` as it lies there, in network order: 0 without one.
    pub fn resource(&self) -> [u8; 2] {
        self.bytes.get(HEADER + 2..HEADERS).and_then(|b| b.try_into().ok()).unwrap_or_default()
    }

    /// Subsystem (`NFNL_SUBSYS_ID`).
    pub fn subsystem(&self) -> u8 {
        (self.header.kind >> 8) as u8
    }

    /// Message of the subsystem (`NFNL_MSG_TYPE`).
    pub fn number(&self) -> u8 {
        self.header.kind as u8
    }

    /// Its attributes, checked against a policy.
    ///
    /// # Errors
    /// The first attribute that is not as the policy says.
    pub fn attributes(&self, policy: Policy) -> Result<Attributes<'a>, Failure> {
        parse(self.bytes.get(HEADERS..).unwrap_or_default(), HEADERS, policy)
    }
}
