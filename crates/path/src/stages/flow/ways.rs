// SPDX-License-Identifier: Apache-2.0

//! How packets leave at present: what of that depends on the generation and the network is worked
//! out once.

use penstock_flowtable::{Transmit, Way};
use penstock_net::Mac;

use crate::flow::resolved::{Kind, Resolved};
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Works out a way.
    pub(crate) fn resolve(&self, way: &Way, epoch: u32) -> Resolved {
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
