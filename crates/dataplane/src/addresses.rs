// SPDX-License-Identifier: Apache-2.0

//! Addresses of packets and what they mean by themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use penstock_net::address6::{is_link_local, needs_device};
use penstock_packet::Packet;
use penstock_wire::{ipv4, ipv6};

/// Source and destination of an IPv4 packet, if its header is there.
#[inline]
pub(crate) fn of4(packet: &Packet) -> Option<(u32, u32)> {
    let h = ipv4::Header::new(packet.network())?;
    Some((h.src().into(), h.dst().into()))
}

/// Source and destination of an IPv6 packet, if its header is there.
#[inline]
pub(crate) fn of6(packet: &Packet) -> Option<(u128, u128)> {
    let h = ipv6::Header::new(packet.network())?;
    Some((h.src().into(), h.dst().into()))
}

/// Whether nothing may come from an address: it is unspecified, loopback, or a group.
#[inline]
pub(crate) fn is_no_source(source: u128) -> bool {
    matches!(source, 0 | 1) || source >> 120 == 0xff
}

/// Whether packets from this source may be forwarded (`ip6_forward()`).
#[inline]
pub(crate) fn is_usual_source(source: u128) -> bool {
    !is_no_source(source) && !is_link_local(source)
}

/// An IPv4 address as a number.
pub(crate) fn as_v4(address: Option<IpAddr>) -> Option<u32> {
    match address {
        Some(IpAddr::V4(a)) => Some(a.into()),
        _ => None,
    }
}

/// An IPv6 address as a number.
pub(crate) fn as_v6(address: Option<IpAddr>) -> Option<u128> {
    match address {
        Some(IpAddr::V6(a)) => Some(a.into()),
        _ => None,
    }
}

/// An IPv4 address from a number.
pub(crate) fn ip4(address: u32) -> Ipv4Addr {
    Ipv4Addr::from(address)
}

/// An IPv6 address from a number.
pub(crate) fn ip6(address: u128) -> Ipv6Addr {
    Ipv6Addr::from(address)
}

/// Whether an IPv4 address is that of a group.
pub(crate) const fn is_multicast4(address: u32) -> bool {
    address >> 28 == 0xe
}

/// Whether an IPv4 address means nothing special by itself: it is neither that of a group, a
/// broadcast, loopback, nor in 0.0.0.0/8 or 240.0.0.0/4.
#[inline]
pub(crate) const fn is_usual4(address: u32) -> bool {
    let first = address >> 24;
    first != 0 && first != 127 && first < 0xe0
}
