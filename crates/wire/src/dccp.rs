// SPDX-License-Identifier: Apache-2.0

//! DCCP (RFC 4340): generic header and the walk over its options.

use crate::checksum::Sum;
use crate::field::{be16, put16};
use std::fmt;

/// Bytes of the generic header with short sequence numbers (`struct dccp_hdr`).
pub const LEN: usize = 12;
/// Bytes of the generic header with long sequence numbers.
pub const LONG_LEN: usize = 16;

/// Packet types.
pub mod packet {
    /// Request.
    pub const REQUEST: u8 = 0;
    /// Response.
    pub const RESPONSE: u8 = 1;
    /// Data.
    pub const DATA: u8 = 2;
    /// Acknowledgement.
    pub const ACK: u8 = 3;
    /// Data with acknowledgement.
    pub const DATA_ACK: u8 = 4;
    /// Close request.
    pub const CLOSE_REQUEST: u8 = 5;
    /// Close.
    pub const CLOSE: u8 = 6;
    /// Reset.
    pub const RESET: u8 = 7;
    /// Synchronize.
    pub const SYNC: u8 = 8;
    /// Synchronize acknowledgement.
    pub const SYNC_ACK: u8 = 9;
}

/// The last option type that has no length byte.
pub const OPTION_MAX_SINGLE: u8 = 31;

const SPORT: usize = 0;
const DPORT: usize = 2;
const DATA_OFFSET: usize = 4;
const CHECKSUM: usize = 6;
const TYPE: usize = 8;

/// Read view of a DCCP packet.
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

    /// Offset of the data in bytes, as the header says.
    #[inline]
    pub fn data_offset(&self) -> usize {
        usize::from(self.fixed[DATA_OFFSET]) * 4
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// Packet type, see [`packet`].
    #[inline]
    pub fn kind(&self) -> u8 {
        self.fixed[TYPE] >> 1 & 0x0f
    }

    /// Whether sequence numbers have 48 bits.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.fixed[TYPE] & 1 != 0
    }

    /// Length of generic header and the part that depends on the type (`__dccp_hdr_len()`); options
    /// follow.
    #[inline]
    pub fn header_len(&self) -> usize {
        let generic = if self.is_long() { LONG_LEN } else { LEN };
        generic
            + match self.kind() {
                packet::DATA => 0,
                packet::REQUEST => 4,
                packet::ACK
                | packet::DATA_ACK
                | packet::CLOSE_REQUEST
                | packet::CLOSE
                | packet::SYNC
                | packet::SYNC_ACK => 8,
                _ => 12,
            }
    }

    /// Whether an option of this type is there, as the `dccp option` match looks for it
    /// (`nft_exthdr_dccp_eval()`).
    pub fn has_option(&self, kind: u8) -> bool {
        let (mut at, end) = (self.header_len() - LEN, self.data_offset().saturating_sub(LEN));
        while at < end {
            // The kernel reads two bytes at a time, one at the end of the options.
            let Some(pair) = self.rest.get(at..end.min(at + 2)) else { return false };
            at += match *pair {
                [option, ..] if option == kind => return true,
                [0..=OPTION_MAX_SINGLE, ..] => 1,
                [_, len] if len >= 2 => usize::from(len),
                _ => return false,
            };
        }
        false
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}: DCCP, type {}", self.sport(), self.dport(), self.kind())
    }
}

/// A DCCP packet with long sequence numbers; data offset and checksum are computed, the checksum
/// over everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Packet type.
    pub kind: u8,
    /// Sequence number, below 2^48.
    pub seq: u64,
    /// Option bytes, padded to a multiple of four when emitted.
    pub options: Vec<u8>,
}

impl Repr {
    /// Bytes of header and options; the part that depends on the type is zero. `pseudo` gives the
    /// sum over the pseudo header for a length.
    pub fn bytes(&self, pseudo: impl Fn(u32) -> Sum, payload: &[u8]) -> Vec<u8> {
        let mut b = [0; LONG_LEN];
        put16(&mut b, SPORT, self.sport);
        put16(&mut b, DPORT, self.dport);
        b[TYPE] = self.kind << 1 | 1;
        b[10..16].copy_from_slice(&self.seq.to_be_bytes()[2..]);
        let header_len = Header::new(&b).map_or(LONG_LEN, |h| h.header_len());
        let mut out = b.to_vec();
        out.resize(header_len, 0);
        out.extend(&self.options);
        out.resize(out.len().next_multiple_of(4), 0);
        out[DATA_OFFSET] = (out.len() / 4) as u8;
        let check = pseudo((out.len() + payload.len()) as u32).bytes(&out).bytes(payload).finish();
        out[CHECKSUM..CHECKSUM + 2].copy_from_slice(&check.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_as_nft_exthdr_does() {
        for (kind, options, looked_for, found) in [
            (packet::REQUEST, &[44, 6, 1, 2, 3, 4][..], 44, true),
            (packet::REQUEST, &[1, 2, 44, 6, 1, 2, 3, 4], 44, true),
            (packet::REQUEST, &[44, 6, 1, 2, 3, 4], 1, false),
            (packet::REQUEST, &[44, 6, 1, 2, 3, 4], 0, true), // the padding
            (packet::RESPONSE, &[44, 1, 0, 38], 38, false),
            (packet::ACK, &[38, 3, 0, 44], 44, true),
            (packet::DATA, &[], 44, false),
        ] {
            let r = Repr { sport: 1, dport: 2, kind, seq: 5, options: options.to_vec() };
            let b = r.bytes(|_| Sum::new(), b"data");
            let h = Header::new(&b).unwrap();
            assert_eq!((h.sport(), h.dport(), h.kind(), h.data_offset()), (1, 2, kind, b.len()));
            assert_eq!(h.has_option(looked_for), found, "{options:?}");
            for cut in 0..b.len() {
                if let Some(h) = Header::new(&b[..cut]) {
                    h.has_option(looked_for);
                }
            }
        }
    }
}
