// SPDX-License-Identifier: Apache-2.0

//! Where the headers of a packet are, its tuple (`nf_ct_get_tuple()`), and the packet that an ICMP
//! message quotes.

use crate::Tuple;
use crate::tuple::{IPV4, IPV6};
use penstock_wire::{gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol};

/// Option of a redirect that quotes the packet (RFC 4861, 4.6.3).
const REDIRECTED_HEADER: u8 = 4;
/// Bytes of a redirect before its options.
pub(crate) const REDIRECT_LEN: usize = icmpv6::LEN + 32;

/// Where the transport header of a packet is, as connection tracking finds it: no fragments but
/// first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    /// `NFPROTO_IPV4` or `NFPROTO_IPV6`.
    pub l3: u8,
    /// Protocol after all extension headers.
    pub protocol: u8,
    /// Offset of its header from the network header.
    pub offset: usize,
}

/// Finds the transport header (`get_l4proto()`): `None` for later fragments and cut chains of
/// extension headers.
#[inline]
pub(crate) fn layers(network: &[u8]) -> Option<Layers> {
    match network.first()? >> 4 {
        4 => {
            let h = ipv4::Header::new(network)?;
            let offset = h.header_len();
            (h.fragment_offset() == 0 && offset <= network.len()).then_some(Layers {
                l3: IPV4,
                protocol: h.protocol(),
                offset,
            })
        }
        6 => {
            let h = ipv6::Header::new(network)?;
            let at = ipv6_ext::skip(network, ipv6::LEN, h.next_header())?;
            (at.frag & !7 == 0).then_some(Layers {
                l3: IPV6,
                protocol: at.protocol,
                offset: at.offset,
            })
        }
        _ => None,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// The tuple of a packet in `zone`. `key` gives the GRE source key that belongs to a tuple with a
/// destination key. `None` if the header is cut or of a kind that is not tracked.
#[inline(always)]
pub(crate) fn tuple(
    network: &[u8],
    at: &Layers,
    zone: u16,
    key: impl FnOnce(&Tuple) -> u16,
) -> Option<Tuple> {
    let mut t = Tuple { l3: at.l3, protocol: at.protocol, zone, ..Tuple::ZERO };
    if at.l3 == IPV4 {
        // Whole words are written, since whole words are read soon after.
        let [a, b, c, d, e, f, g, h] = *network.get(12..20)?.first_chunk()?;
        t.src = u128::from(u32::from_le_bytes([a, b, c, d])).to_le_bytes();
        t.dst = u128::from(u32::from_le_bytes([e, f, g, h])).to_le_bytes();
    } else {
        t.src = *network.get(8..24)?.first_chunk()?;
        t.dst = *network.get(24..40)?.first_chunk()?;
    }
    let transport = network.get(at.offset..)?;
    match at.protocol {
        protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP | protocol::DCCP => {
            let [a, b, c, d] = *transport.first_chunk()?;
            t.src_id = u16::from_be_bytes([a, b]);
            t.dst_id = u16::from_be_bytes([c, d]);
        }
        protocol::ICMP | protocol::ICMPV6 => {
            // Type, code, checksum, identifier: the header must be whole.
            let h: &[u8; icmp::LEN] = transport.first_chunk()?;
            t.src_id = u16::from_be_bytes([h[4], h[5]]);
            t.dst_id = u16::from_be_bytes([h[0], h[1]]);
        }
        protocol::GRE => {
            // Only version 1 has a call id; the rest is like any other protocol.
            const PPP: u16 = 0x880b;
            if let Some(h) = gre::Header::new(transport)
                && h.version() == 1
                && transport.len() >= 8
            {
                if h.protocol() != PPP {
                    return None;
                }
                t.dst_id = be16(transport, 6)?;
                t.src_id = key(&t);
            }
        }
        _ => {}
    }
    Some(t)
}

/// Where the packet begins that a redirect quotes, if it does; `offset` is where the message
/// begins.
pub(crate) fn redirected(network: &[u8], offset: usize) -> Option<usize> {
    let mut at = offset + REDIRECT_LEN;
    while let Some(&[kind, units]) = network.get(at..at + 2).and_then(|b| b.first_chunk()) {
        if kind == REDIRECTED_HEADER && units != 0 {
            return Some(at + 8);
        }
        if units == 0 {
            break;
        }
        at += usize::from(units) * 8;
    }
    None
}

/// The packet that an ICMP message quotes: errors and redirects do.
pub(crate) fn quoted<'a>(network: &'a [u8], at: &Layers) -> Option<&'a [u8]> {
    let transport = network.get(at.offset..)?;
    match (at.l3, at.protocol) {
        (IPV4, protocol::ICMP) if icmp::is_error(icmp::Header::new(transport)?.kind()) => {
            transport.get(icmp::LEN..)
        }
        (IPV6, protocol::ICMPV6) => match icmpv6::Header::new(transport)?.kind() {
            icmpv6::REDIRECT => network.get(redirected(network, at.offset)?..),
            kind if icmpv6::is_error(kind) => transport.get(icmpv6::LEN..),
            _ => None,
        },
        _ => None,
    }
}
