// SPDX-License-Identifier: Apache-2.0

//! SCTP (RFC 9260): common header and the walk over its chunks.

use crate::checksum::Crc32c;
use crate::field::{array, be16, be32, put16, put32};
use std::fmt;

/// Bytes of the common header.
pub const LEN: usize = 12;
/// Bytes of a chunk header: type, flags, length.
pub const CHUNK_LEN: usize = 4;

/// Chunk types.
pub mod chunk {
    /// Payload data.
    pub const DATA: u8 = 0;
    /// Initiation.
    pub const INIT: u8 = 1;
    /// Initiation acknowledgement.
    pub const INIT_ACK: u8 = 2;
    /// Selective acknowledgement.
    pub const SACK: u8 = 3;
    /// Heartbeat.
    pub const HEARTBEAT: u8 = 4;
    /// Heartbeat acknowledgement.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// Abort.
    pub const ABORT: u8 = 6;
    /// Shutdown.
    pub const SHUTDOWN: u8 = 7;
    /// Shutdown acknowledgement.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// Error.
    pub const ERROR: u8 = 9;
    /// Cookie echo.
    pub const COOKIE_ECHO: u8 = 10;
    /// Cookie acknowledgement.
    pub const COOKIE_ACK: u8 = 11;
    /// Shutdown complete.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
}

const SPORT: usize = 0;
const DPORT: usize = 2;
const VTAG: usize = 4;
const CHECKSUM: usize = 8;

/// Read view of an SCTP packet.
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

    /// Verification tag.
    #[inline]
    pub fn vtag(&self) -> u32 {
        be32(self.fixed, VTAG)
    }

    /// CRC32c. It is the one field in little-endian order, so that [`Crc32c::finish`] compares with
    /// it.
    #[inline]
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(array(self.fixed, CHECKSUM))
    }

    /// Whether the CRC over the whole packet is right.
    pub fn checksum_ok(&self) -> bool {
        let head: [u8; CHECKSUM] = array(self.fixed, 0);
        Crc32c::new().bytes(&head).bytes(&[0; 4]).bytes(self.rest).finish() == self.checksum()
    }

    /// The chunks, as the `sctp chunk` match walks them (`nft_exthdr_sctp_eval()`).
    #[inline]
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.rest, at: LEN }
    }
}

/// A chunk in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Type, see [`chunk`].
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Offset of the chunk header from the start of the common header.
    pub offset: usize,
    /// Length that the chunk claims, header included and padding not; never zero. It may go past
    /// the end.
    pub length: u16,
}

/// Walk over chunks: ends where a chunk header is cut or claims length zero; chunks are padded to
/// four bytes.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
    at: usize,
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    #[inline]
    fn next(&mut self) -> Option<Chunk> {
        let [kind, flags, l0, l1] = *self.rest.get(self.at - LEN..)?.first_chunk()?;
        let length = u16::from_be_bytes([l0, l1]);
        if length == 0 {
            return None;
        }
        let offset = self.at;
        self.at += usize::from(length).next_multiple_of(4);
        Some(Chunk { kind, flags, offset, length })
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}: sctp", self.sport(), self.dport())?;
        for (n, c) in self.chunks().enumerate() {
            write!(f, " ({}) [type {}]", n + 1, c.kind)?;
        }
        Ok(())
    }
}

/// An SCTP common header; the CRC is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Verification tag.
    pub vtag: u32,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { sport: h.sport(), dport: h.dport(), vtag: h.vtag() }
    }

    /// The header's bytes, with the CRC for these chunks.
    pub fn bytes(&self, chunks: &[u8]) -> [u8; LEN] {
        let mut b = [0; LEN];
        put16(&mut b, SPORT, self.sport);
        put16(&mut b, DPORT, self.dport);
        put32(&mut b, VTAG, self.vtag);
        let crc = Crc32c::new().bytes(&b).bytes(chunks).finish();
        put32(&mut b, CHECKSUM, crc.swap_bytes());
        b
    }
}

/// Appends a chunk with its length and its padding.
pub fn emit_chunk(kind: u8, flags: u8, data: &[u8], out: &mut Vec<u8>) {
    out.extend([kind, flags]);
    out.extend(((CHUNK_LEN + data.len()) as u16).to_be_bytes());
    out.extend_from_slice(data);
    out.resize(out.len() + data.len().next_multiple_of(4) - data.len(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_walked_as_nft_exthdr_does() {
        let mut chunks = Vec::new();
        emit_chunk(chunk::SACK, 0, &[0; 12], &mut chunks);
        emit_chunk(chunk::DATA, 3, b"odd", &mut chunks);
        emit_chunk(chunk::ABORT, 1, b"", &mut chunks);
        let r = Repr { sport: 1, dport: 2, vtag: 3 };
        let p = [&r.bytes(&chunks)[..], &chunks].concat();
        let h = Header::new(&p).unwrap();
        assert_eq!(Repr::parse(&h), r);
        assert!(h.checksum_ok());
        let walk = |p: &[u8]| {
            Header::new(p)
                .map(|h| h.chunks().map(|c| (c.kind, c.offset, c.length)).collect::<Vec<_>>())
        };
        let all = [(3, 12, 16), (0, 28, 7), (6, 36, 4)];
        assert_eq!(walk(&p).unwrap(), all);
        for cut in 0..p.len() {
            let n = match cut {
                ..12 => {
                    assert_eq!(walk(&p[..cut]), None);
                    continue;
                }
                12..16 => 0,
                16..32 => 1,
                32..40 => 2,
                _ => 3,
            };
            assert_eq!(walk(&p[..cut]).unwrap(), all[..n], "{cut}");
        }
        let zero_length = [&r.bytes(&[])[..], &[0; 8]].concat();
        assert_eq!(walk(&zero_length).unwrap(), []);
    }
}
