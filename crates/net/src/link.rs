// SPDX-License-Identifier: Apache-2.0

//! Links and their addresses.

use std::sync::Arc;

use penstock_wire::ethernet::Mac;

use crate::bridge::{Bridge, BridgePort};
use crate::tunnel::{Pppoe, Tunnel, TunnelKind};

/// Scope of an address or route (`RT_SCOPE_*`); greater is narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub u8);

impl Scope {
    /// Everywhere.
    pub const UNIVERSE: Scope = Scope(0);
    /// Within the site.
    pub const SITE: Scope = Scope(200);
    /// On the link.
    pub const LINK: Scope = Scope(253);
    /// In this host.
    pub const HOST: Scope = Scope(254);
    /// Nowhere.
    pub const NOWHERE: Scope = Scope(255);
}

/// The greatest index that a link of a [`Network`](crate::Network) may have: tables are as long as
/// the greatest one. Linux counts up from 1, and takes any positive number that a user names.
pub const LARGEST_INDEX: u32 = 1 << 20;

/// What a link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// `lo`.
    Loopback,
    /// An Ethernet wire: veth, dummy and the like are alike here.
    Wire {
        /// Name of the wire's far end, where `peer name` gave one. It is not part of this
        /// namespace.
        peer: Option<Arc<str>>,
        /// The type as written (`meta iifkind`).
        kind: Arc<str>,
    },
    /// 802.1Q or 802.1ad on another link.
    Vlan(Vlan),
    /// A bridge.
    Bridge(Bridge),
    /// IP in IP.
    Tunnel(Tunnel),
    /// A PPPoE session.
    Pppoe(Pppoe),
    /// A device of the host's that takes packets without link header: `tun`, WireGuard, PPP,
    /// tunnels of the kernel.
    Bare {
        /// The type (`meta iifkind`).
        kind: Arc<str>,
        /// `ARPHRD_*`
        hardware: u16,
    },
}

/// A VLAN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Index of the link below.
    pub lower: u32,
    /// 0x8100 or 0x88a8.
    pub protocol: u16,
    /// 0 to 4095.
    pub id: u16,
    /// Priority code point of a received tag to packet priority; absent ones give 0.
    pub ingress_qos: Vec<(u8, u32)>,
    /// Packet priority to priority code point of the tag; absent ones give 0.
    pub egress_qos: Vec<(u32, u8)>,
}

/// An IPv4 address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address4 {
    /// The address itself.
    pub local: u32,
    /// Address at the other end, or the same as `local`: its prefix is the connected route.
    pub peer: u32,
    /// Prefix length of `peer`.
    pub len: u8,
    /// Explicit broadcast address.
    pub broadcast: Option<u32>,
    /// Scope.
    pub scope: Scope,
    /// Another address of the same prefix was there first.
    pub secondary: bool,
    /// Makes no connected route.
    pub noprefixroute: bool,
    /// Metric of the connected route.
    pub metric: u32,
}

/// An IPv6 address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address6 {
    /// The address itself.
    pub local: u128,
    /// Address at the other end, where given.
    pub peer: Option<u128>,
    /// Prefix length.
    pub len: u8,
    /// Makes no connected route.
    pub noprefixroute: bool,
    /// Metric of the connected route, 0 for the default.
    pub metric: u32,
    /// Preferred lifetime 0: used as a source only when there is nothing else.
    pub deprecated: bool,
    /// Made by the kernel from the link address.
    pub generated: bool,
}

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    /// `ifindex`.
    pub index: u32,
    /// Name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: LinkKind,
    /// The bridge that it is a port of.
    pub port: Option<BridgePort>,
    /// Its address.
    pub mac: Mac,
    /// Whether the address follows the lower link's (VLAN devices), or the least of the ports'
    /// (bridges).
    pub mac_inherited: bool,
    /// Link broadcast address.
    pub broadcast: Mac,
    /// Bytes of network-layer packet.
    pub mtu: u32,
    /// IPv6 MTU is the link's unless that is below 1280: then IPv6 is off.
    pub up: bool,
    /// Resolves neighbours; with `arp off` frames for unknown neighbours carry the link's own
    /// address, as the kernel's do.
    pub arp: bool,
    /// Takes frames for other hosts in at the driver. Packets for other hosts are dropped by IP all
    /// the same.
    pub promiscuous: bool,
    /// `IFF_MULTICAST`.
    pub multicast: bool,
    /// `meta iifgroup`.
    pub group: u32,
    /// Makes a link-local address when it comes up.
    pub addrgenmode: bool,
    /// Free text.
    pub alias: Option<Arc<str>>,
    /// In order of addition.
    pub addresses4: Vec<Address4>,
    /// In order of addition.
    pub addresses6: Vec<Address6>,
}

impl Link {
    /// Whether it is `lo`.
    #[inline]
    pub fn is_loopback(&self) -> bool {
        matches!(self.kind, LinkKind::Loopback)
    }

    /// The VLAN it is, if it is one.
    #[inline]
    pub fn vlan(&self) -> Option<&Vlan> {
        match &self.kind {
            LinkKind::Vlan(v) => Some(v),
            LinkKind::Loopback
            | LinkKind::Wire { .. }
            | LinkKind::Bridge(_)
            | LinkKind::Tunnel(_)
            | LinkKind::Pppoe(_)
            | LinkKind::Bare { .. } => None,
        }
    }

    /// The tunnel it is, if it is one.
    #[inline]
    pub fn tunnel(&self) -> Option<&Tunnel> {
        match &self.kind {
            LinkKind::Tunnel(t) => Some(t),
            LinkKind::Loopback
            | LinkKind::Wire { .. }
            | LinkKind::Vlan(_)
            | LinkKind::Bridge(_)
            | LinkKind::Pppoe(_)
            | LinkKind::Bare { .. } => None,
        }
    }

    /// Whether its frames have an Ethernet header. The others' are bare packets, which need no
    /// neighbours.
    #[inline]
    pub fn has_link_header(&self) -> bool {
        match self.kind {
            LinkKind::Loopback
            | LinkKind::Wire { .. }
            | LinkKind::Vlan(_)
            | LinkKind::Bridge(_) => true,
            LinkKind::Tunnel(_) | LinkKind::Pppoe(_) | LinkKind::Bare { .. } => false,
        }
    }

    /// The bridge it is, if it is one.
    #[inline]
    pub fn bridge(&self) -> Option<&Bridge> {
        match &self.kind {
            LinkKind::Bridge(b) => Some(b),
            LinkKind::Loopback
            | LinkKind::Wire { .. }
            | LinkKind::Vlan(_)
            | LinkKind::Tunnel(_)
            | LinkKind::Pppoe(_)
            | LinkKind::Bare { .. } => None,
        }
    }

    /// `rtnl_link_ops.kind` as `meta iifkind` shows it; empty for `lo`.
    pub fn kind_name(&self) -> &str {
        match &self.kind {
            LinkKind::Loopback => "",
            LinkKind::Wire { kind, .. } | LinkKind::Bare { kind, .. } => kind,
            LinkKind::Vlan(_) => "vlan",
            LinkKind::Bridge(_) => "bridge",
            LinkKind::Tunnel(t) => t.kind.name(),
            LinkKind::Pppoe(_) => "ppp",
        }
    }

    /// `ARPHRD_*`: 772 for loopback, 1 for Ethernet, 512 for PPP, and what tunnels have.
    pub fn hardware_type(&self) -> u16 {
        match &self.kind {
            LinkKind::Loopback => 772,
            LinkKind::Wire { .. } | LinkKind::Vlan(_) | LinkKind::Bridge(_) => 1,
            LinkKind::Tunnel(t) => t.kind.hardware_type(),
            LinkKind::Pppoe(_) => 512,
            LinkKind::Bare { hardware, .. } => *hardware,
        }
    }

    /// The interface identifier of the link-local address that the kernel makes
    /// (`ipv6_generate_eui64()`, `sit_add_v4_addrs()`); none where it makes no address.
    pub(crate) fn interface_identifier(&self) -> Option<u64> {
        let m = self.mac.0;
        match &self.kind {
            LinkKind::Loopback | LinkKind::Pppoe(_) | LinkKind::Bare { .. } => None,
            LinkKind::Wire { .. } | LinkKind::Vlan(_) | LinkKind::Bridge(_) => {
                Some(u64::from_be_bytes([m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]]))
            }
            LinkKind::Tunnel(t) => match t.kind {
                TunnelKind::Ipip => None,
                TunnelKind::Sit => {
                    let (local, remote) = t.addresses();
                    (local != 0 && remote != 0).then_some(local as u64)
                }
                TunnelKind::Ip6tnl => {
                    Some(u64::from_be_bytes([m[0] & !2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]]))
                }
            },
        }
    }

    /// Whether the link is a member of the IPv6 group: the ones the kernel joins on a forwarding
    /// router (all nodes, all routers, solicited-node groups of its addresses and subnet-router
    /// anycast addresses).
    pub fn joined6(&self, group: u128) -> bool {
        const ALL_NODES_INTERFACE: u128 = 0xff01 << 112 | 1;
        const ALL_NODES_LINK: u128 = 0xff02 << 112 | 1;
        const ALL_ROUTERS_INTERFACE: u128 = 0xff01 << 112 | 2;
        const ALL_ROUTERS_LINK: u128 = 0xff02 << 112 | 2;
        const ALL_ROUTERS_SITE: u128 = 0xff05 << 112 | 2;
        const SOLICITED: u128 = 0xff02 << 112 | 0x1_ff00_0000;
        match group {
            ALL_NODES_INTERFACE | ALL_NODES_LINK => true,
            ALL_ROUTERS_INTERFACE | ALL_ROUTERS_LINK | ALL_ROUTERS_SITE => self.multicast,
            _ if group & !0xff_ffff == SOLICITED => {
                let low = group & 0xff_ffff;
                let own = !self.is_loopback()
                    && self.addresses6.iter().any(|a| a.local & 0xff_ffff == low);
                own || (low == 0 && self.addresses6.iter().any(|a| a.anycast().is_some()))
            }
            _ => false,
        }
    }
}

impl Address6 {
    /// The subnet-router anycast address that a router joins for it.
    pub fn anycast(&self) -> Option<u128> {
        if self.len >= 127 {
            return None;
        }
        let prefix = if self.len == 0 { 0 } else { self.local & (u128::MAX << (128 - self.len)) };
        (prefix != 0).then_some(prefix)
    }
}
