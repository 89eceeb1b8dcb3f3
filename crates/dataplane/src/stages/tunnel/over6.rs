// SPDX-License-Identifier: Apache-2.0

//! Into IPv6: `ip6tnl` (`ip6_tnl_xmit()`, `ipxip6_tnl_xmit()`).

use penstock_net::{Link, Tunnel};
use penstock_packet::Packet;
use penstock_wire::{ecn, icmpv6, ipv4, ipv6, protocol};

use super::{Inner, scrub};
use crate::addresses;
use crate::addresses::{as_v6, ip6 as address};
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::tunnel::encap_limit;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    pub(super) fn tunnel_over6(
        &mut self,
        packet: &mut Packet,
        link: &Link,
        tunnel: &Tunnel,
        inner: &Inner,
        route: Option<Route>,
    ) {
        let v6 = inner.payload == protocol::IPV6;
        let (local, mut remote) = tunnel.addresses();
        // What came out of the tunnel does not go into it again.
        if v6 && remote != 0 && inner.source == remote {
            return self.drop(DropReason::TunnelRoute, packet);
        }
        let mut limit = tunnel.encap_limit;
        if v6 && let Some((at, left)) = encap_limit::find(packet.network()) {
            let Some(left) = left.checked_sub(1) else {
                let code = icmpv6::parameter_problem::HEADER_FIELD;
                self.about_inner(packet, link, |worker, about| {
                    worker.icmp6_error(about, icmpv6::PARAMETER_PROBLEM, code, at as u32 + 2);
                });
                return self.drop(DropReason::TunnelLimit, packet);
            };
            limit = Some(left);
        }
        let class = if tunnel.inherit_tos { inner.tos } else { tunnel.tos };
        if remote == 0 {
            // Without a remote address the route says where the other end is.
            let gateway = route.and_then(|route| as_v6(route.gateway));
            remote = if v6 { gateway.unwrap_or(inner.destination) } else { gateway.unwrap_or(0) };
        }
        let mark = tunnel.mark.unwrap_or(packet.meta.mark);
        let way = if self.may_tunnel6(tunnel, local, remote) {
            self.ip6_route_output(remote, Some(local), mark, tunnel.link)
        } else {
            None
        };
        let Some(to) = way else {
            self.link_failure(packet, link, route);
            return self.drop(DropReason::TunnelRoute, packet);
        };
        if to.oif == link.index {
            return self.drop(DropReason::TunnelRoute, packet);
        }
        let over = ipv6::LEN + if limit.is_some() { encap_limit::LEN } else { 0 };
        let least = if v6 { ipv6::MIN_MTU } else { ipv4::MIN_MTU };
        let mtu = self.mtu6(&to).saturating_sub(over).max(least);
        self.learn_entered(packet, link, inner, route, mtu);
        let len = packet.network().len();
        if len > mtu {
            self.inner_too_big(packet, link, route, mtu);
            return self.drop(DropReason::TooBig, packet);
        }
        let mut header = [0; ipv6::LEN + encap_limit::LEN];
        let head = ipv6::Repr {
            src: address(local),
            dst: address(remote),
            next_header: if limit.is_some() { protocol::DEST_OPTIONS } else { inner.payload },
            traffic_class: ecn::encapsulate(class, inner.tos),
            flow_label: tunnel.flow_label.unwrap_or(inner.flow_label),
            hop_limit: if tunnel.ttl != 0 { tunnel.ttl } else { inner.ttl },
            payload_len: (len + over - ipv6::LEN) as u16,
        };
        let (first, option) = header.split_at_mut(ipv6::LEN);
        first.copy_from_slice(&head.bytes());
        option.copy_from_slice(&encap_limit::option(inner.payload, limit.unwrap_or(0)));
        packet.push_header(header.get(..over).unwrap_or(&header));
        scrub(packet);
        self.local_out_whole(packet, to, link.index);
    }

    /// Whether packets may go between two addresses: the first is this host's, the second is not
    /// (`ip6_tnl_xmit_ctl()`). The second may be a group's.
    pub(crate) fn may_tunnel6(&self, tunnel: &Tunnel, local: u128, remote: u128) -> bool {
        !is_group(local) && self.may_be_ends6(tunnel, local, remote)
    }

    /// Whether packets may come out of a tunnel (`ip6_tnl_rcv_ctl()`). The first address may be a
    /// group's.
    pub(super) fn may_receive6(&self, tunnel: &Tunnel, local: u128, remote: u128) -> bool {
        !is_group(remote) && self.may_be_ends6(tunnel, local, remote)
    }

    fn may_be_ends6(&self, tunnel: &Tunnel, local: u128, remote: u128) -> bool {
        let on = (tunnel.link != 0).then_some(tunnel.link);
        usable6(tunnel, local, remote)
            && (is_group(local) || self.net.own6(local, on))
            && (tunnel.allow_localremote || is_group(remote) || !self.net.own6(remote, on))
    }
}

/// Whether two addresses can be ends of a tunnel at all (`ip6_tnl_get_cap()`).
fn usable6(tunnel: &Tunnel, local: u128, remote: u128) -> bool {
    let usable = |a: u128| a > 1;
    // ff02::/16 is of one link, as fe80::/10 is.
    let bound = |a: u128| addresses::is_link_local(a) || a >> 112 & 0xff0f == 0xff02;
    usable(local) && usable(remote) && (tunnel.link != 0 || !bound(local) && !bound(remote))
}

fn is_group(address: u128) -> bool {
    address >> 120 == 0xff
}
