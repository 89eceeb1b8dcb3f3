// SPDX-License-Identifier: Apache-2.0

//! GENEVE (RFC 8926): anything with an ethertype in UDP, with options.

use crate::field::{be16, be32, put16, put32};
use std::fmt;

/// Bytes of a header without options.
pub const LEN: usize = 8;
/// UDP destination port.
pub const PORT: u16 = 6081;
/// Flag: control packet.
pub const FLAG_CONTROL: u8 = 0x80;
/// Flag: there are critical options.
pub const FLAG_CRITICAL: u8 = 0x40;

const VERSION_LEN: usize = 0;
const FLAGS: usize = 1;
const PROTOCOL: usize = 2;
const VNI: usize = 4;

/// Read view of a GENEVE header.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if eight bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Version.
    #[inline]
    pub fn version(&self) -> u8 {
        self.fixed[VERSION_LEN] >> 6
    }

    /// Length of header and options, as the header says: 8 to 260.
    #[inline]
    pub fn header_len(&self) -> usize {
        LEN + usize::from(self.fixed[VERSION_LEN] & 0x3f) * 4
    }

    /// Flags.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.fixed[FLAGS]
    }

    /// Ethertype of what is carried.
    #[inline]
    pub fn protocol(&self) -> u16 {
        be16(self.fixed, PROTOCOL)
    }

    /// Network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        be32(self.fixed, VNI) >> 8
    }

    /// The options: class, type, data. Ends at the first that is cut.
    pub fn options(&self) -> impl Iterator<Item = (u16, u8, &'a [u8])> + use<'a> {
        let mut rest = self.rest.get(..self.header_len() - LEN).unwrap_or(self.rest);
        std::iter::from_fn(move || {
            let ([c0, c1, kind, units], tail) = rest.split_first_chunk()?;
            let (data, tail) = tail.split_at_checked(usize::from(units & 0x1f) * 4)?;
            rest = tail;
            Some((u16::from_be_bytes([*c0, *c1]), *kind, data))
        })
    }

    /// What is carried; empty if the options are cut.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(self.header_len() - LEN..).unwrap_or(&[])
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Geneve, vni 0x{:x}, proto 0x{:04x}", self.vni(), self.protocol())
    }
}

/// A GENEVE header of version 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Flags.
    pub flags: u8,
    /// Ethertype of what is carried.
    pub protocol: u16,
    /// Network identifier, below 2^24.
    pub vni: u32,
    /// Option bytes, a multiple of four.
    pub options: Vec<u8>,
}

impl Repr {
    /// The bytes of header and options.
    pub fn bytes(&self) -> Vec<u8> {
        let mut b = [0; LEN];
        b[VERSION_LEN] = (self.options.len() / 4) as u8 & 0x3f;
        b[FLAGS] = self.flags;
        put16(&mut b, PROTOCOL, self.protocol);
        put32(&mut b, VNI, self.vni << 8);
        [&b[..], &self.options].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let options = vec![0, 1, 0x80, 1, 9, 9, 9, 9, 0xff, 0xff, 2, 0];
        let r = Repr { flags: FLAG_CRITICAL, protocol: 0x6558, vni: 77, options };
        let b = [&r.bytes()[..], b"inner"].concat();
        let h = Header::new(&b).unwrap();
        assert_eq!((h.version(), h.flags(), h.protocol(), h.vni()), (0, FLAG_CRITICAL, 0x6558, 77));
        assert_eq!(h.payload(), b"inner");
        let found: Vec<_> = h.options().collect();
        assert_eq!(found, [(1, 0x80, &[9; 4][..]), (0xffff, 2, &[])]);
        assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
        for cut in LEN..20 {
            let h = Header::new(&b[..cut]).unwrap();
            assert!(h.payload().is_empty() && h.options().count() <= 1);
        }
    }
}
