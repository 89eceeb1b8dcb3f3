// SPDX-License-Identifier: Apache-2.0

//! What names one direction of a flow (`struct nf_conntrack_tuple`).

use penstock_wire::{icmp, icmpv6, protocol};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Direction of a packet in its connection (`IP_CT_DIR_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Direction {
    /// As the first packet.
    Original = 0,
    /// As the answers.
    Reply = 1,
}

impl Direction {
    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

/// Addresses and transport identifiers of a direction of a flow, in its zone. All bytes take part
/// in comparison and hash, so unused ones are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(C)]
pub struct Tuple {
    /// Source address in network order; an IPv4 address in the first four bytes.
    pub src: [u8; 16],
    /// Destination address, in the format of `src`.
    pub dst: [u8; 16],
    /// Port, ICMP identifier or GRE key of the source, in host order.
    pub src_id: u16,
    /// Port or GRE key of the destination in host order; for ICMP type and code, type in the upper
    /// byte.
    pub dst_id: u16,
    /// Zone in this direction.
    pub zone: u16,
    /// `NFPROTO_IPV4` (2) or `NFPROTO_IPV6` (10).
    pub l3: u8,
    /// Transport protocol.
    pub protocol: u8,
}

const _: () = assert!(size_of::<Tuple>() == 40);

/// `NFPROTO_IPV4`.
pub const IPV4: u8 = 2;
/// `NFPROTO_IPV6`.
pub const IPV6: u8 = 10;

/// ICMPv6 node information query (RFC 4620).
pub(crate) const NODE_QUERY: u8 = 139;
/// ICMPv6 node information reply (RFC 4620).
pub(crate) const NODE_REPLY: u8 = 140;

/// Type and code of the answer to an ICMP message, type in the upper byte.
fn answer(type_code: u16, answer_of: fn(u8) -> Option<u8>) -> Option<u16> {
    let [kind, code] = type_code.to_be_bytes();
    Some(u16::from_be_bytes([answer_of(kind)?, code]))
}

/// The ICMP type that answers a type, or that it answers.
fn icmp_answer(kind: u8) -> Option<u8> {
    Some(match kind {
        icmp::ECHO_REQUEST => icmp::ECHO_REPLY,
        icmp::ECHO_REPLY => icmp::ECHO_REQUEST,
        icmp::TIMESTAMP_REQUEST => icmp::TIMESTAMP_REPLY,
        icmp::TIMESTAMP_REPLY => icmp::TIMESTAMP_REQUEST,
        icmp::INFO_REQUEST => icmp::INFO_REPLY,
        icmp::INFO_REPLY => icmp::INFO_REQUEST,
        icmp::ADDRESS_MASK_REQUEST => icmp::ADDRESS_MASK_REPLY,
        icmp::ADDRESS_MASK_REPLY => icmp::ADDRESS_MASK_REQUEST,
        _ => return None,
    })
}

/// The ICMPv6 type that answers a type, or that it answers.
fn icmpv6_answer(kind: u8) -> Option<u8> {
    Some(match kind {
        icmpv6::ECHO_REQUEST => icmpv6::ECHO_REPLY,
        icmpv6::ECHO_REPLY => icmpv6::ECHO_REQUEST,
        NODE_QUERY => NODE_REPLY,
        NODE_REPLY => NODE_QUERY,
        _ => return None,
    })
}

/// An address as tuples hold it.
pub fn address(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => {
            let mut out = [0; 16];
            out[..4].copy_from_slice(&a.octets());
            out
        }
        IpAddr::V6(a) => a.octets(),
    }
}

impl Tuple {
    /// Nothing.
    pub const ZERO: Tuple =
        Tuple { src: [0; 16], dst: [0; 16], src_id: 0, dst_id: 0, zone: 0, l3: 0, protocol: 0 };

    /// The tuple of the answers (`nf_ct_invert_tuple()`), in the same zone; `None` for ICMP types
    /// that have none.
    #[inline]
    pub fn invert(&self) -> Option<Tuple> {
        let (src_id, dst_id) = match self.protocol {
            protocol::ICMP => (self.src_id, answer(self.dst_id, icmp_answer)?),
            protocol::ICMPV6 => (self.src_id, answer(self.dst_id, icmpv6_answer)?),
            _ => (self.dst_id, self.src_id),
        };
        Some(Tuple { src: self.dst, dst: self.src, src_id, dst_id, ..*self })
    }

    /// All but the addresses in a word.
    #[inline(always)]
    pub(crate) fn rest(&self) -> u64 {
        rest(self.src_id, self.dst_id, self.zone, self.l3, self.protocol)
    }

    /// Whether packets of this protocol do not carry the identifier of their source: it is known
    /// from elsewhere (GRE keys of PPTP).
    pub(crate) fn has_hidden_source(&self) -> bool {
        self.protocol == protocol::GRE
    }

    /// The tuple as far as a packet that just arrived tells it: without zone, and without an
    /// identifier that packets do not carry.
    pub(crate) fn on_arrival(&self) -> Tuple {
        let src_id = if self.has_hidden_source() { 0 } else { self.src_id };
        Tuple { zone: 0, src_id, ..*self }
    }

    /// The tuple without its source.
    pub(crate) fn destination_only(&self) -> Tuple {
        Tuple { src: [0; 16], src_id: 0, ..*self }
    }

    /// An address of this tuple's family.
    fn ip(&self, bytes: &[u8; 16]) -> IpAddr {
        match self.l3 {
            IPV4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
            _ => IpAddr::from(*bytes),
        }
    }

    /// Source address.
    pub fn source(&self) -> IpAddr {
        self.ip(&self.src)
    }

    /// Destination address.
    pub fn destination(&self) -> IpAddr {
        self.ip(&self.dst)
    }
}

/// The tuple of a packet of IPv4 with ports in zone 0, in two words of the same bytes as in a
/// [`Tuple`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortTuple4 {
    /// Source and destination.
    addresses: u64,
    /// From [`Tuple::src_id`] on.
    rest: u64,
}

impl PortTuple4 {
    /// That of a header without options, and the ports after it.
    #[inline(always)]
    pub fn of(header: &[u8; 24]) -> PortTuple4 {
        const ADDRESSES: usize = 12;
        const PORTS: usize = 20;
        let addresses = header[ADDRESSES..].first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let rest = rest(half(PORTS), half(PORTS + 2), 0, IPV4, header[9]);
        PortTuple4 { addresses, rest }
    }

    /// The words that are hashed: source, destination, and all else.
    #[inline(always)]
    pub fn words(&self) -> [u64; 3] {
        let [a, b, c, d, e, f, g, h] = self.addresses.to_ne_bytes();
        let word = |address| u64::from(u32::from_le_bytes(address));
        [word([a, b, c, d]), word([e, f, g, h]), self.rest]
    }

    /// Whether a tuple is the same.
    #[inline(always)]
    pub fn is(&self, tuple: &Tuple) -> bool {
        let [a, b, c, d, ..] = tuple.src;
        let [e, f, g, h, ..] = tuple.dst;
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]) == self.addresses && tuple.rest() == self.rest
    }

    /// Whether source and destination are the same address.
    #[inline(always)]
    pub fn is_to_itself(&self) -> bool {
        self.addresses.rotate_left(32) == self.addresses
    }

    /// The transport protocol.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        (self.rest >> 56) as u8
    }
}

impl From<PortTuple4> for Tuple {
    fn from(tuple: PortTuple4) -> Tuple {
        let [a, b, c, d, e, f, g, h] = tuple.addresses.to_ne_bytes();
        let rest = tuple.rest;
        Tuple {
            src: address([a, b, c, d].into()),
            dst: address([e, f, g, h].into()),
            src_id: rest as u16,
            dst_id: (rest >> 16) as u16,
            zone: (rest >> 32) as u16,
            l3: (rest >> 48) as u8,
            protocol: tuple.protocol(),
        }
    }
}

/// All of a tuple but its addresses in a word.
#[inline(always)]
const fn rest(src_id: u16, dst_id: u16, zone: u16, l3: u8, protocol: u8) -> u64 {
    src_id as u64
        | (dst_id as u64) << 16
        | (zone as u64) << 32
        | (l3 as u64) << 48
        | (protocol as u64) << 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tuples_are_the_same_as_others() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..1000 {
            let mut header: [u8; 24] = std::array::from_fn(|_| rng.u8(..));
            if rng.bool() {
                header.copy_within(12..16, 16);
            }
            let small = PortTuple4::of(&header);
            let tuple = Tuple::from(small);
            let [a, b, c, d, e, f, g, h] = *header[12..].first_chunk().unwrap();
            assert_eq!(tuple.source(), IpAddr::from([a, b, c, d]));
            assert_eq!(tuple.destination(), IpAddr::from([e, f, g, h]));
            let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            assert_eq!((tuple.src_id, tuple.dst_id), (port(20), port(22)));
            assert_eq!((tuple.zone, tuple.l3, tuple.protocol), (0, IPV4, header[9]));
            assert!(small.is(&tuple));
            assert_eq!(small.is_to_itself(), tuple.src == tuple.dst);
            assert_eq!(small.protocol(), tuple.protocol);
            let mut other = tuple;
            match rng.u32(..7) {
                0 => other.src[rng.usize(..4)] ^= 1,
                1 => other.dst[rng.usize(..4)] ^= 1,
                2 => other.src_id ^= 1 << rng.u32(..16),
                3 => other.dst_id ^= 1 << rng.u32(..16),
                4 => other.zone ^= 1 << rng.u32(..16),
                5 => other.l3 = IPV6,
                _ => other.protocol ^= 1 << rng.u32(..8),
            }
            assert!(!small.is(&other), "{other:?}");
        }
    }

    #[test]
    fn packed_addresses_unpack_unchanged() {
        for text in ["198.18.0.1", "2001:db8::1", "::ffff:198.18.0.1"] {
            let ip: IpAddr = text.parse().unwrap();
            let l3 = if ip.is_ipv4() { IPV4 } else { IPV6 };
            let tuple = Tuple { src: address(ip), dst: address(ip), l3, ..Tuple::default() };
            assert_eq!((tuple.source(), tuple.destination()), (ip, ip));
        }
    }
}
