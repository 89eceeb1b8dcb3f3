// SPDX-License-Identifier: Apache-2.0

//! Where the parts of a [`Packet`] are in memory, for code that is generated at run time.
//!
//! All are offsets in bytes from the start of a `Packet`, except those of a [`Frame`]. What is there
//! has the type that its constant names. Generated code only reads them, except [`MARK`] and
//! [`PRIORITY`].

use std::mem::{self, offset_of};
use std::ptr;

use crate::buffer::Buffer;
use crate::{Ct, Frame, Meta, Packet, Transport};

/// Start of the link header in the buffer: `usize`.
pub const LINK: usize = offset_of!(Packet, link);
/// Start of the network header in the buffer: `usize`.
pub const NETWORK: usize = offset_of!(Packet, network);
/// The data pointer in the buffer: `usize`.
pub const DATA: usize = offset_of!(Packet, data);
/// End of the packet in the buffer, not before any of the starts: `usize`.
pub const END: usize = offset_of!(Packet, end);
/// [`Packet::has_link`]: one byte, 0 or 1.
pub const HAS_LINK: usize = offset_of!(Packet, has_link);
/// Whether [`Packet::transport`] has a value: one byte, 0 or 1. The three that follow count only
/// then.
pub const HAS_TRANSPORT: usize = offset_of!(Packet, has_transport);
/// [`Transport::protocol`]: `u8`.
pub const TRANSPORT_PROTOCOL: usize =
    offset_of!(Packet, transport) + offset_of!(Transport, protocol);
/// [`Transport::offset`]: `u16`.
pub const TRANSPORT_OFFSET: usize = offset_of!(Packet, transport) + offset_of!(Transport, offset);
/// [`Transport::fragment_offset`]: `u16`.
pub const FRAGMENT_OFFSET: usize =
    offset_of!(Packet, transport) + offset_of!(Transport, fragment_offset);

const META: usize = offset_of!(Packet, meta);
/// [`Meta::time`]: `u64`.
pub const TIME: usize = META + offset_of!(Meta, time);
/// [`Meta::protocol`]: `u16`.
pub const PROTOCOL: usize = META + offset_of!(Meta, protocol);
/// [`Meta::iif`]: `u32`.
pub const IIF: usize = META + offset_of!(Meta, iif);
/// [`Meta::oif`]: `u32`.
pub const OIF: usize = META + offset_of!(Meta, oif);
/// [`Meta::mark`]: `u32`.
pub const MARK: usize = META + offset_of!(Meta, mark);
/// [`Meta::priority`]: `u32`.
pub const PRIORITY: usize = META + offset_of!(Meta, priority);
/// [`Meta::nftrace`]: one byte, 0 or 1.
pub const NFTRACE: usize = META + offset_of!(Meta, nftrace);

const CT: usize = META + offset_of!(Meta, ct);
/// [`Ct::entry`]: `u32`.
pub const CT_ENTRY: usize = CT + offset_of!(Ct, entry);
/// [`Ct::info`]: one byte, the number of a [`CtInfo`](crate::CtInfo).
pub const CT_INFO: usize = CT + offset_of!(Ct, info);
/// [`Ct::template`]: `u16`.
pub const CT_TEMPLATE: usize = CT + offset_of!(Ct, template);

/// Address of the first byte of the buffer: `*const u8`.
pub const BUFFER: usize = offset_of!(Packet, buffer) + offset_of!(Buffer, start);

/// Address of the first of [`Frame::bytes`], from the start of a [`Frame`]: `*const u8`.
pub const FRAME_START: usize = offset_of!(Frame<'_>, bytes) + place_in_slice(ADDRESS);
/// Number of [`Frame::bytes`], from the start of a [`Frame`]: `usize`.
pub const FRAME_LEN: usize = offset_of!(Frame<'_>, bytes) + place_in_slice(LEN);
/// [`Frame::time`], from the start of a [`Frame`]: `u64`.
pub const FRAME_TIME: usize = offset_of!(Frame<'_>, time);

/// Address and length of the slice that shows where both are in slices.
const ADDRESS: usize = 1;
const LEN: usize = 2;

/// Where one of the two is in a pointer to a slice, in bytes. The language does not say which word
/// is which, but the compiler knows: any other layout does not compile.
const fn place_in_slice(part: usize) -> usize {
    let slice: *const [u8] = ptr::slice_from_raw_parts(ptr::without_provenance(ADDRESS), LEN);
    // SAFETY: the pointer is as long as two words (otherwise this does not compile), all of its
    // bytes are initialized, and any bytes are a `usize`.
    let words: [usize; 2] = unsafe { mem::transmute(slice) };
    assert!(words[0] + words[1] == ADDRESS + LEN);
    if words[0] == part { 0 } else { size_of::<usize>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CtInfo, VlanTag};

    fn at<T: Copy>(packet: &Packet, offset: usize) -> T {
        assert!(offset + size_of::<T>() <= size_of::<Packet>());
        // SAFETY: inside of the packet, at a field of type `T`, which the constants say and
        // `assert_eq!` below shows.
        unsafe { (&raw const *packet).byte_add(offset).cast::<T>().read() }
    }

    #[test]
    fn frame_bytes_are_at_the_offsets_of_the_layout() {
        let bytes = [1, 2, 3, 4, 5];
        let frames = [3, 5].map(|n| Frame { device: 7, bytes: &bytes[..n], time: 9 });
        for frame in &frames {
            let at = |offset: usize| {
                assert!(offset + size_of::<usize>() <= size_of::<Frame<'_>>());
                // SAFETY: inside of the frame, at one of the two words of a slice, as the layout
                // says.
                unsafe { std::ptr::from_ref(frame).byte_add(offset).cast::<usize>().read() }
            };
            assert_eq!(
                (at(FRAME_START), at(FRAME_LEN)),
                (frame.bytes.as_ptr().addr(), frame.bytes.len())
            );
        }
    }

    #[test]
    fn every_field_is_at_the_offset_of_the_layout() {
        let mut p = Packet::new();
        p.load(&[7; 60], 14);
        p.put_link(18);
        p.data_at_link();
        p.set_transport(Some(Transport { protocol: 17, offset: 20, fragment_offset: 9 }));
        p.meta = Meta {
            time: 1 << 40,
            protocol: 0x86dd,
            iif: 3,
            oif: 4,
            mark: 5,
            priority: 6,
            vlan: Some(VlanTag { protocol: 0x8100, tci: 1 }),
            nftrace: true,
            ct: Ct { entry: 7, serial: 8, info: CtInfo::RelatedReply, template: 9 },
            ..Meta::default()
        };
        let buffer: *const u8 = at(&p, BUFFER);
        let (link, network, end): (usize, usize, usize) =
            (at(&p, LINK), at(&p, NETWORK), at(&p, END));
        assert_eq!(buffer.wrapping_add(link), p.frame().as_ptr());
        assert_eq!(buffer.wrapping_add(network), p.network().as_ptr());
        assert_eq!(end - link, p.frame().len());
        assert_eq!(end - at::<usize>(&p, DATA), p.len());
        assert_eq!((at::<u8>(&p, HAS_LINK), at::<u8>(&p, HAS_TRANSPORT)), (1, 1));
        assert_eq!(at::<u8>(&p, TRANSPORT_PROTOCOL), 17);
        assert_eq!((at::<u16>(&p, TRANSPORT_OFFSET), at::<u16>(&p, FRAGMENT_OFFSET)), (20, 9));
        assert_eq!((at::<u64>(&p, TIME), at::<u16>(&p, PROTOCOL)), (1 << 40, 0x86dd));
        assert_eq!([IIF, OIF, MARK, PRIORITY].map(|o| at::<u32>(&p, o)), [3, 4, 5, 6]);
        assert_eq!(at::<u8>(&p, NFTRACE), 1);
        assert_eq!(
            (at::<u32>(&p, CT_ENTRY), at::<u8>(&p, CT_INFO), at::<u16>(&p, CT_TEMPLATE)),
            (7, 4, 9)
        );
        p.set_transport(None);
        p.load(&[7; 60], 0);
        assert_eq!(
            (at::<u8>(&p, HAS_LINK), at::<u8>(&p, HAS_TRANSPORT), at::<u8>(&p, NFTRACE)),
            (0, 0, 0)
        );
    }
}
