// SPDX-License-Identifier: Apache-2.0

//! One connection: what packets touch, in three cache lines. What few connections have is in
//! [`super::extra::Extra`].

use crate::tracker::ProtocolState;
use crate::{Direction, Tuple, status};

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

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
    /// A program entered it, and no packet.
    pub const MADE: u16 = 16;
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
    /// Number of the [`super::extra::Extra`].
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

    /// What the protocol's tracker remembers: the table keeps it and does not look into it.
    pub proto: ProtocolState,
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
        proto: ProtocolState::None,
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

    /// Whether it is a connection in the table that nothing has ended.
    #[inline]
    pub fn is_listed(&self) -> bool {
        self.serial != 0 && self.has(status::CONFIRMED) && !self.has(status::DYING)
    }
}

const _: () = assert!(list::DYING < list::UNCONFIRMED);
