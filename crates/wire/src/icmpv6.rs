// SPDX-License-Identifier: Apache-2.0

//! ICMP for IPv6 (RFC 4443), types of neighbour discovery (RFC 4861) and multicast listeners (RFC
//! 2710, RFC 3810), and the error messages that quote a packet.

use crate::checksum::Sum;
use crate::field::{array, be16, be32, get16, put16, put32};
use std::fmt;
use std::net::Ipv6Addr;

/// Bytes of the header: type, code, checksum and four bytes that depend on the type.
pub const LEN: usize = 8;

/// Destination unreachable.
pub const DEST_UNREACHABLE: u8 = 1;
/// Packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Multicast listener query.
pub const MLD_QUERY: u8 = 130;
/// Multicast listener report.
pub const MLD_REPORT: u8 = 131;
/// Multicast listener done.
pub const MLD_DONE: u8 = 132;
/// Router solicitation.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Neighbour solicitation.
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Neighbour advertisement.
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Redirect.
pub const REDIRECT: u8 = 137;
/// Router renumbering.
pub const ROUTER_RENUMBERING: u8 = 138;
/// Inverse neighbour discovery solicitation.
pub const IND_SOLICITATION: u8 = 141;
/// Inverse neighbour discovery advertisement.
pub const IND_ADVERTISEMENT: u8 = 142;
/// Multicast listener report version 2.
pub const MLD2_REPORT: u8 = 143;
/// Multicast router advertisement (RFC 4286).
pub const MULTICAST_ROUTER_ADVERTISEMENT: u8 = 151;

/// Codes of [`DEST_UNREACHABLE`].
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited.
    pub const ADMIN_PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// Address unreachable.
    pub const ADDRESS: u8 = 3;
    /// Port unreachable.
    pub const PORT: u8 = 4;
    /// Source address failed policy.
    pub const POLICY_FAIL: u8 = 5;
    /// Route rejects.
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of [`TIME_EXCEEDED`].
pub mod time_exceeded {
    /// Hop limit ran out in transit.
    pub const HOP_LIMIT: u8 = 0;
    /// Fragments did not all come in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`PARAMETER_PROBLEM`].
pub mod parameter_problem {
    /// A header field is wrong.
    pub const HEADER_FIELD: u8 = 0;
    /// Unknown next header.
    pub const UNKNOWN_NEXT_HEADER: u8 = 1;
    /// Unknown option.
    pub const UNKNOWN_OPTION: u8 = 2;
}

/// Bytes of the offending packet in an error of `icmp6_send()` at most.
pub const QUOTE_MAX: usize = crate::ipv6::MIN_MTU - crate::ipv6::LEN - LEN;
/// Bytes of the offending packet in the answers of `reject` in netdev and bridge chains at most
/// (`nf_reject_skb_v6_unreach()`).
pub const REJECT_QUOTE_MAX: usize = 1220;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: usize = 2;
const REST: usize = 4;

/// Read view of an ICMPv6 message.
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

    /// Identifier of echo.
    #[inline]
    pub fn id(&self) -> u16 {
        be16(self.fixed, REST)
    }

    /// Sequence number of echo.
    #[inline]
    pub fn sequence(&self) -> u16 {
        be16(self.fixed, REST + 2)
    }

    /// What follows the header: echo data, or the packet that an error quotes.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }

    /// Target address of neighbour discovery and redirect, group of a listener message of version
    /// 1.
    #[inline]
    pub fn target(&self) -> Option<Ipv6Addr> {
        let bytes: &[u8; 16] = self.rest.first_chunk()?;
        Some(Ipv6Addr::from(array::<16, 16>(bytes, 0)))
    }

    /// Whether the checksum is right; `pseudo` is the sum over the pseudo header.
    #[inline]
    pub fn checksum_ok(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.fixed).bytes(self.rest).is_valid()
    }
}

/// Whether messages of this type report an error about another packet; no error is sent about
/// those.
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind & 0x80 == 0
}

/// Whether the type is one of neighbour discovery, which is accepted only with hop limit 255.
#[inline]
pub const fn is_neighbour_discovery(kind: u8) -> bool {
    matches!(kind, ROUTER_SOLICITATION..=REDIRECT)
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.target()) {
            (ECHO_REQUEST, _) => {
                write!(f, "ICMP6, echo request, id {}, seq {}", self.id(), self.sequence())
            }
            (ECHO_REPLY, _) => {
                write!(f, "ICMP6, echo reply, id {}, seq {}", self.id(), self.sequence())
            }
            (NEIGHBOUR_SOLICITATION, Some(t)) => {
                write!(f, "ICMP6, neighbor solicitation, who has {t}")
            }
            (NEIGHBOUR_ADVERTISEMENT, Some(t)) => {
                write!(f, "ICMP6, neighbor advertisement, tgt is {t}")
            }
            (kind, _) => write!(f, "ICMP6, type {kind}, code {}", self.code()),
        }
    }
}

/// Walks the options of a neighbour discovery message: type and body without the two leading bytes.
/// Ends at the first that is cut or has length zero.
pub fn nd_options(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let [kind, units] = get16(rest, 0)?.to_be_bytes();
        let len = usize::from(units) * 8;
        let (option, tail) = rest.split_at_checked(len)?;
        rest = tail;
        Some((kind, option.get(2..)?))
    })
}

/// An ICMPv6 header; the checksum is computed over pseudo header, header and payload.
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

    /// Packet too big, naming the MTU.
    pub const fn packet_too_big(mtu: u32) -> Self {
        Self { kind: PACKET_TOO_BIG, code: 0, rest_of_header: mtu }
    }

    /// Hop limit ran out in transit.
    pub const fn time_exceeded() -> Self {
        Self { kind: TIME_EXCEEDED, code: time_exceeded::HOP_LIMIT, rest_of_header: 0 }
    }

    /// Parameter problem at byte `pointer` of the quoted packet, with one of the codes in
    /// [`mod@parameter_problem`].
    pub const fn parameter_problem(code: u8, pointer: u32) -> Self {
        Self { kind: PARAMETER_PROBLEM, code, rest_of_header: pointer }
    }

    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { kind: h.kind(), code: h.code(), rest_of_header: h.rest_of_header() }
    }

    /// The header's bytes, with the checksum for this payload; `pseudo` is the sum over the pseudo
    /// header for header and payload ([`crate::checksum::pseudo_v6`]).
    #[inline]
    pub fn bytes(&self, pseudo: Sum, payload: &[u8]) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[TYPE] = self.kind;
        b[CODE] = self.code;
        put32(&mut b, REST, self.rest_of_header);
        let check = pseudo.bytes(&b).bytes(payload).finish();
        put16(&mut b, CHECKSUM, check);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo_v6;

    #[test]
    fn emitted_messages_are_read_back_with_right_checksum() {
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        for (repr, payload) in [
            (Repr::echo(ECHO_REQUEST, 7, 9), &b"abc"[..]),
            (Repr::packet_too_big(1280), &[0xff; 48]),
            (Repr::parameter_problem(2, 42), b""),
        ] {
            let pseudo = pseudo_v6(src, dst, crate::protocol::ICMPV6, (LEN + payload.len()) as u32);
            let bytes = [&repr.bytes(pseudo, payload)[..], payload].concat();
            let h = Header::new(&bytes).unwrap();
            assert_eq!(Repr::parse(&h), repr);
            assert!(h.checksum_ok(pseudo));
            assert!((0..LEN).all(|n| Header::new(&bytes[..n]).is_none()));
        }
    }

    #[test]
    fn discovery_options_end_at_the_first_broken_one() {
        let options = [1, 1, 2, 0, 0, 0, 0, 1, 14, 1, 1, 2, 3, 4, 5, 6, 3, 0, 0, 0, 0, 0, 0, 0];
        let found: Vec<_> = nd_options(&options).map(|(k, b)| (k, b.len())).collect();
        assert_eq!(found, [(1, 6), (14, 6)]);
        assert_eq!(nd_options(&options[..7]).count(), 0);
    }
}
