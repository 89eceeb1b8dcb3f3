// SPDX-License-Identifier: Apache-2.0

//! UDP-Lite (RFC 3828): UDP with the part of the data that its checksum covers in place of the
//! length.

use crate::checksum::Sum;
use crate::field::{be16, put16};
use std::fmt;

/// Bytes of the header.
pub const LEN: usize = 8;

const SPORT: usize = 0;
const DPORT: usize = 2;
const COVERAGE: usize = 4;
const CHECKSUM: usize = 6;

/// Read view of a UDP-Lite datagram.
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

    /// Checksum coverage in bytes, header included; 0 covers everything, 1 to 7 are invalid.
    #[inline]
    pub fn coverage(&self) -> u16 {
        be16(self.fixed, COVERAGE)
    }

    /// Checksum; zero is invalid.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}: UDP-Lite, coverage {}", self.sport(), self.dport(), self.coverage())
    }
}

/// A UDP-Lite header; the checksum is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Checksum coverage in bytes, 0 for everything.
    pub coverage: u16,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { sport: h.sport(), dport: h.dport(), coverage: h.coverage() }
    }

    /// The header's bytes; `pseudo` is the sum over the pseudo header with the whole length.
    pub fn bytes(&self, pseudo: Sum, payload: &[u8]) -> [u8; LEN] {
        let mut b = [0; LEN];
        put16(&mut b, SPORT, self.sport);
        put16(&mut b, DPORT, self.dport);
        put16(&mut b, COVERAGE, self.coverage);
        let covered = match usize::from(self.coverage) {
            0 => payload,
            n => payload.get(..n.saturating_sub(LEN)).unwrap_or(payload),
        };
        let check = pseudo.bytes(&b).bytes(covered).finish_udp();
        put16(&mut b, CHECKSUM, check);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_covers_what_the_header_says() {
        for (coverage, summed) in [(0, 13), (8, 8), (10, 10), (99, 13)] {
            let r = Repr { sport: 1, dport: 2, coverage };
            let bytes = [&r.bytes(Sum::new(), b"hello")[..], b"hello"].concat();
            let h = Header::new(&bytes).unwrap();
            assert_eq!(Repr::parse(&h), r);
            assert!(Sum::new().bytes(&bytes[..summed]).is_valid(), "{coverage}");
            assert!((0..LEN).all(|n| Header::new(&bytes[..n]).is_none()));
        }
    }
}
