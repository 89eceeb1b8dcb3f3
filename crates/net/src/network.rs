// SPDX-License-Identifier: Apache-2.0

//! The finished network: what packets ask.

mod ranges;
mod routing;

use std::net::IpAddr;
use std::sync::Arc;

use penstock_wire::quick::QuickMap;
use routing::Family;

use crate::kind::TunnelKind;
use crate::multicast::MdbEntry;
use crate::neighbour::Neighbours;
use crate::rule::Rule;
use crate::tables::Tables;
use crate::tunnels::Tunnels;
use crate::{
    BridgePort, Devconf, DevconfSysctls, DevconfValues, FdbEntry, Link, LinkDevconf, Mac, Nexthop,
    RouteInfo, RouteType, TABLE_LOCAL,
};

/// What an IPv4 lookup depends on (`struct flowi4`). Zero means "not given".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow4 {
    /// Destination.
    pub daddr: u32,
    /// Source.
    pub saddr: u32,
    /// TOS without its ECN bits.
    pub tos: u8,
    /// Packet mark.
    pub mark: u32,
    /// Incoming link; [`LOOPBACK`](crate::LOOPBACK) for the host's own packets.
    pub iif: u32,
    /// Outgoing link asked for; routes by other links do not count.
    pub oif: u32,
    /// Protocol, for rules only.
    pub protocol: u8,
    /// Source and destination port, for rules only.
    pub ports: (u16, u16),
    /// Routes of wider scope do not count.
    pub scope: u8,
}

/// What an IPv6 lookup depends on (`struct flowi6`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow6 {
    /// Destination.
    pub daddr: u128,
    /// Source; without one, rules with `from` do not match.
    pub saddr: Option<u128>,
    /// Traffic class without its ECN bits.
    pub tos: u8,
    /// Packet mark.
    pub mark: u32,
    /// Incoming link; [`LOOPBACK`](crate::LOOPBACK) for the host's own packets.
    pub iif: u32,
    /// Link that is preferred, or required with `strict`. For packets that came in it is the
    /// incoming one, as in the kernel, and rules do not see it.
    pub oif: u32,
    /// Protocol, for rules only.
    pub protocol: u8,
    /// Source and destination port, for rules only.
    pub ports: (u16, u16),
    /// Only routes by `oif` count (`RT6_LOOKUP_F_IFACE`): link-local destinations and groups.
    pub strict: bool,
}

/// A route that was found.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The route.
    pub route: &'a RouteInfo,
    /// Length of its prefix.
    pub len: u8,
    /// The way out, chosen among the route's.
    pub nexthop: &'a Nexthop,
    /// Realms, of the route or else of the rule.
    pub realm: u32,
}

/// Why there is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoRoute {
    /// No route matches (`ENETUNREACH`).
    None,
    /// A blackhole route or rule (`EINVAL`).
    Blackhole,
    /// An unreachable route (`EHOSTUNREACH`). Rules with `unreachable` give [`NoRoute::None`], as
    /// in the kernel.
    Unreachable,
    /// A prohibit route or rule (`EACCES`).
    Prohibit,
}

/// Links, addresses, neighbours, routes and rules, ready for lookups. See the crate for how to make
/// one.
#[derive(Clone, Debug)]
pub struct Network {
    links: Vec<Link>,
    by_index: Vec<Option<u32>>,
    vlans: QuickMap<(u32, u16, u16), u32>,
    lowers: Vec<bool>,
    tunnels: Tunnels,
    /// Some link is a bridge.
    bridges: bool,
    fdb: Vec<FdbEntry>,
    mdb: Vec<MdbEntry>,
    xfrm: penstock_xfrm::Config,
    own4: QuickMap<u32, u32>,
    /// A bit for each value of the low bits of those addresses.
    own4_bits: u64,
    custom4: bool,
    /// Settings of `all` devices.
    conf_all: DevconfValues,
    /// Some link has `rp_filter` on.
    filters_sources4: bool,
    v4: Family<u32>,
    v6: Family<u128>,
}

/// What the configuration hands over for one family.
pub(crate) struct Parts<K> {
    pub(crate) tables: Tables<K>,
    pub(crate) rules: Vec<Rule>,
    /// A routing rule was ever added.
    pub(crate) custom_rules: bool,
    pub(crate) neighbours: Neighbours<K>,
}

impl Network {
    pub(crate) fn new(
        links: Vec<Link>,
        fdb: Vec<FdbEntry>,
        xfrm: penstock_xfrm::Config,
        v4: Parts<u32>,
        v6: Parts<u128>,
    ) -> Self {
        let top = links.iter().map(|l| l.index).max().unwrap_or(0) as usize;
        let mut by_index = vec![None; top + 1];
        let mut lowers = vec![false; top + 1];
        let mut vlans = QuickMap::default();
        for (i, link) in links.iter().enumerate() {
            by_index[link.index as usize] = Some(i as u32);
            if let Some(v) = link.vlan() {
                vlans.insert((v.lower, v.protocol, v.id), link.index);
                // The link below may not be there: of another namespace, or gone a moment ago.
                if let Some(has) = lowers.get_mut(v.lower as usize) {
                    *has = true;
                }
            }
        }
        let addresses = links.iter().flat_map(|l| l.addresses4.iter().map(|a| (a.local, l.index)));
        let own4: QuickMap<_, _> = addresses.collect();
        let own4_bits = own4.keys().fold(0, |bits, address| bits | 1 << (address % u64::BITS));
        let unmerged4 = v4.custom_rules;
        let custom4 =
            unmerged4 || v4.tables.any(|_, r| r.kind == RouteType::Local && !r.from_kernel);
        Network {
            bridges: links.iter().any(|l| l.bridge().is_some()),
            fdb,
            mdb: Vec::new(),
            tunnels: Tunnels::new(&links),
            xfrm,
            links,
            by_index,
            own4,
            own4_bits,
            custom4,
            vlans,
            lowers,
            conf_all: DevconfValues::of_all(),
            filters_sources4: false,
            v4: Family::new(v4, !unmerged4),
            v6: Family::new(v6, false),
        }
    }

    /// With memberships of bridges.
    pub(crate) fn with_mdb(self, mdb: Vec<MdbEntry>) -> Network {
        Network { mdb, ..self }
    }

    /// The same network, with settings of devices put in force in order. Devices that are not there
    /// are passed over: [`Network::missing_device`] finds them.
    #[must_use]
    pub fn with_sysctls(mut self, sysctls: &DevconfSysctls) -> Network {
        if sysctls.is_empty() {
            return self;
        }
        let mut own: Vec<_> =
            self.links.iter().map(|l| (l.name.clone(), l.conf.values())).collect();
        let mut devices: Vec<_> = own.iter_mut().map(|(name, values)| (&**name, values)).collect();
        sysctls.apply(&mut self.conf_all, &mut devices);
        let values = own.into_iter().map(|(_, values)| values).collect();
        self.set_devconf(self.conf_all, values);
        self
    }

    /// A device that settings name and that is not there.
    pub fn missing_device<'s>(&self, sysctls: &'s DevconfSysctls) -> Option<&'s str> {
        sysctls.devices().find(|name| self.link_by_name(name).is_none())
    }

    /// Gives links their settings, and draws the kernel's consequences (`addrconf_ifdown()`,
    /// `dev_forward_change()`): without IPv6 a link has neither addresses nor routes, and on a link
    /// that is not a router's there are no anycast addresses.
    pub(crate) fn set_devconf(&mut self, all: DevconfValues, values: Vec<DevconfValues>) {
        self.conf_all = all;
        let (mut off, mut hosts) = (Vec::new(), Vec::new());
        for (link, own) in self.links.iter_mut().zip(values) {
            link.conf = LinkDevconf::new(own, &all);
            if link.conf.is_on(Devconf::DisableIpv6) {
                link.addresses6.clear();
                off.push(link.index);
            }
            if own.get(Devconf::Forwarding6) == 0 {
                hosts.push(link.index);
            }
        }
        self.filters_sources4 = self.links.iter().any(|l| l.conf.is_on(Devconf::RpFilter));
        let by = |route: &RouteInfo, links: &[u32]| links.iter().any(|link| route.is_by(*link));
        self.v6.tables.retain(|route| {
            !(by(route, &off) || route.kind == RouteType::Anycast && by(route, &hosts))
        });
        off.iter().for_each(|link| self.v6.neighbours.forget_link(*link));
    }

    /// The value of `all` for a setting of devices, for what leaves by no device.
    pub fn conf_all(&self, setting: Devconf) -> u32 {
        self.conf_all.get(setting)
    }

    /// All links in order of creation.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The link with this index.
    #[inline]
    pub fn link(&self, index: u32) -> Option<&Link> {
        let i = (*self.by_index.get(index as usize)?)?;
        self.links.get(i as usize)
    }

    /// The link with this name.
    pub fn link_by_name(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|l| &*l.name == name)
    }

    /// The greatest link index.
    pub fn last_index(&self) -> u32 {
        self.by_index.len() as u32 - 1
    }

    /// The VLAN device for a tag on a link.
    #[inline]
    pub fn vlan(&self, lower: u32, protocol: u16, id: u16) -> Option<u32> {
        self.vlans.get(&(lower, protocol, id)).copied()
    }

    /// What makes a link a port of a bridge.
    #[inline]
    pub fn bridge_port(&self, index: u32) -> Option<&BridgePort> {
        if !self.bridges {
            return None;
        }
        self.link(index)?.port.as_ref()
    }

    /// What the forwarding tables of bridges hold from the beginning: the addresses of bridges and
    /// ports, and entries that were added.
    pub fn fdb(&self) -> &[FdbEntry] {
        &self.fdb
    }

    /// Multicast memberships that were added to bridges by hand.
    pub fn mdb(&self) -> &[MdbEntry] {
        &self.mdb
    }

    /// Whether there are tunnels over IPv4; over IPv6.
    #[inline]
    pub fn has_tunnels(&self, v6: bool) -> bool {
        if v6 { self.tunnels.over6() } else { self.tunnels.over4() }
    }

    /// The tunnel for a packet between these addresses (numbers of the outer family) that came in
    /// by a link.
    #[inline]
    pub fn tunnel(&self, kind: TunnelKind, remote: u128, local: u128, link: u32) -> Option<&Link> {
        self.link(self.tunnels.find(kind, remote, local, link)?)
    }

    /// Whether there are PPPoE sessions.
    #[inline]
    pub fn has_sessions(&self) -> bool {
        self.tunnels.has_sessions()
    }

    /// The device of the PPPoE session that a frame from `peer` on a link belongs to.
    #[inline]
    pub fn pppoe(&self, lower: u32, session: u16, peer: Mac) -> Option<u32> {
        self.tunnels.session(lower, session, peer)
    }

    /// States and policies of IPsec.
    pub fn xfrm(&self) -> &penstock_xfrm::Config {
        &self.xfrm
    }

    /// Whether VLAN devices sit on the link.
    pub fn has_vlans(&self, lower: u32) -> bool {
        self.lowers.get(lower as usize).copied().unwrap_or(false)
    }

    /// IPv4 rules by priority.
    pub fn rules4(&self) -> &[Rule] {
        &self.v4.rules
    }

    /// IPv6 rules by priority.
    pub fn rules6(&self) -> &[Rule] {
        &self.v6.rules
    }

    /// Link address of an IPv4 neighbour.
    #[inline]
    pub fn neighbour4(&self, link: u32, address: u32) -> Option<Mac> {
        self.v4.neighbours.find(link, address)
    }

    /// Link address of an IPv6 neighbour.
    #[inline]
    pub fn neighbour6(&self, link: u32, address: u128) -> Option<Mac> {
        self.v6.neighbours.find(link, address)
    }

    /// Whether some link checks that sources are routed back (`rp_filter`).
    #[inline]
    pub fn filters_sources4(&self) -> bool {
        self.filters_sources4
    }

    /// Whether [`Network::route4`] finds the same routes for all packets to a destination: there
    /// are no rules, and no routes for one TOS.
    pub fn is_plain4(&self) -> bool {
        self.v4.plain && !self.v4.tos
    }

    /// Whether [`Network::route6`] finds the same routes for all packets to a destination that ask
    /// for the same link, or for none: there are no rules.
    pub fn is_plain6(&self) -> bool {
        self.v6.plain
    }

    /// What an IPv4 address is to this host (`inet_addr_type()`, `inet_dev_addr_type()`): asks the
    /// local table only, so anything unknown is unicast. With a link, only what belongs to that
    /// link counts.
    pub fn kind4(&self, address: u32, link: Option<u32>) -> RouteType {
        if address == 0 || address == u32::MAX {
            return RouteType::Broadcast;
        }
        if address >> 28 == 0xe {
            return RouteType::Multicast;
        }
        let flow = Flow4 { daddr: address, ..Flow4::default() };
        match self.v4.tables.fib(TABLE_LOCAL).and_then(|t| self.table4(t, &flow)) {
            Some(Ok((route, _)))
                if link.is_none_or(|l| route.nexthops.first().is_some_and(|n| n.oif == l)) =>
            {
                route.kind
            }
            _ => RouteType::Unicast,
        }
    }

    /// Whether the IPv4 address is one of a link's own (`inet_lookup_ifaddr_rcu()`).
    #[inline]
    pub fn own4(&self, address: u32) -> bool {
        self.own4_bits >> (address % u64::BITS) & 1 != 0 && self.own4.contains_key(&address)
    }

    /// The link that has the IPv4 address.
    pub fn owner4(&self, address: u32) -> Option<u32> {
        self.own4.get(&address).copied()
    }

    /// Whether rules or local routes were added, so that the addresses of links do not tell all
    /// about what is local.
    #[inline]
    pub fn custom4(&self) -> bool {
        self.custom4
    }

    /// Whether the IPv6 address is one of this host's; with a link, one of that link's
    /// (`ipv6_chk_addr()`).
    pub fn own6(&self, address: u128, link: Option<u32>) -> bool {
        self.links
            .iter()
            .filter(|l| link.is_none_or(|i| l.index == i))
            .any(|l| l.up && l.addresses6.iter().any(|a| a.local == address))
    }

    /// Whether the IPv6 address is a subnet-router anycast address of the link (of any link without
    /// one).
    pub fn anycast6(&self, address: u128, link: Option<u32>) -> bool {
        self.links
            .iter()
            .filter(|l| link.is_none_or(|i| l.index == i))
            .filter(|l| !l.is_loopback() && l.conf.own(Devconf::Forwarding6) != 0)
            .any(|l| l.addresses6.iter().any(|a| a.anycast() == Some(address)))
    }

    /// Preferred source of a route for the host's own packets (`FIB_RES_PREFSRC`): the route's,
    /// else an address of the link that suits the gateway or the destination.
    pub fn source_of4(&self, hit: &Hit<'_>) -> u32 {
        if let Some(IpAddr::V4(a)) = hit.route.source {
            return a.into();
        }
        let via = match hit.nexthop.gateway {
            Some(IpAddr::V4(a)) => a.into(),
            _ => 0,
        };
        self.source4(hit.nexthop.oif, via, hit.route.scope)
    }
}

impl Network {
    /// What rules and routes call things: the name of a link for messages.
    pub fn name_of(&self, index: u32) -> Arc<str> {
        self.link(index).map_or_else(|| Arc::from(index.to_string()), |l| l.name.clone())
    }
}
