// SPDX-License-Identifier: Apache-2.0

//! ICMPv6 errors about outer packets over IPv6 (`ip6_tnl_err()`, `ip4ip6_err()`, `ip6ip6_err()`).

use penstock_net::{Flow4, Flow6, LOOPBACK, TunnelKind};
use penstock_packet::Packet;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

use crate::addresses;
use crate::route::Routed;
use crate::sink::Sink;
use crate::stages::icmp_received::Told6;
use crate::stages::icmp4::Options;
use crate::stages::path_mtu::Learner;
use crate::stages::tunnel::encap_limit;
use crate::worker::Worker;

/// The error for the sender of the inner packet.
enum Relayed {
    Unreachable,
    TooBig(u32),
}

impl<S: Sink> Worker<'_, S> {
    /// An ICMPv6 error about an outer packet came to this host. It is relayed to senders into the
    /// tunnel.
    pub(crate) fn tunnel_error6(&mut self, packet: &Packet, told: &Told6<'_>) {
        let (local, remote) = (u128::from(told.header.src()), u128::from(told.header.dst()));
        let (payload, offset) = told.payload;
        let link = self.net.tunnel(TunnelKind::Ip6tnl, remote, local, packet.meta.iif);
        if !link.and_then(|l| l.tunnel()).is_some_and(|t| t.carries(payload)) {
            return;
        }
        let relayed = match told.kind {
            icmpv6::DEST_UNREACHABLE => Relayed::Unreachable,
            icmpv6::TIME_EXCEEDED if told.code == icmpv6::time_exceeded::HOP_LIMIT => {
                Relayed::Unreachable
            }
            icmpv6::PARAMETER_PROBLEM if limit_exceeded(told.quoted, told.code, told.info) => {
                Relayed::Unreachable
            }
            icmpv6::PACKET_TOO_BIG => {
                self.heard_mtu6(packet, told, 0, Learner::IcmpOfFlows);
                let mtu = told.info.saturating_sub(offset as u32).max(ipv6::MIN_MTU as u32);
                if ipv6::LEN as u32 + u32::from(told.header.payload_len()) <= mtu {
                    return;
                }
                Relayed::TooBig(mtu)
            }
            _ => return,
        };
        let inner = told.inner();
        if payload == protocol::IPV6 {
            self.relay_from6_to6(packet, inner, &relayed);
        } else {
            self.relay_from6_to4(packet, inner, &relayed);
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
    fn about_quoted6(
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
            let (code, info) = match *relayed {
                Relayed::Unreachable => (icmp::unreachable::HOST, 0),
                Relayed::TooBig(mtu) => {
                    let to = worker.path4(to, destination);
                    if mtu as usize > worker.mtu(&to) {
                        return;
                    }
                    // The kernel looks for the way by the device that the sender is at.
                    let flow = Flow4 {
                        daddr: destination,
                        saddr: source,
                        oif: back.oif,
                        ..Flow4::default()
                    };
                    worker.learn_mtu4(Learner::IcmpOfFlows, &to, &flow, mtu, packet.meta.time);
                    (icmp::unreachable::FRAG_NEEDED, mtu)
                }
            };
            worker.icmp4_error(
                about,
                Some(&to),
                icmp::Repr { kind: icmp::DEST_UNREACHABLE, code, rest_of_header: info },
                Options::Unread,
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
