// SPDX-License-Identifier: Apache-2.0

//! VLAN tags: 802.1Q and 802.1ad. The four bytes stand between the source address and the type.

use crate::ethernet::{QINQ, VLAN};
use crate::field::{be16, put16};

/// Bytes of a tag in a frame: the tag protocol and the tag control information.
pub const LEN: usize = 4;
/// Bits of the tag control information that hold the VLAN id.
pub const VID_MASK: u16 = 0x0fff;
/// The drop-eligible bit (formerly canonical format indicator).
pub const DEI: u16 = 0x1000;
/// Position of the priority in the tag control information.
pub const PRIORITY_SHIFT: u32 = 13;

const TCI: usize = 0;
const TYPE: usize = 2;

/// Whether an ethertype announces a VLAN tag (`eth_type_vlan()`).
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, VLAN | QINQ)
}

/// Read view of what follows the tag protocol: control information, inner type, payload
/// (`struct vlan_hdr`).
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `bytes` begin after the type field that announced the tag. `None` if four are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Priority, drop-eligible bit and VLAN id together.
    #[inline]
    pub fn tci(&self) -> u16 {
        be16(self.fixed, TCI)
    }

    /// VLAN id.
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci() & VID_MASK
    }

    /// Priority code point.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.tci() >> PRIORITY_SHIFT) as u8
    }

    /// Drop-eligible indicator.
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci() & DEI != 0
    }

    /// Type or length of what follows the tag.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.fixed, TYPE)
    }

    /// What follows.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

/// A tag's control information and the type after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Priority, drop-eligible bit and VLAN id.
    pub tci: u16,
    /// Type or length of what follows.
    pub ethertype: u16,
}

impl Repr {
    /// Reads a tag.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { tci: h.tci(), ethertype: h.ethertype() }
    }

    /// The four bytes after the tag protocol.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put16(&mut b, TCI, self.tci);
        put16(&mut b, TYPE, self.ethertype);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_tags_are_read_back() {
        for tci in [0, 1, 0xfff, DEI, 7 << PRIORITY_SHIFT | 5, 0xffff] {
            let repr = Repr { tci, ethertype: 0x0800 };
            let bytes = repr.bytes();
            let h = Header::new(&bytes).unwrap();
            assert_eq!(Repr::parse(&h), repr);
            let parts =
                u16::from(h.priority()) << PRIORITY_SHIFT | u16::from(h.dei()) << 12 | h.vid();
            assert_eq!(parts, tci);
            assert!((0..LEN).all(|n| Header::new(&bytes[..n]).is_none()));
        }
    }
}
