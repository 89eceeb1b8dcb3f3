// SPDX-License-Identifier: Apache-2.0

//! ICMPv6 errors that the host sends about packets (`icmp6_send()`), and redirects
//! (`ndisc_send_redirect()`).

use std::net::IpAddr;

use penstock_net::LOOPBACK;
use penstock_packet::{Ct, Packet, PacketType};
use penstock_wire::checksum::{self, Sum};
use penstock_wire::{icmpv6, ipv6, ipv6_ext, protocol};

use crate::addresses;
use crate::addresses::ip6;
use crate::connections::answer_ct;
use crate::hooks::Protocol;
use crate::route::Route;
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::worker::Worker;

/// Pseudo header of an ICMPv6 message with so many bytes after its header.
pub(crate) fn pseudo(from: u128, to: u128, payload: usize) -> Sum {
    checksum::pseudo_v6(ip6(from), ip6(to), protocol::ICMPV6, (icmpv6::LEN + payload) as u32)
}

/// Metadata of a packet that the host makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxMeta {
    /// When it is sent, in nanoseconds.
    pub(crate) time: u64,
    pub(crate) mark: u32,
    /// The connection that it is part of, if there is one.
    pub(crate) ct: Ct,
}

/// Whether a packet is an ICMPv6 error or too broken to tell (`is_ineligible()`).
fn is_error(network: &[u8]) -> bool {
    let Some(&next) = network.get(6) else { return true };
    let Some(found) = ipv6_ext::skip(network, ipv6::LEN, next) else { return false };
    if found.protocol != protocol::ICMPV6 {
        return false;
    }
    match network.get(found.offset) {
        None => found.frag == 0,
        Some(kind) => kind & 0x80 == 0,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Sends an error about `packet` to its source, unless that would be wrong or too often. `info`
    /// are the four bytes that depend on the type: MTU or pointer.
    pub(crate) fn icmp6_error(&mut self, packet: &Packet, kind: u8, code: u8, info: u32) {
        let network = packet.network();
        let Some((source, destination)) = addresses::of6(packet) else { return };
        let (iif, time) = (packet.meta.iif, packet.meta.time);
        let group = destination >> 120 == 0xff;
        let mut saddr = None;
        // Addresses that are not bound to a link are the host's whichever device has them
        // (ipv6_chk_addr()).
        let bound = addresses::is_link_local(destination) || destination == 1;
        if self.net.own6(destination, bound.then_some(iif))
            || self.net.anycast6(destination, Some(iif))
        {
            saddr = Some(destination);
        }
        if group || packet.meta.packet_type != PacketType::Host {
            // Only what must be known may answer a packet to many.
            let unknown_option = kind == icmpv6::PARAMETER_PROBLEM
                && code == icmpv6::parameter_problem::UNKNOWN_OPTION
                && network.get(info as usize).is_some_and(|o| o >> 6 == 2);
            if kind != icmpv6::PACKET_TOO_BIG && !unknown_option {
                return;
            }
            saddr = None;
        }
        if source == 0 || source >> 120 == 0xff || is_error(network) {
            return;
        }
        let limited = kind != icmpv6::PACKET_TOO_BIG && self.settings.icmp6_ratelimit != 0;
        let from_loopback = iif == LOOPBACK;
        if limited
            && !from_loopback
            && !self.state.icmp_limits.v4.lock().global_allows(time, self.settings)
        {
            return;
        }
        let mark = self.answer_mark(packet);
        let oif = if addresses::needs_device(source) { iif } else { 0 };
        let Some(way) = self.ip6_route_output(source, saddr, mark, oif) else { return };
        if way.kind == penstock_net::RouteType::Anycast {
            return;
        }
        if limited && way.oif != LOOPBACK {
            let wider = u32::from(128 - way.prefix_len.min(128)) >> 5;
            let cost = self.settings.icmp6_ratelimit >> wider;
            if !self.state.icmp_limits.v6.lock().peer_allows(source, time, cost) {
                return;
            }
        }
        let from = match saddr {
            Some(s) => Some(s),
            None => self.source_for_error(&way, iif, source),
        };
        let Some(from) = from else { return };
        let quote = &network[..network.len().min(icmpv6::QUOTE_MAX)];
        let hop_limit = self.hop_limit6(&way);
        let head = ipv6::Repr {
            traffic_class: 0,
            flow_label: 0,
            payload_len: (icmpv6::LEN + quote.len()) as u16,
            next_header: protocol::ICMPV6,
            hop_limit,
            src: ip6(from),
            dst: ip6(source),
        }
        .bytes();
        let message = icmpv6::Repr { kind, code, rest_of_header: info }
            .bytes(pseudo(from, source, quote.len()), quote);
        let mut bytes = self.bytes();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(quote);
        self.send_made(Protocol::Ip6, &bytes, TxMeta { time, mark, ct: answer_ct(packet) }, way);
        self.give_back(bytes);
    }

    /// The route's preferred source, else one of the device on which the packet came in.
    fn source_for_error(&self, way: &Route, iif: u32, to: u128) -> Option<u128> {
        let flow = penstock_net::Flow6 { daddr: to, iif: LOOPBACK, ..Default::default() };
        if let Some(IpAddr::V6(s)) = self.net.route6(&flow).ok().and_then(|h| h.route.source) {
            return Some(s.into());
        }
        let by = if self.net.link(iif).is_some() { iif } else { way.oif };
        self.net.source6(by, to)
    }

    /// A packet that the host made goes out.
    pub(crate) fn send_made(&mut self, protocol: Protocol, bytes: &[u8], meta: TxMeta, way: Route) {
        let TxMeta { time, mark, ct } = meta;
        self.nested(time, |worker, answer| {
            answer.load_network(bytes);
            answer.meta.time = time;
            answer.meta.mark = mark;
            answer.meta.ct = ct;
            worker.state.counters.originated += 1;
            worker.local_out(protocol, answer, way, 0);
        });
    }

    /// Tells the sender of a packet that goes back out where it came in of the better way
    /// (`ndisc_send_redirect()`): only a device with a link-local address can, and only to
    /// neighbours.
    pub(crate) fn ip6_redirect(&mut self, packet: &Packet, to: &Route) {
        let Some((source, destination)) = addresses::of6(packet) else { return };
        let time = packet.meta.time;
        let target = match to.gateway {
            Some(IpAddr::V6(g)) => g.into(),
            _ => destination,
        };
        let Some(link) = self.net.link(to.oif) else { return };
        let own = link.addresses6.iter().map(|a| a.local).find(|a| addresses::is_link_local(*a));
        let Some(own) = own else { return };
        if !self.state.icmp_limits.v6.lock().peer_allows(destination, time, SECOND) {
            return;
        }
        if target != destination && !addresses::is_link_local(target) {
            return;
        }
        let oif = if addresses::needs_device(source) { link.index } else { 0 };
        let Some(way) = self.ip6_route_output(source, Some(own), 0, oif) else { return };
        if way.gateway.is_some()
            || !self.state.icmp_limits.v6.lock().peer_allows(source, time, SECOND)
        {
            return;
        }
        // Target and destination, the target's link address if it is known, and as much of the
        // packet as fits.
        let mut body = self.bytes();
        body.extend_from_slice(&target.to_be_bytes());
        body.extend_from_slice(&destination.to_be_bytes());
        if let Some(mac) = self.net.neighbour6(link.index, target) {
            body.extend_from_slice(&[2, 1]);
            body.extend_from_slice(&mac.0);
        }
        let room = ipv6::MIN_MTU - ipv6::LEN - icmpv6::LEN - body.len();
        let quoted = (packet.network().len() + 8).min(room) & !7;
        body.extend_from_slice(&[4, (quoted / 8) as u8, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&packet.network()[..quoted - 8]);
        let head = ipv6::Repr {
            traffic_class: 0,
            flow_label: 0,
            payload_len: (icmpv6::LEN + body.len()) as u16,
            next_header: protocol::ICMPV6,
            hop_limit: 255,
            src: ip6(own),
            dst: ip6(source),
        }
        .bytes();
        let message = icmpv6::Repr { kind: icmpv6::REDIRECT, code: 0, rest_of_header: 0 }
            .bytes(pseudo(own, source, body.len()), &body);
        let mut bytes = self.bytes();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(&body);
        self.send_made(Protocol::Ip6, &bytes, TxMeta { time, mark: 0, ct: Ct::default() }, way);
        self.give_back(bytes);
        self.give_back(body);
    }
}
