// SPDX-License-Identifier: Apache-2.0

//! Into IPv4: `ipip` and `sit` (`ip_tunnel_xmit()`, `ipip6_tunnel_xmit()`, `iptunnel_xmit()`).

use penstock_net::{Flow4, Link, RouteType, Tunnel, TunnelKind};
use penstock_packet::Packet;
use penstock_wire::{ecn, ipv4, ipv6, protocol};

use super::{Inner, addresses, scrub};
use crate::addresses::{as_v4, as_v6, ip4};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    pub(super) fn tunnel_over4(
        &mut self,
        packet: &mut Packet,
        link: &Link,
        tunnel: &Tunnel,
        inner: &Inner,
        route: Option<Route>,
    ) {
        let v6 = tunnel.kind == TunnelKind::Sit && inner.payload == protocol::IPV6;
        let inherits = if v6 { tunnel.tos == 1 } else { tunnel.tos & 1 != 0 };
        let tos = if inherits { inner.tos } else { tunnel.tos };
        let Some(remote) = remote(tunnel, inner, route) else {
            return self.drop(DropReason::TunnelRoute, packet);
        };
        let (local, _) = tunnel.addresses();
        let mark = tunnel.mark.unwrap_or(packet.meta.mark);
        let flow = Flow4 {
            daddr: remote,
            saddr: local as u32,
            tos: tos & 0x1c,
            mark,
            oif: tunnel.link,
            ..Flow4::default()
        };
        let way = self.ip4_route_output_by(flow, false);
        let way =
            way.filter(|(to, _)| !v6 || matches!(to.kind, RouteType::Unicast | RouteType::Local));
        let Some((to, source)) = way else {
            if v6 {
                self.link_failure(packet, link, route);
            }
            return self.drop(DropReason::TunnelRoute, packet);
        };
        if to.oif == link.index {
            return self.drop(DropReason::TunnelRoute, packet);
        }
        let df = if v6 {
            self.room_for6(packet, link, tunnel, &to, (inner, route))
        } else {
            let df = tunnel.pmtudisc || inner.df;
            let mtu = match (df, route) {
                (true, _) => self.mtu(&to).saturating_sub(ipv4::LEN),
                (false, Some(route)) => self.mtu(&self.path4(route, inner.destination as u32)),
                (false, None) => link.mtu as usize,
            };
            self.learn_entered(packet, link, inner, route, mtu);
            self.room_for4(packet, link, inner, route, mtu).then_some(df)
        };
        let Some(df) = df else { return self.drop(DropReason::TooBig, packet) };
        self.tell_error_on(packet, link, route);
        self.state.numbers.ip_id = self.state.numbers.ip_id.wrapping_add(1);
        let header = ipv4::Repr {
            src: ip4(source),
            dst: ip4(remote),
            protocol: inner.payload,
            tos: ecn::encapsulate(tos, inner.tos),
            ttl: if tunnel.ttl != 0 { tunnel.ttl } else { inner.ttl },
            id: self.state.numbers.ip_id,
            // What is known to be too narrow gets fragments (ip_mtu_locked()).
            frag: if df && !to.mtu_locked { ipv4::DF } else { 0 },
            payload_len: packet.network().len() as u16,
        };
        packet.push_header(&header.bytes());
        scrub(packet);
        self.local_out(Protocol::Ip, packet, to, link.index);
    }

    /// Whether an IPv4 packet, or one of any protocol on `ipip`, fits into the MTU of the tunnel
    /// (`tnl_update_pmtu()`). If it does not, its sender is told.
    fn room_for4(
        &mut self,
        packet: &Packet,
        link: &Link,
        inner: &Inner,
        route: Option<Route>,
        mtu: usize,
    ) -> bool {
        let fits = !inner.df || packet.network().len() <= mtu;
        if !fits {
            self.inner_too_big(packet, link, route, mtu);
        }
        fits
    }

    /// Whether an IPv6 packet on `sit` fits, and whether the outer one may not be fragmented.
    /// `None` if it does not fit; the sender gets an ICMP error.
    fn room_for6(
        &mut self,
        packet: &Packet,
        link: &Link,
        tunnel: &Tunnel,
        to: &Route,
        (inner, route): (&Inner, Option<Route>),
    ) -> Option<bool> {
        if !tunnel.pmtudisc {
            return Some(false);
        }
        let mtu = self.mtu(to).saturating_sub(ipv4::LEN);
        if mtu < ipv4::MIN_MTU {
            return None;
        }
        // What IPv6 must have gets through in fragments.
        let df = mtu >= ipv6::MIN_MTU;
        let mtu = mtu.max(ipv6::MIN_MTU);
        if !tunnel.remote.is_unspecified() {
            self.learn_entered(packet, link, inner, route, mtu);
        }
        if packet.network().len() > mtu {
            self.inner_too_big(packet, link, route, mtu);
            return None;
        }
        Some(df)
    }
}

/// The other end: the tunnel's, or without one what the route of the inner packet says.
fn remote(tunnel: &Tunnel, inner: &Inner, route: Option<Route>) -> Option<u32> {
    let (_, remote) = tunnel.addresses();
    if remote != 0 {
        return Some(remote as u32);
    }
    let found = if inner.payload == protocol::IPIP {
        as_v4(route?.gateway).or(Some(inner.destination as u32))
    } else {
        let next = || Some(as_v6(route?.gateway).unwrap_or(inner.destination));
        tunnel.sixrd.inside(inner.destination).or_else(|| addresses::compatible(next()?))
    };
    found.filter(|a| *a != 0)
}
