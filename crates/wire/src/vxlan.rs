// SPDX-License-Identifier: Apache-2.0

//! VXLAN (RFC 7348): Ethernet in UDP.

use crate::field::{be32, put32};
use std::fmt;

/// Bytes of the header.
pub const LEN: usize = 8;
/// UDP destination port.
pub const PORT: u16 = 4789;
/// Flag: the network identifier is valid.
pub const FLAG_VNI: u8 = 0x08;

const FLAGS: usize = 0;
const VNI: usize = 4;

/// Read view of a VXLAN header.
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

    /// Flags.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.fixed[FLAGS]
    }

    /// Network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        be32(self.fixed, VNI) >> 8
    }

    /// The Ethernet frame inside.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN, flags 0x{:02x}, vni {}", self.flags(), self.vni())
    }
}

/// A VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Flags, usually [`FLAG_VNI`].
    pub flags: u8,
    /// Network identifier, below 2^24.
    pub vni: u32,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { flags: h.flags(), vni: h.vni() }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[FLAGS] = self.flags;
        put32(&mut b, VNI, self.vni << 8);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let r = Repr { flags: FLAG_VNI, vni: 0xabcdef };
        let b = r.bytes();
        assert_eq!(Repr::parse(&Header::new(&b).unwrap()), r);
        assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
    }
}
