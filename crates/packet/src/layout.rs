// SPDX-License-Identifier: Apache-2.0

//! Where the parts of a [`Packet`] are in memory, for code that is generated at run time.
//!
//! All are offsets in bytes from the start of a `Packet`; what is there has the type that its
//! constant names. Generated code reads them only, but for [`MARK`] and [`PRIORITY`].

use std::mem::offset_of;

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

/// Where the address of the buffer's first byte is: `*const u8`.
///
/// The standard library does not say at which of a `Vec`'s words its pointer is, so this looks for
/// it. `None` if it is at none: then no code can be generated.
pub fn buffer() -> Option<usize> {
    const WORD: usize = size_of::<usize>();
    const WORDS: usize = size_of::<Vec<u8>>() / WORD;
    let packet = Packet { buffer: Vec::with_capacity(1), ..Packet::default() };
    let vec: *const usize = (&raw const packet.buffer).cast();
    (0..WORDS)
        // SAFETY: `vec` points to a `Vec<u8>` that lives, a multiple of words long; its words (a
        // capacity, a length and a pointer) are all initialized, and any bytes are a `usize`.
        .find(|i| unsafe { vec.add(*i).read() } == packet.buffer.as_ptr().addr())
        .map(|i| offset_of!(Packet, buffer) + i * WORD)
}

/// Where the address and the length of [`Frame::bytes`] are in a [`Frame`]: `*const u8` and
/// `usize`.
///
/// The language does not say which of a slice's words is which, so this looks. `None` if they are
/// none: then no code can be generated for frames.
pub fn frame_bytes() -> Option<[usize; 2]> {
    const WORD: usize = size_of::<usize>();
    const WORDS: usize = size_of::<&[u8]>() / WORD;
    let bytes = [0_u8; 3];
    let frame = Frame { device: 0, bytes: &bytes, time: 0 };
    let slice: *const usize = (&raw const frame.bytes).cast();
    // SAFETY: `slice` points to a slice that lives, two words long; both are initialized, and any
    // bytes are a `usize`.
    let word = |i: usize| unsafe { slice.add(i).read() };
    let find = |value: usize| (0..WORDS).find(|i| word(*i) == value);
    let (address, len) = (find(bytes.as_ptr().addr())?, find(bytes.len())?);
    Some([address, len].map(|i| offset_of!(Frame<'_>, bytes) + i * WORD))
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
    fn bytes_of_frames_are_where_the_layout_says() {
        let [address, len] = frame_bytes().unwrap();
        let bytes = [1, 2, 3, 4, 5];
        let frames = [3, 5].map(|n| Frame { device: 7, bytes: &bytes[..n], time: 9 });
        for frame in &frames {
            let at = |offset: usize| {
                assert!(offset + size_of::<usize>() <= size_of::<Frame<'_>>());
                // SAFETY: inside of the frame, at one of the two words of a slice, as the layout
                // says.
                unsafe { std::ptr::from_ref(frame).byte_add(offset).cast::<usize>().read() }
            };
            assert_eq!((at(address), at(len)), (frame.bytes.as_ptr().addr(), frame.bytes.len()));
        }
    }

    #[test]
    fn every_part_is_where_the_layout_says() {
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
        let buffer: *const u8 = at(&p, buffer().unwrap());
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
