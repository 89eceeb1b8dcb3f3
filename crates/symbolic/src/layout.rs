// SPDX-License-Identifier: Apache-2.0

//! Which bytes of headers are one number: addresses, ports.

use penstock_program::Family;
use penstock_program::expr::{ExthdrOp, MetaKey};
use penstock_wire::{protocol, tcp};

use crate::field::{Base, Field};
use crate::universe::Universe;

/// First byte and length.
type Span = (u16, u16);

const LINK: &[Span] = &[(0, 6), (6, 6), (12, 2), (14, 2), (16, 2)];
const IPV4: &[Span] = &[(2, 2), (4, 2), (6, 2), (10, 2), (12, 4), (16, 4)];
const IPV6: &[Span] = &[(4, 2), (8, 16), (24, 16)];
const ARP: &[Span] = &[(0, 2), (2, 2), (6, 2), (8, 6), (14, 4), (18, 6), (24, 4)];
const PORTS: &[Span] = &[(0, 2), (2, 2)];
const TCP: &[Span] = &[(0, 2), (2, 2), (4, 4), (8, 4), (14, 2), (16, 2), (18, 2)];
const UDP: &[Span] = &[(0, 2), (2, 2), (4, 2), (6, 2)];
const ICMP: &[Span] = &[(2, 2), (4, 2), (6, 2)];

/// The version of IP of a packet, as far as it is known.
pub(crate) fn version(universe: &Universe, point: &[bool]) -> Option<u8> {
    match universe.place.family {
        Family::Ip => Some(4),
        Family::Ip6 => Some(6),
        Family::Inet => match universe.value(Field::Meta(MetaKey::NfProto), point)?.first()? {
            2 => Some(4),
            10 => Some(6),
            _ => None,
        },
        Family::Arp => None,
        Family::Bridge | Family::Netdev => {
            match universe.value(Field::Meta(MetaKey::Protocol), point)?[..] {
                [0x08, 0x00] => Some(4),
                [0x86, 0xdd] => Some(6),
                _ => None,
            }
        }
    }
}

/// The transport protocol of a packet, as far as it is known.
pub(crate) fn transport(universe: &Universe, point: &[bool]) -> Option<u8> {
    let named = universe.value(Field::Meta(MetaKey::L4Proto), point);
    let in_header = || {
        let at = if version(universe, point)? == 4 { 9 } else { 6 };
        universe.value(Field::Header { base: Base::Network, at }, point)
    };
    named.or_else(in_header)?.first().copied()
}

/// The number that a byte of a header belongs to, in a packet like this one.
pub(crate) fn span(universe: &Universe, point: &[bool], base: Base, at: u16) -> Option<Span> {
    let spans = match base {
        Base::Link => LINK,
        Base::Network => match (version(universe, point), universe.place.family) {
            (Some(4), _) => IPV4,
            (Some(_), _) => IPV6,
            (None, Family::Arp) => ARP,
            (None, _) => return None,
        },
        Base::Transport => match transport(universe, point) {
            Some(protocol::TCP) => TCP,
            Some(protocol::UDP) => UDP,
            Some(protocol::ICMP | protocol::ICMPV6) => ICMP,
            _ => PORTS,
        },
        Base::Inner | Base::Tunnel => return None,
    };
    spans.iter().copied().find(|(first, len)| (*first..first + len).contains(&at))
}

/// The number that a byte of an extension header or of an option belongs to.
pub(crate) fn exthdr_span(op: ExthdrOp, kind: u8, at: u16) -> Option<Span> {
    let spans: &[Span] = match (op, kind) {
        (ExthdrOp::Ipv6, protocol::FRAGMENT) => &[(2, 2), (4, 4)],
        (ExthdrOp::TcpOpt, tcp::option::MSS) => &[(2, 2)],
        (ExthdrOp::TcpOpt, tcp::option::TIMESTAMP) => &[(2, 4), (6, 4)],
        _ => &[],
    };
    spans.iter().copied().find(|(first, len)| (*first..first + len).contains(&at))
}
