// SPDX-License-Identifier: Apache-2.0

//! ICMP errors about outer packets over IPv4 (`ipip_err()`, `ipip6_err()`).

use penstock_net::TunnelKind;
use penstock_packet::Packet;
use penstock_wire::{icmp, ipv6, protocol};

use crate::sink::Sink;
use crate::stages::icmp_received::Told4;
use crate::stages::path_mtu::Learner;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// An ICMP message about an outer packet came to this host. What it says is kept. `mtu` is that of the path, if the message is about it.
    pub(crate) fn tunnel_error4(&mut self, packet: &Packet, told: &Told4<'_>, mtu: Option<u32>) {
        let net = self.net;
        let &Told4 { kind, code, header: quoted, .. } = told;
        let about_path = kind == icmp::DEST_UNREACHABLE;
        if about_path && code == icmp::unreachable::SOURCE_ROUTE_FAILED
            || kind == icmp::TIME_EXCEEDED && code != icmp::time_exceeded::TTL
        {
            return;
        }
        let (local, remote) = (u32::from(quoted.src()), u32::from(quoted.dst()));
        let find = |kind| net.tunnel(kind, remote.into(), local.into(), packet.meta.iif);
        let ipip = if quoted.protocol() == protocol::IPIP { find(TunnelKind::Ipip) } else { None };
        let Some(link) = ipip.or_else(|| find(TunnelKind::Sit)) else { return };
        let Some(tunnel) = link.tunnel() else { return };
        if let Some(mtu) = mtu {
            return self.heard_mtu4(packet, told, tunnel.link, mtu, Learner::IcmpOfFlows);
        }
        if ipip.is_none() && self.is_lost_on_sit(packet, told) {
            return;
        }
        if tunnel.remote.is_unspecified() || (tunnel.ttl == 0 && kind == icmp::TIME_EXCEEDED) {
            return;
        }
        let now = packet.meta.time;
        let errors = self.state.tunnels.errors.entry(link.index).or_insert((0, now));
        let recent = now < errors.1.saturating_add(super::ERROR_TIME);
        *errors = (if recent { errors.0 + 1 } else { 1 }, now);
    }

    /// Whether nothing follows from an error about a packet of a `sit` device: where enough is
    /// quoted for the header of an inner IPv6 packet, of whatever protocol it is, the kernel makes
    /// an ICMPv6 error for its sender (`ip6_err_gen_icmpv6_unreach()`) and finds no route for it,
    /// since its source is an IPv4-mapped address (`ip6_dst_lookup_tail()`).
    fn is_lost_on_sit(&self, packet: &Packet, told: &Told4<'_>) -> bool {
        let enough = told.quoted.len() >= told.header.header_len() + ipv6::LEN + 8;
        enough && self.net.link(packet.meta.iif).is_some_and(|link| link.mtu6().is_some())
    }
}
