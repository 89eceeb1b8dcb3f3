// SPDX-License-Identifier: Apache-2.0

//! IPv4 options of packets on their way through: source routes when they were received
//! (`ip_options_rcv_srr()`), and the router's address when they leave (`ip_forward_options()`).

use std::net::Ipv4Addr;

use penstock_net::{Flow4, RouteType, Scope};
use penstock_packet::{Packet, PacketType};
use penstock_wire::ipv4_options::{self, Compiled};
use penstock_wire::source_route::{self, Next as Hop};
use penstock_wire::{icmp, ipv4};

use crate::addresses;
use crate::addresses::{as_v4, ip4};
use crate::course::Course;
use crate::reason::DropReason;
use crate::route::{Route, Routed};
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::worker::Worker;

/// Where the destination is in the header, for a parameter problem.
const DESTINATION: u8 = 16;

/// Whether there is a source route that does not end at the packet's destination.
pub(crate) fn has_way_to_go(options: &[u8], found: &Compiled) -> bool {
    source_route::find(options, found.srr)
        .is_some_and(|(option, pointer)| source_route::next(option, pointer) != Hop::End)
}

impl<S: Sink> Worker<'_, S> {
    /// Follows the source route of a packet with this route: `None` if it ends here.
    pub(crate) fn ip4_source_route(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        to: Route,
    ) -> Option<Route> {
        let refuse = |worker: &mut Self, packet: &Packet, pointer: u8| {
            let error = icmp::Repr::parameter_problem(pointer);
            worker.icmp4_error(packet, Some(&to), error, Options::Read);
        };
        match to.kind {
            _ if packet.meta.packet_type != PacketType::Host => {}
            RouteType::Unicast if !course.options.strict => return Some(to),
            // It is not where the route leads.
            RouteType::Unicast => refuse(self, packet, DESTINATION),
            RouteType::Local => match self.ip4_next_hops(packet, course, to) {
                Ok(found) => return Some(found),
                Err(None) => {}
                Err(Some(pointer)) => refuse(self, packet, pointer),
            },
            _ => {}
        }
        self.drop(DropReason::SourceRoute, packet);
        None
    }

    /// Goes along a source route over addresses of this host. An error has the offset of the byte
    /// that is wrong, if the sender is to be told.
    fn ip4_next_hops(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        mut to: Route,
    ) -> Result<Route, Option<u8>> {
        let position = course.options.srr;
        let mut copy = [0; ipv4_options::MAX_LEN];
        let h = ipv4::Header::new(packet.network()).ok_or(None)?;
        let options = h.options();
        copy.get_mut(..options.len()).ok_or(None)?.copy_from_slice(options);
        let (option, mut pointer) = source_route::find(&copy, position).ok_or(None)?;
        loop {
            let hop = match source_route::next(option, pointer) {
                Hop::To(hop) => hop,
                Hop::End => break,
                Hop::Cut => return Err(Some(position + 2)),
            };
            let here = set_destination(packet, hop).ok_or(None)?;
            match self.ip4_route_input(packet) {
                Routed::To(found) if found.kind == RouteType::Local => to = found,
                Routed::To(found) if found.kind == RouteType::Unicast => {
                    set_destination(packet, here);
                    course.options.next_hop = Some(hop);
                    course.options.changed = true;
                    to = found;
                    break;
                }
                _ => {
                    set_destination(packet, here);
                    return Err(None);
                }
            }
            course.options.changed = true;
            pointer = pointer.saturating_add(4);
        }
        // The host's stack reads the header once more.
        if self.settings.host_stack
            && to.local
            && course.options.changed
            && let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut())
        {
            h.fill_checksum();
        }
        course.route = Some(to);
        packet.meta.realm = to.realm;
        packet.meta.route = Some(to.oif);
        Ok(to)
    }

    /// Record route, source route and timestamp options get the address of the way out
    /// (`ip_forward_options()`).
    pub(crate) fn ip4_forward_options(
        &mut self,
        packet: &mut Packet,
        options: &Compiled,
        to: &Route,
    ) {
        if !options.rr_need_address && !options.ts_need_address && !options.changed {
            return;
        }
        let Some(address) = self.address_of_way_out(packet, to) else { return };
        let Some(mut header) = ipv4::HeaderMut::new(packet.network_mut()) else { return };
        ipv4_options::fill_record_route(header.options_mut(), options, address);
        if let Some(hop) = options.next_hop {
            header.set_dst(hop);
            let address = self.address_of_way_out(packet, to).unwrap_or(address);
            let Some(mut header) = ipv4::HeaderMut::new(packet.network_mut()) else { return };
            source_route::fill(header.options_mut(), options.srr, hop, address);
            // A timestamp of another packet keeps the address towards its sender.
            ipv4_options::fill_timestamp(header.options_mut(), options, address);
        }
        if let Some(mut header) = ipv4::HeaderMut::new(packet.network_mut()) {
            header.fill_checksum();
        }
    }

    /// The router's address towards the destination of a packet (`ip_rt_get_source()`).
    fn address_of_way_out(&self, packet: &Packet, to: &Route) -> Option<Ipv4Addr> {
        let (saddr, daddr) = addresses::of4(packet)?;
        let net = self.net;
        let oif = packet.meta.oif;
        let flow = Flow4 {
            daddr,
            saddr,
            iif: packet.meta.iif,
            oif,
            mark: packet.meta.mark,
            ..Flow4::default()
        };
        Some(ip4(match net.route4(&flow) {
            Ok(hit) => net.source_of4(&hit),
            Err(_) => net.source4(oif, as_v4(to.gateway).unwrap_or(daddr), Scope::UNIVERSE),
        }))
    }
}

/// Puts another destination into a packet, and nothing else; gives the one before.
fn set_destination(packet: &mut Packet, destination: Ipv4Addr) -> Option<Ipv4Addr> {
    let mut h = ipv4::HeaderMut::new(packet.network_mut())?;
    let before = h.read().dst();
    h.set_dst(destination);
    Some(before)
}
