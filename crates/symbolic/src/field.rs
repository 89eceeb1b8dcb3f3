// SPDX-License-Identifier: Apache-2.0

//! What rules ask of a packet and of all that is known about it, as fields of bits.
//!
//! A field is a number, most significant bit first; [`Field::in_register`] says where its bytes
//! stand in a register. What a rule asks that depends on more than the packet (a limit, a random
//! number, whether a set has an element that packets put there) is a field, too: an [`Input`].

use penstock_program::Family;
use penstock_program::expr::{CtDir, CtKey, ExthdrOp, MetaKey};

pub use penstock_program::expr::PayloadBase as Base;

/// Something that rules ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// A byte of a header: of the link header as if a VLAN tag stood in it, of the transport header
    /// as loads see it that do not ask for fragments.
    Header {
        /// Which header.
        base: Base,
        /// Bytes from its start.
        at: u16,
    },
    /// Whether the packet has so many bytes from the start of a header on; one bit.
    Present {
        /// Which header.
        base: Base,
        /// How many.
        bytes: u16,
    },
    /// Whether the packet has an extension header or an option with so many bytes; one bit. For zero
    /// bytes: whether it is there.
    HasExthdr {
        /// Extension headers of IPv6, options of IPv4 or TCP.
        op: ExthdrOp,
        /// Protocol number of the header, kind of the option.
        kind: u8,
        /// How many bytes from its start on.
        bytes: u16,
    },
    /// A byte of an extension header or of an option, the first one of its kind.
    Exthdr {
        /// Extension headers of IPv6, options of IPv4 or TCP.
        op: ExthdrOp,
        /// Protocol number of the header, kind of the option.
        kind: u8,
        /// Bytes from its start.
        at: u16,
    },
    /// Whether there is a transport header (`nft_pktinfo`); one bit.
    Transport,
    /// Whether it is a fragment, and not the first one; one bit.
    LaterFragment,
    /// Metadata.
    Meta(MetaKey),
    /// Whether there is such metadata; one bit.
    HasMeta(MetaKey),
    /// What `ct state` sees after connection tracking; one byte, of which one bit is set.
    CtState,
    /// Whether the packet had its connection before connection tracking, as on a loopback device;
    /// one bit.
    CtBefore,
    /// Another key of the connection.
    Ct(CtKey, Option<CtDir>),
    /// Whether the connection has this key; one bit.
    HasCt(CtKey, Option<CtDir>),
    /// Whether the connection is to be translated at this hook; one bit.
    Untranslated,
    /// What depends on more than the packet.
    Input(Input),
    /// Whether the outside (routes, sockets, tunnels) has an answer to a question, by its number in
    /// [`Universe`](crate::Universe); one bit.
    Answers(u32),
    /// What the outside answers.
    Answer {
        /// Number of the question.
        question: u32,
        /// How long the answer is.
        bytes: u8,
    },
    /// What a rule does to the packet; never asked, zero at the start.
    Done(Done),
}

/// What depends on more than the packet and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// What it is.
    pub what: What,
    /// Which rule asks, by the number that rulesets that are compared have in common; for
    /// [`What::Member`] the set; for what the network chooses nothing.
    pub rule: u32,
    /// Which of the rule's operations that ask for inputs; for [`What::Member`] the key; for what
    /// the network chooses a number for what it chooses of.
    pub op: u16,
}

/// Kinds of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// `limit`: whether the rule goes on.
    Limit,
    /// `quota`: whether the rule goes on.
    Quota,
    /// `ct count`: whether the rule goes on.
    Connlimit,
    /// Whether a set that packets change has the key.
    Member,
    /// Whether a set that packets change takes the key, and its statements let the rule go on.
    Added,
    /// Whether a flowtable takes the connection.
    Offloaded,
    /// Whether a connection may be expected.
    Expected,
    /// `meta random`, `numgen`, `jhash`, `symhash`: 4 bytes.
    Number,
    /// The address that a translation chooses, of some: 16 bytes, as in a register.
    Address,
    /// The port that a translation chooses, of some: 2 bytes.
    Port,
    /// The next hop of a route that has several: its number, one byte.
    Hop,
    /// By which of several ports frames come or leave: a number, 2 bytes.
    Frames,
}

/// What rules do to a packet, apart from what is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Done {
    /// It is not tracked; one bit.
    Notrack,
    /// It is translated; one byte, the kind plus one.
    Nat,
    /// `NF_NAT_RANGE_*`, 4 bytes.
    NatFlags,
    /// First address, 16 bytes, as in a register.
    NatAddress,
    /// Last address, 16 bytes.
    NatLastAddress,
    /// First port, 2 bytes.
    NatPort,
    /// Last port, 2 bytes.
    NatLastPort,
    /// The port from which ports keep their distance, 2 bytes.
    NatBasePort,
    /// Number of the queue, 2 bytes.
    Queue,
    /// A copy is sent, or the packet itself; one byte: 1 dup, 2 fwd.
    Sent,
    /// On a device, 4 bytes.
    SentDevice,
    /// To an address, 16 bytes.
    SentAddress,
    /// The connection is to go to a flowtable, 4 bytes: its number plus one.
    Flowtable,
    /// A local socket gets it; one bit.
    Tproxy,
    /// The address it is to have, 16 bytes.
    TproxyAddress,
    /// The port it is to have, 2 bytes.
    TproxyPort,
    /// An object of connection tracking for the connection, 4 bytes: a number that rulesets that
    /// are compared have in common.
    Object,
    /// A TCP option is written: its kind; 4 bytes for what is written.
    TcpOption(u8),
    /// A set gets or loses an element: the set, by a number; one byte for the operation plus one.
    Element(u32),
    /// The source that the packet has on its way out, 16 bytes, as in a register.
    NewSource,
    /// The source port that it has then, 2 bytes.
    NewSourcePort,
    /// The destination that it has on its way, 16 bytes, as in a register.
    NewDestination,
    /// The destination port that it has then, 2 bytes.
    NewDestinationPort,
}

impl Field {
    /// Bits.
    pub fn width(self) -> u32 {
        match self {
            Field::Header { .. } | Field::Exthdr { .. } | Field::CtState => 8,
            Field::Present { .. }
            | Field::HasExthdr { .. }
            | Field::Transport
            | Field::LaterFragment
            | Field::HasMeta(_)
            | Field::CtBefore
            | Field::HasCt(..)
            | Field::Answers(_)
            | Field::Untranslated => 1,
            Field::Answer { bytes, .. } => u32::from(bytes) * 8,
            Field::Meta(key) => key.width() * 8,
            // Wide enough for both families.
            Field::Ct(key, _) => key.width(Family::Inet) * 8,
            Field::Input(Input { what: What::Number, .. }) => 32,
            Field::Input(Input { what: What::Address, .. }) => 128,
            Field::Input(Input { what: What::Port | What::Frames, .. }) => 16,
            Field::Input(Input { what: What::Hop, .. }) => 8,
            Field::Input(_) => 1,
            Field::Done(done) => match done {
                Done::Notrack | Done::Tproxy => 1,
                Done::Nat | Done::Sent | Done::Element(_) => 8,
                Done::NatFlags
                | Done::SentDevice
                | Done::Flowtable
                | Done::Object
                | Done::TcpOption(_) => 32,
                Done::NatAddress
                | Done::NatLastAddress
                | Done::SentAddress
                | Done::TproxyAddress
                | Done::NewSource
                | Done::NewDestination => 128,
                Done::NatPort
                | Done::NatLastPort
                | Done::NatBasePort
                | Done::Queue
                | Done::TproxyPort
                | Done::NewSourcePort
                | Done::NewDestinationPort => 16,
            },
        }
    }

    /// Whether a register has it in the host's byte order.
    pub fn is_in_host_order(self) -> bool {
        cfg!(target_endian = "little")
            && match self {
                Field::Meta(key) => key.is_in_host_order(),
                Field::Input(Input { what: What::Address | What::Port, .. }) => false,
                Field::CtState | Field::Input(_) => true,
                Field::Ct(key, _) => {
                    use CtKey::*;
                    match key {
                        State | Status | Mark | SecMark | Expiration | Pkts | Bytes | AvgPkt
                        | Zone | EventMask | Id => true,
                        Direction | Helper | L3Protocol | Src | Dst | Protocol | ProtoSrc
                        | ProtoDst | Labels | SrcIp | DstIp | SrcIp6 | DstIp6 => false,
                    }
                }
                Field::Done(done) => match done {
                    Done::SentDevice => true,
                    Done::Notrack
                    | Done::Nat
                    | Done::NatFlags
                    | Done::NatAddress
                    | Done::NatLastAddress
                    | Done::NatPort
                    | Done::NatLastPort
                    | Done::NatBasePort
                    | Done::Queue
                    | Done::Sent
                    | Done::SentAddress
                    | Done::Flowtable
                    | Done::Tproxy
                    | Done::TproxyAddress
                    | Done::TproxyPort
                    | Done::Object
                    | Done::TcpOption(_)
                    | Done::Element(_)
                    | Done::NewSource
                    | Done::NewSourcePort
                    | Done::NewDestination
                    | Done::NewDestinationPort => false,
                },
                Field::Header { .. }
                | Field::Present { .. }
                | Field::HasExthdr { .. }
                | Field::Exthdr { .. }
                | Field::Transport
                | Field::LaterFragment
                | Field::HasMeta(_)
                | Field::CtBefore
                | Field::HasCt(..)
                | Field::Answers(_)
                // As it stands in the register.
                | Field::Answer { .. }
                | Field::Untranslated => false,
            }
    }

    /// Where byte `i` of the number stands in a register.
    pub fn in_register(self, i: usize) -> usize {
        let bytes = (self.width() / 8) as usize;
        if self.is_in_host_order() { bytes - 1 - i } else { i }
    }

    /// Where its variables come in the order: fields that many rules ask first, and next to each
    /// other those of which one follows from the other. Equal numbers are interleaved, bit by bit.
    pub(crate) fn rank(self) -> u32 {
        use MetaKey::*;
        match self {
            Field::Meta(NfProto) => 0,
            Field::Transport => 1,
            Field::LaterFragment => 2,
            Field::Untranslated => 3,
            Field::CtBefore => 4,
            Field::CtState => 5,
            Field::Ct(CtKey::Direction, _) => 6,
            Field::Ct(CtKey::Status, _) => 7,
            Field::Meta(Protocol) => 8,
            Field::Header { base: Base::Link, at: 12 | 16 } => 8,
            Field::Header { base: Base::Link, at: 13 | 17 } => 9,
            Field::Present { .. } => 10,
            Field::HasExthdr { .. } => 11,
            // The same protocol, once by each name.
            Field::Exthdr { op: ExthdrOp::Ipv6, at: 0, .. } => 12,
            Field::Meta(L4Proto) | Field::Header { base: Base::Network, at: 9 | 6 } => 12,
            Field::Meta(Iif | Oif) => 13,
            Field::Meta(IifName | OifName) => 14,
            Field::Meta(BriIifName | BriOifName) => 15,
            Field::Meta(IifType | OifType) => 16,
            Field::Meta(IifGroup | OifGroup) => 17,
            Field::Meta(IifKind | OifKind) => 18,
            Field::HasMeta(_) => 19,
            // What the destination on the link says.
            Field::Meta(PktType) => 99,
            Field::Header { base: Base::Link, at } => 100 + u32::from(at),
            Field::Header { base: Base::Network, at } => match at {
                // Destination before source, of IPv4 and then of IPv6.
                16..20 => 200 + u32::from(at) - 16,
                12..16 => 204 + u32::from(at) - 12,
                24..40 => 210 + u32::from(at) - 24,
                8..12 => 230 + u32::from(at) - 8,
                20..24 => 234 + u32::from(at) - 20,
                _ => 240 + u32::from(at),
            },
            // The destination port before the source port.
            Field::Header { base: Base::Transport, at } => 70_000 + u32::from(at ^ 2),
            Field::Header { base: Base::Inner | Base::Tunnel, at } => 140_000 + u32::from(at),
            Field::Exthdr { op, kind, at } => {
                1_000_000 + op as u32 * 0x1_0000 + u32::from(kind) * 256 + u32::from(at.min(255))
            }
            Field::Meta(key) => 210_000 + key as u32,
            Field::HasCt(..) => 210_100,
            Field::Ct(key, dir) => 210_200 + key as u32 * 4 + dir.map_or(0, |d| d as u32 + 1),
            Field::Answers(_) | Field::Answer { .. } => 215_000,
            Field::Input(_) => 220_000,
            Field::Done(_) => 230_000,
        }
    }
}

/// Whether a key of metadata is about the bridge of a port.
pub(crate) fn is_of_bridge(key: MetaKey) -> bool {
    use MetaKey::{BriIifHwAddr, BriIifName, BriIifPvid, BriIifVproto, BriOifName};
    matches!(key, BriIifName | BriOifName | BriIifPvid | BriIifVproto | BriIifHwAddr)
}

/// States that `ct state` can tell (`NF_CT_STATE_*`).
pub(crate) mod state {
    pub const INVALID: u8 = 1;
    pub const ESTABLISHED: u8 = 2;
    pub const RELATED: u8 = 4;
    pub const NEW: u8 = 8;
    pub const UNTRACKED: u8 = 64;
    /// With a connection.
    pub const WITH_ENTRY: [u8; 3] = [ESTABLISHED, RELATED, NEW];
    pub const ALL: [u8; 5] = [INVALID, ESTABLISHED, RELATED, NEW, UNTRACKED];
}

impl Done {
    /// Those of which the value is shown by itself or as part of another one.
    pub fn is_part(self) -> bool {
        matches!(
            self,
            Done::NatFlags
                | Done::NatAddress
                | Done::NatLastAddress
                | Done::NatPort
                | Done::NatLastPort
                | Done::NatBasePort
                | Done::SentDevice
                | Done::SentAddress
                | Done::TproxyAddress
                | Done::TproxyPort
                | Done::NewSourcePort
                | Done::NewDestinationPort
        )
    }
}
