// SPDX-License-Identifier: Apache-2.0

//! UDP (RFC 768).

use crate::field::{be16, put16};
use std::fmt;

/// Bytes of the header.
pub const LEN: usize = 8;

const SPORT: usize = 0;
const DPORT: usize = 2;
const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// Read view of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if eight bytes are not there. The length field is not looked at.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Source port.
    #[inline]
    pub fn sport(&self) -> u16 {
        be16(self.fixed, SPORT)
    }

    /// Destination port.
    #[inline]
    pub fn dport(&self) -> u16 {
        be16(self.fixed, DPORT)
    }

    /// Length of header and data.
    #[inline]
    pub fn length(&self) -> u16 {
        be16(self.fixed, LENGTH)
    }

    /// Checksum; zero is none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// Everything after the header that is there, whatever the length field says.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}: UDP, length {}", self.sport(), self.dport(), self.length())
    }
}

/// Setters on a UDP header.
#[derive(Debug)]
pub struct HeaderMut<'a>(&'a mut [u8; LEN]);

impl<'a> HeaderMut<'a> {
    /// `None` if eight bytes are not there.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        bytes.first_chunk_mut().map(Self)
    }

    /// Sets the source port.
    #[inline]
    pub fn set_sport(&mut self, port: u16) {
        put16(self.0, SPORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dport(&mut self, port: u16) {
        put16(self.0, DPORT, port);
    }

    /// Sets the length field.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        put16(self.0, LENGTH, length);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.0, CHECKSUM, checksum);
    }
}

/// A UDP header; length and checksum are taken as given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Length of header and data.
    pub length: u16,
    /// Checksum.
    pub checksum: u16,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { sport: h.sport(), dport: h.dport(), length: h.length(), checksum: h.checksum() }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put16(&mut b, SPORT, self.sport);
        put16(&mut b, DPORT, self.dport);
        put16(&mut b, LENGTH, self.length);
        put16(&mut b, CHECKSUM, self.checksum);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let r = Repr { sport: 1, dport: 0xfffe, length: 9, checksum: 0xabcd };
        let b = r.bytes();
        assert_eq!(Repr::parse(&Header::new(&b).unwrap()), r);
        assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
        assert_eq!(Header::new(&b).unwrap().to_string(), "1 > 65534: UDP, length 9");
    }
}
