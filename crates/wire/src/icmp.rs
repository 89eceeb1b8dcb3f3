// SPDX-License-Identifier: Apache-2.0

//! ICMP for IPv4 (RFC 792, RFC 1122, RFC 1812) and the error messages that quote a packet.

use crate::checksum;
use crate::field::{be16, be32, put16, put32};
use std::fmt;

/// Bytes of the header: type, code, checksum and four bytes that depend on the type.
pub const LEN: usize = 8;

/// Echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Destination unreachable.
pub const DEST_UNREACHABLE: u8 = 3;
/// Source quench.
pub const SOURCE_QUENCH: u8 = 4;
/// Redirect.
pub const REDIRECT: u8 = 5;
/// Echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 9;
/// Router solicitation.
pub const ROUTER_SOLICITATION: u8 = 10;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Timestamp request.
pub const TIMESTAMP_REQUEST: u8 = 13;
/// Timestamp reply.
pub const TIMESTAMP_REPLY: u8 = 14;
/// Information request.
pub const INFO_REQUEST: u8 = 15;
/// Information reply.
pub const INFO_REPLY: u8 = 16;
/// Address mask request.
pub const ADDRESS_MASK_REQUEST: u8 = 17;
/// Address mask reply.
pub const ADDRESS_MASK_REPLY: u8 = 18;

/// Codes of [`DEST_UNREACHABLE`].
pub mod unreachable {
    /// Network.
    pub const NET: u8 = 0;
    /// Host.
    pub const HOST: u8 = 1;
    /// Protocol.
    pub const PROTOCOL: u8 = 2;
    /// Port.
    pub const PORT: u8 = 3;
    /// Fragmentation needed; the MTU is in the lower half of the last four header bytes.
    pub const FRAG_NEEDED: u8 = 4;
    /// Source route failed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// Network administratively prohibited.
    pub const NET_PROHIBITED: u8 = 9;
    /// Host administratively prohibited.
    pub const HOST_PROHIBITED: u8 = 10;
    /// Administratively filtered.
    pub const ADMIN_PROHIBITED: u8 = 13;
}

/// Codes of [`TIME_EXCEEDED`].
pub mod time_exceeded {
    /// TTL ran out in transit.
    pub const TTL: u8 = 0;
    /// Fragments did not all come in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`REDIRECT`].
pub mod redirect {
    /// For the network.
    pub const NET: u8 = 0;
    /// For the host.
    pub const HOST: u8 = 1;
}

/// Bytes of an ICMP error of `icmp_send()` at most, IPv4 header included (RFC 1812, 4.3.2.3).
pub const ERROR_MAX: usize = 576;
/// Bytes of the offending packet in the answers of `reject` in netdev and bridge chains at most
/// (`nf_reject_skb_v4_unreach()`).
pub const REJECT_QUOTE_MAX: usize = 536;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: usize = 2;
const REST: usize = 4;

/// Read view of an ICMP message.
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

    /// Code.
    #[inline]
    pub fn code(&self) -> u8 {
        self.fixed[CODE]
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, CHECKSUM)
    }

    /// The four bytes that depend on the type.
    #[inline]
    pub fn rest_of_header(&self) -> u32 {
        be32(self.fixed, REST)
    }

    /// Identifier of echo and the other queries.
    #[inline]
    pub fn id(&self) -> u16 {
        be16(self.fixed, REST)
    }

    /// Sequence number of echo and the other queries; MTU of fragmentation needed.
    #[inline]
    pub fn sequence(&self) -> u16 {
        be16(self.fixed, REST + 2)
    }

    /// What follows the header: echo data, or the packet that an error quotes.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether the checksum over header and payload is right.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        checksum::Sum::new().bytes(self.fixed).bytes(self.rest).is_valid()
    }
}

/// Whether messages of this type report an error about another packet.
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, DEST_UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Whether an error may be sent about messages of this type: not about errors, unassigned types and
/// router discovery (`icmp_pointers[].error`), and not about types above 18, which are unknown to
/// `icmp_send()`.
#[inline]
pub const fn may_be_answered(kind: u8) -> bool {
    !is_error(kind) && !matches!(kind, 1 | 2 | 6 | 7 | 9 | 10) && kind <= ADDRESS_MASK_REPLY
}

/// The query type that is answered by a reply type, if `kind` is a reply.
#[inline]
pub const fn query_of(kind: u8) -> Option<u8> {
    match kind {
        ECHO_REPLY => Some(ECHO_REQUEST),
        TIMESTAMP_REPLY => Some(TIMESTAMP_REQUEST),
        INFO_REPLY => Some(INFO_REQUEST),
        ADDRESS_MASK_REPLY => Some(ADDRESS_MASK_REQUEST),
        _ => None,
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ECHO_REQUEST => {
                write!(f, "ICMP echo request, id {}, seq {}", self.id(), self.sequence())
            }
            ECHO_REPLY => write!(f, "ICMP echo reply, id {}, seq {}", self.id(), self.sequence()),
            kind => write!(f, "ICMP type {kind}, code {}", self.code()),
        }
    }
}

/// An ICMP header; the checksum is computed over header and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The four bytes that depend on the type.
    pub rest_of_header: u32,
}

impl Repr {
    /// An echo request or reply.
    pub const fn echo(kind: u8, id: u16, sequence: u16) -> Self {
        Self { kind, code: 0, rest_of_header: (id as u32) << 16 | sequence as u32 }
    }

    /// Destination unreachable with one of the codes in [`mod@unreachable`].
    pub const fn unreachable(code: u8) -> Self {
        Self { kind: DEST_UNREACHABLE, code, rest_of_header: 0 }
    }

    /// Fragmentation needed, with the MTU in the four bytes that depend on the type.
    pub const fn frag_needed(mtu: u32) -> Self {
        Self { kind: DEST_UNREACHABLE, code: unreachable::FRAG_NEEDED, rest_of_header: mtu }
    }

    /// TTL ran out in transit.
    pub const fn time_exceeded() -> Self {
        Self { kind: TIME_EXCEEDED, code: time_exceeded::TTL, rest_of_header: 0 }
    }

    /// Parameter problem at byte `pointer` of the quoted packet.
    pub const fn parameter_problem(pointer: u8) -> Self {
        Self { kind: PARAMETER_PROBLEM, code: 0, rest_of_header: (pointer as u32) << 24 }
    }

    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { kind: h.kind(), code: h.code(), rest_of_header: h.rest_of_header() }
    }

    /// The header's bytes, with the checksum for this payload.
    #[inline]
    pub fn bytes(&self, payload: &[u8]) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[TYPE] = self.kind;
        b[CODE] = self.code;
        put32(&mut b, REST, self.rest_of_header);
        let check = checksum::Sum::new().bytes(&b).bytes(payload).finish();
        put16(&mut b, CHECKSUM, check);
        b
    }
}

/// How much of the offending packet of `packet_len` bytes `icmp_send()` quotes, when the error's
/// IPv4 header has `options_len` bytes of options and the route back has `mtu`.
#[inline]
pub fn quoted_len(packet_len: usize, mtu: usize, options_len: usize) -> usize {
    let room = mtu.min(ERROR_MAX).saturating_sub(crate::ipv4::LEN + options_len + LEN);
    packet_len.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_messages_are_read_back_with_right_checksum() {
        for (repr, payload) in [
            (Repr::echo(ECHO_REQUEST, 7, 9), &b"abc"[..]),
            (Repr::frag_needed(1400), &[0xff; 28]),
            (Repr::time_exceeded(), b""),
            (Repr::parameter_problem(20), b"x"),
        ] {
            let bytes = [&repr.bytes(payload)[..], payload].concat();
            let h = Header::new(&bytes).unwrap();
            assert_eq!(Repr::parse(&h), repr);
            assert!(h.checksum_ok());
            assert_eq!(h.payload(), payload);
            assert!((0..LEN).all(|n| Header::new(&bytes[..n]).is_none()));
        }
    }

    #[test]
    fn an_error_quotes_up_to_576_bytes_in_all() {
        for (packet, mtu, options, quoted) in
            [(28, 1500, 0, 28), (1500, 1500, 0, 548), (1500, 1500, 8, 540), (1500, 100, 0, 72)]
        {
            assert_eq!(quoted_len(packet, mtu, options), quoted);
        }
    }
}
