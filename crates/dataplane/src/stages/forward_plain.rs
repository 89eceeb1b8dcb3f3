// SPDX-License-Identifier: Apache-2.0

//! Packets of IPv4 that no hook sees between two wires: from the frame to the next hop in a few
//! steps, several frames of a burst in a row. Nothing here means anything of its own, as on the
//! [fast path](super::fast_path): a packet that needs more takes that, from its beginning.

use penstock_net::{Link, RouteNumber};
use penstock_packet::{Frame, Packet};
use penstock_wire::{ethernet, ipv4};

use crate::addresses;
use crate::pending_frames::PendingFrames;
use crate::route::priority_of_tos;
use crate::sink::Sink;
use crate::stages::device_path::FastPath;
use crate::stages::headers_ahead::ParsedHeaders;
use crate::stages::prefetcher::Prefetcher;
use crate::stages::run_list::after_trace_id;
use crate::worker::Worker;

/// Where plain packets of a route go.
struct NextHop<'a> {
    route: RouteNumber,
    /// The only destination that has it, where destinations are on the link.
    destination: Option<u32>,
    link: &'a Link,
    /// Where its adjacency is.
    adjacency: usize,
    /// Rules at egress are known to let packets pass that say so.
    prechecked: bool,
}

impl NextHop<'_> {
    /// Whether a packet of a route to a usual destination goes there.
    #[inline(always)]
    fn takes(&self, route: RouteNumber, headers: &ParsedHeaders) -> bool {
        self.route == route && self.destination.is_none_or(|to| to == headers.dst)
    }
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Forwards the next frames of a burst, up to one that needs more, if no hook sees packets from
    /// their device ([`FastPath::plain`]). `packet` is for such frames only.
    #[inline(always)]
    pub(crate) fn forward_plain(
        &mut self,
        fast_path: &FastPath<'_>,
        frames: &[Frame<'_>],
        left: &mut PendingFrames,
        prefetcher: &mut Prefetcher,
        packet: &mut Packet,
    ) {
        let (mut last, mut quiet_at, mut forwarded) = (None, None, 0);
        let mut trace_id = self.state.numbers.trace_id;
        while let Some(at) = left.first() {
            let Some(parsed) = prefetcher.parsed(at, frames, None) else { break };
            let (frame, headers) = (parsed.frame, parsed.headers);
            let prechecked = parsed.egress_prechecked;
            let usual = addresses::is_usual4(headers.dst)
                && self.ip4_usual_source(fast_path.device, headers.src);
            if headers.v6 || !usual {
                break;
            }
            if quiet_at != Some(frame.time) {
                if self.is_due(frame.time) {
                    break;
                }
                quiet_at = Some(frame.time);
            }
            let route = parsed.route.number(self.net);
            if !last.as_ref().is_some_and(|hop: &NextHop<'_>| hop.takes(route, headers)) {
                last = self.plain_next_hop(fast_path, route, headers);
            }
            let Some(hop) = &last else { break };
            let len = ethernet::LEN + usize::from(headers.len);
            let to = self.state.forwarding.v4.get(hop.adjacency);
            let (Some(bytes), Some(to)) = (frame.bytes.get(..len), to) else { break };
            let Some(header) = to.header() else { break };
            if u32::from(headers.len) > to.mtu || hop.prechecked && !prechecked {
                break;
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
            if hop.prechecked {
                trace_id = after_trace_id(trace_id);
                meta.trace_id = trace_id;
            }
            if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
                h.decrement_ttl();
            }
            self.sink.transmit(hop.link, packet.frame(), &packet.meta);
            forwarded += 1;
            left.next();
        }
        self.state.numbers.trace_id = trace_id;
        let counters = &mut self.state.counters;
        counters.received += forwarded;
        counters.forwarded += forwarded;
        counters.transmitted += forwarded;
    }

    /// Where a plain packet goes, if that is known, a wire, and nothing but known rules at egress
    /// sees it.
    #[inline]
    fn plain_next_hop(
        &self,
        fast_path: &FastPath<'_>,
        route: RouteNumber,
        headers: &ParsedHeaders,
    ) -> Option<NextHop<'a>> {
        let adjacency = self.adjacency4(fast_path.device, headers.dst, route)?;
        let to = self.state.forwarding.v4.get(adjacency)?;
        let link = self.net.link(to.oif).filter(|_| to.header().is_some())?;
        let prechecked = fast_path.prechecks_egress(to.oif);
        if self.state.taps.has(to.oif) || !prechecked && !self.hooks.egress(to.oif).is_empty() {
            return None;
        }
        // What was learned of a path is about one destination.
        let for_all = to.is_for_all() && self.state.path_mtus.is_empty();
        let destination = (!for_all).then_some(headers.dst);
        Some(NextHop { route, destination, link, adjacency, prechecked })
    }
}
