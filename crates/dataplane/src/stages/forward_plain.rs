// SPDX-License-Identifier: Apache-2.0

//! Packets of IPv4 that no hook sees between two wires: from the frame to the next hop in a few
//! steps. Nothing here means anything of its own, as on the [fast path](super::fast_path): a packet
//! that needs more takes that, from its beginning.

use penstock_packet::Packet;
use penstock_wire::{ethernet, ipv4};

use crate::route::priority_of_tos;
use crate::sink::Sink;
use crate::stages::fast_path::{FastPath, ParsedFrame};
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Forwards a frame if no hook sees packets from its device ([`FastPath::plain`]). Whether it
    /// did. `packet` is for such frames only.
    #[inline]
    pub(crate) fn forward_plain(
        &mut self,
        fast_path: &FastPath<'_>,
        parsed: &ParsedFrame<'_>,
        packet: &mut Packet,
    ) -> bool {
        let &ParsedFrame { frame, headers, route, .. } = parsed;
        if headers.v6 || !self.ip4_usual_source(fast_path.device, headers.src) {
            return false;
        }
        let known = self.adjacency4(fast_path.device, headers.dst, route);
        let Some(to) = known.and_then(|at| self.state.forwarding.v4.get(at)) else { return false };
        let (Some(header), Some(link)) = (to.header(), self.net.link(to.oif)) else { return false };
        let prechecked = headers.passes_egress(fast_path, to.oif);
        let len = ethernet::LEN + usize::from(headers.len);
        let Some(bytes) = frame.bytes.get(..len).filter(|_| u32::from(headers.len) <= to.mtu)
        else {
            return false;
        };
        if self.state.taps.has(to.oif) || !prechecked && !self.hooks.egress(to.oif).is_empty() {
            return false;
        }
        packet.forward(bytes, header);
        let meta = &mut packet.meta;
        meta.time = frame.time;
        meta.protocol = ethernet::IPV4;
        meta.oif = to.oif;
        meta.realm = to.realm;
        meta.route = Some(to.oif);
        meta.priority = priority_of_tos(headers.tos);
        meta.trace_id = 0;
        if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
            h.decrement_ttl();
        }
        if prechecked {
            packet.meta.trace_id = self.next_trace_id();
        }
        let counters = &mut self.state.counters;
        counters.received += 1;
        counters.forwarded += 1;
        counters.transmitted += 1;
        self.sink.transmit(link, packet.frame(), &packet.meta);
        true
    }
}
