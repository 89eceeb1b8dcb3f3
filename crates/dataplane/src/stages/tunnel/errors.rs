// SPDX-License-Identifier: Apache-2.0

//! ICMP errors about outer packets over IPv4 (`ipip_err()`, `ipip6_err()`).

use penstock_net::TunnelKind;
use penstock_packet::Packet;
use penstock_wire::{icmp, icmpv6, ipv4, ipv6, protocol};

use crate::addresses;
use crate::addresses::ip4 as address;
use crate::sink::Sink;
use crate::worker::Worker;

/// `net.ipv4.route.min_pmtu`.
const LEAST: u32 = 552;

impl<S: Sink> Worker<'_, S> {
    /// An ICMP message came to this host. What it says about outer packets is kept, or told on at
    /// once.
    pub(super) fn tunnel_error4(&mut self, packet: &Packet) {
        let net = self.net;
        let Some(h) = ipv4::Header::new(packet.network()) else { return };
        let Some(message) = packet.network().get(h.header_len()..).and_then(icmp::Header::new)
        else {
            return;
        };
        let (kind, code, rest) = (message.kind(), message.code(), message.rest_of_header());
        let Some(quoted) = ipv4::Header::new(message.payload()) else { return };
        // Eight bytes after the quoted header must be there (icmp_socket_deliver()).
        let len = quoted.header_len();
        let telling = matches!(quoted.protocol(), protocol::IPIP | protocol::IPV6)
            && len >= ipv4::LEN
            && message.payload().len() >= len + 8;
        if !telling || !message.checksum_ok() {
            return;
        }
        let counts = match kind {
            icmp::DEST_UNREACHABLE => code != icmp::unreachable::SOURCE_ROUTE_FAILED,
            icmp::TIME_EXCEEDED => code == icmp::time_exceeded::TTL,
            _ => false,
        };
        if !counts {
            return;
        }
        let (local, remote) = (u32::from(quoted.src()), u32::from(quoted.dst()));
        let find = |kind| net.tunnel(kind, remote.into(), local.into(), packet.meta.iif);
        let ipip = if quoted.protocol() == protocol::IPIP { find(TunnelKind::Ipip) } else { None };
        let Some(link) = ipip.or_else(|| find(TunnelKind::Sit)) else { return };
        let Some(tunnel) = link.tunnel() else { return };
        let now = packet.meta.time;
        if kind == icmp::DEST_UNREACHABLE && code == icmp::unreachable::FRAG_NEEDED {
            return self.learn_path_mtu4(remote, rest & 0xffff, now);
        }
        if quoted.protocol() == protocol::IPV6
            && self.relay_to_ip6(packet, kind, message.payload(), len, rest)
        {
            return;
        }
        if tunnel.remote.is_unspecified() || (tunnel.ttl == 0 && kind == icmp::TIME_EXCEEDED) {
            return;
        }
        let errors = self.state.tunnels.errors.entry(link.index).or_insert((0, now));
        let recent = now < errors.1.saturating_add(super::ERROR_TIME);
        *errors = (if recent { errors.0 + 1 } else { 1 }, now);
    }

    fn learn_path_mtu4(&mut self, remote: u32, mtu: u32, now: u64) {
        let Some((to, _)) = self.ip4_route_output(remote, 0, 0, 0, false) else { return };
        let mtu = mtu.max(LEAST);
        if to.mtu_locked || mtu as usize >= self.mtu(&to) {
            return;
        }
        let key = u128::from(address(remote).to_ipv6_mapped());
        self.learn_path_mtu(key, mtu, now);
    }

    /// Learns the MTU of a path. Flows through it are checked again.
    pub(super) fn learn_path_mtu(&mut self, destination: u128, mtu: u32, now: u64) {
        if self.state.tunnels.path_mtus.learn(destination, mtu, now) {
            self.state.flows.set_network(&mut self.state.conntrack);
        }
    }

    /// Sends an ICMPv6 error to the sender of the inner IPv6 packet, if enough of it is quoted
    /// (`ip6_err_gen_icmpv6_unreach()`).
    fn relay_to_ip6(
        &mut self,
        packet: &Packet,
        kind: u8,
        quoted: &[u8],
        len: usize,
        rest: u32,
    ) -> bool {
        // Where the message has extensions, what is quoted ends before them (RFC 4884).
        let part = (rest >> 16 & 0xff) as usize * 4;
        let quoted = if part >= 128 { quoted.get(..part).unwrap_or(quoted) } else { quoted };
        let Some(inner) = quoted.get(len..).filter(|inner| inner.len() >= ipv6::LEN + 8) else {
            return false;
        };
        let Some((sender, _)) = addresses::of4(packet) else { return false };
        let from = address(sender).to_ipv6_mapped().into();
        let (kind, code) = if kind == icmp::TIME_EXCEEDED {
            (icmpv6::TIME_EXCEEDED, icmpv6::time_exceeded::HOP_LIMIT)
        } else {
            (icmpv6::DEST_UNREACHABLE, icmpv6::unreachable::ADDRESS)
        };
        self.about_quoted6(packet, inner, |worker, about| {
            worker.icmp6_error_from(about, kind, code, 0, Some(from));
        });
        true
    }
}
