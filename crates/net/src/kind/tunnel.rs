// SPDX-License-Identifier: Apache-2.0

//! Tunnels of IP in IP: packets of these devices travel in IP packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_wire::ethernet::Mac;
use penstock_wire::{ipv4, ipv6, protocol};

use super::{ForwardPath, Kind, Output, SixRd, eui64};

/// Which driver a tunnel is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelKind {
    /// IPv4 in IPv4 (`net/ipv4/ipip.c`).
    Ipip,
    /// IPv6, and IPv4 where the mode says so, in IPv4 (`net/ipv6/sit.c`).
    Sit,
    /// IPv4 and IPv6 in IPv6 (`net/ipv6/ip6_tunnel.c`).
    Ip6tnl,
}

impl TunnelKind {
    /// `rtnl_link_ops.kind`.
    pub fn name(self) -> &'static str {
        match self {
            TunnelKind::Ipip => "ipip",
            TunnelKind::Sit => "sit",
            TunnelKind::Ip6tnl => "ip6tnl",
        }
    }

    /// Whether the outer header is IPv6.
    pub fn outer6(self) -> bool {
        self == TunnelKind::Ip6tnl
    }

    /// `ARPHRD_TUNNEL`, `ARPHRD_SIT`, `ARPHRD_TUNNEL6`.
    pub fn hardware_type(self) -> u16 {
        match self {
            TunnelKind::Ipip => 768,
            TunnelKind::Ip6tnl => 769,
            TunnelKind::Sit => 776,
        }
    }
}

/// A tunnel device (`struct ip_tunnel_parm`, `struct __ip6_tnl_parm`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its driver.
    pub kind: TunnelKind,
    /// Source of outer headers; unspecified for any.
    pub local: IpAddr,
    /// Destination of outer headers; unspecified where the route of each packet says it.
    pub remote: IpAddr,
    /// Index of the device that outer packets go by; 0 for any.
    pub link: u32,
    /// Protocol that it carries: [`protocol::IPIP`], [`protocol::IPV6`], or 0 for both.
    pub payload: u8,
    /// TTL or hop limit of outer headers; 0 for the inner packet's.
    pub ttl: u8,
    /// TOS or traffic class of outer headers. Over IPv4 an odd one (over `sit` for IPv6 packets: 1)
    /// means the inner packet's.
    pub tos: u8,
    /// Over IPv6: the traffic class is the inner packet's.
    pub inherit_tos: bool,
    /// Over IPv4: outer packets are not fragmented, and the path's MTU counts.
    pub pmtudisc: bool,
    /// Over IPv6: how many more tunnels a packet may enter (RFC 2473); `None` says nothing about
    /// it.
    pub encap_limit: Option<u8>,
    /// Over IPv6: flow label of outer headers; `None` for the inner packet's.
    pub flow_label: Option<u32>,
    /// Over IPv6: the inner packet gets the outer header's DSCP when it leaves the tunnel.
    pub copy_dscp: bool,
    /// Over IPv6: the remote address may be one of this host.
    pub allow_localremote: bool,
    /// Mark that outer packets are routed by; `None` for the inner packet's.
    pub mark: Option<u32>,
    /// Of a `sit` device without a remote address: where the other end's address is.
    pub sixrd: SixRd,
}

impl Tunnel {
    /// One with the defaults of ip-link(8), between any addresses.
    pub fn new(kind: TunnelKind) -> Tunnel {
        let any: IpAddr =
            if kind.outer6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        Tunnel {
            kind,
            local: any,
            remote: any,
            link: 0,
            payload: 0,
            ttl: if kind.outer6() { 64 } else { 0 },
            tos: 0,
            inherit_tos: false,
            pmtudisc: true,
            encap_limit: kind.outer6().then_some(4),
            flow_label: Some(0),
            copy_dscp: false,
            allow_localremote: false,
            mark: Some(0),
            sixrd: SixRd::OF_6TO4,
        }
    }

    /// Whether packets of this protocol go through it: [`protocol::IPIP`] or [`protocol::IPV6`].
    #[inline]
    pub fn carries(&self, payload: u8) -> bool {
        (self.payload == 0 || self.payload == payload)
            && (self.kind != TunnelKind::Ipip || payload == protocol::IPIP)
    }

    /// Bytes that it puts before a packet: the outer header, and the option with the limit of
    /// encapsulations.
    #[inline]
    pub fn overhead(&self) -> usize {
        match self.kind {
            TunnelKind::Ipip | TunnelKind::Sit => ipv4::LEN,
            TunnelKind::Ip6tnl => ipv6::LEN + if self.encap_limit.is_some() { 8 } else { 0 },
        }
    }

    /// Local and remote address as numbers.
    #[inline]
    pub fn addresses(&self) -> (u128, u128) {
        (number(self.local), number(self.remote))
    }

    /// MTU of the device where the device below has `lower` (`ip_tunnel_bind_dev()`,
    /// `ipip6_tunnel_bind_dev()`, `ip6_tnl_link_config()`).
    pub(crate) fn mtu_over(&self, lower: u32) -> u32 {
        let least = match self.kind {
            TunnelKind::Ipip => ipv4::MIN_MTU,
            TunnelKind::Sit | TunnelKind::Ip6tnl => ipv6::MIN_MTU,
        };
        lower.min(65535).saturating_sub(self.overhead() as u32).max(least as u32)
    }
}

impl Kind for Tunnel {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn hardware_type(&self) -> u16 {
        self.kind.hardware_type()
    }

    #[inline]
    fn has_link_header(&self) -> bool {
        false
    }

    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Tunnel(self)
    }

    /// Flows enter a tunnel at the top only, from the device of their route.
    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        ForwardPath::None
    }

    /// `sit_add_v4_addrs()` takes the local end's address, `addrconf_ifid_ip6tnl()` a link address
    /// that is not universal.
    fn interface_identifier(&self, mac: Mac) -> Option<u64> {
        match self.kind {
            TunnelKind::Ipip => None,
            TunnelKind::Sit => {
                let (local, remote) = self.addresses();
                (local != 0 && remote != 0).then_some(local as u64)
            }
            TunnelKind::Ip6tnl => Some(eui64(mac, mac.0[0] & !2)),
        }
    }

    fn mtu_range(&self) -> std::ops::RangeInclusive<u32> {
        let outer = if self.kind.outer6() { ipv6::LEN } else { ipv4::LEN } as u32;
        match self.kind {
            TunnelKind::Ipip => 68..=0xfff8 - outer,
            TunnelKind::Sit => 1280..=65575 - outer,
            TunnelKind::Ip6tnl if self.payload == protocol::IPV6 => 1280..=65575 - outer,
            TunnelKind::Ip6tnl => 68..=65535 - outer,
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u32::from(a).into(),
        IpAddr::V6(a) => a.into(),
    }
}
