// SPDX-License-Identifier: Apache-2.0

//! TCP (RFC 9293): header, options, and the reset that a firewall answers with.

use crate::checksum::Sum;
use crate::field::{be16, be32, put16, put32};
use std::fmt;

/// Bytes of a header without options.
pub const LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_LEN: usize = 60;

/// Flag bits as in the byte at offset 13.
pub mod flag {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// Acknowledgement field is meant.
    pub const ACK: u8 = 0x10;
    /// Urgent pointer is meant.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// Option kinds.
pub mod option {
    /// End of list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Maximum segment size.
    pub const MSS: u8 = 2;
    /// Window scale.
    pub const WINDOW: u8 = 3;
    /// Selective acknowledgement permitted.
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgement.
    pub const SACK: u8 = 5;
    /// Timestamps.
    pub const TIMESTAMP: u8 = 8;
    /// MD5 signature.
    pub const MD5: u8 = 19;
    /// Multipath TCP.
    pub const MPTCP: u8 = 30;
    /// Fast open.
    pub const FAST_OPEN: u8 = 34;
}

const SPORT: usize = 0;
const DPORT: usize = 2;
const SEQ: usize = 4;
const ACK: usize = 8;
const OFFSET: usize = 12;
const FLAGS: usize = 13;
const WINDOW: usize = 14;
const CHECKSUM: usize = 16;
const URGENT: usize = 18;

/// Read view of a TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if 20 bytes are not there. The data offset is not looked at.
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

    /// Sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        be32(self.fixed, SEQ)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn ack_seq(&self) -> u32 {
        be32(self.fixed, ACK)
    }

    /// Header length in bytes, as the header says: 0 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.fixed[OFFSET] >> 4) * 4
    }

    /// Flag bits, see [`flag`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.fixed[FLAGS]
    }

    /// Whether all of the given flag bits are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags() & flags == flags
    }

    /// Window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.fixed, WINDOW)
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// Urgent pointer.
    #[inline]
    pub fn urgent(&self) -> u16 {
        be16(self.fixed, URGENT)
    }

    /// Option bytes, as far as they are there.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        let len = self.header_len().saturating_sub(LEN);
        self.rest.get(..len).unwrap_or(self.rest)
    }

    /// Data after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(self.header_len().saturating_sub(LEN)..).unwrap_or(&[])
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}: Flags [", self.sport(), self.dport())?;
        for (bit, c) in [
            (flag::SYN, 'S'),
            (flag::FIN, 'F'),
            (flag::RST, 'R'),
            (flag::PSH, 'P'),
            (flag::URG, 'U'),
            (flag::ECE, 'E'),
            (flag::CWR, 'W'),
            (flag::ACK, '.'),
        ] {
            if self.has(bit) {
                write!(f, "{c}")?;
            }
        }
        write!(f, "], seq {}, ack {}, win {}", self.seq(), self.ack_seq(), self.window())
    }
}

/// One option in a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOption {
    /// Kind, see [`option`].
    pub kind: u8,
    /// Offset of the kind byte from the start of the TCP header.
    pub offset: usize,
    /// Bytes that the option takes, kind and length included: 1 for [`option::END`] and
    /// [`option::NOP`], else the length byte, where 0 counts as 1.
    pub len: usize,
}

/// The options of a TCP header as `nft_exthdr.c` walks them: from byte 20 to the header length, end
/// of list and no-operation take one byte and stop nothing, a zero length takes one byte.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

/// Walks the options of a TCP header; `header` is exactly as long as its data offset says
/// (`nft_tcp_header_pointer()`), see [`header_of`]. Offsets can lie past the end for an option with
/// such a length.
#[inline]
pub fn options(header: &[u8]) -> Options<'_> {
    Options { header, at: LEN }
}

/// The bytes of the TCP header at the start of `segment`; `None` if its data offset is below 20
/// bytes or more than is there (`nft_tcp_header_pointer()`).
#[inline]
pub fn header_of(segment: &[u8]) -> Option<&[u8]> {
    let len = Header::new(segment)?.header_len();
    if len < LEN {
        return None;
    }
    segment.get(..len)
}

impl Iterator for Options<'_> {
    type Item = TcpOption;

    /// The walk ends at the last byte but one: the kernel does not look at an option of which only
    /// the kind byte is inside the header.
    #[inline]
    fn next(&mut self) -> Option<TcpOption> {
        let offset = self.at;
        let [kind, len] = *self.header.get(offset..)?.first_chunk()?;
        let len = match (kind, len) {
            (option::END | option::NOP, _) | (_, 0) => 1,
            (_, n) => usize::from(n),
        };
        self.at += len;
        Some(TcpOption { kind, offset, len })
    }
}

/// Setters on a TCP header.
#[derive(Debug)]
pub struct HeaderMut<'a>(&'a mut [u8; LEN]);

impl<'a> HeaderMut<'a> {
    /// `None` if 20 bytes are not there.
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

    /// Sets the sequence number.
    #[inline]
    pub fn set_seq(&mut self, seq: u32) {
        put32(self.0, SEQ, seq);
    }

    /// Sets the acknowledgement number.
    #[inline]
    pub fn set_ack_seq(&mut self, ack: u32) {
        put32(self.0, ACK, ack);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.0, CHECKSUM, checksum);
    }
}

/// A TCP header without options; the checksum is taken as given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack_seq: u32,
    /// Flag bits.
    pub flags: u8,
    /// Window.
    pub window: u16,
    /// Checksum.
    pub checksum: u16,
    /// Urgent pointer.
    pub urgent: u16,
}

impl Repr {
    /// Reads a header; options are left out.
    pub fn parse(h: &Header<'_>) -> Self {
        Self {
            sport: h.sport(),
            dport: h.dport(),
            seq: h.seq(),
            ack_seq: h.ack_seq(),
            flags: h.flags(),
            window: h.window(),
            checksum: h.checksum(),
            urgent: h.urgent(),
        }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put16(&mut b, SPORT, self.sport);
        put16(&mut b, DPORT, self.dport);
        put32(&mut b, SEQ, self.seq);
        put32(&mut b, ACK, self.ack_seq);
        b[OFFSET] = 5 << 4;
        b[FLAGS] = self.flags;
        put16(&mut b, WINDOW, self.window);
        put16(&mut b, CHECKSUM, self.checksum);
        put16(&mut b, URGENT, self.urgent);
        b
    }

    /// The header's bytes with the checksum made from `pseudo`, the sum over the pseudo header for
    /// 20 bytes.
    #[inline]
    pub fn bytes_with_checksum(&self, pseudo: Sum) -> [u8; LEN] {
        let mut b = Self { checksum: 0, ..*self }.bytes();
        let check = pseudo.bytes(&b).finish();
        put16(&mut b, CHECKSUM, check);
        b
    }

    /// The reset that answers a segment (`nf_reject_ip_tcphdr_put()`, RFC 9293 3.10.7.1):
    /// `segment_len` is the length of header and data from the IP header's lengths. `None` for a
    /// segment that is itself a reset.
    pub fn reset_for(h: &Header<'_>, segment_len: usize) -> Option<Self> {
        if h.has(flag::RST) {
            return None;
        }
        let answer =
            Self { sport: h.dport(), dport: h.sport(), flags: flag::RST, ..Self::default() };
        if h.has(flag::ACK) {
            return Some(Self { seq: h.ack_seq(), ..answer });
        }
        let syn_fin = u32::from(h.has(flag::SYN)) + u32::from(h.has(flag::FIN));
        let data = (segment_len as u32).wrapping_sub(h.header_len() as u32);
        let ack_seq = h.seq().wrapping_add(syn_fin).wrapping_add(data);
        Some(Self { ack_seq, flags: flag::RST | flag::ACK, ..answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let mut rng = fastrand::Rng::with_seed(6);
        for _ in 0..200 {
            let r = Repr {
                sport: rng.u16(..),
                dport: rng.u16(..),
                seq: rng.u32(..),
                ack_seq: rng.u32(..),
                flags: rng.u8(..),
                window: rng.u16(..),
                checksum: rng.u16(..),
                urgent: rng.u16(..),
            };
            let b = r.bytes();
            assert_eq!(Repr::parse(&Header::new(&b).unwrap()), r);
            assert_eq!(header_of(&b), Some(&b[..]));
            assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
        }
    }

    #[test]
    fn options_are_walked_as_nft_exthdr_does() {
        let walk = |options: &[u8]| {
            let header = [&[0; LEN][..], options].concat();
            super::options(&header).map(|o| (o.kind, o.offset, o.len)).collect::<Vec<_>>()
        };
        for (bytes, found) in [
            (&[][..], &[][..]),
            (&[2, 4, 5, 0xb4], &[(2, 20, 4)]),
            (&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], &[(1, 20, 1), (1, 21, 1), (8, 22, 10)]),
            (&[0, 0, 2, 4, 5, 0xb4, 0, 0], &[(0, 20, 1), (0, 21, 1), (2, 22, 4), (0, 26, 1)]),
            (&[3, 0, 3, 3, 7, 0], &[(3, 20, 1), (0, 21, 1), (3, 22, 3)]),
            (&[2, 40, 0, 0], &[(2, 20, 40)]),
            (&[1, 1, 1, 2], &[(1, 20, 1), (1, 21, 1), (1, 22, 1)]),
        ] {
            assert_eq!(walk(bytes), found, "{bytes:?}");
        }
    }

    #[test]
    fn a_reset_answers_as_the_kernel_does() {
        let syn = Repr { sport: 1, dport: 2, seq: 100, flags: flag::SYN, ..Repr::default() };
        let reset = |r: Repr, len| Repr::reset_for(&Header::new(&r.bytes()).unwrap(), len);
        let want = Repr {
            sport: 2,
            dport: 1,
            ack_seq: 101,
            flags: flag::RST | flag::ACK,
            ..Repr::default()
        };
        assert_eq!(reset(syn, 20), Some(want));
        assert_eq!(reset(syn, 25), Some(Repr { ack_seq: 106, ..want }));
        let ack = Repr { ack_seq: 77, flags: flag::ACK | flag::PSH, ..syn };
        assert_eq!(reset(ack, 20), Some(Repr { seq: 77, ack_seq: 0, flags: flag::RST, ..want }));
        assert_eq!(reset(Repr { flags: flag::RST, ..syn }, 20), None);
    }
}
