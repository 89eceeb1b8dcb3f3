// SPDX-License-Identifier: Apache-2.0

//! Routes of packets: where a packet leaves, or that it is for this host.

use std::net::IpAddr;

use penstock_net::{Hit, NoRoute, RouteType};
use penstock_packet::Packet;
use penstock_wire::{ipv4, ipv6};

use crate::hooks::Protocol;
use crate::reason::DropReason;

/// Stands for the host in the way of a packet. No way through states has this number.
pub(crate) const BY_HOST: u32 = u32::MAX;

/// The route of a packet (`struct rtable`, `struct rt6_info`): addresses are IPv4 or IPv6 as the
/// packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// `Local`, `Unicast`, `Broadcast`, `Multicast` or `Anycast`.
    pub(crate) kind: RouteType,
    /// Delivered to this host.
    pub(crate) local: bool,
    /// Device to leave by.
    pub(crate) oif: u32,
    /// Next hop, unless the destination is on the link.
    pub(crate) gateway: Option<IpAddr>,
    /// MTU of the route, 0 for the device's.
    pub(crate) mtu: u32,
    /// The route's MTU is fixed.
    pub(crate) mtu_locked: bool,
    /// Hop limit of the route, 0 for the default.
    pub(crate) hop_limit: u8,
    /// Prefix length of the route.
    pub(crate) prefix_len: u8,
    /// Realms.
    pub(crate) realm: u32,
    /// The sender should be told of a better way (`IPSKB_DOREDIRECT`).
    pub(crate) redirect: bool,
    /// The packet came in by this device; 0 for the host's own.
    pub(crate) iif: u32,
    /// Number of the IPsec states that it goes through first, 0 for none.
    pub(crate) bundle: u32,
}

/// What routing says about a packet that came in.
pub(crate) enum Routed {
    To(Route),
    /// There is no way; the sender may be told.
    No(NoRoute),
    /// The device does not forward, and this host is not the destination; no ICMP error is sent.
    NotForwarded,
    Refused(DropReason),
}

impl Route {
    /// From a route that was found.
    pub(crate) fn of(hit: &Hit<'_>, iif: u32) -> Route {
        let kind = hit.route.kind;
        Route {
            kind,
            local: matches!(kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast),
            oif: hit.nexthop.oif,
            gateway: hit.nexthop.gateway,
            mtu: hit.route.mtu,
            mtu_locked: hit.route.mtu_locked,
            hop_limit: hit.route.hop_limit.min(255) as u8,
            prefix_len: hit.len,
            realm: hit.realm,
            redirect: false,
            iif,
            bundle: 0,
        }
    }

    /// Without a route: to this host, or to all on a link.
    pub(crate) fn special(kind: RouteType, local: bool, oif: u32, iif: u32) -> Route {
        Route {
            kind,
            local,
            oif,
            gateway: None,
            mtu: 0,
            mtu_locked: false,
            hop_limit: 0,
            prefix_len: 0,
            realm: 0,
            redirect: false,
            iif,
            bundle: 0,
        }
    }

    /// Whether the host is to carry a packet on.
    #[inline]
    pub(crate) fn is_by_host(&self) -> bool {
        self.bundle == BY_HOST
    }
}

/// What a `type route` chain looks at: if it changes, the packet is routed again
/// (`nft_chain_route.c`).
#[derive(PartialEq)]
pub(crate) struct RouteKey {
    saddr: u128,
    daddr: u128,
    /// TOS; hop limit and flow label for IPv6.
    rest: (u8, u8, u32),
    mark: u32,
}

pub(crate) fn route_key(protocol: Protocol, packet: &Packet) -> Option<RouteKey> {
    let mark = packet.meta.mark;
    match protocol {
        Protocol::Ip => {
            let h = ipv4::Header::new(packet.network())?;
            let (saddr, daddr) = (u32::from(h.src()).into(), u32::from(h.dst()).into());
            Some(RouteKey { saddr, daddr, rest: (h.tos(), 0, 0), mark })
        }
        Protocol::Ip6 => {
            let h = ipv6::Header::new(packet.network())?;
            let label = u32::from(h.traffic_class()) << 20 | h.flow_label();
            Some(RouteKey {
                saddr: h.src().into(),
                daddr: h.dst().into(),
                rest: (0, h.hop_limit(), label),
                mark,
            })
        }
        Protocol::Arp | Protocol::Bridge => None,
    }
}

/// Packet priority that a type of service gives a forwarded packet (`rt_tos2priority()`).
#[inline]
pub(crate) fn priority_of_tos(tos: u8) -> u32 {
    const BEST_EFFORT: u32 = 0;
    const BULK: u32 = 2;
    const INTERACTIVE_BULK: u32 = 4;
    const INTERACTIVE: u32 = 6;
    match tos >> 1 & 0xf {
        0..=3 => BEST_EFFORT,
        4..=7 => BULK,
        8..=11 => INTERACTIVE,
        _ => INTERACTIVE_BULK,
    }
}
