//! Ways and neighbours that were found before, for one state of the network: the packets of a flow, and of many flows to one
//! place, ask for the same again and again.
//!
//! Only what depends on the destination alone is here. A place holds what was asked for last; what falls on the same place
//! takes turns.

use penstock_net::Mac;

use crate::worker::Destination;

/// Places, of each kind.
const PLACES: usize = 1024;

/// A way to a destination for packets that came in by a device.
#[derive(Clone, Copy, Debug)]
struct Way {
    daddr: u32,
    to: Destination,
}

/// The link address of a next hop.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    device: u32,
    address: u32,
    mac: Mac,
}

/// What was found before.
#[derive(Debug)]
pub(crate) struct RouteCache {
    ways: Box<[Option<Way>]>,
    neighbours: Box<[Option<Neighbour>]>,
}

impl Default for RouteCache {
    fn default() -> Self {
        RouteCache { ways: vec![None; PLACES].into(), neighbours: vec![None; PLACES].into() }
    }
}

#[inline]
fn place(device: u32, address: u32) -> usize {
    let spread = (address ^ device.rotate_right(8)).wrapping_mul(0x9e37_79b1);
    (spread >> 22) as usize % PLACES
}

impl RouteCache {
    /// The network is another one.
    pub(crate) fn clear(&mut self) {
        self.ways.fill(None);
        self.neighbours.fill(None);
    }

    /// The way to an IPv4 address for what came in by a device.
    #[inline]
    pub(crate) fn way(&self, iif: u32, daddr: u32) -> Option<&Destination> {
        match self.ways.get(place(iif, daddr)) {
            Some(Some(way)) if way.daddr == daddr && way.to.iif == iif => Some(&way.to),
            _ => None,
        }
    }

    pub(crate) fn remember_way(&mut self, daddr: u32, to: &Destination) {
        if let Some(at) = self.ways.get_mut(place(to.iif, daddr)) {
            *at = Some(Way { daddr, to: *to });
        }
    }

    /// The link address of an IPv4 next hop behind a device.
    #[inline]
    pub(crate) fn neighbour(&self, device: u32, address: u32) -> Option<Mac> {
        match self.neighbours.get(place(device, address)) {
            Some(Some(n)) if n.address == address && n.device == device => Some(n.mac),
            _ => None,
        }
    }

    pub(crate) fn remember_neighbour(&mut self, device: u32, address: u32, mac: Mac) {
        if let Some(at) = self.neighbours.get_mut(place(device, address)) {
            *at = Some(Neighbour { device, address, mac });
        }
    }
}
