// SPDX-License-Identifier: Apache-2.0

//! Bridges (`net/bridge/`): frames that come by a port, and those that the host sends on the bridge
//! device.
//!
//! ```text
//! port -> prerouting -+-> forward -> postrouting -> egress of a port
//!         (broute)    |
//!                     +-> input -> received on the bridge device -> its ingress, VLAN devices, IP
//! bridge device -> output -> postrouting -> egress of a port
//! ```
//!
//! A frame for many ports is copied for each, so every copy passes `forward` and `postrouting`.
//! There is no spanning tree: a port that is up forwards as soon as its bridge is up.

mod forward;
mod ip_hooks;
mod multicast;
mod track;

use penstock_net::{Bridge, BridgePort, Link, Mac};
use penstock_packet::{Packet, PacketType};
use penstock_program::Hook;

use crate::bridge::vlan;
use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::bridge::forward::{Reach, Sender};
use crate::worker::Worker;

/// A port with its bridge.
#[derive(Clone, Copy)]
struct At<'n> {
    port: &'n BridgePort,
    link: &'n Link,
    bridge: &'n Bridge,
}

/// Destination and source of a frame.
pub(crate) fn ethernet_addresses(packet: &Packet) -> Option<(Mac, Mac)> {
    let (to, rest) = packet.link().split_first_chunk::<6>()?;
    Some((Mac(*to), Mac(*rest.first_chunk::<6>()?)))
}

/// The last byte of a link-local group address, 01:80:c2:00:00:0X (IEEE 802.1D, table 7-10).
fn link_local(mac: Mac) -> Option<u8> {
    match mac.0 {
        [0x01, 0x80, 0xc2, 0, 0, last @ 0..16] => Some(last),
        _ => None,
    }
}

/// Whether a rule of a bridge wants a frame routed. After hooks of IP it is too late for that
/// (`br_nf_hook_thresh()`).
pub(crate) fn is_brouted(packet: &Packet) -> bool {
    packet.meta.broute && packet.meta.bridged.arrived == 0
}

impl<'a, S: Sink> Worker<'a, S> {
    /// A frame that came by a port, after ingress (`br_handle_frame()`): to the bridge, or to its
    /// protocol as if the port were none.
    pub(crate) fn bridge_prerouting(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        /// Pause frames (IEEE 802.3, annex 31B).
        const CONTROL: u8 = 1;
        /// LLDP (IEEE 802.1AB).
        const NEAREST_BRIDGE: u8 = 0xe;
        let Some(at) = self.port_of(packet.meta.iif) else {
            return Next::Protocol;
        };
        if packet.meta.packet_type == PacketType::Loopback {
            return Next::Protocol;
        }
        let Some((to, from)) = ethernet_addresses(packet) else {
            return Next::Protocol;
        };
        packet.meta.broute = false;
        if from.is_group() || from == Mac::default() {
            return self.end(DropReason::LinkSource, packet);
        }
        if let Some(last) = link_local(to) {
            let forwarded = (at.bridge.group_forward | at.port.group_forward) & 1 << last != 0;
            match last {
                // Without a spanning tree its messages go through, so that others find loops.
                0 => {}
                CONTROL => {
                    return self.end(DropReason::LinkControl, packet);
                }
                _ if forwarded => {}
                NEAREST_BRIDGE => {
                    self.learn_local(packet, at);
                    return Next::Protocol;
                }
                _ => {
                    let (bridge, after) = (Protocol::Bridge, Next::BridgeReceived);
                    if self.hook(bridge, Hook::Input, packet, course, after) != after {
                        return Next::Done;
                    }
                    self.learn_local(packet, at);
                    return Next::Protocol;
                }
            }
        }
        if !at.link.up {
            return self.end(DropReason::BridgePort, packet);
        }
        if to == at.link.mac {
            packet.meta.packet_type = PacketType::Host;
        }
        let (hook, next) = (Hook::Prerouting, Next::BridgeRoute);
        let next = self.hook_before_route(Protocol::Bridge, hook, packet, course, next);
        if next == Next::BridgeRoute && is_brouted(packet) {
            packet.meta.broute = false;
            return Next::Protocol;
        }
        next
    }

    /// A link-local frame is for the port itself (`__br_handle_local_finish()`).
    fn learn_local(&mut self, packet: &Packet, at: At<'_>) {
        if !at.port.learning || !at.bridge.learn_link_local || !at.link.up {
            return;
        }
        let (vid, from) = (vlan::of(at.bridge, &at.port.vlans, packet), ethernet_addresses(packet));
        if let (Some(vid), Some((_, from)), Some(table)) =
            (vid, from, self.state.bridges.table(at.port.bridge))
        {
            table.learn(from, vid, packet.meta.iif, packet.meta.time);
        }
    }

    /// A port with its bridge.
    fn port_of(&self, index: u32) -> Option<At<'a>> {
        let net = self.net;
        let port = net.bridge_port(index)?;
        let link = net.link(port.bridge)?;
        Some(At { port, link, bridge: link.bridge()? })
    }

    /// `br_handle_frame_finish()`: where the frame goes.
    pub(crate) fn bridge_route(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        // For a frame that was queued it comes too late to be routed instead.
        packet.meta.broute = false;
        let Some(at) = self.port_of(packet.meta.iif) else {
            return self.end(DropReason::BridgePort, packet);
        };
        if let Some(to) = course.route.take()
            && !self.bridge_turn(packet, &to)
        {
            return Next::Done;
        }
        let At { port, link, bridge } = at;
        let Some(vid) = vlan::enter(bridge, &port.vlans, packet) else {
            return self.end(DropReason::BridgeVlan, packet);
        };
        let Some((to, from)) = ethernet_addresses(packet) else {
            return self.end(DropReason::LinkHeader, packet);
        };
        let now = packet.meta.time;
        let Some(table) = self.state.bridges.table(port.bridge) else {
            return self.end(DropReason::BridgePort, packet);
        };
        if port.locked {
            let known = table.find(from, vid, now);
            if known.is_none_or(|s| s.local || s.port != packet.meta.iif) {
                return self.end(DropReason::BridgePort, packet);
            }
        }
        if port.learning {
            table.learn(from, vid, packet.meta.iif, now);
        }
        let mut reach = Reach::of(to);
        let station = if reach == Reach::One { table.find(to, vid, now) } else { None };
        let local = station.is_some_and(|s| s.local);
        packet.meta.bridged.overheard = link.promiscuous && !local;
        if local {
            return Next::BridgeInput;
        }
        let sender =
            Sender { device: port.bridge, bridge, port: Some((packet.meta.iif, port)), vid };
        if matches!(reach, Reach::Group(_)) {
            match self.bridge_snoop(packet, &sender, to) {
                Ok(spread) => reach = Reach::Group(spread),
                Err(reason) => return self.end(reason, packet),
            }
        }
        let up = link.promiscuous
            || match reach {
                Reach::One => false,
                Reach::Group(spread) => self.bridge_host_gets(&sender, link, spread, now),
                Reach::All => true,
            };
        let next = match station {
            Some(station) => self.bridge_send_to(packet, course, &sender, station.port, up),
            None => self.bridge_flood(packet, course, &sender, reach, up),
        };
        if up { Next::BridgeInput } else { next }
    }

    /// To the bridge device (`br_pass_frame_up()`).
    pub(crate) fn bridge_input(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let Some(At { link, bridge, .. }) = self.port_of(packet.meta.iif) else {
            return self.end(DropReason::BridgePort, packet);
        };
        if !link.promiscuous && !vlan::may_leave(bridge, &bridge.vlans, vlan::tagged(packet)) {
            return self.end(DropReason::BridgeVlan, packet);
        }
        vlan::leave(bridge, &bridge.vlans, packet);
        self.hook(Protocol::Bridge, Hook::Input, packet, course, Next::BridgeReceived)
    }

    /// The frame is received on the bridge device (`br_netif_receive_skb()`).
    pub(crate) fn bridge_received(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let Some(port) = self.net.bridge_port(packet.meta.iif) else {
            return self.end(DropReason::BridgePort, packet);
        };
        packet.meta.iif = port.bridge;
        packet.meta.nftrace |= self.state.trace_all;
        *course = Course::default();
        Next::Ingress
    }
}
