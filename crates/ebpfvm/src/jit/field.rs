// SPDX-License-Identifier: Apache-2.0

//! Fields of contexts that code reads and writes where they are, without a call: those that
//! [`Context`](crate::Context) copies as they are, or some bits of.

use std::mem::offset_of;

use crate::context::{ProgramKind, Skb, Xdp};
use crate::op::Size;
use crate::packet::at;

/// Where a field is: distances are from the beginning of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// The address of a place in the packet, by its offset in the buffer, which is here.
    Place(usize),
    /// The bytes of the packet.
    Length,
    /// A number, of which these bits are shown.
    Number(usize, u64),
}

/// Where the packet is in the context of programs of a kind.
pub(super) fn packet_at(kind: ProgramKind) -> usize {
    match kind {
        ProgramKind::Xdp => offset_of!(Xdp, packet),
        ProgramKind::Tc | ProgramKind::SocketFilter => offset_of!(Skb, packet),
        ProgramKind::Netfilter => offset_of!(crate::Netfilter, packet),
    }
}

const WORD: u64 = u32::MAX as u64;

impl Field {
    /// The field that an access to the context reads.
    pub(super) fn of(kind: ProgramKind, off: i16, size: Size) -> Option<Field> {
        let off = usize::try_from(off).ok()?;
        let place = |at| Some(Field::Place(packet_at(kind) + at));
        let number = |at| Some(Field::Number(at, WORD));
        if let (ProgramKind::Tc | ProgramKind::SocketFilter, 48..68) = (kind, off) {
            return Field::control(off, size);
        }
        match (kind, off, size) {
            (ProgramKind::Xdp, 0, Size::W) => place(at::DATA),
            (ProgramKind::Xdp, 4, Size::W) => place(at::END),
            (ProgramKind::Xdp, 8, Size::W) => place(at::META),
            (ProgramKind::Xdp, 12, Size::W) => number(offset_of!(Xdp, ingress)),
            (ProgramKind::Xdp, 16, Size::W) => number(offset_of!(Xdp, queue)),
            (ProgramKind::Tc, 76, Size::W) => place(at::DATA),
            (ProgramKind::Tc, 80, Size::W) => place(at::END),
            (ProgramKind::Tc, 140, Size::W) => place(at::META),
            (ProgramKind::Tc, 152, Size::D) => {
                Some(Field::Number(offset_of!(Skb, tstamp), u64::MAX))
            }
            (ProgramKind::Tc, 72, Size::W) => {
                Some(Field::Number(offset_of!(Skb, tc_classid), 0xffff))
            }
            (ProgramKind::Tc, 160, Size::W) => number(offset_of!(Skb, wire_len)),
            (ProgramKind::Tc | ProgramKind::SocketFilter, _, Size::W) => match off {
                0 => Some(Field::Length),
                4 => Some(Field::Number(offset_of!(Skb, packet_type), 7)),
                8 => number(offset_of!(Skb, mark)),
                12 => Some(Field::Number(offset_of!(Skb, queue_mapping), 0xffff)),
                16 => number(offset_of!(Skb, protocol)),
                32 => number(offset_of!(Skb, priority)),
                36 => number(offset_of!(Skb, ingress_ifindex)),
                40 => number(offset_of!(Skb, ifindex)),
                44 => Some(Field::Number(offset_of!(Skb, tc_index), 0xffff)),
                68 => number(offset_of!(Skb, hash)),
                84 => number(offset_of!(Skb, napi_id)),
                164 => number(offset_of!(Skb, gso_segs)),
                176 => number(offset_of!(Skb, gso_size)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The field that an access to the context writes, and the bits that are kept of the value.
    pub(super) fn written(kind: ProgramKind, off: i16, size: Size) -> Option<(usize, u64)> {
        let off = usize::try_from(off).ok()?;
        match (kind, off, size) {
            (ProgramKind::Tc | ProgramKind::SocketFilter, 48..68, _) => {
                match Field::control(off, size)? {
                    Field::Number(at, bits) => Some((at, bits)),
                    Field::Place(_) | Field::Length => None,
                }
            }
            (ProgramKind::Tc, 8, Size::W) => Some((offset_of!(Skb, mark), WORD)),
            (ProgramKind::Tc, 32, Size::W) => Some((offset_of!(Skb, priority), WORD)),
            (ProgramKind::Tc, 44, Size::W) => Some((offset_of!(Skb, tc_index), 0xffff)),
            (ProgramKind::Tc, 72, Size::W) => Some((offset_of!(Skb, tc_classid), 0xffff)),
            (ProgramKind::Tc, 152, Size::D) => Some((offset_of!(Skb, tstamp), u64::MAX)),
            _ => None,
        }
    }

    /// Bytes of the control block, `cb`.
    fn control(off: usize, size: Size) -> Option<Field> {
        let len = size as usize;
        let inside = off.is_multiple_of(len) && off + len <= 68;
        inside.then(|| Field::Number(offset_of!(Skb, cb) + off - 48, u64::MAX))
    }
}
