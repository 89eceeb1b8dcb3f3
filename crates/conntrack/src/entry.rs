// SPDX-License-Identifier: Apache-2.0

//! One connection: what packets touch, in three cache lines; what few connections have is in
//! [`Extra`].

use crate::attach::Attached;
use crate::expect::{ExpectList, Follow};
use crate::helper::Helping;
use crate::seqadj::SeqAdjust;
use crate::tcp::Tcp;
use crate::{Direction, Tuple};
use penstock_packet::Ct;

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// A connection by number, good as long as the serial is the entry's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ref {
    /// Number of the entry.
    pub entry: u32,
    /// Its serial.
    pub serial: u32,
}

impl From<Ct> for Ref {
    fn from(ct: Ct) -> Self {
        Ref { entry: ct.entry, serial: ct.serial }
    }
}

/// Which list an entry is linked into.
pub(crate) mod list {
    /// None.
    pub const NOWHERE: u16 = 0xffff;
    /// Not confirmed yet.
    pub const UNCONFIRMED: u16 = 0xfffe;
    /// Killed, kept for the packets that still belong to it.
    pub const DYING: u16 = 0xfffd;
}

/// Bits in [`Entry::flags`].
pub(crate) mod flag {
    /// Packets and bytes are counted.
    pub const ACCT: u16 = 1;
    /// Start and end are noted.
    pub const STAMP: u16 = 2;
    /// Linked by source.
    pub const BY_SOURCE: u16 = 4;
    /// Other workers know that this one has connections of its source.
    pub const SOURCE_CLAIMED: u16 = 8;
}

/// State of the protocol's tracker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Proto {
    /// Nothing to remember.
    None,
    /// UDP: from when on the flow is a stream, in nanoseconds.
    Udp {
        stream_after: u64,
    },
    /// GRE: its timeouts, which the PPTP helper sets.
    Gre {
        timeout: u64,
        stream_timeout: u64,
    },
    Tcp(Tcp),
    Sctp(crate::sctp::Sctp),
    Dccp(crate::dccp::Dccp),
}

/// A connection in the table. Line 0 is enough for a packet in the original direction, line 1 has
/// what packets in the reply direction and timers need, line 2 the protocol.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub original: Tuple,
    /// When it ends, in nanoseconds; before it is confirmed, how long it is to live from then on.
    pub expires: u64,
    pub status: u32,
    /// Zero in a free entry.
    pub serial: u32,
    pub mark: u32,
    /// Number of the [`Extra`].
    pub extra: u32,

    pub reply: Tuple,
    /// Links of the wheel or of another list; of the free list.
    pub next: u32,
    pub prev: u32,
    /// Low bits of the tick for which the wheel has it; in other lists, since when it is there.
    pub armed: u32,
    pub list: u16,
    pub flags: u16,
    /// Links of entries with the same source.
    pub source_next: u32,
    pub source_prev: u32,

    pub proto: Proto,
}

const _: () = assert!(size_of::<Entry>() == 192);

impl Entry {
    pub const FREE: Entry = Entry {
        original: Tuple::ZERO,
        expires: 0,
        status: 0,
        serial: 0,
        mark: 0,
        extra: NONE,
        reply: Tuple::ZERO,
        next: NONE,
        prev: NONE,
        armed: 0,
        list: list::NOWHERE,
        flags: 0,
        source_next: NONE,
        source_prev: NONE,
        proto: Proto::None,
    };

    #[inline(always)]
    pub fn tuple(&self, direction: Direction) -> &Tuple {
        match direction {
            Direction::Original => &self.original,
            Direction::Reply => &self.reply,
        }
    }

    #[inline(always)]
    pub fn has(&self, bits: u32) -> bool {
        self.status & bits != 0
    }
}

/// What few connections have (`struct nf_ct_ext`).
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// `ct label`, bit n in word n / 32.
    pub labels: [u32; 4],
    pub has_labels: bool,
    pub secmark: u32,
    pub master: Option<Ref>,
    /// How many connections that are there it is the master of.
    pub children: u32,
    /// Number of the timeout policy, 0 for none.
    pub policy: u16,
    pub helper: Option<Box<Helping>>,
    pub seqadj: Option<Box<[SeqAdjust; 2]>>,
    pub expects: ExpectList,
    /// How it is translated, if its master is.
    pub follow: Option<Box<Follow>>,
    /// Which events are told; `None` for all.
    pub event_mask: Option<u16>,
    /// SYN proxy holds it open.
    pub synproxy: bool,
    /// What ends with it.
    pub attached: Attached,
}

// With labels every connection has one.
const _: () = assert!(size_of::<Extra>() <= 128);

/// Packets and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes from the network header on.
    pub bytes: u64,
}
