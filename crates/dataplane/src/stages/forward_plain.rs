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

/// A wire that packets leave by, which nothing but known rules at egress sees.
#[derive(Clone, Copy)]
struct Out<'a> {
    oif: u32,
    link: &'a Link,
    /// Rules at egress are known to let packets pass that say so.
    prechecked: bool,
}

/// Where plain packets of a route go.
struct NextHop<'a> {
    route: RouteNumber,
    /// The only destination that has it, where destinations are on the link.
    destination: Option<u32>,
    /// Where its adjacency is.
    adjacency: usize,
    out: Out<'a>,
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
        // What was learned of a path is about one destination.
        let alike = !self.net.custom4() && self.state.path_mtus.is_empty();
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
                let out = last.map(|hop| hop.out);
                last = self.plain_next_hop(fast_path, route, headers, alike, out);
            }
            let Some(hop) = &last else { break };
            let len = ethernet::LEN + usize::from(headers.len);
            let to = self.state.forwarding.v4.get(hop.adjacency);
            let (Some(bytes), Some(to)) = (frame.bytes.get(..len), to) else { break };
            let Some(header) = to.header() else { break };
            if u32::from(headers.len) > to.mtu || hop.out.prechecked && !prechecked {
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
            if hop.out.prechecked {
                trace_id = after_trace_id(trace_id);
                meta.trace_id = trace_id;
            }
            if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
                h.decrement_ttl();
            }
            self.sink.transmit(hop.out.link, packet.frame(), &packet.meta);
            forwarded += 1;
            left.next();
        }
        self.state.numbers.trace_id = trace_id;
        let counters = &mut self.state.counters;
        counters.received += forwarded;
        counters.forwarded += forwarded;
        counters.transmitted += forwarded;
    }

    /// Where a plain packet to a usual destination goes, if that is known. `alike` are all packets
    /// of a route over a gateway, `last` is the wire of the packet before it.
    #[inline(always)]
    fn plain_next_hop(
        &self,
        fast_path: &FastPath<'_>,
        route: RouteNumber,
        headers: &ParsedHeaders,
        alike: bool,
        last: Option<Out<'a>>,
    ) -> Option<NextHop<'a>> {
        let known = &self.state.forwarding.v4;
        let adjacency = match alike {
            true => known.find(route, headers.dst)?,
            false => self.adjacency4(fast_path.device, headers.dst, route)?,
        };
        let to = known.get(adjacency).filter(|to| to.oif != fast_path.device)?;
        let out = match last.filter(|last| last.oif == to.oif) {
            Some(out) => out,
            None => self.plain_out(fast_path, to.oif)?,
        };
        let destination = (!alike || !to.is_for_all()).then_some(headers.dst);
        Some(NextHop { route, destination, adjacency, out })
    }

    /// A device, if it is such a wire for packets that need no more than a link header.
    #[inline(never)]
    fn plain_out(&self, fast_path: &FastPath<'_>, oif: u32) -> Option<Out<'a>> {
        let prechecked = fast_path.prechecks_egress(oif);
        if self.state.taps.has(oif) || !prechecked && !self.hooks.egress(oif).is_empty() {
            return None;
        }
        Some(Out { oif, link: self.net.link(oif)?, prechecked })
    }
}
