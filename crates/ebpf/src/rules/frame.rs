// SPDX-License-Identifier: Apache-2.0

//! What is where in the stack frame, and which registers are taken.
//!
//! R6 is the context, R7 the packet's length, R8 the processor's counters, R9 a bit for each field
//! that the packet has.

use penstock_program::expr::PayloadBase;

use super::ct_field::CtField;
use super::exthdr_field::{Extension, TcpOption};
use super::rt_field::RtField;
use penstock_bpf::asm::Reg;

pub(super) const CONTEXT: Reg = Reg::R6;
/// Length as `meta length` and counters see it. While headers are looked for, that of the frame.
pub(super) const LENGTH: Reg = Reg::R7;
/// While headers are searched, the offset of the current header.
pub(super) const COUNTERS: Reg = Reg::R8;
pub(super) const PRESENT: Reg = Reg::R9;

/// The registers of the VM.
pub(super) const REGISTERS: i16 = -64;
/// Two words that the verifier takes for unknown, since they do not begin at a multiple of eight:
/// [`OPAQUE`] + 4, + 12.
pub(super) const OPAQUE: i16 = -80;
/// Where a program at a netfilter hook finds `struct nf_hook_state` and `struct sk_buff`, in its
/// context (`struct bpf_nf_ctx`).
pub(super) const NETFILTER_STATE: i16 = 0;
pub(super) const NETFILTER_SKB: i16 = 8;
/// Transport protocol, eight bytes.
pub(super) const PROTOCOL: i16 = -88;
/// Fragment offset, eight bytes.
pub(super) const FRAGMENT: i16 = -96;
/// Ethertype in host order, eight bytes.
pub(super) const ETHERTYPE: i16 = -104;
/// Offset of the network header, eight bytes.
pub(super) const NETWORK: i16 = -112;
/// State of the walk over IPv6 extension headers.
pub(super) const WALK: i16 = -152;
/// The packet's time, and what the function of limits is told, in the walk's place: no header is
/// looked for any more.
pub(super) const TIME: i16 = WALK;
/// Bytes that a helper loads, at tcx.
pub(super) const SCRATCH: i16 = -216;
/// Fields begin below.
pub(super) const FIELDS: i16 = SCRATCH;
/// The record of a step, where there are such, in the first place of fields.
pub(super) const EVENT: i16 = FIELDS - 16;
/// Lowest byte: 512 without the frame of the walk's function.
const LOWEST: i16 = -480;
/// A new element of a set that packets change, where rules have one: 120 bytes; where an element
/// is.
pub(super) const ROW: i16 = LOWEST;
pub(super) const POINTER: i16 = ROW + 120;
const LOWEST_WITH_ROW: i16 = POINTER + 8;

/// What is found before the chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Field {
    /// Bytes of a header.
    Bytes { base: Base, offset: u16, len: u8 },
    /// `meta protocol`.
    Protocol,
    /// `meta l4proto`; absent where there is no transport header.
    L4Proto,
    /// `meta pkttype`.
    PacketType,
    /// `meta nfproto` of an inet chain.
    NfProto,
    /// `meta length`.
    Length,
    /// `meta mark`, at tcx.
    Mark,
    /// `meta priority`, at tcx.
    Priority,
    /// Index of a device, 0 for none.
    Index(Side),
    /// Name of a device, zeros for none.
    Name(Side),
    /// `ARPHRD_*` of a device.
    Type(Side),
    /// Group of a device.
    Group(Side),
    /// Kind of a device.
    Kind(Side),
    /// A field of the connection.
    Ct(CtField),
    /// What is known of the route, at a hook of a family.
    Route { field: RtField, v6: bool },
    /// Bytes of an extension header, or whether it is there.
    Extension(Extension),
    /// Bytes of an option of TCP, or whether it is there.
    TcpOption(TcpOption),
}

/// Which of the devices of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// That of arrival, as the hook has it.
    In,
    /// That on the way out, as the hook has it.
    Out,
    /// The one that the packet is on.
    Packet,
}

/// Headers, in the order in which they are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Base {
    Link,
    Network,
    /// Also in later fragments.
    AnyTransport,
    Transport,
    Inner,
}

impl Base {
    /// Where the interpreter looks for `len` bytes at `offset`
    /// ([`Packet::transport_bytes_for_load`](penstock_packet::Packet::transport_bytes_for_load)).
    pub(super) fn of(base: PayloadBase, len: u8, offset: u16) -> Option<Base> {
        Some(match base {
            PayloadBase::Link => Base::Link,
            PayloadBase::Network => Base::Network,
            PayloadBase::Transport
                if matches!(len, 1 | 2 | 4) && offset.is_multiple_of(len.into()) =>
            {
                Base::AnyTransport
            }
            PayloadBase::Transport => Base::Transport,
            PayloadBase::Inner => Base::Inner,
            PayloadBase::Tunnel => return None,
        })
    }
}

impl Field {
    /// Bytes that count.
    pub(super) fn len(self) -> u8 {
        match self {
            Field::Bytes { len, .. } => len,
            Field::Protocol | Field::Type(_) => 2,
            Field::L4Proto | Field::PacketType | Field::NfProto => 1,
            Field::Length | Field::Mark | Field::Priority | Field::Index(_) | Field::Group(_) => 4,
            Field::Name(_) | Field::Kind(_) => 16,
            Field::Ct(field) => field.len(),
            Field::Route { field, v6 } => field.len(v6),
            Field::Extension(extension) => extension.width(),
            Field::TcpOption(option) => option.width(),
        }
    }

    /// Whether there are packets without it.
    pub(super) fn may_be_absent(self) -> bool {
        match self {
            Field::Bytes { .. }
            | Field::L4Proto
            | Field::Extension(_)
            | Field::Route { .. }
            | Field::Type(_)
            | Field::Group(_)
            | Field::Kind(_) => true,
            Field::Ct(field) => field != CtField::State,
            Field::TcpOption(option) => !option.present,
            Field::Protocol
            | Field::PacketType
            | Field::NfProto
            | Field::Length
            | Field::Mark
            | Field::Priority
            | Field::Index(_)
            | Field::Name(_) => false,
        }
    }
}

/// Where a field is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) field: Field,
    /// From the frame's end. It ends at a multiple of eight, see [`Slots::add`].
    pub(super) at: i16,
    /// Bit in [`PRESENT`].
    pub(super) bit: Option<u8>,
}

/// Why there is no place for a field.
const TOO_MANY: &str = "the rules ask for more header bytes than the stack of a BPF program holds";

const TOO_MANY_FIELDS: &str = "the rules ask for more than 63 different header fields";

/// All fields.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    bits: u8,
    used: i16,
    /// There is a place for elements of sets below the fields.
    row: bool,
}

impl Slots {
    pub(super) fn find(&self, field: Field) -> Option<Slot> {
        self.all.iter().find(|slot| slot.field == field).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.all.iter().copied()
    }

    /// Fields of the connection.
    pub(super) fn connection(&self) -> Vec<(CtField, Slot)> {
        let of = |slot: Slot| match slot.field {
            Field::Ct(field) => Some((field, slot)),
            _ => None,
        };
        self.iter().filter_map(of).collect()
    }

    /// Takes a bit of [`PRESENT`] for something else than a field. The error is the reason.
    pub(super) fn take_bit(&mut self) -> Result<u8, &'static str> {
        let bit = self.bits;
        if bit > 63 {
            return Err(TOO_MANY_FIELDS);
        }
        self.bits += 1;
        Ok(bit)
    }

    /// Keeps a place for elements of sets. The error is the reason.
    pub(super) fn keep_row(&mut self) -> Result<(), &'static str> {
        self.row = true;
        if FIELDS - self.used < self.end() { Err(TOO_MANY) } else { Ok(()) }
    }

    /// Keeps a place for the record of a step, before all fields.
    pub(super) fn keep_event(&mut self) {
        self.used = FIELDS - EVENT;
    }

    /// A bit of [`PRESENT`] that no packet has set.
    pub(super) fn spare_bit(&self) -> Option<u64> {
        1_u64.checked_shl(self.bits.into())
    }

    /// Keeps a place for so many words, each four bytes after a multiple of eight; where the first
    /// one is, the others are each eight bytes after. `None` if there is no room.
    pub(super) fn keep_words(&mut self, count: i16) -> Option<i16> {
        let used = self.used + count * 8;
        if FIELDS - used < self.end() {
            return None;
        }
        self.used = used;
        Some(FIELDS - used + 4)
    }

    fn end(&self) -> i16 {
        if self.row { LOWEST_WITH_ROW } else { LOWEST }
    }

    /// Enters a field if it is not there. The error is the reason.
    ///
    /// Fields end at a multiple of eight and are written in eights but for an odd first word. So
    /// what is read of them, by words, is unknown to the verifier and stays so: it does not
    /// conclude from a comparison what the field is in the rules that follow, and look at these
    /// once for each conclusion.
    pub(super) fn add(&mut self, field: Field) -> Result<(), &'static str> {
        if self.find(field).is_some() {
            return Ok(());
        }
        let words = i16::from(field.len().div_ceil(4));
        let used = self.used + (words + words % 2) * 4;
        if FIELDS - used < self.end() {
            return Err(TOO_MANY);
        }
        let bit = field.may_be_absent().then_some(self.bits);
        if bit.is_some() {
            self.bits += 1;
        }
        if self.bits > 63 {
            return Err(TOO_MANY_FIELDS);
        }
        self.used = used;
        self.all.push(Slot { field, at: FIELDS - used + words % 2 * 4, bit });
        Ok(())
    }

    /// Fields of a header, nearest end first.
    pub(super) fn of(&self, wanted: Base) -> Vec<(u16, u8, Slot)> {
        let bytes = |slot: Slot| match slot.field {
            Field::Bytes { base, offset, len } if base == wanted => Some((offset, len, slot)),
            _ => None,
        };
        let mut all: Vec<_> = self.iter().filter_map(bytes).collect();
        all.sort_by_key(|(offset, len, _)| u32::from(*offset) + u32::from(*len));
        all
    }

    /// Whether anything after the network header is asked for.
    pub(super) fn need_transport(&self) -> bool {
        self.iter().any(|slot| match slot.field {
            Field::Bytes { base, .. } => base >= Base::AnyTransport,
            Field::L4Proto | Field::TcpOption(_) => true,
            Field::Protocol
            | Field::PacketType
            | Field::NfProto
            | Field::Length
            | Field::Mark
            | Field::Priority
            | Field::Index(_)
            | Field::Name(_)
            | Field::Type(_)
            | Field::Group(_)
            | Field::Kind(_)
            | Field::Extension(_)
            | Field::Route { .. }
            | Field::Ct(_) => false,
        })
    }

    /// Lowest byte that fields take.
    pub(super) fn lowest(&self) -> i16 {
        FIELDS - self.used
    }
}
