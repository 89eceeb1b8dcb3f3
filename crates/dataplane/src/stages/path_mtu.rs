// SPDX-License-Identifier: Apache-2.0

//! MTUs of paths: who learns them (`__ip_rt_update_pmtu()`, `__ip6_rt_update_pmtu()`), and which
//! packets they count for (`ip_dst_mtu_maybe_forward()`, `ip6_dst_mtu_maybe_forward()`).
//!
//! Those over IPv4 count for the packets of the host. Packets that are forwarded follow their
//! route, unless `ip_forward_use_pmtu` is set, or less was heard than may be believed. Those over
//! IPv6 count for all packets, which find out after `postrouting`.

use penstock_net::{Flow4, RouteType};
use penstock_wire::ipv6;

use crate::addresses::ip4;
use crate::path_mtus::{News, Path, PathMtu};
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

/// Who says what fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learner {
    /// An ICMP message about a packet of the host.
    Icmp,
    /// An ICMP message about a packet that flows put their packets into: a tunnel's, or ESP.
    IcmpOfFlows,
    /// A tunnel that a packet enters.
    Tunnel,
}

/// An IPv4 destination as paths have it.
#[inline]
pub(crate) fn mapped(address: u32) -> u128 {
    ip4(address).to_ipv6_mapped().into()
}

impl<S: Sink> Worker<'_, S> {
    #[inline]
    fn learned(&self, to: &Route, destination: u128) -> Option<PathMtu> {
        let paths = &self.state.path_mtus;
        if paths.is_empty() {
            return None;
        }
        paths.get(&Path::of(to, destination), self.state.conntrack.now())
    }

    /// The route of one of the host's own IPv4 packets, with what was learned of its path.
    #[inline]
    pub(crate) fn path4(&self, to: Route, destination: u32) -> Route {
        match self.learned(&to, mapped(destination)) {
            Some(PathMtu { mtu, locked, .. }) => {
                Route { mtu, mtu_locked: to.mtu_locked || locked, ..to }
            }
            None => to,
        }
    }

    /// The route of an IPv4 packet that is forwarded, with what was learned of its path where that
    /// counts.
    #[inline]
    pub(crate) fn forward_path4(&self, to: Route, destination: u32) -> Route {
        if self.is_held_to_path4(&to, destination) { self.path4(to, destination) } else { to }
    }

    /// The route of an IPv6 packet, with what was learned of its path.
    #[inline]
    pub(crate) fn path6(&self, to: Route, destination: u128) -> Route {
        match self.learned(&to, destination) {
            Some(found) => Route { mtu: found.mtu, ..to },
            None => to,
        }
    }

    /// Whether what was learned of the path of an IPv4 packet counts when it is forwarded.
    #[inline]
    pub(crate) fn is_held_to_path4(&self, to: &Route, destination: u32) -> bool {
        let counts = |found: PathMtu| found.locked || self.settings.ip_forward_use_pmtu;
        self.learned(to, mapped(destination)).is_some_and(counts)
    }

    /// Whether something was learned of the path of an IPv6 packet.
    pub(crate) fn is_held_to_path6(&self, to: &Route, destination: u128) -> bool {
        self.learned(to, destination).is_some()
    }

    /// The MTU up to which `ip6_forward()` lets packets pass: of a route only one that is locked. A
    /// tunnel of IPsec looks after `postrouting` what fits into it.
    #[inline]
    pub(crate) fn forward_mtu6(&self, to: &Route) -> usize {
        self.mtu6(&if to.mtu_locked { *to } else { Route { mtu: 0, ..*to } })
    }

    /// Learns that the path of `flow` takes packets of `mtu` bytes, which a packet by the route
    /// `to` has met at the time `now`.
    pub(crate) fn learn_mtu4(
        &mut self,
        learner: Learner,
        to: &Route,
        flow: &Flow4,
        mtu: u32,
        now: u64,
    ) {
        let (net, destination) = (self.net, mapped(flow.daddr));
        let known = self.learned(to, destination);
        if to.mtu_locked || known.is_some_and(|found| found.locked) {
            return;
        }
        let before = known.map_or(self.mtu(to) as u32, |found| found.mtu);
        let least = self.settings.min_pmtu;
        let locked = mtu < least;
        // What is as before need not be remembered, unless nothing else may be learned.
        if mtu > before || (mtu == before && known.is_none() && !locked) {
            return;
        }
        let mtu = if locked { before.min(least) } else { mtu };
        let time = self.settings.mtu_expires;
        let fresh = known.is_some_and(|k| k.mtu == mtu && now < k.until.saturating_sub(time / 2));
        if fresh && !locked {
            return;
        }
        let found = PathMtu { mtu, locked, until: now.saturating_add(time) };
        let Ok(hit) = net.route4(flow) else { return };
        for nexthop in &hit.route.nexthops {
            let path = Path { destination, oif: nexthop.oif, gateway: nexthop.gateway };
            self.keep_path(learner, path, found);
        }
    }

    /// Learns that the path of an IPv6 packet by the route `to` takes packets of `mtu` bytes.
    pub(crate) fn learn_mtu6(
        &mut self,
        learner: Learner,
        to: &Route,
        destination: u128,
        mtu: u32,
        now: u64,
    ) {
        let before = self.mtu6(&self.path6(*to, destination)) as u32;
        if mtu < ipv6::MIN_MTU as u32 || mtu >= before || to.kind == RouteType::Multicast {
            return;
        }
        let until = now.saturating_add(self.settings.mtu_expires6);
        let found = PathMtu { mtu, locked: false, until };
        self.keep_path(learner, Path::of(to, destination), found);
    }

    fn keep_path(&mut self, learner: Learner, path: Path, found: PathMtu) {
        if learner == Learner::Tunnel {
            self.state.path_mtus.enter(path, found);
            return;
        }
        let news = News { path, found, of_flows: learner == Learner::IcmpOfFlows };
        self.state.path_mtus.hear(news);
        self.heed_news(&news);
    }

    /// Takes over what other workers have heard of paths.
    #[inline]
    pub(crate) fn follow_paths(&mut self) {
        if self.state.path_mtus.is_behind() {
            self.take_news();
        }
    }

    #[inline(never)]
    fn take_news(&mut self) {
        for news in self.state.path_mtus.take_news() {
            self.heed_news(&news);
        }
    }

    /// Flows may not go by what they knew.
    fn heed_news(&mut self, news: &News) {
        if news.of_flows {
            self.state.flows.set_network(&mut self.state.conntrack);
        }
    }
}
