// SPDX-License-Identifier: Apache-2.0

//! What a frame is that a capture has as sent: forwarded, or the host's own.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use penstock_conntrack::Conntrack;
use penstock_net::{Flow4, Flow6, Hit, Network};
use penstock_wire::{ethernet, ipv4, ipv6};

use super::fingerprint::{Fingerprint, packet_of};
use super::recent::Recent;
use super::untranslate::untranslated;

/// What came in and went out lately.
#[derive(Default)]
pub struct Outgoing {
    /// Packets that came in, by their fingerprints, and by which device.
    arrived: Recent<(Fingerprint, u32)>,
    /// Packets that the path sent, by their fingerprints.
    sent: Recent<Fingerprint>,
    /// Frames on ports of bridges, by bridge and bytes, with the port that each came in by.
    bridged: Recent<u32>,
}

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent<'a> {
    /// The host sends this IP packet.
    Packet(&'a [u8]),
    /// The host sends it raw.
    Raw,
    /// It was forwarded, and came in by this device as this frame.
    Forwarded(u32, Vec<u8>),
    /// Nothing that enters the path.
    LeftOut(LeftOut),
}

/// Why a frame does not enter the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeftOut {
    /// It came in as another frame.
    Copy,
    /// It came in by the device that it leaves by.
    Back,
    /// It is an ICMP error, which the path sends itself where there is a reason.
    RouterError,
    /// Nothing is routed to its source, so that it is unknown where it came in.
    NoSource,
    /// The device under the one that it was captured on has it, too.
    Upper,
    /// It has no Ethernet header, or is of another interface.
    Other,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::Copy => "copies of frames that came in",
            LeftOut::Back => "frames that leave as they came",
            LeftOut::RouterError => "ICMP errors, which the path sends itself",
            LeftOut::NoSource => "forwarded packets without a route to their source",
            LeftOut::Upper => "frames of devices on top of others",
            LeftOut::Other => "frames of other interfaces or link types",
        })
    }
}

impl Outgoing {
    /// A frame comes in by a device. `false` if it is the copy that a bridge sent by this port of
    /// one that came in by another: captures do not always tell.
    pub fn arrived(&mut self, net: &Network, device: u32, time: u64, frame: &[u8]) -> bool {
        if let Some(port) = net.bridge_port(device) {
            let mut hash = DefaultHasher::new();
            (port.bridge, frame).hash(&mut hash);
            let hash = hash.finish();
            if self.bridged.get(time, hash).is_some_and(|by| *by != device) {
                return false;
            }
            self.bridged.add(time, hash, device);
        }
        if let Some(packet) = Fingerprint::of(frame) {
            self.arrived.add(time, packet.hash, (packet, device));
        }
        true
    }

    /// The path sent a frame.
    pub fn sent(&mut self, time: u64, frame: &[u8]) {
        if let Some(packet) = Fingerprint::of(frame) {
            self.sent.add(time, packet.hash, packet);
        }
    }

    /// What a frame is that was captured as sent by a device.
    pub fn what<'a>(
        &self,
        net: &Network,
        conntrack: &Conntrack,
        device: u32,
        time: u64,
        frame: &'a [u8],
    ) -> Sent<'a> {
        let (Some(packet), Some(print)) = (packet_of(frame), Fingerprint::of(frame)) else {
            return Sent::Raw;
        };
        match self.arrived.get(time, print.hash) {
            Some((other, by)) if print.is_copy_of(other) => {
                return Sent::LeftOut(if *by == device { LeftOut::Back } else { LeftOut::Copy });
            }
            _ => {}
        }
        if self.sent.get(time, print.hash).is_some_and(|other| print.is_copy_of(other)) {
            return Sent::LeftOut(LeftOut::Copy);
        }
        if print.is_router_error {
            return Sent::LeftOut(LeftOut::RouterError);
        }
        let arrived = untranslated(conntrack, packet).map_or(Cow::Borrowed(packet), Cow::Owned);
        let src = Fingerprint::of_packet(&arrived).map_or(print.src, |print| print.src);
        if is_own(net, src) {
            return Sent::Packet(packet);
        }
        match source_device(net, src).filter(|from| *from != device) {
            Some(from) => Sent::Forwarded(from, frame_of(net, from, src, &arrived)),
            None => Sent::LeftOut(LeftOut::NoSource),
        }
    }
}

/// Whether an address is one of the host, or none.
fn is_own(net: &Network, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => net.own4(address.into()) || address.is_unspecified(),
        IpAddr::V6(address) => {
            net.own6(address.into(), None)
                || address.is_unicast_link_local()
                || address.is_unspecified()
        }
    }
}

/// The way to an address, by a device if one is given.
pub fn route(net: &Network, to: IpAddr, device: Option<u32>) -> Option<Hit<'_>> {
    let (oif, strict) = (device.unwrap_or_default(), device.is_some());
    match to {
        IpAddr::V4(a) => net.route4(&Flow4 { daddr: a.into(), oif, ..Flow4::default() }).ok(),
        IpAddr::V6(a) => {
            net.route6(&Flow6 { daddr: a.into(), oif, strict, ..Flow6::default() }).ok()
        }
    }
}

/// The link address of a neighbour, if it is known.
pub fn neighbour(net: &Network, device: u32, address: IpAddr) -> Option<ethernet::Mac> {
    match address {
        IpAddr::V4(a) => net.neighbour4(device, a.into()),
        IpAddr::V6(a) => net.neighbour6(device, a.into()),
    }
}

/// The device that packets from an address come in by, as far as routes tell.
fn source_device(net: &Network, address: IpAddr) -> Option<u32> {
    let oif = route(net, address, None)?.nexthop.oif;
    net.link(oif).filter(|link| link.has_link_header() && !link.is_loopback()).map(|l| l.index)
}

/// The link address that the host sends a packet for an address to by a device, as far as routes
/// and neighbours tell.
pub fn next_hop(net: &Network, device: u32, packet: &[u8]) -> Option<ethernet::Mac> {
    let dst = Fingerprint::of_packet(packet)?.dst;
    let hit = route(net, dst, Some(device))?;
    neighbour(net, device, hit.nexthop.gateway.unwrap_or(dst))
}

/// The frame that a forwarded packet came in as: one hop earlier, from the neighbour to the device.
fn frame_of(net: &Network, device: u32, src: IpAddr, packet: &[u8]) -> Vec<u8> {
    const UNKNOWN: ethernet::Mac = ethernet::Mac([2, 0, 0, 0, 0, 0]);
    let ethertype = if src.is_ipv4() { ethernet::IPV4 } else { ethernet::IPV6 };
    let from = neighbour(net, device, src).unwrap_or(UNKNOWN);
    let dst = net.link(device).map_or(UNKNOWN, |link| link.mac);
    let header = ethernet::Repr { dst, src: from, ethertype };
    let mut frame = [&header.bytes(), packet].concat();
    let packet = &mut frame[ethernet::LEN..];
    match src {
        IpAddr::V4(_) => {
            if let Some(mut header) = ipv4::HeaderMut::new(packet) {
                let ttl = header.read().ttl().saturating_add(1);
                header.set_ttl(ttl);
                header.fill_checksum();
            }
        }
        IpAddr::V6(_) => {
            const HOP_LIMIT: usize = 7;
            if packet.len() >= ipv6::LEN {
                packet[HOP_LIMIT] = packet[HOP_LIMIT].saturating_add(1);
            }
        }
    }
    frame
}
