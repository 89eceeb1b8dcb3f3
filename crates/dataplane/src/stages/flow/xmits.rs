// SPDX-License-Identifier: Apache-2.0

//! How packets leave at present: what of that depends on the generation and the network is worked
//! out once.

use penstock_flowtable::{Xmit, XmitType};
use penstock_net::Mac;

use crate::flow::resolved::{Kind, Resolved};
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Works out a way.
    pub(crate) fn resolve(&self, xmit: &Xmit, epoch: u32) -> Resolved {
        let mut resolved = Resolved {
            epoch,
            kind: Kind::Gone,
            device: xmit.device,
            mtu: xmit.mtu,
            link: link_addresses(xmit.destination, xmit.source),
            around: xmit.tunnel.is_some() || !xmit.encaps.as_slice().is_empty(),
        };
        let Some(link) = self.net.link(xmit.device).filter(|l| l.up) else { return resolved };
        match xmit.xmit_type {
            XmitType::Neigh => {
                let route = self.net.link(xmit.route).filter(|l| l.up);
                let Some((route, next)) = route.zip(xmit.next_hop) else { return resolved };
                if route.has_link_header() {
                    let Some(Mac(mac)) = self.link_address(route, next) else { return resolved };
                    resolved.link = link_addresses(mac, route.mac.0);
                }
            }
            XmitType::Direct => {}
            XmitType::Xfrm(number) => {
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
