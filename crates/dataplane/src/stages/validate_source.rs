// SPDX-License-Identifier: Apache-2.0

//! Whether an IPv4 packet can have come in by its device from its source (`fib_validate_source()`).

use penstock_net::{Devconf, Flow4, Hit, LOOPBACK, Link, RouteType, Scope};
use penstock_packet::Packet;

use crate::addresses;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

/// Value of `rp_filter` that asks for a route back by the device itself.
const STRICT: u32 = 1;

/// What the check looks at, besides the packet's device and mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journey {
    pub(super) saddr: u32,
    /// 0 where the destination is no host.
    pub(super) daddr: u32,
    pub(super) tos: u8,
    /// The device that the packet would leave by, 0 for this host.
    pub(super) oif: u32,
}

impl<S: Sink> Worker<'_, S> {
    /// Whether the sender shares a link with this host.
    ///
    /// # Errors
    /// The source cannot be one, or is not routed back the way that the device asks for.
    pub(super) fn ip4_check_source(
        &self,
        packet: &Packet,
        journey: Journey,
    ) -> Result<bool, DropReason> {
        let iif = packet.meta.iif;
        let Some(link) = self.net.link(iif) else { return Err(DropReason::MartianSource) };
        let conf = &link.conf;
        // What came through IPsec has proved where it is from.
        let filter = if packet.meta.secpath != 0 { 0 } else { conf.get(Devconf::RpFilter) };
        if filter == 0 && (iif != journey.oif || !conf.is_on(Devconf::SendRedirects)) {
            // Own addresses only, unless routes or rules say more.
            if conf.is_on(Devconf::AcceptLocal) {
                return Ok(false);
            }
            if !self.net.custom4() {
                let own = self.net.own4(journey.saddr);
                return if own { Err(DropReason::MartianSource) } else { Ok(false) };
            }
        }
        self.ip4_check_route_back(link, packet.meta.mark, journey, filter)
    }

    /// `__fib_validate_source()`.
    fn ip4_check_route_back(
        &self,
        link: &Link,
        mark: u32,
        journey: Journey,
        filter: u32,
    ) -> Result<bool, DropReason> {
        let Journey { saddr, daddr, tos, oif } = journey;
        let iif = link.index;
        let last_resort = || if filter == 0 { Ok(false) } else { Err(DropReason::ReversePath) };
        let flow = Flow4 {
            daddr: saddr,
            saddr: daddr,
            tos,
            mark: if link.conf.is_on(Devconf::SrcValidMark) { mark } else { 0 },
            iif: if oif != 0 { oif } else { LOOPBACK },
            ..Flow4::default()
        };
        let Ok(hit) = self.net.route4(&flow) else { return last_resort() };
        let local = hit.route.kind == RouteType::Local;
        if hit.route.kind != RouteType::Unicast && !(local && link.conf.is_on(Devconf::AcceptLocal))
        {
            return Err(DropReason::MartianSource);
        }
        let near = |hit: &Hit<'_>| hit.nexthop.scope >= Scope::HOST;
        let by_link = hit.route.nexthops.iter().any(|n| n.oif == iif);
        if by_link || local && link.is_loopback() {
            return Ok(near(&hit));
        }
        if link.addresses4.is_empty() {
            return last_resort();
        }
        if filter == STRICT {
            return Err(DropReason::ReversePath);
        }
        match self.net.route4(&Flow4 { oif: iif, ..flow }) {
            Ok(hit) if hit.route.kind == RouteType::Unicast => Ok(near(&hit)),
            _ => Ok(false),
        }
    }

    /// Remembers that a source may come in by the packet's device, if that is so for all its
    /// packets.
    pub(super) fn ip4_remember_source(&mut self, packet: &Packet, saddr: u32) {
        if self.net.filters_sources4() && self.net.is_plain4() && packet.meta.secpath == 0 {
            self.state.forwarding.sources4.remember(packet.meta.iif, saddr);
        }
    }

    /// Whether nothing speaks against a source where the route leads to another device: it is no
    /// address of this host, means nothing special, and has passed the check of its route back if
    /// there is one.
    #[inline]
    pub(crate) fn ip4_usual_source(&self, iif: u32, saddr: u32) -> bool {
        addresses::is_usual4(saddr)
            && !self.net.own4(saddr)
            && (!self.net.filters_sources4() || self.state.forwarding.sources4.has(iif, saddr))
    }
}
