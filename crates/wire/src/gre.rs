// SPDX-License-Identifier: Apache-2.0

//! Generic Routing Encapsulation (RFC 2784, RFC 2890), version 0; of version 1 (PPTP) the fixed
//! part.

use crate::field::be16;
use std::fmt;

/// Bytes of a header without optional fields.
pub const LEN: usize = 4;

/// Flag: a checksum and a reserved field follow.
pub const CHECKSUM: u16 = 0x8000;
/// Flag: source routes follow (RFC 1701).
pub const ROUTING: u16 = 0x4000;
/// Flag: a key follows.
pub const KEY: u16 = 0x2000;
/// Flag: a sequence number follows.
pub const SEQUENCE: u16 = 0x1000;
/// Bits of the version.
pub const VERSION: u16 = 0x0007;

const FLAGS: usize = 0;
const PROTOCOL: usize = 2;

/// Read view of a GRE header.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if four bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Flags and version together.
    #[inline]
    pub fn flags(&self) -> u16 {
        be16(self.fixed, FLAGS)
    }

    /// Version.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.flags() & VERSION) as u8
    }

    /// Whether source routes follow; this view does not know their length.
    #[inline]
    pub fn has_routing(&self) -> bool {
        self.flags() & ROUTING != 0
    }

    /// Ethertype of what is carried.
    #[inline]
    pub fn protocol(&self) -> u16 {
        be16(self.fixed, PROTOCOL)
    }

    /// Length of the header with checksum, key and sequence number as its flags say, whether there
    /// or not.
    #[inline]
    pub fn header_len(&self) -> usize {
        LEN + 4 * (self.flags() & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> Option<u32> {
        if self.flags() & KEY == 0 {
            return None;
        }
        let at = if self.flags() & CHECKSUM != 0 { 4 } else { 0 };
        Some(u32::from_be_bytes(*self.rest.get(at..)?.first_chunk()?))
    }

    /// What is carried; empty if the header is cut.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(self.header_len() - LEN..).unwrap_or(&[])
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GREv{}, proto 0x{:04x}", self.version(), self.protocol())
    }
}

/// A GRE header of version 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Ethertype of what is carried.
    pub protocol: u16,
    /// Whether to carry a checksum, computed over header and payload.
    pub checksum: bool,
    /// Key.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
}

impl Repr {
    /// Appends the header's bytes; the checksum is for this payload.
    pub fn emit(&self, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let bit = |on, flag| if on { flag } else { 0 };
        let flags = bit(self.checksum, CHECKSUM)
            | bit(self.key.is_some(), KEY)
            | bit(self.sequence.is_some(), SEQUENCE);
        out.extend(flags.to_be_bytes());
        out.extend(self.protocol.to_be_bytes());
        if self.checksum {
            out.extend([0; 4]);
        }
        for field in [self.key, self.sequence].into_iter().flatten() {
            out.extend(field.to_be_bytes());
        }
        if self.checksum {
            let sum = crate::checksum::Sum::new().bytes(&out[start..]).bytes(payload).finish();
            out[start + LEN..start + LEN + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;

    #[test]
    fn optional_fields_follow_in_order() {
        for (checksum, key, sequence, len) in [
            (false, None, None, 4),
            (true, None, None, 8),
            (false, Some(7), None, 8),
            (true, Some(7), Some(9), 16),
            (false, None, Some(9), 8),
        ] {
            let mut b = Vec::new();
            Repr { protocol: 0x0800, checksum, key, sequence }.emit(b"inner", &mut b);
            assert_eq!(b.len(), len);
            b.extend(b"inner");
            let h = Header::new(&b).unwrap();
            assert_eq!(
                (h.header_len(), h.key(), h.protocol(), h.payload()),
                (len, key, 0x0800, &b"inner"[..])
            );
            if checksum {
                assert!(Sum::new().bytes(&b).is_valid());
            }
            for cut in 0..len {
                if let Some(h) = Header::new(&b[..cut]) {
                    assert_eq!(h.payload(), b"");
                }
            }
        }
    }
}
