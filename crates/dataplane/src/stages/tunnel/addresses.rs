// SPDX-License-Identifier: Apache-2.0

//! Addresses in and around tunnels: who may speak for whom, and sources that are put back.

use std::net::IpAddr;

use penstock_net::{Link, SixRd};
use penstock_packet::Packet;
use penstock_wire::{ipv4, ipv6};

/// The IPv4 address in an IPv4-compatible one, ::/96.
pub(super) fn compatible(address: u128) -> Option<u32> {
    (address >> 32 == 0 && address > 1).then_some(address as u32)
}

/// Whether an inner packet's addresses are not those of the ends that it travelled between
/// (`packet_is_spoofed()`).
pub(super) fn spoofed(link: &Link, sixrd: SixRd, outer: (u32, u32), inner: (u128, u128)) -> bool {
    let differs = |inside: u128, outside| sixrd.inside(inside).is_some_and(|a| a != outside);
    if differs(inner.0, outer.0) {
        return true;
    }
    // A router that translates the outer destination leaves the inner one, which is then of this
    // device's network.
    let own = || link.addresses6.iter().any(|a| sixrd.same_site(a.local, inner.1));
    differs(inner.1, outer.1) && !own()
}

/// Puts another source address into an IP packet, and nothing else.
pub(super) fn set_source(packet: &mut Packet, source: IpAddr) {
    match source {
        IpAddr::V4(source) => {
            if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
                h.set_src(source);
            }
        }
        IpAddr::V6(source) => {
            if let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut()) {
                h.set_src(source);
            }
        }
    }
}
