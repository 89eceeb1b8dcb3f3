// SPDX-License-Identifier: Apache-2.0

//! Out of tunnels: what came to this host in an outer packet, after `input` (`ipip_rcv()`,
//! `ipip6_rcv()`, `ipxip6_rcv()`).

use penstock_net::{Link, Tunnel, TunnelKind};
use penstock_packet::Packet;
use penstock_wire::checksum;
use penstock_wire::{ecn, ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

use super::{addresses, scrub};
use crate::addresses::{of4, of6};
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::worker::Worker;

/// What an outer header says, before it is gone.
struct Outer {
    /// Bytes before the inner packet.
    len: usize,
    tos: u8,
    payload: u8,
}

impl<S: Sink> Worker<'_, S> {
    /// An IPv4 packet for this host: `true` if it belonged to a tunnel.
    pub(crate) fn tunnel_receive4(&mut self, packet: &mut Packet) -> bool {
        let Some(h) = ipv4::Header::new(packet.network()) else { return false };
        let outer = Outer { len: h.header_len(), tos: h.tos(), payload: h.protocol() };
        match outer.payload {
            protocol::IPIP | protocol::IPV6 => self.out_of_ip4(packet, &outer),
            _ => return false,
        }
        true
    }

    fn out_of_ip4(&mut self, packet: &mut Packet, outer: &Outer) {
        let net = self.net;
        let Some((source, destination)) = of4(packet) else {
            return self.drop(DropReason::Ip4Header, packet);
        };
        let find = |kind| net.tunnel(kind, source.into(), destination.into(), packet.meta.iif);
        let Some(inner) = inner_addresses(packet, outer) else {
            return self.drop(DropReason::TunnelHeader, packet);
        };
        let v6 = outer.payload == protocol::IPV6;
        let ipip = if v6 { None } else { find(TunnelKind::Ipip) };
        let Some((link, tunnel)) = ipip.or_else(|| find(TunnelKind::Sit)).and_then(with_tunnel)
        else {
            let to =
                Route::special(penstock_net::RouteType::Local, true, penstock_net::LOOPBACK, 0);
            let code = icmp::unreachable::PORT;
            self.icmp4_error(packet, Some(&to), icmp::Repr::unreachable(code), Options::Unread);
            return self.drop(DropReason::NoTunnel, packet);
        };
        if !tunnel.carries(outer.payload) {
            return self.drop(DropReason::TunnelProtocol, packet);
        }
        if v6
            && tunnel.remote.is_unspecified()
            && addresses::spoofed(link, tunnel.sixrd, (source, destination), inner)
        {
            return self.drop(DropReason::TunnelSource, packet);
        }
        // Loads of link-layer bytes see the outer header on sit devices, and break on the others.
        packet.decapsulate(outer.len, v6);
        self.out_of_tunnel(packet, link, outer, false);
    }

    /// Receives an IPv6 packet for this host after its extension headers: `true` if it belonged to
    /// a tunnel. `payload` is the protocol after them, `at` its offset.
    pub(crate) fn tunnel_receive6(&mut self, packet: &mut Packet, payload: u8, at: usize) -> bool {
        let Some(h) = ipv6::Header::new(packet.network()) else { return false };
        let outer = Outer { len: at, tos: h.traffic_class(), payload };
        match payload {
            protocol::IPIP | protocol::IPV6 => self.out_of_ip6(packet, &outer),
            _ => return false,
        }
        true
    }

    fn out_of_ip6(&mut self, packet: &mut Packet, outer: &Outer) {
        let net = self.net;
        let Some((source, destination)) = of6(packet) else {
            return self.drop(DropReason::Ip6Header, packet);
        };
        if inner_addresses(packet, outer).is_none() {
            return self.drop(DropReason::TunnelHeader, packet);
        }
        let found = net.tunnel(TunnelKind::Ip6tnl, source, destination, packet.meta.iif);
        let Some((link, tunnel)) = found.and_then(with_tunnel) else {
            self.icmp6_error(packet, icmpv6::DEST_UNREACHABLE, icmpv6::unreachable::PORT, 0);
            return self.drop(DropReason::NoTunnel, packet);
        };
        if !tunnel.carries(outer.payload) {
            return self.drop(DropReason::TunnelProtocol, packet);
        }
        if !self.may_receive6(tunnel, destination, source) {
            return self.drop(DropReason::TunnelSource, packet);
        }
        packet.decapsulate(outer.len, false);
        self.out_of_tunnel(packet, link, outer, tunnel.copy_dscp);
    }

    /// The inner packet, without its outer header, is received on the tunnel device.
    fn out_of_tunnel(&mut self, packet: &mut Packet, link: &Link, outer: &Outer, copy_dscp: bool) {
        packet.meta.protocol =
            if outer.payload == protocol::IPV6 { ethernet::IPV6 } else { ethernet::IPV4 };
        if copy_dscp {
            change_tos(packet, |tos| outer.tos & !ecn::MASK | tos & ecn::MASK);
        }
        let Some(tos) = tos_of(packet).and_then(|tos| ecn::decapsulate(outer.tos, tos)) else {
            return self.drop(DropReason::Congestion, packet);
        };
        change_tos(packet, |_| tos);
        scrub(packet);
        self.receive_later(packet, link.index);
    }

    /// A packet is received on a device when all is done that is being done now (`netif_rx()`).
    pub(super) fn receive_later(&mut self, packet: &mut Packet, device: u32) {
        packet.meta.iif = device;
        packet.meta.oif = 0;
        let mut kept = self.state.buffers.spare.pop().unwrap_or_default();
        std::mem::swap(&mut kept, packet);
        // The caller still reads its metadata.
        packet.load(&[], 0);
        packet.meta.time = kept.meta.time;
        self.state.buffers.backlog.push_back((kept, None));
    }
}

fn with_tunnel(link: &Link) -> Option<(&Link, &Tunnel)> {
    Some((link, link.tunnel()?))
}

/// Source and destination of the inner packet; `None` if its header is not all there.
fn inner_addresses(packet: &Packet, outer: &Outer) -> Option<(u128, u128)> {
    let inner = packet.network().get(outer.len..)?;
    if outer.payload == protocol::IPV6 {
        let h = ipv6::Header::new(inner)?;
        return Some((h.src().into(), h.dst().into()));
    }
    let h = ipv4::Header::new(inner)?;
    Some((u32::from(h.src()).into(), u32::from(h.dst()).into()))
}

fn tos_of(packet: &Packet) -> Option<u8> {
    match packet.meta.protocol {
        ethernet::IPV6 => ipv6::Header::new(packet.network()).map(|h| h.traffic_class()),
        _ => ipv4::Header::new(packet.network()).map(|h| h.tos()),
    }
}

/// Changes TOS or traffic class, and IPv4's checksum by the difference.
fn change_tos(packet: &mut Packet, change: impl FnOnce(u8) -> u8) {
    let Some(old) = tos_of(packet) else { return };
    let new = change(old);
    if new == old {
        return;
    }
    if packet.meta.protocol == ethernet::IPV6 {
        if let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut()) {
            h.set_traffic_class(new);
        }
    } else if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
        let check = checksum::replace2(h.read().checksum(), old.into(), new.into());
        h.set_tos(new);
        h.set_checksum(check);
    }
}
