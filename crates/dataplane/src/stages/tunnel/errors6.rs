// SPDX-License-Identifier: Apache-2.0

//! ICMPv6 errors about outer packets over IPv6 (`ip6_tnl_err()`, `ip4ip6_err()`, `ip6ip6_err()`).

use penstock_net::{Flow6, LOOPBACK, TunnelKind};
use penstock_packet::Packet;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol};

use crate::addresses;
use crate::route::Routed;
use crate::sink::Sink;
use crate::stages::tunnel::encap_limit;
use crate::worker::Worker;

/// The error for the sender of the inner packet.
enum Relayed {
    Unreachable,
    TooBig(u32),
}

impl<S: Sink> Worker<'_, S> {
    /// An ICMPv6 message came to this host, `at` bytes into the packet. It is relayed to senders
    /// into the tunnel.
    pub(super) fn tunnel_error6(&mut self, packet: &Packet, at: usize) {
        let network = packet.network();
        let Some(message) = network.get(at..).and_then(icmpv6::Header::new) else { return };
        let quoted = message.payload();
        let Some(h) = ipv6::Header::new(quoted) else { return };
        let Some(found) = ipv6_ext::skip(quoted, ipv6::LEN, h.next_header()) else { return };
        if found.frag != 0 || !matches!(found.protocol, protocol::IPIP | protocol::IPV6) {
            return;
        }
        let Some(inner) = quoted.get(found.offset..) else { return };
        let (local, remote) = (u128::from(h.src()), u128::from(h.dst()));
        let link = self.net.tunnel(TunnelKind::Ip6tnl, remote, local, packet.meta.iif);
        if !link.and_then(|l| l.tunnel()).is_some_and(|t| t.carries(found.protocol)) {
            return;
        }
        let info = message.rest_of_header();
        let relayed = match message.kind() {
            icmpv6::DEST_UNREACHABLE => Relayed::Unreachable,
            icmpv6::TIME_EXCEEDED if message.code() == icmpv6::time_exceeded::HOP_LIMIT => {
                Relayed::Unreachable
            }
            icmpv6::PARAMETER_PROBLEM if limit_exceeded(quoted, message.code(), info) => {
                Relayed::Unreachable
            }
            icmpv6::PACKET_TOO_BIG => {
                self.learn_path_mtu6(remote, info, packet.meta.time);
                let mtu = info.saturating_sub(found.offset as u32).max(ipv6::MIN_MTU as u32);
                if ipv6::LEN as u32 + u32::from(h.payload_len()) <= mtu {
                    return;
                }
                Relayed::TooBig(mtu)
            }
            _ => return,
        };
        if found.protocol == protocol::IPV6 {
            self.relay_from6_to6(packet, inner, &relayed);
        } else {
            self.relay_from6_to4(packet, inner, &relayed);
        }
    }

    fn learn_path_mtu6(&mut self, remote: u128, mtu: u32, now: u64) {
        let Some(to) = self.ip6_route_output(remote, None, 0, 0) else { return };
        if mtu >= ipv6::MIN_MTU as u32 && (mtu as usize) < self.mtu6(&to) {
            self.learn_path_mtu(remote, mtu, now);
        }
    }

    fn relay_from6_to6(&mut self, packet: &Packet, inner: &[u8], relayed: &Relayed) {
        if inner.len() < ipv6::LEN {
            return;
        }
        self.about_quoted6(packet, inner, |worker, about| match relayed {
            Relayed::Unreachable => {
                worker.icmp6_error(
                    about,
                    icmpv6::DEST_UNREACHABLE,
                    icmpv6::unreachable::ADDRESS,
                    0,
                );
            }
            Relayed::TooBig(mtu) => worker.icmp6_error(about, icmpv6::PACKET_TOO_BIG, 0, *mtu),
        });
    }

    /// Gives `say` an IPv6 packet that was quoted, as if it had come in from the side where its
    /// sender is.
    pub(super) fn about_quoted6(
        &mut self,
        packet: &Packet,
        inner: &[u8],
        say: impl FnOnce(&mut Self, &Packet),
    ) {
        let iif = packet.meta.iif;
        self.nested(packet.meta.time, |worker, about| {
            about.load_network(inner);
            about.meta.time = packet.meta.time;
            about.meta.protocol = ethernet::IPV6;
            about.meta.iif = iif;
            if let Some((source, _)) = addresses::of6(about) {
                let flow = Flow6 { daddr: source, iif: LOOPBACK, ..Flow6::default() };
                if let Ok(hit) = worker.net.route6(&flow) {
                    about.meta.iif = hit.nexthop.oif;
                }
            }
            say(worker, about);
        });
    }

    /// Relays an error about an IPv4 packet, which must be one that would go into such a tunnel.
    fn relay_from6_to4(&mut self, packet: &Packet, inner: &[u8], relayed: &Relayed) {
        if inner.len() < ipv4::LEN {
            return;
        }
        self.nested(packet.meta.time, |worker, about| {
            about.load_network(inner);
            about.meta.time = packet.meta.time;
            about.meta.protocol = ethernet::IPV4;
            let Some((source, destination)) = addresses::of4(about) else { return };
            let Some((back, _)) = worker.ip4_route_output(source, 0, 0, 0, true) else { return };
            about.meta.iif = back.oif;
            let to = if back.local {
                worker.ip4_route_output(destination, source, 0, 0, true).map(|(to, _)| to)
            } else {
                match worker.ip4_route_input(about) {
                    Routed::To(to) => Some(to),
                    Routed::No(_) | Routed::NotForwarded | Routed::Refused(_) => None,
                }
            };
            let into_tunnel = |oif| {
                let tunnel = worker.net.link(oif).and_then(|l| l.tunnel());
                tunnel.is_some_and(|t| t.kind == TunnelKind::Ip6tnl)
            };
            let Some(to) = to.filter(|to| into_tunnel(to.oif)) else { return };
            let (code, info) = match relayed {
                Relayed::Unreachable => (icmp::unreachable::HOST, 0),
                Relayed::TooBig(mtu) if *mtu as usize > worker.mtu(&to) => return,
                Relayed::TooBig(mtu) => (icmp::unreachable::FRAG_NEEDED, *mtu),
            };
            worker.icmp4_error(
                about,
                Some(&to),
                icmp::Repr { kind: icmp::DEST_UNREACHABLE, code, rest_of_header: info },
                false,
            );
        });
    }
}

/// Whether the other end could not continue because the limit of encapsulations was reached.
fn limit_exceeded(quoted: &[u8], code: u8, pointer: u32) -> bool {
    code == icmpv6::parameter_problem::HEADER_FIELD
        && encap_limit::find(quoted)
            .is_some_and(|(at, limit)| at as u32 + 2 == pointer && limit == 0)
}
