// SPDX-License-Identifier: Apache-2.0

//! Packets in packets: IP in IP (`ipip`, `sit`, `ip6tnl`) and PPPoE sessions.
//!
//! ```text
//! egress of the tunnel -> outer header -> output -> postrouting -> egress of the device below
//! input -> inner packet -> ingress of the tunnel -> prerouting -> …
//! ```
//!
//! An outer packet is one of the host's own: it has no connection yet and keeps the mark. An inner
//! packet that comes out is received on the tunnel device when all is done that follows from the
//! outer one.

mod addresses;
mod encap_limit;
mod errors;
mod errors6;
mod over4;
mod over6;
mod pppoe;
mod receive;

use penstock_conntrack::Direction;
use penstock_conntrack::status::NAT_MASK;
use penstock_net::{Flow4, LOOPBACK, Link, Tunnel};
use penstock_packet::{Bridged, Ct, Packet, PacketType};
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

use crate::reason::DropReason;
use crate::route::Route;
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::stages::path_mtu::Learner;
use crate::worker::Worker;

/// Devices that a packet enters one in another (`XMIT_RECURSION_LIMIT`).
const DEPTH: u32 = 8;

/// How long an ICMP error about outer packets is relayed to senders into the tunnel
/// (`IPTUNNEL_ERR_TIMEO`).
const ERROR_TIME: u64 = 30 * SECOND;

/// What an outer header takes from the inner one.
#[derive(Clone, Copy)]
struct Inner {
    /// [`protocol::IPIP`] or [`protocol::IPV6`].
    payload: u8,
    tos: u8,
    ttl: u8,
    /// IPv4: do not fragment.
    df: bool,
    flow_label: u32,
    source: u128,
    destination: u128,
}

impl Inner {
    /// `None` if the packet is neither IPv4 nor IPv6, or its header is not all there
    /// (`pskb_inet_may_pull()`).
    fn of(packet: &Packet) -> Option<Inner> {
        match packet.meta.protocol {
            ethernet::IPV4 => {
                let h = ipv4::Header::new(packet.network())?;
                Some(Inner {
                    payload: protocol::IPIP,
                    tos: h.tos(),
                    ttl: h.ttl(),
                    df: h.df(),
                    flow_label: 0,
                    source: u32::from(h.src()).into(),
                    destination: u32::from(h.dst()).into(),
                })
            }
            ethernet::IPV6 => {
                let h = ipv6::Header::new(packet.network())?;
                Some(Inner {
                    payload: protocol::IPV6,
                    tos: h.traffic_class(),
                    ttl: h.hop_limit(),
                    df: true,
                    flow_label: h.flow_label(),
                    source: h.src().into(),
                    destination: h.dst().into(),
                })
            }
            _ => None,
        }
    }
}

/// A packet changes from inner to outer, or back: nothing is known about it (`skb_scrub_packet()`).
/// Its mark and priority stay.
fn scrub(packet: &mut Packet) {
    let meta = &mut packet.meta;
    meta.packet_type = PacketType::Host;
    meta.ct = Ct::default();
    meta.nftrace = false;
    meta.trace_id = 0;
    meta.vlan = None;
    meta.reassembled = 0;
    meta.bridged = Bridged::default();
    meta.route = None;
    meta.realm = 0;
}

impl<S: Sink> Worker<'_, S> {
    /// A packet leaves by a tunnel device, after its egress (`ipip_tunnel_xmit()`,
    /// `sit_tunnel_xmit()`, `ip6_tnl_start_xmit()`). `route` is the one by which it came here.
    pub(crate) fn tunnel_transmit(
        &mut self,
        packet: &mut Packet,
        link: &Link,
        tunnel: &Tunnel,
        route: Option<Route>,
    ) {
        packet.data_at_network();
        let Some(inner) = Inner::of(packet).filter(|inner| tunnel.carries(inner.payload)) else {
            return self.drop(DropReason::TunnelProtocol, packet);
        };
        if packet.meta.gso.is_some() {
            // The segments of a super-packet get an outer header each.
            return self.send_segments(packet, |worker, segment| {
                worker.tunnel_transmit(segment, link, tunnel, route);
            });
        }
        if self.state.tunnels.depth >= DEPTH {
            return self.drop(DropReason::Recursion, packet);
        }
        self.state.tunnels.depth += 1;
        if tunnel.kind.outer6() {
            self.tunnel_over6(packet, link, tunnel, &inner, route);
        } else {
            self.tunnel_over4(packet, link, tunnel, &inner, route);
        }
        self.state.tunnels.depth -= 1;
    }

    /// What the host says about an inner packet goes to where it really came from: before its
    /// source was translated (`icmp_ndo_send()`, `icmpv6_ndo_send()`).
    fn about_inner(&mut self, packet: &Packet, link: &Link, say: impl FnOnce(&mut Self, &Packet)) {
        let time = packet.meta.time;
        let ct = packet.meta.ct;
        let entry = self.state.conntrack.connection(&ct);
        let direction = if ct.info.is_reply() { Direction::Reply } else { Direction::Original };
        let translated = entry.filter(|c| c.status() & NAT_MASK != 0);
        let original = translated.map(|c| c.tuple(direction).source());
        self.nested(time, |worker, about| {
            about.clone_from(packet);
            about.meta.iif = link.index;
            about.meta.packet_type = PacketType::Host;
            if let Some(source) = original {
                addresses::set_source(about, source);
            }
            say(worker, about);
        });
    }

    /// The route of an inner packet learns what fits into the tunnel
    /// (`skb_dst_update_pmtu_no_confirm()`).
    fn learn_entered(
        &mut self,
        packet: &Packet,
        link: &Link,
        inner: &Inner,
        route: Option<Route>,
        mtu: usize,
    ) {
        let Some(route) = route else { return };
        let (mtu, time) = (mtu as u32, packet.meta.time);
        if packet.meta.protocol == ethernet::IPV6 {
            return self.learn_mtu6(Learner::Tunnel, &route, inner.destination, mtu, time);
        }
        let flow = Flow4 {
            daddr: inner.destination as u32,
            saddr: inner.source as u32,
            tos: inner.tos & 0x1c,
            mark: packet.meta.mark,
            iif: LOOPBACK,
            oif: link.index,
            ..Flow4::default()
        };
        self.learn_mtu4(Learner::Tunnel, &route, &flow, mtu, time);
    }

    /// Tells the sender of an inner packet that it does not fit.
    fn inner_too_big(&mut self, packet: &Packet, link: &Link, route: Option<Route>, mtu: usize) {
        let v6 = packet.meta.protocol == ethernet::IPV6;
        self.about_inner(packet, link, |worker, about| {
            if v6 {
                worker.icmp6_error(about, icmpv6::PACKET_TOO_BIG, 0, mtu as u32);
            } else {
                worker.icmp4_error(
                    about,
                    route.as_ref(),
                    icmp::Repr::frag_needed(mtu as u32),
                    Options::Unread,
                );
            }
        });
    }

    /// Tells the sender of an inner packet that the other end is out of reach
    /// (`dst_link_failure()`).
    fn link_failure(&mut self, packet: &Packet, link: &Link, route: Option<Route>) {
        if route.is_none() {
            return;
        }
        let v6 = packet.meta.protocol == ethernet::IPV6;
        self.nested(packet.meta.time, |worker, about| {
            about.clone_from(packet);
            about.meta.iif = link.index;
            if v6 {
                let code = icmpv6::unreachable::ADDRESS;
                worker.icmp6_error(about, icmpv6::DEST_UNREACHABLE, code, 0);
            } else {
                let code = icmp::unreachable::HOST;
                worker.icmp4_error(
                    about,
                    route.as_ref(),
                    icmp::Repr::unreachable(code),
                    Options::Unread,
                );
            }
        });
    }

    /// Relays an ICMP error about an outer packet, once for each received one.
    fn tell_error_on(&mut self, packet: &Packet, link: &Link, route: Option<Route>) {
        let now = packet.meta.time;
        let Some((count, last)) = self.state.tunnels.errors.get_mut(&link.index) else { return };
        if now < last.saturating_add(ERROR_TIME) && *count > 0 {
            *count -= 1;
            self.link_failure(packet, link, route);
        } else {
            *count = 0;
        }
    }
}
