// SPDX-License-Identifier: Apache-2.0

//! Policies if the host's stack has the states, as under `penstock up`: what policy wants to go
//! through states goes to the host as it is, after `forward` and `output`, and comes back from it
//! as ESP of the host's own.

use penstock_net::LOOPBACK;
use penstock_packet::Packet;
use penstock_xfrm::Stat;

use crate::reason::DropReason;
use crate::route::{BY_HOST, Route};
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Whether the host's stack has the states.
    pub(crate) fn xfrm_is_by_host(&self) -> bool {
        self.state.ipsec.as_deref().is_some_and(|ipsec| ipsec.by_host)
    }

    /// A packet for which policy asks for states that are not there: where the host has them, it
    /// leaves by the host.
    pub(super) fn without_state(&self, to: Route) -> Result<Route, Stat> {
        if self.xfrm_is_by_host() {
            Ok(Route { bundle: BY_HOST, ..to })
        } else {
            Err(Stat::OutNoStates)
        }
    }

    /// Passes a packet to the host, which routes it again: a forwarded one by the device that it
    /// came by, our own as the host's.
    pub(crate) fn leave_to_host(&mut self, packet: &mut Packet) {
        let device = if packet.meta.iif == 0 { LOOPBACK } else { packet.meta.iif };
        let Some(link) = self.net.link(device) else {
            return self.drop(DropReason::LinkDown, packet);
        };
        self.state.counters.delivered += 1;
        self.sink.deliver(link, packet);
    }
}
