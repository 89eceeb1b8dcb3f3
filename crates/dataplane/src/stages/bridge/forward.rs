// SPDX-License-Identifier: Apache-2.0

//! Out of the ports of a bridge: one, or all that take such frames (`net/bridge/br_forward.c`,
//! `br_device.c`).

use penstock_net::{Bridge, BridgePort, Link, Mac};
use penstock_packet::Packet;
use penstock_program::Hook;
use penstock_wire::{ethernet, vlan as tag};

use super::ethernet_addresses;
use crate::bridge::memberships::Group;
use crate::bridge::vlan;
use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

/// Whom a frame is for (`enum br_pkt_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    One,
    Group(Spread),
    All,
}

/// Which ports get a frame to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All that take frames to groups.
    Flood,
    /// Those that asked for it.
    Members(Members),
}

/// Members of a group, and ports with multicast routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// None for a report, which only routers get.
    pub(super) group: Option<Group>,
    /// What the frame is, of which there are separate routers; `None` if it is neither.
    pub(super) v6: Option<bool>,
}

impl Reach {
    pub(crate) fn of(to: Mac) -> Reach {
        if to.is_broadcast() {
            Reach::All
        } else if to.is_group() {
            Reach::Group(Spread::Flood)
        } else {
            Reach::One
        }
    }
}

/// Where a frame comes from that a bridge sends on.
pub(crate) struct Sender<'n> {
    /// Index of the bridge.
    pub(crate) device: u32,
    pub(crate) bridge: &'n Bridge,
    /// The port with its index; none for what the host sends.
    pub(crate) port: Option<(u32, &'n BridgePort)>,
    /// VLAN, 0 without filtering.
    pub(crate) vid: u16,
}

impl Sender<'_> {
    /// Whether a port gives the frame out at all (`should_deliver()`).
    fn may_leave_by(&self, index: u32, link: &Link, port: &BridgePort) -> bool {
        let same = self.port.is_some_and(|(from, _)| from == index);
        let isolated = port.isolated && self.port.is_some_and(|(_, from)| from.isolated);
        link.up
            && (port.hairpin || !same)
            && !isolated
            && vlan::may_leave(self.bridge, &port.vlans, self.vid)
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Whether a port takes a frame with unknown destination, or to a group (`br_flood()`,
    /// `br_multicast_flood()`).
    fn bridge_takes(
        &self,
        sender: &Sender<'_>,
        (index, port): (u32, &BridgePort),
        reach: Reach,
        now: u64,
    ) -> bool {
        match reach {
            Reach::One => port.flood,
            // What the host sends goes to all.
            Reach::Group(Spread::Flood) => port.mcast_flood || sender.port.is_none(),
            Reach::Group(Spread::Members(members)) => {
                self.bridge_port_asks(sender.device, (index, port), members, now)
            }
            Reach::All => port.bcast_flood || sender.port.is_none(),
        }
    }

    /// To one port (`br_forward()`). With `keep` the packet is needed afterwards.
    pub(crate) fn bridge_send_to(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        sender: &Sender<'_>,
        index: u32,
        keep: bool,
    ) -> Next {
        let net = self.net;
        // A worker with another state of the network may have learned it at another bridge's port.
        let port =
            net.bridge_port(index).filter(|port| port.bridge == sender.device).zip(net.link(index));
        match port {
            Some((port, link)) if sender.may_leave_by(index, link, port) => {
                self.bridge_give(packet, course, sender, index, keep)
            }
            _ if keep => Next::Done,
            _ => self.end(DropReason::BridgeTarget, packet),
        }
    }

    /// To all ports that take it (`br_flood()`).
    pub(crate) fn bridge_flood(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        sender: &Sender<'_>,
        reach: Reach,
        keep: bool,
    ) -> Next {
        let net = self.net;
        let mut last = None;
        for &index in &sender.bridge.ports {
            let Some((port, link)) = net.bridge_port(index).zip(net.link(index)) else { continue };
            if !sender.may_leave_by(index, link, port)
                || !self.bridge_takes(sender, (index, port), reach, packet.meta.time)
            {
                continue;
            }
            if let Some(before) = last.replace(index) {
                self.bridge_give(packet, course, sender, before, true);
            }
        }
        match last {
            Some(index) => self.bridge_give(packet, course, sender, index, keep),
            None if keep => Next::Done,
            None => self.end(DropReason::BridgeTarget, packet),
        }
    }

    /// The frame, or with `keep` a copy, goes to a port (`deliver_clone()`, `__br_forward()`).
    fn bridge_give(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        sender: &Sender<'_>,
        index: u32,
        keep: bool,
    ) -> Next {
        let own = sender.port.is_none();
        if !keep {
            return self.bridge_forward(packet, course, index, own);
        }
        self.nested(packet.meta.time, |worker, copy| {
            worker.state.counters.originated += 1;
            copy.clone_from(packet);
            let mut course = Course::default();
            let next = worker.bridge_forward(copy, &mut course, index, own);
            worker.run(next, copy, &mut course);
        });
        Next::Done
    }

    /// `forward`, or `output` for the host's own.
    fn bridge_forward(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        index: u32,
        own: bool,
    ) -> Next {
        let net = self.net;
        let Some((bridge, port)) =
            net.bridge_port(index).and_then(|port| Some((net.link(port.bridge)?.bridge()?, port)))
        else {
            return self.end(DropReason::BridgeTarget, packet);
        };
        vlan::leave(bridge, &port.vlans, packet);
        self.bridge_through(packet, course, index, own)
    }

    /// `forward` or `output` without a look at VLANs, for answers that did not come in.
    pub(crate) fn bridge_through(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
        index: u32,
        own: bool,
    ) -> Next {
        packet.meta.oif = index;
        let hook = if own { Hook::Output } else { Hook::Forward };
        if own {
            packet.meta.iif = 0;
        }
        self.hook(Protocol::Bridge, hook, packet, course, Next::BridgePostrouting)
    }

    /// `br_forward_finish()`: from here on the port of arrival is unknown.
    pub(crate) fn bridge_postrouting(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        packet.meta.iif = 0;
        self.hook(Protocol::Bridge, Hook::Postrouting, packet, course, Next::BridgePush)
    }

    /// `br_dev_queue_push_xmit()`. A super-packet is not asked how long it is
    /// (`__is_skb_forwardable()`).
    pub(crate) fn bridge_push(&mut self, packet: &Packet) -> Next {
        let mtu = self.net.link(packet.meta.oif).map_or(0, |link| link.mtu as usize);
        if packet.meta.gso.is_none() && packet.frame().len() > mtu + ethernet::LEN + tag::LEN {
            self.drop(DropReason::TooBig, packet);
            return Next::Refused;
        }
        Next::Egress
    }

    /// The host sends a frame on a bridge device (`br_dev_xmit()`).
    pub(crate) fn bridge_transmit(&mut self, packet: &mut Packet, link: &Link, bridge: &Bridge) {
        packet.data_at_network();
        let Some(vid) = vlan::enter(bridge, &bridge.vlans, packet) else {
            return self.drop(DropReason::BridgeVlan, packet);
        };
        let Some((to, _)) = ethernet_addresses(packet) else {
            return self.drop(DropReason::LinkHeader, packet);
        };
        let mut reach = Reach::of(to);
        let sender = Sender { device: link.index, bridge, port: None, vid };
        if matches!(reach, Reach::Group(_)) {
            match self.bridge_snoop(packet, &sender, to) {
                Ok(spread) => reach = Reach::Group(spread),
                Err(reason) => return self.drop(reason, packet),
            }
        }
        let now = packet.meta.time;
        let station = match self.state.bridges.table(link.index) {
            Some(table) if reach == Reach::One => table.find(to, vid, now),
            _ => None,
        };
        let mut course = Course::default();
        let next = match station {
            Some(station) => self.bridge_send_to(packet, &mut course, &sender, station.port, false),
            None => self.bridge_flood(packet, &mut course, &sender, reach, false),
        };
        self.run(next, packet, &mut course);
    }
}
