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
//! There is no spanning tree: a port that is up forwards as soon as its bridge is up. Memberships
//! are not snooped: groups go to all ports.

mod fdb;
mod forward;
mod learned;
mod track;
mod vlan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use penstock_net::{Bridge, BridgePort, Link, Mac, Network};
use penstock_packet::{Packet, PacketType};
use penstock_program::Hook;
use penstock_program::env;

use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::{Worker, padded};

use fdb::Fdb;
use forward::{Reach, Sender};
use learned::Learned;

/// Addresses that a bridge learns at most.
const ROOM: usize = 1 << 16;

/// What bridges have beside their configuration, and what rules ask about ports, in one state of
/// the network; both by index of the device.
#[derive(Debug, Default)]
pub(crate) struct Bridges {
    tables: Vec<Option<Fdb>>,
    ports: Vec<Option<env::BridgePort>>,
}

impl Bridges {
    fn new(net: &Network, before: &Bridges, learned: impl Fn(u32) -> Arc<Learned>) -> Self {
        let mut bridges = Bridges::default();
        for link in net.links() {
            let index = link.index as usize;
            if let Some(bridge) = link.bridge() {
                let entries = net.fdb().iter().filter(|e| e.bridge == link.index);
                let table =
                    Fdb::new(bridge, entries, learned(link.index), before.table(link.index));
                bridges.tables.resize_with(bridges.tables.len().max(index + 1), || None);
                bridges.tables[index] = Some(table);
            }
            if let Some(port) = &link.port
                && let Some((upper, bridge)) =
                    net.link(port.bridge).and_then(|l| Some((l, l.bridge()?)))
            {
                let vlan = bridge.vlan_filtering.then_some((port.vlans.pvid, bridge.vlan_protocol));
                bridges.ports.resize(bridges.ports.len().max(index + 1), None);
                bridges.ports[index] = Some(env::BridgePort {
                    bridge: padded(&upper.name),
                    address: upper.mac.0,
                    vlan,
                });
            }
        }
        bridges
    }

    /// What rules ask about a port.
    pub(crate) fn port(&self, index: u32) -> Option<&env::BridgePort> {
        self.ports.get(index as usize)?.as_ref()
    }

    /// The port of a bridge behind which an address is; none for this host's own, and for unknown
    /// ones.
    pub(crate) fn station(&self, bridge: u32, mac: Mac, vid: u16, now: u64) -> Option<u32> {
        let station = self.table(bridge)?.find(mac, vid, now)?;
        (!station.local).then_some(station.port)
    }

    fn table(&self, bridge: u32) -> Option<&Fdb> {
        self.tables.get(bridge as usize)?.as_ref()
    }
}

/// The bridges of all workers of a path: those who have the same state of the network have the same
/// tables, and what a bridge has learned is the same in all states.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBridges(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// By index of the bridge.
    learned: HashMap<u32, Weak<Learned>>,
    states: Vec<(Weak<Network>, Weak<Bridges>)>,
}

impl SharedBridges {
    /// Those of a state of the network.
    pub(crate) fn of(&self, net: &Arc<Network>) -> Arc<Bridges> {
        self.follow(net, &Bridges::default())
    }

    /// Those of another state of the network than that of `before`. What was learned stays where
    /// the bridge and the port do.
    pub(crate) fn follow(&self, net: &Arc<Network>, before: &Bridges) -> Arc<Bridges> {
        let bridges = self.made(net, before);
        // Each does that: whoever had the state of before may have learned there up to now.
        for (table, before) in bridges.tables.iter().zip(&before.tables) {
            if let (Some(table), Some(before)) = (table, before) {
                table.leave(before);
            }
        }
        bridges
    }

    fn made(&self, net: &Arc<Network>, before: &Bridges) -> Arc<Bridges> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.states.retain(|(net, bridges)| net.strong_count() > 0 && bridges.strong_count() > 0);
        let same =
            known.states.iter().find(|(other, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(net)));
        if let Some(bridges) = same.and_then(|(_, bridges)| bridges.upgrade()) {
            return bridges;
        }
        let learned = |index| known.learned.get(&index).and_then(Weak::upgrade).unwrap_or_default();
        let bridges = Arc::new(Bridges::new(net, before, learned));
        let tables = (0..).zip(&bridges.tables);
        known.learned = tables
            .filter_map(|(index, table)| Some((index, Arc::downgrade(table.as_ref()?.learned()))))
            .collect();
        known.states.push((Arc::downgrade(net), Arc::downgrade(&bridges)));
        bridges
    }
}

/// A port with its bridge.
#[derive(Clone, Copy)]
struct At<'n> {
    port: &'n BridgePort,
    link: &'n Link,
    bridge: &'n Bridge,
}

/// Destination and source of a frame.
fn addresses(packet: &Packet) -> Option<(Mac, Mac)> {
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

impl<'a, S: Sink> Worker<'a, S> {
    pub(super) fn bridge_hook(&mut self, hook: Hook, packet: &mut Packet) -> bool {
        self.hook(Protocol::Bridge, hook, packet, None)
    }

    /// A frame that came by a port (`br_handle_frame()`), behind ingress. `true` if it goes on as
    /// if the port were none.
    pub(crate) fn bridge_receive(&mut self, packet: &mut Packet) -> bool {
        /// Pause frames (IEEE 802.3, annex 31B).
        const CONTROL: u8 = 1;
        /// LLDP (IEEE 802.1AB).
        const NEAREST_BRIDGE: u8 = 0xe;
        let Some(at) = self.port_of(packet.meta.iif) else { return true };
        if packet.meta.packet_type == PacketType::Loopback {
            return true;
        }
        let Some((to, from)) = addresses(packet) else { return true };
        packet.meta.broute = false;
        if from.is_group() || from == Mac::default() {
            self.drop(DropReason::LinkSource, packet);
            return false;
        }
        if let Some(last) = link_local(to) {
            let forwarded = (at.bridge.group_forward | at.port.group_forward) & 1 << last != 0;
            match last {
                // Without a spanning tree its messages go through, so that others find loops.
                0 => {}
                CONTROL => {
                    self.drop(DropReason::LinkControl, packet);
                    return false;
                }
                _ if forwarded => {}
                NEAREST_BRIDGE => {
                    self.learn_local(packet, at);
                    return true;
                }
                _ => {
                    let accepted = self.bridge_hook(Hook::Input, packet);
                    if accepted {
                        self.learn_local(packet, at);
                    }
                    return accepted;
                }
            }
        }
        if !at.link.up {
            self.drop(DropReason::BridgePort, packet);
            return false;
        }
        if to == at.link.mac {
            packet.meta.packet_type = PacketType::Host;
        }
        if !self.bridge_hook(Hook::Prerouting, packet) {
            return false;
        }
        if std::mem::take(&mut packet.meta.broute) {
            return true;
        }
        self.bridge_behind_prerouting(packet);
        false
    }

    /// A link-local frame is for the port itself (`__br_handle_local_finish()`).
    fn learn_local(&mut self, packet: &Packet, at: At<'_>) {
        if !at.port.learning || !at.bridge.learn_link_local || !at.link.up {
            return;
        }
        let (vid, from) = (vlan::of(at.bridge, &at.port.vlans, packet), addresses(packet));
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
    pub(crate) fn bridge_behind_prerouting(&mut self, packet: &mut Packet) {
        let Some(at) = self.port_of(packet.meta.iif) else {
            return self.drop(DropReason::BridgePort, packet);
        };
        let At { port, link, bridge } = at;
        let Some(vid) = vlan::enter(bridge, &port.vlans, packet) else {
            return self.drop(DropReason::BridgeVlan, packet);
        };
        let Some((to, from)) = addresses(packet) else {
            return self.drop(DropReason::LinkHeader, packet);
        };
        let now = packet.meta.time;
        let Some(table) = self.state.bridges.table(port.bridge) else {
            return self.drop(DropReason::BridgePort, packet);
        };
        if port.locked {
            let known = table.find(from, vid, now);
            if known.is_none_or(|s| s.local || s.port != packet.meta.iif) {
                return self.drop(DropReason::BridgePort, packet);
            }
        }
        if port.learning {
            table.learn(from, vid, packet.meta.iif, now);
        }
        let reach = Reach::of(to);
        let station = if reach == Reach::One { table.find(to, vid, now) } else { None };
        if station.is_some_and(|s| s.local) {
            return self.bridge_pass_up(packet);
        }
        let up = link.promiscuous || reach != Reach::One;
        let sender =
            Sender { device: port.bridge, bridge, port: Some((packet.meta.iif, port)), vid };
        match station {
            Some(station) => self.bridge_send_to(packet, &sender, station.port, up),
            None => self.bridge_flood(packet, &sender, reach, up),
        }
        if up {
            self.bridge_pass_up(packet);
        }
    }

    /// To the bridge device (`br_pass_frame_up()`).
    fn bridge_pass_up(&mut self, packet: &mut Packet) {
        let Some(At { link, bridge, .. }) = self.port_of(packet.meta.iif) else {
            return self.drop(DropReason::BridgePort, packet);
        };
        if !link.promiscuous && !vlan::may_leave(bridge, &bridge.vlans, vlan::tagged(packet)) {
            return self.drop(DropReason::BridgeVlan, packet);
        }
        vlan::leave(bridge, &bridge.vlans, packet);
        if self.bridge_hook(Hook::Input, packet) {
            self.bridge_behind_input(packet);
        }
    }

    /// What follows a hook (`okfn`).
    pub(crate) fn bridge_go_on(&mut self, hook: Hook, packet: &mut Packet) {
        match hook {
            Hook::Prerouting => {
                // It comes too late to be routed instead.
                packet.meta.broute = false;
                self.bridge_behind_prerouting(packet);
            }
            Hook::Input => self.bridge_behind_input(packet),
            Hook::Forward | Hook::Output => self.bridge_behind_forward(packet),
            Hook::Postrouting => {
                self.bridge_push(packet);
            }
            Hook::Ingress | Hook::Egress => {}
        }
    }

    /// The frame is received on the bridge device (`br_netif_receive_skb()`).
    pub(crate) fn bridge_behind_input(&mut self, packet: &mut Packet) {
        let Some(port) = self.net.bridge_port(packet.meta.iif) else {
            return self.drop(DropReason::BridgePort, packet);
        };
        packet.meta.iif = port.bridge;
        self.pass_up(packet, None);
    }
}
