// SPDX-License-Identifier: Apache-2.0

//! Tunnels of IP in IP, and PPPoE sessions: devices whose packets travel in packets of another.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_wire::ethernet::Mac;
use penstock_wire::{ipv4, ipv6, protocol};

use crate::neighbour::Quick;
use crate::{Link, LinkKind};

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

    /// Least and greatest MTU that the device can be given.
    pub(crate) fn mtu_range(&self) -> std::ops::RangeInclusive<u32> {
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

/// A PPPoE session (RFC 2516) as a device, as pppd leaves it behind: what negotiates is not part of
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pppoe {
    /// Index of the Ethernet device below.
    pub lower: u32,
    /// Session id.
    pub session: u16,
    /// Address of the other end.
    pub peer: Mac,
}

/// Bytes that PPPoE puts before a packet: its header, and the protocol of PPP.
pub const PPPOE_OVERHEAD: usize = 8;

/// Tunnels by their ends, and sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels {
    /// Devices by driver, local and remote address, the latest first.
    ends: HashMap<(TunnelKind, u128, u128), Vec<Candidate>, Quick>,
    sessions: HashMap<(u32, u16, u64), u32, Quick>,
    /// There are some over IPv4, over IPv6.
    over4: bool,
    over6: bool,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: u32,
    /// The device that it is bound to.
    link: u32,
}

fn packed(mac: Mac) -> u64 {
    mac.0.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

impl Tunnels {
    pub(crate) fn new(links: &[Link]) -> Self {
        let mut all = Tunnels::default();
        for link in links.iter().rev() {
            match &link.kind {
                LinkKind::Tunnel(t) => {
                    if t.kind.outer6() {
                        all.over6 = true;
                    } else {
                        all.over4 = true;
                    }
                    if link.up {
                        let (local, remote) = t.addresses();
                        let candidate = Candidate { index: link.index, link: t.link };
                        all.ends.entry((t.kind, local, remote)).or_default().push(candidate);
                    }
                }
                LinkKind::Pppoe(p) => {
                    all.sessions.insert((p.lower, p.session, packed(p.peer)), link.index);
                }
                LinkKind::Loopback
                | LinkKind::Wire { .. }
                | LinkKind::Vlan(_)
                | LinkKind::Bridge(_)
                | LinkKind::Bare { .. } => {}
            }
        }
        all
    }

    pub(crate) fn over4(&self) -> bool {
        self.over4
    }

    pub(crate) fn over6(&self) -> bool {
        self.over6
    }

    pub(crate) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub(crate) fn session(&self, lower: u32, session: u16, peer: Mac) -> Option<u32> {
        self.sessions.get(&(lower, session, packed(peer))).copied()
    }

    /// The device for an outer packet that came in by `link`. One that is bound to that device
    /// comes before the others.
    pub(crate) fn find(
        &self,
        kind: TunnelKind,
        remote: u128,
        local: u128,
        link: u32,
    ) -> Option<u32> {
        let list =
            |local, remote| self.ends.get(&(kind, local, remote)).map_or(&[][..], |list| list);
        let exact = list(local, remote);
        match kind {
            // A tunnel bound to another device is none (ipip6_tunnel_lookup()).
            TunnelKind::Sit => [exact, list(0, remote), list(local, 0), list(0, 0)]
                .into_iter()
                .find_map(|l| l.iter().find(|c| c.link == 0 || c.link == link).map(|c| c.index)),
            // Bound or not is a preference only (ip_tunnel_lookup(), ip6_tnl_lookup()).
            TunnelKind::Ipip => Self::preferred(exact, list(0, remote), list(local, 0), link),
            TunnelKind::Ip6tnl => Self::preferred(exact, list(local, 0), list(0, remote), link),
        }
    }

    fn preferred(
        exact: &[Candidate],
        second: &[Candidate],
        third: &[Candidate],
        link: u32,
    ) -> Option<u32> {
        let bound = [exact, second, third].into_iter().flatten().find(|c| c.link == link);
        let any = || exact.last().or_else(|| second.first()).or_else(|| third.first());
        bound.or_else(any).map(|c| c.index)
    }
}
