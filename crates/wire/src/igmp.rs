// SPDX-License-Identifier: Apache-2.0

//! IGMP (RFC 2236, RFC 3376).

use crate::checksum::Sum;
use crate::field::{array, be16, put, put16};
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes of a message without the parts of version 3.
pub const LEN: usize = 8;

/// Membership query, of all versions.
pub const MEMBERSHIP_QUERY: u8 = 0x11;
/// Membership report of version 1.
pub const MEMBERSHIP_REPORT_V1: u8 = 0x12;
/// Membership report of version 2.
pub const MEMBERSHIP_REPORT_V2: u8 = 0x16;
/// Leave group.
pub const LEAVE_GROUP: u8 = 0x17;
/// Membership report of version 3.
pub const MEMBERSHIP_REPORT_V3: u8 = 0x22;
/// Multicast router advertisement (RFC 4286).
pub const MULTICAST_ROUTER_ADVERTISEMENT: u8 = 0x30;

const TYPE: usize = 0;
const MAX_RESPONSE: usize = 1;
const CHECKSUM: usize = 2;
const GROUP: usize = 4;

/// Read view of an IGMP message.
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

    /// Type.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.fixed[TYPE]
    }

    /// Maximum response time code.
    #[inline]
    pub fn max_response(&self) -> u8 {
        self.fixed[MAX_RESPONSE]
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// Group address; in a report of version 3 reserved bytes and the number of records.
    #[inline]
    pub fn group(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<LEN, 4>(self.fixed, GROUP))
    }

    /// What follows: sources or records of version 3.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "igmp type 0x{:02x}, group {}", self.kind(), self.group())
    }
}

/// An IGMP message; the checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type.
    pub kind: u8,
    /// Maximum response time code.
    pub max_response: u8,
    /// Group address.
    pub group: Ipv4Addr,
}

impl Repr {
    /// Reads a message's first eight bytes.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { kind: h.kind(), max_response: h.max_response(), group: h.group() }
    }

    /// The header's bytes, with the checksum for this payload.
    pub fn bytes(&self, payload: &[u8]) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[TYPE] = self.kind;
        b[MAX_RESPONSE] = self.max_response;
        put(&mut b, GROUP, self.group.octets());
        let check = Sum::new().bytes(&b).bytes(payload).finish();
        put16(&mut b, CHECKSUM, check);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_messages_are_read_back() {
        let r = Repr {
            kind: MEMBERSHIP_REPORT_V2,
            max_response: 9,
            group: Ipv4Addr::new(239, 1, 2, 3),
        };
        let b = r.bytes(b"");
        assert_eq!(Repr::parse(&Header::new(&b).unwrap()), r);
        assert!(Sum::new().bytes(&b).is_valid());
        assert!((0..LEN).all(|n| Header::new(&b[..n]).is_none()));
    }
}
