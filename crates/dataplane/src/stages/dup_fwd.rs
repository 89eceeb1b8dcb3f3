// SPDX-License-Identifier: Apache-2.0

//! Copies and diversions: `dup` and `fwd` (`nf_dup_ipv4.c`, `nf_dup_netdev.c`, `nft_fwd_netdev.c`).

use std::net::IpAddr;

use penstock_packet::{Ct, CtInfo, Packet};
use penstock_program::{Context, Hook};
use penstock_wire::{ethernet, ipv4, ipv6};

use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Sends a copy of a packet: as the frame is on a device, or routed as if to a gateway.
    pub(crate) fn duplicate(
        &mut self,
        packet: &Packet,
        gateway: Option<IpAddr>,
        device: Option<u32>,
        context: Context,
    ) {
        match gateway {
            Some(gateway) => self.duplicate_to(packet, gateway, device, context.hook),
            None => {
                let Some(device) = device else { return };
                self.between_devices(packet, |worker, copy| worker.send_frame(copy, device));
            }
        }
    }

    /// Moves a packet to a device: the frame as it is, or with a neighbour's address.
    pub(crate) fn forward_to(
        &mut self,
        packet: &mut Packet,
        device: u32,
        neighbour: Option<IpAddr>,
        _context: Context,
    ) {
        self.between_devices(packet, |worker, moved| {
            let Some(neighbour) = neighbour else { return worker.send_frame(moved, device) };
            let Some(link) = worker.net.link(device) else {
                return worker.drop(DropReason::Forward, moved);
            };
            let Some(mac) = worker.link_address(link, neighbour) else {
                return worker.drop(DropReason::NoNeighbour, moved);
            };
            moved.meta.vlan = None;
            worker.send_on(moved, link, mac, link.mac, None);
        });
    }

    /// Sends a copy of a frame by `send`, unless rules on the way have done that too often already
    /// (`nf_do_netdev_egress()`).
    fn between_devices(&mut self, frame: &Packet, send: impl FnOnce(&mut Self, &mut Packet)) {
        /// `NF_RECURSION_LIMIT`.
        const LIMIT: u32 = 2;
        if self.state.nesting.between_devices > LIMIT {
            self.state.counters.originated += 1;
            return self.drop(DropReason::Recursion, frame);
        }
        self.state.nesting.between_devices += 1;
        self.nested(frame.meta.time, |worker, copy| {
            worker.state.counters.originated += 1;
            copy.clone_from(frame);
            send(worker, copy);
        });
        self.state.nesting.between_devices -= 1;
    }

    /// A frame with its link header goes out of a device; a tag that it holds stays with it.
    fn send_frame(&mut self, frame: &mut Packet, device: u32) {
        if self.net.link(device).is_none() {
            return self.drop(DropReason::Forward, frame);
        }
        self.transmit(frame, device, None);
    }

    /// `nf_dup_ipv4()`, `nf_dup_ipv6()`: the copy is routed to the gateway, loses DF and, before
    /// forwarding, a hop.
    fn duplicate_to(&mut self, packet: &Packet, gateway: IpAddr, device: Option<u32>, hook: Hook) {
        if self.state.nesting.duplicating {
            return;
        }
        let oif = device.unwrap_or(0);
        let v6 = packet.meta.protocol == ethernet::IPV6;
        let early = matches!(hook, Hook::Prerouting | Hook::Input);
        let way = match gateway {
            IpAddr::V4(g) if !v6 => self.way_by(g.into(), oif),
            IpAddr::V6(g) if v6 => {
                let to = self.ip6_route_output(g.into(), None, 0, oif);
                to.map(|to| Route { gateway: Some(gateway), ..to })
            }
            _ => None,
        };
        let Some(way) = way else { return };
        self.nested(packet.meta.time, |worker, copy| {
            worker.state.counters.originated += 1;
            copy.clone_from(packet);
            copy.data_at_network();
            copy.meta.ct = Ct { info: CtInfo::Untracked, ..Ct::default() };
            if v6 {
                if let (true, Some(mut h)) = (early, ipv6::HeaderMut::new(copy.network_mut())) {
                    h.decrement_hop_limit();
                }
            } else if let Some(mut h) = ipv4::HeaderMut::new(copy.network_mut()) {
                let frag = h.read().frag() | ipv4::DF;
                h.set_frag(frag);
                if early {
                    let ttl = h.read().ttl().wrapping_sub(1);
                    h.set_ttl(ttl);
                }
                h.fill_checksum();
            }
            worker.state.nesting.duplicating = true;
            let protocol = if v6 { Protocol::Ip6 } else { Protocol::Ip };
            // `nf_dup_ipv4()`, `nf_dup_ipv6()`: a copy is on the device that it leaves by.
            worker.local_out(protocol, copy, way, way.oif);
            worker.state.nesting.duplicating = false;
        });
    }

    fn way_by(&self, gateway: u32, oif: u32) -> Option<Route> {
        let flow = penstock_net::Flow4 {
            daddr: gateway,
            iif: penstock_net::LOOPBACK,
            oif,
            ..Default::default()
        };
        let Ok(hit) = self.net.route4(&flow) else {
            // A device that no route leads to has the packet's own destination on its link.
            let there = penstock_net::RouteType::Unicast;
            return self.net.link(oif).map(|_| Route::special(there, false, oif, 0));
        };
        let mut to = Route::of(&hit, 0);
        if to.local {
            to.oif = penstock_net::LOOPBACK;
        } else if to.gateway.is_none() {
            to.gateway = Some(IpAddr::V4(gateway.into()));
        }
        Some(to)
    }
}
