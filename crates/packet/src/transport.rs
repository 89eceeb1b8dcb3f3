// SPDX-License-Identifier: Apache-2.0

//! Where the transport header of a packet is.

use penstock_wire::ipv6_ext::{self, Walk};
use penstock_wire::{ethernet, ipv4, ipv6};

/// Where the transport header is (`struct nft_pktinfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transport {
    /// Protocol number after all IPv6 extension headers (`meta l4proto`).
    pub protocol: u8,
    /// Offset of the transport header from the start of the network header.
    pub offset: u16,
    /// Fragment offset in 8-byte units; transport matches break unless it is zero.
    pub fragment_offset: u16,
}

/// Where the transport header is in an IPv4 packet with a header checked by IP input
/// (`nft_set_pktinfo_ipv4()`). `None` only if the header's 20 bytes are not there, which IP input
/// excludes.
#[inline]
pub fn ipv4_transport(network: &[u8]) -> Option<Transport> {
    let h = ipv4::Header::new(network)?;
    Some(Transport {
        protocol: h.protocol(),
        offset: h.header_len() as u16,
        fragment_offset: h.fragment_offset(),
    })
}

/// Where the transport header of an IPv4 packet is that no IP layer has checked: version, header
/// length and total length must fit what is there (`nft_set_pktinfo_ipv4_validate()`). The header
/// checksum is not looked at.
#[inline]
pub fn ipv4_transport_checked(network: &[u8]) -> Option<Transport> {
    let h = ipv4::Header::new(network)?;
    let (header_len, total) = (h.header_len(), usize::from(h.total_len()));
    if h.version() != 4 || header_len < ipv4::LEN || network.len() < total || total < header_len {
        return None;
    }
    ipv4_transport(network)
}

/// Where the transport header of an IPv6 packet is (`nft_set_pktinfo_ipv6()`): after all extension
/// headers; an authentication header counts as transport and so do ESP and mobility headers. A
/// later fragment has the protocol of its fragment header, unless that is again an extension
/// header: then, as in a packet with a truncated chain of headers, there is no transport.
#[inline]
pub fn ipv6_transport(network: &[u8]) -> Option<Transport> {
    const WALK: Walk = Walk { stop_at_ah: true, skip_done_routing: false };
    let found = ipv6_ext::find(network, None, WALK).ok()?;
    Some(Transport {
        protocol: found.protocol,
        offset: u16::try_from(found.offset).ok()?,
        fragment_offset: found.fragment_offset,
    })
}

/// Where the transport header of an IPv6 packet is that no IP layer has checked: version and
/// payload length must fit what is there (`nft_set_pktinfo_ipv6_validate()`).
#[inline]
pub fn ipv6_transport_checked(network: &[u8]) -> Option<Transport> {
    let h = ipv6::Header::new(network)?;
    if h.version() != 6 || ipv6::LEN + usize::from(h.payload_len()) > network.len() {
        return None;
    }
    ipv6_transport(network)
}

/// Where the transport header of an unchecked packet of any protocol is, and whether its headers
/// are what they should be.
#[inline]
pub(crate) fn transport_checked(protocol: u16, network: &[u8]) -> (Option<Transport>, bool) {
    let t = match protocol {
        ethernet::IPV4 => ipv4_transport_checked(network),
        ethernet::IPV6 => ipv6_transport_checked(network),
        _ => return (None, true),
    };
    (t, t.is_some())
}
