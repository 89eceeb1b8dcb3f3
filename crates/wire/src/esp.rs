// SPDX-License-Identifier: Apache-2.0

//! Encapsulating Security Payload (RFC 4303): the part in the clear.

use crate::field::{be32, put32};
use std::fmt;

/// Bytes in the clear.
pub const LEN: usize = 8;

const SPI: usize = 0;
const SEQUENCE: usize = 4;

/// Read view of an ESP packet.
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

    /// Security parameters index.
    #[inline]
    pub fn spi(&self) -> u32 {
        be32(self.fixed, SPI)
    }

    /// Sequence number, low half.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be32(self.fixed, SEQUENCE)
    }

    /// What follows: encrypted data and the integrity value.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ESP(spi=0x{:08x},seq=0x{:x})", self.spi(), self.sequence())
    }
}

/// An ESP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { spi: h.spi(), sequence: h.sequence() }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put32(&mut b, SPI, self.spi);
        put32(&mut b, SEQUENCE, self.sequence);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let r = Repr { spi: 0x100, sequence: 7 };
        let b = r.bytes();
        assert_eq!(Repr::parse(&Header::new(&b).unwrap()), r);
        assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
    }
}
