// SPDX-License-Identifier: Apache-2.0

//! A flow: a cache line for each direction, and what only its beginning and end need.

use crate::arrival::ArrivalId;
use crate::key::{self, IPV4, Key, Key4};
use crate::xmit::XmitId;

/// Direction of a flow, as of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// As the connection's first packet.
    Original = 0,
    /// As the answers.
    Reply = 1,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Original, Direction::Reply];

    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

/// A direction of a flow in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// Number of the flow.
    pub flow: u32,
    /// The direction.
    pub direction: Direction,
}

/// A direction of a flow in its table, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct HalfId(pub(crate) u32);

impl HalfId {
    /// Of no flow.
    pub const NONE: HalfId = HalfId(u32::MAX);

    /// The number of a direction of a flow.
    #[inline(always)]
    pub const fn of(at: At) -> Self {
        HalfId(at.flow << 1 | at.direction as u32)
    }

    /// The direction of a flow with this number.
    #[inline(always)]
    pub const fn at(self) -> At {
        let direction = if self.0 & 1 == 0 { Direction::Original } else { Direction::Reply };
        At { flow: self.0 >> 1, direction }
    }
}

/// Bits of [`Half::state`], the same in both directions.
pub mod state {
    /// On its way back to connection tracking: packets do not find it (`NF_FLOW_TEARDOWN`).
    pub const TEARDOWN: u8 = 1;
    /// TCP is closing: it still runs here (`NF_FLOW_CLOSING`).
    pub const CLOSING: u8 = 1 << 1;
    /// A device runs it too (`NF_FLOW_HW_ESTABLISHED`).
    pub const HARDWARE: u8 = 1 << 2;
    /// A device was asked something about it, and has not answered.
    pub const PENDING: u8 = 1 << 4;
    /// Addresses or ports change.
    pub const TRANSLATED: u8 = 1 << 3;
    /// In use.
    pub const LIVE: u8 = 1 << 7;
}

/// One direction of a flow: all that a packet over IPv4 needs, in one cache line. Addresses of IPv6
/// are on the side.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Half {
    /// Addresses over IPv4, as [`Key4`] has them. Over IPv6, the number of the pair of addresses.
    pub(crate) addresses: u64,
    /// Ports and arrival, as [`Key4`] has them.
    pub(crate) place: u64,
    pub(crate) l3: u8,
    pub(crate) l4: u8,
    /// Bits of [`state`].
    pub state: u8,
    /// Number of the network in which its ways were looked up or found to hold, modulo 256: the
    /// caller's.
    pub network: u8,
    /// What the packet leaves with; addresses over IPv4 only.
    pub(crate) new_src: u32,
    pub(crate) new_dst: u32,
    pub(crate) new_ports: u32,
    /// What the header's complemented checksum grows by, network order: addresses and the decrement
    /// of the TTL.
    pub(crate) header_delta: u16,
    /// What the transport's complemented checksum grows by: addresses and ports.
    pub(crate) transport_delta: u16,
    /// How it leaves.
    pub xmit: XmitId,
    /// Time of the latest packet, nanoseconds.
    pub used: u64,
    /// Packets that went this way since the flow was added.
    pub packets: u64,
    /// Their bytes from the network header on.
    pub bytes: u64,
}

const _: () = assert!(size_of::<Half>() == 64);

impl Half {
    pub(crate) const FREE: Half = Half {
        addresses: 0,
        place: 0,
        l3: 0,
        l4: 0,
        state: 0,
        network: 0,
        new_src: 0,
        new_dst: 0,
        new_ports: 0,
        header_delta: 0,
        transport_delta: 0,
        xmit: XmitId(0),
        used: 0,
        packets: 0,
        bytes: 0,
    };

    /// Whether all of these bits of [`state`] are set.
    #[inline(always)]
    pub fn has(&self, bits: u8) -> bool {
        self.state & bits == bits
    }

    /// Whether packets are IPv4.
    #[inline(always)]
    pub fn is_ipv4(&self) -> bool {
        self.l3 == IPV4
    }

    /// Protocol number: TCP, UDP, GRE.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.l4
    }

    /// Where its packets arrive.
    #[inline(always)]
    pub fn arrival(&self) -> ArrivalId {
        key::ports_and_arrival(self.place).1
    }

    /// Notes packets: the time of the latest, their number, and their bytes from the network header
    /// on.
    #[inline(always)]
    pub fn count(&mut self, now: u64, packets: u64, bytes: u64) {
        self.used = self.used.max(now);
        self.packets += packets;
        self.bytes += bytes;
    }

    /// Whether packets with this key belong here; over IPv6 its addresses are compared elsewhere.
    #[inline(always)]
    pub(crate) fn is(&self, key: &Key) -> bool {
        let words = Key4::of(key);
        let same = self.place == words.place
            && self.l3 == key.l3
            && self.l4 == key.l4
            && self.state & (state::TEARDOWN | state::LIVE) == state::LIVE;
        same && (self.l3 != IPV4 || self.addresses == words.addresses)
    }

    /// [`Half::is`] of a key over IPv4.
    #[inline(always)]
    pub(crate) fn is4(&self, key: &Key4) -> bool {
        let kind = |l3, l4, state| u32::from_le_bytes([l3, l4, state, 0]);
        let mask = kind(u8::MAX, u8::MAX, state::TEARDOWN | state::LIVE);
        let own = kind(self.l3, self.l4, self.state);
        self.addresses == key.addresses
            && self.place == key.place
            && own & mask == kind(IPV4, key.l4, state::LIVE)
    }
}

/// What the beginning and end of a flow need, and nothing in between.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// What the flow belongs to, opaque here: the connection.
    pub connection: u64,
    /// When it was added, nanoseconds.
    pub added: u64,
    /// What its ways were looked up with besides addresses, opaque here.
    pub lookup: u64,
    /// Next free flow, in one that is not in use.
    pub(crate) next: u32,
    /// For a flow over IPv6: number of its addresses.
    pub(crate) addresses: u32,
}

const _: () = assert!(size_of::<Life>() <= 32);

/// Addresses of a flow over IPv6, a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Addresses {
    /// Source and destination of each direction.
    pub of: [[[u64; 2]; 2]; 2],
}
