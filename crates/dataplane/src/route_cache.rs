// SPDX-License-Identifier: Apache-2.0

//! Ways and neighbours that were found before, for one state of the network: the packets of a flow,
//! and of many flows to one place, ask for the same again and again.
//!
//! Only what depends on the destination alone is here. A place holds what was asked for last; what
//! falls on the same place takes turns.

use penstock_net::{GatewayRoute, Mac};
use penstock_wire::quick::QuickMap;

use crate::route::Route;

/// Places, of each kind.
const PLACES: usize = 1024;
/// Most routes over gateways that are remembered.
const GATEWAYS: usize = 1 << 16;

/// An address of either family.
pub(crate) trait Address: Copy + PartialEq {
    /// All of its bits in fewer.
    fn folded(self) -> u32;
}

impl Address for u32 {
    #[inline(always)]
    fn folded(self) -> u32 {
        self
    }
}

impl Address for u128 {
    #[inline(always)]
    fn folded(self) -> u32 {
        let halves = (self >> 64) as u64 ^ (self as u64).rotate_left(17);
        (halves >> 32) as u32 ^ halves as u32
    }
}

/// A way to a destination for packets that came in by a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedRoute<A> {
    daddr: A,
    pub(crate) to: Route,
    /// The MTU towards there ([`Worker::mtu`](crate::worker::Worker::mtu)).
    pub(crate) mtu: usize,
}

/// The link address of a next hop.
#[derive(Clone, Copy, Debug)]
struct Neighbour<A> {
    device: u32,
    address: A,
    mac: Mac,
}

/// What was found before in one family.
#[derive(Debug)]
pub(crate) struct FamilyCache<A> {
    ways: Box<[Option<CachedRoute<A>>]>,
    /// Routes over a gateway ([`penstock_net::GatewayRoute`]), by their number and the device by
    /// which packets came in: they serve many destinations.
    over_gateways: QuickMap<(usize, u32), CachedRoute<A>>,
    neighbours: Box<[Option<Neighbour<A>>]>,
}

/// What was found before.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    pub(crate) v4: FamilyCache<u32>,
    pub(crate) v6: FamilyCache<u128>,
    /// IPv4 sources that have passed the check of their route back.
    pub(crate) sources4: Sources,
    /// The device with rules at egress by which the last packet of the fast path left.
    pub(crate) last_out: u32,
}

impl RouteCache {
    /// The network is another one.
    pub(crate) fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
        self.sources4.places.fill((0, 0));
    }
}

/// Devices and sources; device 0 where there is none.
#[derive(Debug)]
pub(crate) struct Sources {
    places: Box<[(u32, u32)]>,
}

impl Default for Sources {
    fn default() -> Self {
        Sources { places: vec![(0, 0); PLACES].into() }
    }
}

impl Sources {
    /// Whether the source was remembered for the device.
    #[inline]
    pub(crate) fn has(&self, device: u32, source: u32) -> bool {
        self.places.get(place(device, source)) == Some(&(device, source))
    }

    pub(crate) fn remember(&mut self, device: u32, source: u32) {
        if let Some(at) = self.places.get_mut(place(device, source)) {
            *at = (device, source);
        }
    }
}

impl<A: Address> Default for FamilyCache<A> {
    fn default() -> Self {
        FamilyCache {
            ways: vec![None; PLACES].into(),
            over_gateways: QuickMap::default(),
            neighbours: vec![None; PLACES].into(),
        }
    }
}

#[inline]
fn place(device: u32, address: u32) -> usize {
    let spread = (address ^ device.rotate_right(8)).wrapping_mul(0x9e37_79b1);
    (spread >> 22) as usize % PLACES
}

impl<A: Address> FamilyCache<A> {
    fn clear(&mut self) {
        self.ways.fill(None);
        self.over_gateways.clear();
        self.neighbours.fill(None);
    }

    /// Where the way to an address is for what came in by a device ([`FamilyCache::way`]).
    #[inline]
    pub(crate) fn find(&self, iif: u32, daddr: A) -> Option<usize> {
        let at = place(iif, daddr.folded());
        let way = self.ways.get(at)?.as_ref()?;
        (way.daddr == daddr && way.to.iif == iif).then_some(at)
    }

    /// A way that was found.
    #[inline]
    pub(crate) fn way(&self, at: usize) -> Option<&CachedRoute<A>> {
        self.ways.get(at)?.as_ref()
    }

    pub(crate) fn remember_way(&mut self, daddr: A, to: &Route, mtu: usize) {
        if let Some(at) = self.ways.get_mut(place(to.iif, daddr.folded())) {
            *at = Some(CachedRoute { daddr, to: *to, mtu });
        }
    }

    /// Remembers the way over a gateway to an address for what came in by a device, and says where.
    /// `None` if the route was not met before.
    pub(crate) fn over_gateway(
        &mut self,
        route: GatewayRoute,
        iif: u32,
        daddr: A,
    ) -> Option<usize> {
        let known = self.over_gateways.get(&(route.number, iif))?;
        let at = place(iif, daddr.folded());
        let to = Route { prefix_len: route.len, ..known.to };
        *self.ways.get_mut(at)? = Some(CachedRoute { daddr, to, mtu: known.mtu });
        Some(at)
    }

    /// Remembers a way for all destinations of a route.
    pub(crate) fn remember_gateway(
        &mut self,
        route: GatewayRoute,
        daddr: A,
        to: &Route,
        mtu: usize,
    ) {
        if self.over_gateways.len() >= GATEWAYS {
            self.over_gateways.clear();
        }
        self.over_gateways.insert((route.number, to.iif), CachedRoute { daddr, to: *to, mtu });
    }

    /// Forgets the ways to an address for what came in by any of these devices.
    pub(crate) fn forget_ways(&mut self, devices: impl Iterator<Item = u32>, daddr: A) {
        for device in devices {
            let at = self.ways.get_mut(place(device, daddr.folded()));
            if let Some(at) = at.filter(|at| at.is_some_and(|way| way.daddr == daddr)) {
                *at = None;
            }
        }
    }

    /// The link address of a next hop of a device.
    #[inline]
    pub(crate) fn neighbour(&self, device: u32, address: A) -> Option<Mac> {
        match self.neighbours.get(place(device, address.folded())) {
            Some(Some(n)) if n.address == address && n.device == device => Some(n.mac),
            _ => None,
        }
    }

    pub(crate) fn remember_neighbour(&mut self, device: u32, address: A, mac: Mac) {
        if let Some(at) = self.neighbours.get_mut(place(device, address.folded())) {
            *at = Some(Neighbour { device, address, mac });
        }
    }
}
