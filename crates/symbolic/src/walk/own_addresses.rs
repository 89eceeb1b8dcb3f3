// SPDX-License-Identifier: Apache-2.0

//! Addresses of the host: those that its packets have, and those that translation gives.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use penstock_net::Network;

use super::Walk;
use super::flows::own4;
use super::routed::Out;
use crate::diagram::{Decided, Region};
use crate::routing::{KINDS6, ranges, within};
use crate::way::{Start, Way};

impl Walk<'_, '_> {
    /// Packets that have an address of the host as their source, and a destination that does not need
    /// a device: to groups and on links the sender says by which one it sends.
    pub(super) fn own_source(&mut self, way: &Way<'_>) -> Decided<Region> {
        let up = way.network.links().iter().filter(|link| link.up);
        let six: Vec<u128> = up.flat_map(|link| &link.addresses6).map(|a| a.local).collect();
        let mut all = Vec::new();
        for (v6, own) in [(false, own4(way.network)), (true, six)] {
            let version = self.version(v6)?;
            let [source, destination] = self.addresses(v6)?;
            let own = self.is_one_of(&source, own)?;
            let mut region = self.universe.diagrams.and(&version, &own)?;
            let of_links: &[(u128, u128)] = match v6 {
                false => &[(0xe000_0000, 0xffff_ffff)],
                true => &[(0xfe80 << 112, (0xfec0 << 112) - 1), (0xff << 120, u128::MAX)],
            };
            for (from, to) in of_links {
                let on_link = self.between(&destination, *from, *to)?;
                region = self.universe.diagrams.minus(&region, &on_link)?;
            }
            all.push(region);
        }
        self.universe.diagrams.union(&all)
    }

    /// The address that packets get which are masqueraded, and which packets get it
    /// (`inet_select_addr()`, `ipv6_dev_get_saddr()`).
    pub(super) fn masquerade_addresses(
        &mut self,
        way: &Way<'_>,
        v6: bool,
    ) -> Decided<Vec<(Option<IpAddr>, Region)>> {
        let net = way.network;
        let [_, destination] = self.addresses(v6)?;
        let mut all: HashMap<Option<IpAddr>, Vec<Region>> = HashMap::new();
        let out: Vec<Out> = self.ways.iter().filter(|out| out.v6 == v6).cloned().collect();
        let mut starts = BTreeSet::from([0]);
        let prefixes = match v6 {
            false => net
                .links()
                .iter()
                .flat_map(|l| &l.addresses4)
                .map(|a| (u128::from(a.peer), a.len))
                .collect(),
            true => sources6(net),
        };
        let bits: u32 = if v6 { 128 } else { 32 };
        let last = if v6 { u128::MAX } else { u32::MAX.into() };
        for (address, len) in prefixes {
            let size = 1u128.checked_shl(bits - u32::from(len)).unwrap_or(0);
            let from = if size == 0 { 0 } else { address & !(size - 1) };
            starts.insert(from);
            starts.extend(from.checked_add(size).filter(|next| *next <= last && size != 0));
        }
        for Out { hop, region, .. } in &out {
            let says = |to: u128| -> Option<IpAddr> {
                match v6 {
                    false => {
                        let source =
                            net.source4(hop.link, to as u32, penstock_net::Scope::UNIVERSE);
                        (source != 0).then(|| std::net::Ipv4Addr::from(source).into())
                    }
                    true => net
                        .source6(hop.link, to)
                        .map(|source| std::net::Ipv6Addr::from(source).into()),
                }
            };
            if let (false, Some(source)) = (v6, hop.source) {
                let source = (source != 0).then(|| std::net::Ipv4Addr::from(source).into());
                all.entry(source).or_default().push(region.clone());
                continue;
            }
            for (address, ranges) in ranges(&starts, last, says) {
                let d = &self.universe.diagrams;
                let to = within(d, &destination, &ranges)?;
                all.entry(address).or_default().push(d.and(region, &to)?);
            }
        }
        let mut found: Vec<_> = all.into_iter().collect();
        found.sort_by_key(|(address, _)| *address);
        let d = &self.universe.diagrams;
        found.into_iter().map(|(address, regions)| Ok((address, d.union(&regions)?))).collect()
    }

    /// The address of the device of arrival that redirected packets get, and which packets get it
    /// (`nf_nat_redirect_ipv4()`, `nf_nat_redirect_ipv6()`).
    pub(super) fn redirect_addresses(
        &mut self,
        way: &Way<'_>,
        v6: bool,
    ) -> Decided<Vec<(Option<IpAddr>, Region)>> {
        if way.start == Start::Host {
            let loopback: IpAddr = match v6 {
                false => std::net::Ipv4Addr::LOCALHOST.into(),
                true => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            return Ok(vec![(Some(loopback), self.universe.diagrams.all())]);
        }
        let [_, destination] = self.addresses(v6)?;
        let net = way.network;
        // Each start of a group has a scope of its own.
        let starts =
            KINDS6.into_iter().chain((0xff00..=0xffff).map(|start| start << 112)).collect();
        let mut all = Vec::new();
        for device in way.arrivals() {
            let here = self.arriving_on(device)?;
            if !v6 {
                let first = net.redirect4(device.link);
                all.push((first.map(|a| std::net::Ipv4Addr::from(a).into()), here));
                continue;
            }
            let says = |to: u128| {
                let best = net.redirect6(device.link, to);
                best.map(|a| IpAddr::from(std::net::Ipv6Addr::from(a)))
            };
            for (address, ranges) in ranges(&starts, u128::MAX, says) {
                let d = &self.universe.diagrams;
                let to = within(d, &destination, &ranges)?;
                all.push((address, d.and(&here, &to)?));
            }
        }
        Ok(all)
    }
}

/// Prefixes at which the choice among the IPv6 addresses of a host may change: each address shares
/// more or fewer bits with the destination, and labels (`net/ipv6/addrlabel.c`) have prefixes.
fn sources6(net: &Network) -> Vec<(u128, u8)> {
    let mut all: Vec<(u128, u8)> = vec![
        (1, 128),
        (0xffff << 32, 96),
        (0, 96),
        (0x2001_0010 << 96, 28),
        (0x2001_0000 << 96, 32),
        (0x2002 << 112, 16),
        (0x3ffe << 112, 16),
        (0xfec0 << 112, 10),
        (0xfe80 << 112, 10),
        (0xfc00 << 112, 7),
    ];
    all.extend((0..=0xfu128).map(|scope| ((0xff00 | scope) << 112, 16)));
    for address in net.links().iter().flat_map(|link| &link.addresses6) {
        all.extend((1..=128).map(|len| (address.local, len)));
    }
    all
}
