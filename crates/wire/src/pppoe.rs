// SPDX-License-Identifier: Apache-2.0

//! PPP over Ethernet, the session stage (RFC 2516): session header and the protocol of PPP, which
//! stand between the Ethernet header and the packet.

use crate::field::{be16, put16};

/// Bytes of the session header and the protocol after it.
pub const LEN: usize = 8;
/// Bytes of the session header, after which its length counts.
pub const HEADER_LEN: usize = 6;

/// IPv4 (`PPP_IP`).
pub const IPV4: u16 = 0x0021;
/// IPv6 (`PPP_IPV6`).
pub const IPV6: u16 = 0x0057;

const VERSION_TYPE: usize = 0;
const CODE: usize = 1;
const SESSION: usize = 2;
const LENGTH: usize = 4;

/// Read view of what follows an Ethernet header of type 0x8864.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; HEADER_LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if six bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Version and type together: 0x11.
    #[inline]
    pub fn version_type(&self) -> u8 {
        self.fixed[VERSION_TYPE]
    }

    /// Code: 0 for sessions.
    #[inline]
    pub fn code(&self) -> u8 {
        self.fixed[CODE]
    }

    /// Session id.
    #[inline]
    pub fn session(&self) -> u16 {
        be16(self.fixed, SESSION)
    }

    /// Bytes after the session header, that of PPP's protocol included.
    #[inline]
    pub fn length(&self) -> u16 {
        be16(self.fixed, LENGTH)
    }

    /// What follows, clipped to the length; `None` if it is not all there.
    #[inline]
    pub fn payload(&self) -> Option<&'a [u8]> {
        self.rest.get(..usize::from(self.length()))
    }

    /// The protocol of PPP, and how many bytes it takes: one where it is compressed (RFC 1661,
    /// 6.5).
    #[inline]
    pub fn protocol(&self) -> Option<(u16, usize)> {
        match *self.payload()? {
            [first, ..] if first & 1 != 0 => Some((first.into(), 1)),
            [first, second, ..] => Some((u16::from_be_bytes([first, second]), 2)),
            _ => None,
        }
    }
}

/// A session header with the protocol of PPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Session id.
    pub session: u16,
    /// Protocol of PPP.
    pub protocol: u16,
    /// Bytes of the packet after it.
    pub payload_len: u16,
}

impl Repr {
    /// The eight bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[VERSION_TYPE] = 0x11;
        put16(&mut b, SESSION, self.session);
        put16(&mut b, LENGTH, self.payload_len.wrapping_add((LEN - HEADER_LEN) as u16));
        put16(&mut b, HEADER_LEN, self.protocol);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let repr = Repr { session: 0x1234, protocol: IPV6, payload_len: 3 };
        let frame = [&repr.bytes()[..], b"abc and padding"].concat();
        let h = Header::new(&frame).unwrap();
        assert_eq!((h.version_type(), h.code(), h.session(), h.length()), (0x11, 0, 0x1234, 5));
        assert_eq!(h.protocol(), Some((IPV6, 2)));
        assert_eq!(h.payload().map(|p| &p[2..]), Some(&b"abc"[..]));
        assert!((0..HEADER_LEN).all(|n| Header::new(&frame[..n]).is_none()));
        assert!(Header::new(&frame[..HEADER_LEN + 4]).unwrap().payload().is_none());
    }

    #[test]
    fn protocols_may_be_compressed() {
        for (payload, want) in [
            (&[0x21u8, 0x45][..], Some((IPV4, 1))),
            (&[0x00, 0x21], Some((IPV4, 2))),
            (&[0xc0, 0x21], Some((0xc021, 2))),
            (&[0x00], None),
            (&[], None),
        ] {
            let frame = [&[0x11, 0, 0, 1, 0, payload.len() as u8][..], payload].concat();
            assert_eq!(Header::new(&frame).unwrap().protocol(), want);
        }
    }
}
