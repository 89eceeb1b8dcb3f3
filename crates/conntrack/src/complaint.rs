// SPDX-License-Identifier: Apache-2.0

//! What is wrong with a packet, in the kernel's words: those that `net.netfilter.
//! nf_conntrack_log_invalid` asks for (`nf_l4proto_log_invalid()`), and why a helper drops a packet,
//! which is always said (`nf_ct_helper_log()`).

use std::cell::Cell;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::tuple::Direction;

/// Why a packet is no part of its connection, has no effect on it, or is dropped by its helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    says: Speaker,
    what: Wrong,
}

/// Who finds something wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    /// The tracker of a protocol, by its number.
    Protocol(u8),
    /// A helper, by its name.
    Helper(&'static str),
}

impl fmt::Display for Complaint {
    /// What stands before a packet in the log, without the blank that follows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.says {
            Speaker::Protocol(number) => write!(f, "nf_ct_proto_{number}: {}", self.what),
            Speaker::Helper(name) => write!(f, "nf_ct_{name}: dropping packet: {}", self.what),
        }
    }
}

/// What is wrong with one packet: at most two things.
#[derive(Debug, Default)]
pub(crate) struct Complaints([Cell<Option<Complaint>>; 2]);

impl Complaints {
    /// Notes one, if it is asked for: `asked` is the number of a protocol, or 255 for all
    /// (`IPPROTO_RAW`).
    #[cold]
    pub(crate) fn note(&self, asked: u8, protocol: u8, what: Wrong) {
        if asked == protocol || asked == u8::MAX {
            self.add(Complaint { says: Speaker::Protocol(protocol), what });
        }
    }

    /// Notes why a helper drops a packet.
    #[cold]
    pub(crate) fn note_helper(&self, name: &'static str, what: Wrong) {
        self.add(Complaint { says: Speaker::Helper(name), what });
    }

    fn add(&self, complaint: Complaint) {
        if let Some(free) = self.0.iter().find(|place| place.get().is_none()) {
            free.set(Some(complaint));
        }
    }

    /// What was noted, once.
    pub(crate) fn take(&self) -> [Option<Complaint>; 2] {
        [self.0[0].take(), self.0[1].take()]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A fixed text.
    Text(&'static str),
    /// A command of FTP that is cut or wrong.
    Partial(&'static str),
    /// A port of a stream in SIP that no user has.
    Port(u32),
    /// The state table of TCP has no place for a segment of this kind.
    Segment {
        kind: u8,
        direction: Direction,
        state: &'static str,
        ignored: bool,
    },
    /// More bytes than the window has.
    Overshot(u32),
    SeqAbove(u32),
    SeqBelow(u32),
    AckAbove(u32),
    AckBelow(u32),
    /// A FIN or reset out of the window answers another: the connection lives so many ticks.
    Lowered {
        kind: u8,
        direction: Direction,
        last: u8,
        ticks: u64,
    },
    /// A chunk of SCTP where it cannot be: its number, type and length as it stands there.
    Place {
        number: u32,
        kind: u8,
        length: u16,
        alone: bool,
    },
    /// The verification tag of SCTP, and what it should be.
    Tag {
        tag: u32,
        known: u32,
        direction: Direction,
    },
    /// The state table of SCTP has no place for a chunk.
    Chunk {
        state: u8,
        direction: Direction,
        kind: u8,
    },
    /// An ICMP error goes to another host than the one whose packet it is about.
    Address {
        v6: bool,
        outer: [u8; 16],
        inner: [u8; 16],
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Wrong::Text(text) => f.write_str(text),
            Wrong::Partial(command) => write!(f, "partial matching of `{command}'"),
            Wrong::Port(port) => write!(f, "wrong port {port}"),
            Wrong::Segment { kind, direction, state, ignored } => {
                let end = if ignored { "ignored" } else { "invalid" };
                let dir = direction as u8;
                write!(f, "packet (index {kind}) in dir {dir} {end}, state {state}")
            }
            Wrong::Overshot(bytes) => write!(f, "{bytes} bytes more than expected"),
            Wrong::SeqAbove(bound) => {
                write!(f, "SEQ is over upper bound {bound} (over the window of the receiver)")
            }
            Wrong::SeqBelow(bound) => {
                write!(f, "SEQ is under lower bound {bound} (already ACKed data retransmitted)")
            }
            Wrong::AckAbove(bound) => {
                write!(f, "ACK is over upper bound {bound} (ACKed data not seen yet)")
            }
            Wrong::AckBelow(bound) => {
                write!(f, "ignored ACK under lower bound {bound} (possible overly delayed)")
            }
            Wrong::Lowered { kind, direction, last, ticks } => {
                let dir = direction as u8;
                write!(f, "packet (index {kind}, dir {dir}) response for index {last} ")?;
                write!(f, "lower timeout to {ticks}")
            }
            // The kernel prints numbers of the packet as they lie in memory.
            Wrong::Place { number, kind, length, alone } => {
                let (length, flag) = (u16::from_ne_bytes(length.to_be_bytes()), u8::from(alone));
                write!(f, "do_basic_checks failed. chunk num {number}, type {kind}, ")?;
                write!(f, "len {length} flag {flag}")
            }
            Wrong::Tag { tag, known, direction } => {
                let raw = |tag: u32| u32::from_ne_bytes(tag.to_be_bytes());
                let (tag, known, dir) = (raw(tag), raw(known), direction as u8);
                write!(f, "verification tag check failed {tag:x} vs {known:x} for dir {dir}")
            }
            Wrong::Chunk { state, direction, kind } => {
                let dir = direction as u8;
                write!(f, "Invalid, old_state {state}, dir {dir}, type {kind}")
            }
            Wrong::Address { v6: false, outer, inner } => {
                let v4 = |a: [u8; 16]| Ipv4Addr::new(a[0], a[1], a[2], a[3]);
                write!(f, "outer daddr {} != inner {}", v4(outer), v4(inner))
            }
            Wrong::Address { v6: true, outer, inner } => {
                let groups = |a: [u8; 16]| {
                    Ipv6Addr::from(a).segments().map(|s| format!("{s:04x}")).join(":")
                };
                write!(f, "outer daddr {} != inner {}", groups(outer), groups(inner))
            }
        }
    }
}
