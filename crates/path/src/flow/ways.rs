// SPDX-License-Identifier: Apache-2.0

//! How packets leave at present: what of that depends on the generation and the network is worked
//! out once.

use penstock_flowtable::{Transmit, Way};
use penstock_net::Mac;

use super::ipsec::Straight;
use crate::sink::Sink;
use crate::worker::Worker;

/// A way as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// When it was worked out, by the number of changes before.
    pub(super) epoch: u32,
    pub(super) kind: Kind,
    /// Device where it leaves.
    pub(super) device: u32,
    /// Largest packet.
    pub(super) mtu: u32,
    /// Link addresses: destination and source.
    pub(super) link: [u8; 12],
    /// Something is put around packets.
    pub(super) around: bool,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A wire, with nobody who looks at frames before: they go there at once.
    Wire,
    /// Through the device as other packets do.
    Device,
    /// Through IPsec states, by the number of the way; straight to a wire where nobody looks at
    /// what leaves.
    Ipsec(u32, Option<Straight>),
    /// There is no such way any more.
    Gone,
}

impl Resolved {
    /// Not worked out.
    pub(super) const UNKNOWN: Resolved =
        Resolved { epoch: 0, kind: Kind::Gone, device: 0, mtu: 0, link: [0; 12], around: false };
}

impl<S: Sink> Worker<'_, S> {
    /// Works out a way.
    pub(super) fn resolve(&self, way: &Way, epoch: u32) -> Resolved {
        let mut resolved = Resolved {
            epoch,
            kind: Kind::Gone,
            device: way.device,
            mtu: way.mtu,
            link: link_addresses(way.destination, way.source),
            around: way.tunnel.is_some() || !way.encaps.as_slice().is_empty(),
        };
        let Some(link) = self.net.link(way.device).filter(|l| l.up) else { return resolved };
        match way.transmit {
            Transmit::Neigh => {
                let route = self.net.link(way.route).filter(|l| l.up);
                let Some((route, next)) = route.zip(way.next_hop) else { return resolved };
                if route.has_link_header() {
                    let Some(Mac(mac)) = self.link_address(route, next) else { return resolved };
                    resolved.link = link_addresses(mac, route.mac.0);
                }
            }
            Transmit::Direct => {}
            Transmit::Xfrm(number) => {
                self.resolve_ipsec(number, link, &mut resolved);
                return resolved;
            }
        }
        let wire = link.is_wire();
        let rules = !self.hooks.egress(link.index).is_empty();
        let watched = rules || self.state.tc.is_some() || self.state.taps.has(link.index);
        resolved.kind = if wire && !watched { Kind::Wire } else { Kind::Device };
        resolved
    }
}

fn link_addresses(destination: [u8; 6], source: [u8; 6]) -> [u8; 12] {
    let mut both = [0; 12];
    both[..6].copy_from_slice(&destination);
    both[6..].copy_from_slice(&source);
    both
}
