// SPDX-License-Identifier: Apache-2.0

//! Adjacencies: what forwarded packets get on their way to a next hop, found out once for each state
//! of the network.
//!
//! The forwarding table gives packets the number of their route ([`RouteNumber`]). An adjacency is
//! kept for each number of a route over a gateway; where destinations are on the link, one for each
//! of them that is met.

use penstock_net::{Link, Mac, RouteNumber};
use penstock_wire::ethernet;

use crate::link_header::ethernet_header;
use crate::route::Route;

/// Adjacencies of a family at first, and at most. Others take the places of those that fall
/// together with them.
const FEWEST: usize = 256;
const MOST: usize = 1 << 16;
/// Places that an adjacency may have.
const PROBES: usize = 4;
/// Sources that are remembered.
const SOURCES: usize = 1024;

/// An address of either family.
pub(crate) trait Address: Copy + PartialEq + Default {
    /// All of its bits in fewer.
    fn folded(self) -> u64;
}

impl Address for u32 {
    #[inline(always)]
    fn folded(self) -> u64 {
        self.into()
    }
}

impl Address for u128 {
    #[inline(always)]
    fn folded(self) -> u64 {
        (self >> 64) as u64 ^ (self as u64).rotate_left(17)
    }
}

/// What packets by a route to a next hop have in common.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Adjacency<A> {
    number: RouteNumber,
    /// Device to leave by.
    pub(crate) oif: u32,
    /// The destination, if the route is to the link. Else, and for what only says that it is, none.
    destination: A,
    pub(crate) realm: u32,
    /// Bytes that a packet may have.
    pub(crate) mtu: u32,
    /// The link header, where one is known and nothing else has to be done before packets leave.
    header: [u8; ethernet::LEN],
    has_header: bool,
    /// Each destination has an adjacency of its own.
    on_link: bool,
}

impl<A: Address> Adjacency<A> {
    /// Whether it is that of all destinations of its route.
    #[inline(always)]
    pub(crate) fn is_for_all(&self) -> bool {
        self.destination == A::default()
    }

    /// The Ethernet header that packets leave with. `None` if the device is no wire that is up, or
    /// the next hop has no link address yet.
    #[inline(always)]
    pub(crate) fn header(&self) -> Option<&[u8; ethernet::LEN]> {
        self.has_header.then_some(&self.header)
    }
}

/// Where a packet goes by a route that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a, A> {
    pub(crate) number: RouteNumber,
    pub(crate) destination: A,
    pub(crate) to: &'a Route,
    pub(crate) mtu: usize,
    /// The device that `to` leaves by, if that is a wire that is up, and the neighbour's address.
    pub(crate) neighbour: Option<(&'a Link, Mac)>,
}

/// The adjacencies of one family.
#[derive(Debug)]
pub(crate) struct Adjacencies<A> {
    ethertype: u16,
    /// A power of two.
    places: Vec<Adjacency<A>>,
    /// Their routes, as they are for packets from the host.
    routes: Vec<Option<Route>>,
    /// How many places are taken.
    count: usize,
}

impl<A: Address> Adjacencies<A> {
    fn new(ethertype: u16) -> Self {
        let mut new = Adjacencies { ethertype, places: Vec::new(), routes: Vec::new(), count: 0 };
        new.clear(FEWEST);
        new
    }

    fn clear(&mut self, places: usize) {
        let nothing = Adjacency {
            number: RouteNumber::NONE,
            oif: 0,
            destination: A::default(),
            realm: 0,
            mtu: 0,
            header: [0; ethernet::LEN],
            has_header: false,
            on_link: false,
        };
        self.places.clear();
        self.places.resize(places, nothing);
        self.routes.clear();
        self.routes.resize(places, None);
        self.count = 0;
    }

    /// The first place where an adjacency may be.
    #[inline(always)]
    fn first_place(&self, number: u32, destination: A) -> usize {
        // Numbers that follow each other lie far apart.
        let spread = number.wrapping_mul(0x9e37_79b1);
        let of_destination = destination.folded().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let both = u64::from(spread ^ (of_destination >> 32) as u32);
        ((both * self.places.len() as u64) >> 32) as usize
    }

    /// All places where an adjacency may be.
    fn probes(&self, number: u32, destination: A) -> impl Iterator<Item = usize> + use<A> {
        let (first, mask) = (self.first_place(number, destination), self.places.len() - 1);
        (first..first + PROBES).map(move |at| at & mask)
    }

    #[inline(always)]
    fn is_at(&self, at: usize, number: RouteNumber, destination: A) -> bool {
        let place = self.places.get(at);
        place.is_some_and(|found| found.number == number && found.destination == destination)
    }

    /// Where an adjacency is: that of a destination, or that of all of a route.
    #[inline(always)]
    fn find_exact(&self, number: RouteNumber, destination: A) -> Option<usize> {
        let first = self.first_place(number.get()?, destination);
        if self.is_at(first, number, destination) {
            return Some(first);
        }
        self.find_later(number, destination)
    }

    #[inline(never)]
    fn find_later(&self, number: RouteNumber, destination: A) -> Option<usize> {
        let mut probes = self.probes(number.get()?, destination).skip(1);
        probes.find(|at| self.is_at(*at, number, destination))
    }

    /// Where the adjacency of packets to a destination is, by the number of their route.
    #[inline(always)]
    pub(crate) fn find(&self, number: RouteNumber, destination: A) -> Option<usize> {
        let at = self.find_exact(number, A::default())?;
        if self.places.get(at)?.on_link { self.find_exact(number, destination) } else { Some(at) }
    }

    /// What was found ([`Adjacencies::find`]).
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&Adjacency<A>> {
        self.places.get(at)
    }

    /// The route of what was found, for packets that came in by a device.
    #[inline]
    pub(crate) fn route(&self, at: usize, iif: u32) -> Option<Route> {
        Some(Route { iif, ..(*self.routes.get(at)?)? })
    }

    /// Remembers where packets of a route go.
    pub(crate) fn insert(&mut self, way: &Way<'_, A>) {
        let on_link = way.to.gateway.is_none();
        let header =
            way.neighbour.map(|(link, mac)| ethernet_header(mac, link.mac, self.ethertype));
        let adjacency = Adjacency {
            number: way.number,
            oif: way.to.oif,
            destination: if on_link { way.destination } else { A::default() },
            realm: way.to.realm,
            mtu: way.mtu as u32,
            header: header.unwrap_or_default(),
            has_header: header.is_some(),
            on_link: false,
        };
        self.put(adjacency, *way.to);
        if on_link {
            self.put(Adjacency { on_link, destination: A::default(), ..adjacency }, *way.to);
        }
    }

    fn put(&mut self, new: Adjacency<A>, to: Route) {
        let Some(number) = new.number.get() else { return };
        let mut at = self.find_exact(new.number, new.destination);
        while at.is_none() {
            // Most are to be found in their first place.
            let roomy = self.count < self.places.len() / 4;
            let most = self.places.len() >= MOST;
            let mut probes = self.probes(number, new.destination);
            at = match probes.find(|at| self.routes[*at].is_none()) {
                None if most => self.probes(number, new.destination).next(),
                free => free.filter(|_| roomy || most),
            };
            if at.is_none() {
                self.grow();
            }
        }
        if let Some(at) = at {
            self.count += usize::from(self.routes[at].is_none());
            (self.places[at], self.routes[at]) = (new, Some(to));
        }
    }

    /// Makes room for twice as many.
    fn grow(&mut self) {
        let places = std::mem::take(&mut self.places);
        let routes = std::mem::take(&mut self.routes);
        self.clear(2 * places.len());
        for (adjacency, route) in places.into_iter().zip(routes) {
            if let Some(to) = route {
                self.put(adjacency, to);
            }
        }
    }
}

/// What was found out about the ways of packets.
#[derive(Debug)]
pub(crate) struct Forwarding {
    pub(crate) v4: Adjacencies<u32>,
    pub(crate) v6: Adjacencies<u128>,
    /// IPv4 sources that have passed the check of their route back.
    pub(crate) sources4: Sources,
    /// The device with rules at egress by which the last packet of the fast path left.
    pub(crate) last_out: u32,
}

impl Default for Forwarding {
    fn default() -> Self {
        Forwarding {
            v4: Adjacencies::new(ethernet::IPV4),
            v6: Adjacencies::new(ethernet::IPV6),
            sources4: Sources::default(),
            last_out: 0,
        }
    }
}

impl Forwarding {
    /// The network is another one.
    pub(crate) fn clear(&mut self) {
        self.v4.clear(FEWEST);
        self.v6.clear(FEWEST);
        self.sources4.places.fill((0, 0));
    }
}

/// Devices and sources; device 0 where there is none. What falls on the same place takes turns.
#[derive(Debug)]
pub(crate) struct Sources {
    places: Box<[(u32, u32)]>,
}

impl Default for Sources {
    fn default() -> Self {
        Sources { places: vec![(0, 0); SOURCES].into() }
    }
}

impl Sources {
    fn place(device: u32, source: u32) -> usize {
        let spread = (source ^ device.rotate_right(8)).wrapping_mul(0x9e37_79b1);
        (spread >> 22) as usize % SOURCES
    }

    /// Whether the source was remembered for the device.
    #[inline]
    pub(crate) fn has(&self, device: u32, source: u32) -> bool {
        self.places.get(Self::place(device, source)) == Some(&(device, source))
    }

    pub(crate) fn remember(&mut self, device: u32, source: u32) {
        if let Some(at) = self.places.get_mut(Self::place(device, source)) {
            *at = (device, source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_net::{Flow4, Network};

    #[test]
    fn all_next_hops_have_room() {
        const HOSTS: u32 = 3000;
        let net = "link add wan type veth\nlink set wan up\naddr add 198.18.0.1/16 dev wan\n";
        let routes = (0..HOSTS).map(|n| {
            format!("route add 10.{}.{}.0/24 via 198.18.{}.{}\n", n >> 8, n & 255, n >> 8, n & 255)
        });
        let net = net.to_owned() + &routes.skip(2).collect::<String>();
        let net = Network::from_batch("net", &net).unwrap();
        let mut known = Adjacencies::<u32>::new(ethernet::IPV4);
        let number = |destination| net.route_number4(destination);
        let far = (2..HOSTS).map(|n| 10 << 24 | n << 8 | 7);
        let near = (2..HOSTS).map(|n| 198 << 24 | 18 << 16 | n);
        let all: Vec<u32> = far.chain(near).collect();
        for &destination in &all {
            let hit = net.route4(&Flow4 { daddr: destination, ..Flow4::default() }).unwrap();
            let to = Route::of(&hit, 0);
            assert_eq!(known.find(number(destination), destination), None);
            let number = number(destination);
            known.insert(&Way { number, destination, to: &to, mtu: 1500, neighbour: None });
        }
        for destination in all {
            let hit = net.route4(&Flow4 { daddr: destination, ..Flow4::default() }).unwrap();
            let at = known.find(number(destination), destination).unwrap();
            assert_eq!(known.route(at, 9), Some(Route::of(&hit, 9)));
        }
        assert_eq!(known.find(RouteNumber::NONE, 0), None);
    }
}
