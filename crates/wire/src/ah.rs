// SPDX-License-Identifier: Apache-2.0

//! Authentication Header (RFC 4302).

use crate::field::{be32, put32};
use std::fmt;

/// Bytes without the integrity value.
pub const LEN: usize = 12;

const NEXT: usize = 0;
const UNITS: usize = 1;
const SPI: usize = 4;
const SEQUENCE: usize = 8;

/// Read view of an authentication header.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if twelve bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Type of the following header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.fixed[NEXT]
    }

    /// Length of the whole header, as the header says: 8 to 1028.
    #[inline]
    pub fn header_len(&self) -> usize {
        (usize::from(self.fixed[UNITS]) + 2) * 4
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

    /// What follows the header; empty if the integrity value is cut.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(self.header_len().saturating_sub(LEN)..).unwrap_or(&[])
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AH(spi=0x{:08x},seq=0x{:x})", self.spi(), self.sequence())
    }
}

/// An authentication header around an integrity value; its length is a multiple of four.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Type of the following header.
    pub next_header: u8,
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
    /// Integrity value.
    pub icv: Vec<u8>,
}

impl Repr {
    /// The header's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut b = [0; LEN];
        b[NEXT] = self.next_header;
        b[UNITS] = (self.icv.len() / 4 + 1) as u8;
        put32(&mut b, SPI, self.spi);
        put32(&mut b, SEQUENCE, self.sequence);
        [&b[..], &self.icv].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let r = Repr { next_header: 6, spi: 0x100, sequence: 7, icv: vec![9; 12] };
        let b = [&r.bytes()[..], b"tcp"].concat();
        let h = Header::new(&b).unwrap();
        assert_eq!((h.next_header(), h.spi(), h.sequence(), h.header_len()), (6, 0x100, 7, 24));
        assert_eq!(h.payload(), b"tcp");
        assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
        assert!((LEN..24).all(|n| Header::new(&b[..n]).unwrap().payload().is_empty()));
    }
}
