// SPDX-License-Identifier: Apache-2.0

//! Links and their addresses.

use std::sync::Arc;

use penstock_wire::ethernet::Mac;

use crate::bridge::{Bridge, BridgePort};
use crate::devconf::{Devconf, LinkDevconf};
use crate::kind::{Kind, LinkKind, Output, Pppoe, Tunnel, Vlan};

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

/// Least MTU of IPv6 (RFC 8200, 5).
const MIN_MTU6: u32 = 1280;

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
    /// Bytes of network-layer packet. Below 1280 there is no IPv6 on the link.
    pub mtu: u32,
    /// `IFF_UP`.
    pub up: bool,
    /// Resolves neighbours; with `arp off` frames for unknown neighbours carry the link's own
    /// address, as the kernel's do.
    pub arp: bool,
    /// Takes frames for other hosts in at the driver. Packets for other hosts are dropped by IP all
    /// the same.
    pub promiscuous: bool,
    /// Takes frames to all groups in: on a bridge, also to those that others are members of
    /// (`IFF_ALLMULTI`).
    pub all_multicast: bool,
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
    /// Its settings.
    pub conf: LinkDevconf,
}

impl Link {
    /// Whether it is `lo`.
    #[inline]
    pub fn is_loopback(&self) -> bool {
        self.kind.loopback().is_some()
    }

    /// Whether frames leave the host by it as they are given to it.
    #[inline]
    pub fn is_wire(&self) -> bool {
        self.kind.output() == Output::Wire
    }

    /// The VLAN it is, if it is one.
    #[inline]
    pub fn vlan(&self) -> Option<&Vlan> {
        self.kind.vlan()
    }

    /// The bridge it is, if it is one.
    #[inline]
    pub fn bridge(&self) -> Option<&Bridge> {
        self.kind.bridge()
    }

    /// The bridge it is, for changes.
    pub fn bridge_mut(&mut self) -> Option<&mut Bridge> {
        self.kind.bridge_mut()
    }

    /// The tunnel it is, if it is one.
    #[inline]
    pub fn tunnel(&self) -> Option<&Tunnel> {
        self.kind.tunnel()
    }

    /// The PPPoE session it is, if it is one.
    #[inline]
    pub fn pppoe(&self) -> Option<&Pppoe> {
        self.kind.pppoe()
    }

    /// [`Kind::has_link_header`].
    #[inline]
    pub fn has_link_header(&self) -> bool {
        self.kind.has_link_header()
    }

    /// [`Kind::name`].
    pub fn kind_name(&self) -> &str {
        self.kind.name()
    }

    /// [`Kind::hardware_type`].
    pub fn hardware_type(&self) -> u16 {
        self.kind.hardware_type()
    }

    /// The largest IPv6 packet by the link; `None` if there is no IPv6 on it.
    #[inline]
    pub fn mtu6(&self) -> Option<u32> {
        if self.mtu < MIN_MTU6 || self.conf.is_on(Devconf::DisableIpv6) {
            return None;
        }
        Some(match self.conf.get(Devconf::Mtu6) {
            0 => self.mtu,
            set => set.min(self.mtu),
        })
    }

    /// Whether the link is a member of the IPv4 group: the ones that the kernel joins (all hosts; on
    /// a bridge that snoops also all snoopers, RFC 4286).
    pub fn joined4(&self, group: u32) -> bool {
        const ALL_HOSTS: u32 = 0xe000_0001;
        const ALL_SNOOPERS: u32 = 0xe000_006a;
        group == ALL_HOSTS || group == ALL_SNOOPERS && self.snoops()
    }

    fn snoops(&self) -> bool {
        self.bridge().is_some_and(|bridge| bridge.snooping.on)
    }

    /// Whether the link is a member of the IPv6 group: the ones that the kernel joins (all nodes,
    /// solicited-node groups of its addresses; on a link of a router also all routers, and
    /// subnet-router anycast addresses; on a bridge that snoops all snoopers).
    pub fn joined6(&self, group: u128) -> bool {
        const ALL_NODES_INTERFACE: u128 = 0xff01 << 112 | 1;
        const ALL_NODES_LINK: u128 = 0xff02 << 112 | 1;
        const ALL_ROUTERS_INTERFACE: u128 = 0xff01 << 112 | 2;
        const ALL_ROUTERS_LINK: u128 = 0xff02 << 112 | 2;
        const ALL_ROUTERS_SITE: u128 = 0xff05 << 112 | 2;
        const ALL_SNOOPERS: u128 = 0xff02 << 112 | 0x6a;
        const SOLICITED: u128 = 0xff02 << 112 | 0x1_ff00_0000;
        let router = self.conf.own(Devconf::Forwarding6) != 0;
        match group {
            ALL_NODES_INTERFACE | ALL_NODES_LINK => true,
            ALL_ROUTERS_INTERFACE | ALL_ROUTERS_LINK | ALL_ROUTERS_SITE => self.multicast && router,
            ALL_SNOOPERS => self.snoops(),
            _ if group & !0xff_ffff == SOLICITED => {
                let low = group & 0xff_ffff;
                let own = !self.is_loopback()
                    && self.addresses6.iter().any(|a| a.local & 0xff_ffff == low);
                let anycast = || self.addresses6.iter().any(|a| a.anycast().is_some());
                own || (low == 0 && router && anycast())
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
