// SPDX-License-Identifier: Apache-2.0

//! The network in the making: each line of configuration with the consequences the kernel draws
//! from it.

mod routes;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

pub(crate) use routes::NewRoute;
use routes::add_own;

use crate::bridge::FdbEntry;
use crate::devconf::DevconfSysctls;
use crate::kind::{Kind, Loopback, Pppoe, Tunnel, Vlan, Wire};
use crate::multicast::MdbEntry;
use crate::neighbour::Neighbours;
use crate::network::Parts;
use crate::tables::Tables;
use crate::{
    Action, Address4, Address6, LOOPBACK, Link, Mac, Network, RouteInfo, RouteInfos, RouteType,
    Rule, Scope, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
};

/// Bits of a prefix that count.
pub(crate) fn masked(prefix: u128, len: u8, v6: bool) -> u128 {
    let bits = if v6 { 128 } else { 32 };
    if len == 0 { 0 } else { prefix >> (bits - len) << (bits - len) }
}

/// What to do about a route, address or neighbour that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Must be new.
    Add,
    /// Takes the place of the old one, or is new.
    Replace,
    /// Must be there.
    Change,
    /// Next to the old one, after it.
    Append,
    /// Next to the old one, before it.
    Prepend,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) links: Vec<Link>,
    next_index: u32,
    /// Far ends of wires, not part of this namespace.
    far_ends: Vec<Arc<str>>,
    routes4: Tables<u32>,
    routes6: Tables<u128>,
    /// What the routes have in common.
    infos: RouteInfos,
    pub(crate) rules4: Vec<Rule>,
    pub(crate) rules6: Vec<Rule>,
    pub(crate) unmerged: bool,
    pub(crate) custom6: bool,
    neighbours4: Neighbours<u32>,
    neighbours6: Neighbours<u128>,
    /// Entries of bridges that were added by hand.
    pub(crate) fdb: Vec<FdbEntry>,
    /// Memberships of bridges that were added by hand.
    pub(crate) mdb: Vec<MdbEntry>,
    /// IPsec.
    pub(crate) xfrm: penstock_xfrm::Config,
    /// Settings of devices.
    pub(crate) sysctls: DevconfSysctls,
}

const EXISTS: &str = "File exists";

/// An address that the kernel itself gives to a link.
fn generated6(local: u128, len: u8) -> Address6 {
    let noprefixroute = len == 128;
    Address6 {
        local,
        peer: None,
        len,
        noprefixroute,
        metric: 0,
        deprecated: false,
        generated: true,
    }
}

impl Config {
    pub(crate) fn new() -> Self {
        let lo = Link {
            index: LOOPBACK,
            name: "lo".into(),
            kind: Loopback.into(),
            port: None,
            mac: Mac::default(),
            mac_inherited: false,
            broadcast: Mac::default(),
            mtu: 65536,
            up: false,
            arp: true,
            promiscuous: false,
            all_multicast: false,
            multicast: false,
            group: 0,
            addrgenmode: true,
            alias: None,
            addresses4: Vec::new(),
            addresses6: Vec::new(),
            conf: Default::default(),
        };
        Config {
            links: vec![lo],
            next_index: 2,
            far_ends: Vec::new(),
            routes4: Tables::default(),
            routes6: Tables::default(),
            infos: RouteInfos::default(),
            rules4: vec![
                Rule::all(0, Action::Lookup(TABLE_LOCAL)),
                Rule::all(32766, Action::Lookup(TABLE_MAIN)),
                Rule::all(32767, Action::Lookup(TABLE_DEFAULT)),
            ],
            rules6: vec![
                Rule::all(0, Action::Lookup(TABLE_LOCAL)),
                Rule::all(32766, Action::Lookup(TABLE_MAIN)),
            ],
            unmerged: false,
            custom6: false,
            neighbours4: Neighbours::default(),
            neighbours6: Neighbours::default(),
            fdb: Vec::new(),
            mdb: Vec::new(),
            xfrm: penstock_xfrm::Config::default(),
            sysctls: DevconfSysctls::default(),
        }
    }

    /// With these routes instead of those that were read.
    pub(crate) fn with_routes(self, routes4: Tables<u32>, routes6: Tables<u128>) -> Self {
        Config { routes4, routes6, ..self }
    }

    pub(crate) fn finish(mut self) -> Network {
        let index = |links: &[Link], name: &Option<String>| {
            let name = name.as_deref()?;
            links.iter().find(|l| *l.name == *name).map(|l| l.index)
        };
        for rule in self.rules4.iter_mut().chain(&mut self.rules6) {
            rule.iif_index = index(&self.links, &rule.iif).unwrap_or(0);
            rule.oif_index = index(&self.links, &rule.oif).unwrap_or(0);
        }
        let fdb = self.all_fdb();
        Network::new(
            self.links,
            fdb,
            self.xfrm,
            Parts {
                tables: self.routes4,
                rules: self.rules4,
                custom_rules: self.unmerged,
                neighbours: self.neighbours4,
            },
            Parts {
                tables: self.routes6,
                rules: self.rules6,
                custom_rules: self.custom6,
                neighbours: self.neighbours6,
            },
        )
        .with_mdb(self.mdb)
        .with_sysctls(&self.sysctls)
    }

    pub(crate) fn link(&self, name: &str) -> Result<&Link, String> {
        self.links.iter().find(|l| *l.name == *name).ok_or_else(|| match self.is_far_end(name) {
            true => format!("\"{name}\" is the far end of a wire and not part of this network"),
            false => format!("Cannot find device \"{name}\""),
        })
    }

    pub(crate) fn is_far_end(&self, name: &str) -> bool {
        self.far_ends.iter().any(|f| **f == *name)
    }

    pub(crate) fn link_mut(&mut self, index: u32) -> Option<&mut Link> {
        self.links.iter_mut().find(|l| l.index == index)
    }

    pub(crate) fn by_index(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|l| l.index == index)
    }

    // Links.

    pub(crate) fn add_link(&mut self, mut link: Link) -> Result<u32, String> {
        if link.name.is_empty() || link.name.len() > 15 || link.name.contains(['/', ' ', ':']) {
            return Err(format!("\"{}\" is not a valid device name", link.name));
        }
        if self.links.iter().any(|l| l.name == link.name) || self.is_far_end(&link.name) {
            return Err(EXISTS.into());
        }
        if link.index == 0 {
            link.index = self.next_index;
        } else if self.by_index(link.index).is_some() {
            return Err("Device or resource busy".into());
        } else if link.index > 0xffff {
            return Err("indexes above 65535 are not supported".into());
        }
        self.next_index = self.next_index.max(link.index + 1);
        if link.mac == Mac::default() {
            // The kernel takes random bytes; runs that repeat need the same ones each time.
            let [a, b] = (link.index as u16).to_be_bytes();
            link.mac = Mac([0x02, 0x70, 0x73, 0x00, a, b]);
        }
        if let Some(Wire { peer: Some(peer), .. }) = link.kind.wire() {
            if *peer == link.name
                || self.links.iter().any(|l| l.name == *peer)
                || self.is_far_end(peer)
            {
                return Err(EXISTS.into());
            }
            self.far_ends.push(peer.clone());
        }
        let index = link.index;
        self.links.push(link);
        Ok(index)
    }

    pub(crate) fn check_vlan(&self, vlan: &Vlan, mtu: u32) -> Result<(), String> {
        let lower = self.by_index(vlan.lower).ok_or("Cannot find the device below")?;
        if lower.is_loopback() || !lower.has_link_header() {
            return Err("VLANs are not possible on this device".into());
        }
        if mtu > lower.mtu {
            return Err("Numerical result out of range: the device below has a smaller MTU".into());
        }
        let same =
            |v: &Vlan| v.lower == vlan.lower && v.protocol == vlan.protocol && v.id == vlan.id;
        if self.links.iter().filter_map(Link::vlan).any(same) {
            return Err("VLAN device already exists.".into());
        }
        Ok(())
    }

    /// Whether there can be a tunnel (`ip_tunnel_newlink()`, `ip6_tnl_newlink()`), which may be the
    /// device with the index `own`, and the MTU that it gets: of the device that outer packets would
    /// go by now.
    pub(crate) fn check_tunnel(&self, tunnel: &Tunnel, own: u32) -> Result<u32, String> {
        let (_, remote) = tunnel.addresses();
        // Without any of the three it is the device that is there from the beginning (tunl0, sit0,
        // ip6tnl0).
        let fallback =
            tunnel.local.is_unspecified() && tunnel.remote.is_unspecified() && tunnel.link == 0;
        let same = |t: &Tunnel| {
            (t.kind, t.local, t.remote, t.link)
                == (tunnel.kind, tunnel.local, tunnel.remote, tunnel.link)
        };
        let others = self.links.iter().filter(|link| link.index != own);
        if fallback || others.filter_map(Link::tunnel).any(same) {
            return Err(EXISTS.into());
        }
        let v6 = tunnel.kind.outer6();
        let tables = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];
        let found = (remote != 0).then(|| self.way_to(v6, &tables, remote, tunnel.link)).flatten();
        let by = found.and_then(|r| r.nexthops.first()).map_or(tunnel.link, |n| n.oif);
        let lower = self.by_index(by).map_or(1500, |l| l.mtu);
        Ok(tunnel.mtu_over(lower))
    }

    /// Gives a tunnel other settings. It gets another MTU, if that `follows`, when the kernel looks
    /// for it again (`ip_tunnel_changelink()`, `ipip6_changelink()`, `ip6_tnl_changelink()`).
    pub(crate) fn change_tunnel(
        &mut self,
        index: u32,
        tunnel: Tunnel,
        follows: bool,
    ) -> Result<(), String> {
        let before =
            self.by_index(index).and_then(Link::tunnel).ok_or("Operation not supported")?;
        let v6 = tunnel.kind.outer6();
        if !v6 && before.remote.is_unspecified() != tunnel.remote.is_unspecified() {
            return Err("Invalid argument".into());
        }
        let looks = v6 || (before.link, before.mark) != (tunnel.link, tunnel.mark);
        let mtu = self.check_tunnel(&tunnel, index)?;
        if let Some(link) = self.links.iter_mut().find(|link| link.index == index) {
            link.kind = tunnel.into();
            if looks && follows {
                link.mtu = mtu;
            }
        }
        Ok(())
    }

    /// Whether a session can be added, and the MTU of the device below.
    pub(crate) fn check_pppoe(&self, pppoe: &Pppoe) -> Result<u32, String> {
        let lower = self.by_index(pppoe.lower).ok_or("Cannot find the device below")?;
        if lower.is_loopback() || !lower.has_link_header() {
            return Err("PPPoE is not possible on this device".into());
        }
        if self.links.iter().filter_map(Link::pppoe).any(|other| other == pppoe) {
            return Err(EXISTS.into());
        }
        Ok(lower.mtu)
    }

    pub(crate) fn uppers(&self, index: u32) -> Vec<u32> {
        self.links.iter().filter(|l| l.kind.lower() == Some(index)).map(|l| l.index).collect()
    }

    pub(crate) fn set_mac(&mut self, index: u32, mac: Mac) -> Result<(), String> {
        if mac.is_group() || mac == Mac::default() {
            return Err("Cannot assign requested address".into());
        }
        let uppers = self.uppers(index);
        if let Some(l) = self.link_mut(index) {
            l.mac = mac;
            l.mac_inherited = false;
        }
        for u in uppers {
            if let Some(l) = self.link_mut(u).filter(|l| l.mac_inherited) {
                l.mac = mac;
            }
        }
        if let Some(bridge) = self.bridge_of(index) {
            self.follow_ports(bridge);
        }
        Ok(())
    }

    pub(crate) fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), String> {
        let Some(link) = self.by_index(index) else { return Ok(()) };
        if !link.kind.mtu_range().contains(&mtu) {
            return Err("mtu less than device minimum or greater than device maximum".into());
        }
        if let Some(lower) = link.kind.lower() {
            let lower = self.by_index(lower).map_or(0, |l| l.mtu);
            if mtu > lower {
                return Err(
                    "Numerical result out of range: the device below has a smaller MTU".into()
                );
            }
        }
        if let Some(bridge) = self.bridge_mut(index) {
            bridge.mtu_set = true;
        }
        self.change_mtu(index, mtu);
        if let Some(bridge) = self.bridge_of(index) {
            self.follow_ports(bridge);
        }
        Ok(())
    }

    /// The bridge that a device is a port of.
    fn bridge_of(&self, index: u32) -> Option<u32> {
        self.by_index(index)?.port.as_ref().map(|p| p.bridge)
    }

    /// A device gets an MTU, and those on it none larger.
    pub(crate) fn change_mtu(&mut self, index: u32, mtu: u32) {
        let uppers = self.uppers(index);
        if let Some(l) = self.link_mut(index) {
            l.mtu = mtu;
        }
        for u in uppers {
            if let Some(l) = self.link_mut(u) {
                l.mtu = l.mtu.min(mtu);
            }
        }
        if mtu < 1280 {
            self.stop6(index);
        }
    }

    pub(crate) fn set_up(&mut self, index: u32) -> Result<(), String> {
        let Some(link) = self.by_index(index) else { return Ok(()) };
        if link.up {
            return Ok(());
        }
        if let Some(lower) = link.kind.lower()
            && !self.by_index(lower).is_some_and(|l| l.up)
        {
            return Err("Network is down".into());
        }
        let (loopback, mtu) = (link.is_loopback(), link.mtu);
        if let Some(l) = self.link_mut(index) {
            l.up = true;
        }
        if loopback && self.links[0].addresses4.is_empty() {
            let home = u32::from(Ipv4Addr::LOCALHOST);
            self.links[0].addresses4.push(Address4 {
                local: home,
                peer: home,
                len: 8,
                broadcast: None,
                scope: Scope::HOST,
                secondary: false,
                noprefixroute: false,
                metric: 0,
            });
        }
        for a in self.addresses4(index) {
            self.routes_of4(index, &a);
        }
        if mtu < 1280 {
            return Ok(());
        }
        if loopback {
            let one = generated6(1, 128);
            if !self.links[0].addresses6.iter().any(|a| a.local == 1) {
                self.links[0].addresses6.push(one);
            }
        } else if self.by_index(index).is_some_and(|l| l.bridge().is_none())
            || self.has_carrier(index)
        {
            self.start6(index);
        }
        for a in self.addresses6(index) {
            self.routes_of6(index, &a);
        }
        if let Some(bridge) = self.bridge_of(index) {
            self.carrier(bridge);
        }
        Ok(())
    }

    /// IPv6 begins on a link that is up: the route of groups, and the link-local address, which is
    /// given and has no routes yet. Does nothing where it has begun.
    pub(crate) fn start6(&mut self, index: u32) -> Option<Address6> {
        let link = self.by_index(index)?;
        let generate = link.addrgenmode;
        // Devices of other kinds get neither (addrconf_dev_config()).
        let id = link.kind.interface_identifier(link.mac)?;
        let group = RouteInfo { metric: 256, ..Self::own_route(RouteType::Multicast, index) };
        if !add_own(&mut self.routes6, TABLE_LOCAL, 0xff << 120, 8, self.infos.share(group)) {
            return None;
        }
        let address = generated6(0xfe80 << 112 | u128::from(id), 64);
        let link = self.link_mut(index).filter(|_| generate)?;
        if link.addresses6.iter().any(|a| a.local == address.local) {
            return None;
        }
        link.addresses6.push(address.clone());
        Some(address)
    }

    pub(crate) fn set_down(&mut self, index: u32) {
        if !self.by_index(index).is_some_and(|l| l.up) {
            return;
        }
        for u in self.uppers(index) {
            self.set_down(u);
        }
        if let Some(l) = self.link_mut(index) {
            l.up = false;
        }
        self.mdb.retain(|e| e.port != index || e.permanent);
        self.neighbours4.forget_link(index);
        // Routes of local addresses stay: they have no way out that could be down.
        let goes =
            |r: &RouteInfo| r.nexthops.iter().any(|n| n.oif == index && n.scope != Scope::NOWHERE);
        self.routes4.retain(|r| !goes(r));
        self.stop6(index);
    }

    /// IPv6 ends on the link: its addresses and routes go.
    fn stop6(&mut self, index: u32) {
        self.neighbours6.forget_link(index);
        self.routes6.retain(|r| !r.is_by(index));
        if let Some(l) = self.link_mut(index) {
            l.addresses6.clear();
        }
    }

    fn addresses4(&self, index: u32) -> Vec<Address4> {
        self.by_index(index).map(|l| l.addresses4.clone()).unwrap_or_default()
    }

    fn addresses6(&self, index: u32) -> Vec<Address6> {
        self.by_index(index).map(|l| l.addresses6.clone()).unwrap_or_default()
    }

    // Addresses.

    pub(crate) fn add_address4(
        &mut self,
        index: u32,
        mut a: Address4,
        mode: Mode,
    ) -> Result<(), String> {
        let prefix = |a: &Address4| masked(a.peer.into(), a.len, false);
        let Some(link) = self.link_mut(index) else { return Ok(()) };
        if let Some(old) = link
            .addresses4
            .iter_mut()
            .find(|o| o.local == a.local && prefix(o) == prefix(&a) && o.len == a.len)
        {
            if mode == Mode::Add {
                return Err("Address already assigned.".into());
            }
            a.secondary = old.secondary;
            *old = a.clone();
        } else {
            a.secondary = link.addresses4.iter().any(|o| o.len == a.len && prefix(o) == prefix(&a));
            link.addresses4.push(a.clone());
        }
        self.routes_of4(index, &a);
        Ok(())
    }

    /// Routes that an IPv4 address makes (`fib_add_ifaddr()`).
    fn routes_of4(&mut self, index: u32, a: &Address4) {
        let Some(link) = self.by_index(index) else { return };
        let (up, loopback) = (link.up, link.is_loopback());
        let prefix = masked(a.peer.into(), a.len, false);
        let same = |o: &&Address4| {
            !o.secondary && o.len == a.len && masked(o.peer.into(), o.len, false) == prefix
        };
        let source = link.addresses4.iter().find(same).map_or(a.local, |p| p.local);
        let mut add = |kind, prefix: u128, len, metric| {
            let table = if kind == RouteType::Unicast { TABLE_MAIN } else { TABLE_LOCAL };
            let mut r = Self::own_route(kind, index);
            r.metric = metric;
            r.source = Some(Ipv4Addr::from(source).into());
            let local = kind == RouteType::Local;
            r.scope = if local { Scope::HOST } else { Scope::LINK };
            r.nexthops[0].scope = if local { Scope::NOWHERE } else { Scope::HOST };
            add_own(&mut self.routes4, table, prefix as u32, len, self.infos.share(r));
        };
        add(RouteType::Local, a.local.into(), 32, 0);
        if !up {
            return;
        }
        if let Some(b) = a.broadcast.filter(|&b| b != u32::MAX) {
            add(RouteType::Broadcast, b.into(), 32, 0);
        }
        if prefix != 0 && !a.secondary && (prefix != u128::from(a.local) || a.len < 32) {
            if !a.noprefixroute {
                let kind = if loopback { RouteType::Local } else { RouteType::Unicast };
                add(kind, prefix, a.len, a.metric);
            }
            if a.len < 31 {
                add(RouteType::Broadcast, prefix | u128::from(u32::MAX >> a.len), 32, 0);
            }
        }
    }

    pub(crate) fn add_address6(
        &mut self,
        index: u32,
        a: Address6,
        mode: Mode,
    ) -> Result<(), String> {
        let Some(link) = self.link_mut(index) else { return Ok(()) };
        if link.mtu < 1280 {
            return Err("IPv6 is disabled on this device.".into());
        }
        if a.local >> 120 == 0xff {
            return Err("Cannot assign requested address".into());
        }
        if let Some(old) = link.addresses6.iter_mut().find(|o| o.local == a.local) {
            if mode == Mode::Add {
                return Err("address already assigned".into());
            }
            *old = a.clone();
        } else {
            link.addresses6.push(a.clone());
        }
        if link.up {
            self.routes_of6(index, &a);
        }
        Ok(())
    }

    /// Routes that an IPv6 address makes on a forwarding router.
    pub(crate) fn routes_of6(&mut self, index: u32, a: &Address6) {
        let loopback = index == LOOPBACK;
        let mut add = |kind, prefix: u128, len, metric| {
            let table = if kind == RouteType::Unicast { TABLE_MAIN } else { TABLE_LOCAL };
            let r = RouteInfo { metric, ..Self::own_route(kind, index) };
            add_own(&mut self.routes6, table, prefix, len, self.infos.share(r));
        };
        add(RouteType::Local, a.local, 128, 0);
        if !a.noprefixroute {
            let metric = if a.metric == 0 { 256 } else { a.metric };
            add(RouteType::Unicast, masked(a.peer.unwrap_or(a.local), a.len, true), a.len, metric);
        }
        if let Some(any) = a.anycast().filter(|_| !loopback) {
            add(RouteType::Anycast, any, 128, 0);
        }
    }

    pub(crate) fn add_neighbour(
        &mut self,
        link: u32,
        address: IpAddr,
        mac: Mac,
        mode: Mode,
    ) -> Result<(), String> {
        let there = match address {
            IpAddr::V4(a) => self.neighbours4.contains(link, a.into()),
            IpAddr::V6(a) => self.neighbours6.contains(link, Ipv6Addr::into(a)),
        };
        match (mode, there) {
            (Mode::Add, true) => return Err(EXISTS.into()),
            (Mode::Change, false) => return Err("No such file or directory".into()),
            _ => {}
        }
        match address {
            IpAddr::V4(a) => self.neighbours4.set(link, a.into(), mac),
            IpAddr::V6(a) => self.neighbours6.set(link, a.into(), mac),
        };
        Ok(())
    }
}
