// SPDX-License-Identifier: Apache-2.0

//! Answers of `reject` (`nf_reject_ipv4.c`, `nf_reject_ipv6.c`): at IP hooks the host sends them as
//! its own packets, at netdev ingress they go straight back out of the device.

use penstock_net::{BridgePort, Mac, RouteType};
use penstock_packet::Packet;
use penstock_program::env::Rejection;
use penstock_program::{Family, Hook};
use penstock_wire::checksum;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol, tcp};

use crate::addresses;
use crate::connections::answer_ct;
use crate::course::Course;
use crate::hooks::Protocol;
use crate::link_header::put_ethernet;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::bridge::ethernet_addresses;
use crate::stages::hook_env::ChainCall;
use crate::stages::icmp4::Options;
use crate::stages::icmp6::{TxMeta, pseudo};
use crate::worker::Worker;

/// Whether the checksum is right, or is none that could be checked (`nf_reject_verify_csum()`).
/// `front` is the sum of what it covers besides the payload. A later fragment never comes here.
fn checksum_ok(payload: &[u8], proto: u8, front: checksum::Sum) -> bool {
    match proto {
        protocol::AH | protocol::ESP | protocol::GRE | protocol::SCTP | protocol::UDPLITE => true,
        protocol::UDP if payload.get(6..8) == Some(&[0, 0]) => true,
        _ => front.bytes(payload).is_valid(),
    }
}

/// An IPv4 header of an answer: no options, DF, no identification.
fn head4(h: &ipv4::Header<'_>, proto: u8, payload: usize, ttl: u8) -> [u8; ipv4::LEN] {
    ipv4::Repr {
        src: h.dst(),
        dst: h.src(),
        protocol: proto,
        tos: 0,
        ttl,
        id: 0,
        frag: ipv4::DF,
        payload_len: payload as u16,
    }
    .bytes()
}

fn head6(h: &ipv6::Header<'_>, proto: u8, payload: usize, hop_limit: u8) -> [u8; ipv6::LEN] {
    ipv6::Repr {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload as u16,
        next_header: proto,
        hop_limit,
        src: h.dst(),
        dst: h.src(),
    }
    .bytes()
}

/// The reset for a TCP segment over IPv4, without its IP header. `segment` is what follows the IP
/// header, with padding where the packet still has it. As in `nf_ip_checksum()`, the IPv4
/// header `head` is part of what is summed.
fn reset4(h: &ipv4::Header<'_>, head: &[u8], segment: &[u8]) -> Option<[u8; tcp::LEN]> {
    if h.fragment_offset() != 0 || h.protocol() != protocol::TCP {
        return None;
    }
    if !h.pseudo(segment.len()).bytes(head).bytes(segment).is_valid() {
        return None;
    }
    let answer = tcp::Repr::reset_for(&tcp::Header::new(segment)?, segment.len())?;
    let sum = checksum::pseudo_v4(h.dst(), h.src(), protocol::TCP, tcp::LEN as u32);
    Some(answer.bytes_with_checksum(sum))
}

/// Where the transport header of an IPv6 packet is that is no fragment.
fn transport6(network: &[u8]) -> Option<(u8, usize)> {
    let next = *network.get(6)?;
    let found = ipv6_ext::skip(network, ipv6::LEN, next)?;
    (found.frag & 0xfff8 == 0).then_some((found.protocol, found.offset))
}

fn reset6(network: &[u8]) -> Option<[u8; tcp::LEN]> {
    let h = ipv6::Header::new(network)?;
    let (proto, offset) = transport6(network)?;
    let segment = network.get(offset..)?;
    if proto != protocol::TCP || !h.pseudo(protocol::TCP, segment.len()).bytes(segment).is_valid() {
        return None;
    }
    let answer = tcp::Repr::reset_for(&tcp::Header::new(segment)?, segment.len())?;
    let sum = checksum::pseudo_v6(h.dst(), h.src(), protocol::TCP, tcp::LEN as u32);
    Some(answer.bytes_with_checksum(sum))
}

fn unreachable_ok4(h: &ipv4::Header<'_>, head: &[u8]) -> bool {
    let payload = h.payload();
    // Of other protocols the kernel knows no pseudo header (`nf_ip_checksum()`).
    let front = match h.protocol() {
        protocol::TCP | protocol::UDP => h.pseudo(payload.len()),
        _ => checksum::Sum::new(),
    };
    h.fragment_offset() == 0 && checksum_ok(payload, h.protocol(), front.bytes(head))
}

/// The IPv4 header of a packet with its options.
fn header4<'a>(network: &'a [u8], h: &ipv4::Header<'_>) -> &'a [u8] {
    network.get(..h.header_len()).unwrap_or(network)
}

impl<S: Sink> Worker<'_, S> {
    /// Answers a packet that a rule rejects, if an answer is due.
    pub(crate) fn reject(&mut self, packet: &Packet, how: Rejection, site: &ChainCall<'_>) {
        let v6 = packet.meta.protocol == ethernet::IPV6;
        if site.context.hook == Hook::Ingress && site.context.family == Family::Netdev {
            return match v6 {
                true => self.reject_on_link6(packet, how, None),
                false => self.reject_on_link4(packet, how, None),
            };
        }
        if site.context.family == Family::Bridge {
            // Only what is for one station is answered (nft_reject_bridge_eval()).
            let one = packet.link().first().is_some_and(|first| first & 1 == 0);
            let port = self.net.bridge_port(packet.meta.iif).filter(|_| one);
            return match packet.meta.protocol {
                ethernet::IPV4 if port.is_some() => self.reject_on_link4(packet, how, port),
                ethernet::IPV6 if port.is_some() => self.reject_on_link6(packet, how, port),
                _ => {}
            };
        }
        if v6 {
            self.reject6(packet, how, site);
        } else {
            self.reject4(packet, how, site);
        }
    }

    /// What is summed of the IPv4 header when the transport checksum is verified at an IP hook: all
    /// of it. Between reception and sending, options that the host filled in make it wrong. It does
    /// not count where it is known (`skb->csum_valid`, `CHECKSUM_COMPLETE`) that connection tracking
    /// has verified the checksum before that.
    fn summed_header<'p>(
        &self,
        packet: &'p Packet,
        h: &ipv4::Header<'_>,
        is_known: bool,
    ) -> &'p [u8] {
        let verified = is_known
            && packet.meta.ct.has_entry()
            && packet.meta.iif != 0
            && self.state.conntrack.settings().checksum
            && matches!(h.protocol(), protocol::TCP | protocol::UDP | protocol::ICMP);
        if verified { &[] } else { header4(packet.network(), h) }
    }

    fn reject4(&mut self, packet: &Packet, how: Rejection, site: &ChainCall<'_>) {
        let network = packet.network();
        let Some(h) = ipv4::Header::new(network) else { return };
        // Before routing the way to the sender stands in for the packet's own.
        let to = match site.destination {
            Some(to) => *to,
            None => match self.ip4_route_output(h.src().into(), 0, 0, 0, false) {
                Some((to, _)) => to,
                None => return,
            },
        };
        match how {
            Rejection::Icmp(code) => {
                if unreachable_ok4(&h, self.summed_header(packet, &h, true)) {
                    // Nobody reads options on a bridge.
                    let on_bridge = packet.meta.bridged.leaves != 0;
                    let compiled = matches!(site.context.hook, Hook::Input | Hook::Forward)
                        || site.context.hook == Hook::Postrouting && packet.meta.iif != 0;
                    let compiled = compiled && !on_bridge;
                    self.icmp4_error(
                        packet,
                        Some(&to),
                        icmp::Repr::unreachable(code),
                        Options::read_if(compiled),
                    );
                }
            }
            Rejection::Icmpv6(_) => {}
            Rejection::TcpReset => {
                if matches!(to.kind, RouteType::Broadcast | RouteType::Multicast) {
                    return;
                }
                // skb_forward_csum() forgets it on the way to other hooks.
                let is_known = site.context.hook == Hook::Input;
                let head = self.summed_header(packet, &h, is_known);
                let Some(segment) = reset4(&h, head, h.payload()) else { return };
                let mark = self.answer_mark(packet);
                let (saddr, daddr) = (u32::from(h.dst()), u32::from(h.src()));
                let source = match self.net.kind4(saddr, None) {
                    RouteType::Local | RouteType::Unicast => saddr,
                    _ => 0,
                };
                let ttl = if to.hop_limit != 0 { to.hop_limit } else { self.settings.ttl };
                let Some((way, _)) = self.ip4_route_output(daddr, source, 0, mark, true) else {
                    return;
                };
                let mut bytes = self.bytes();
                bytes.extend_from_slice(&head4(&h, protocol::TCP, tcp::LEN, ttl));
                bytes.extend_from_slice(&segment);
                self.send_reset(Protocol::Ip, packet, &bytes, mark, way);
                self.give_back(bytes);
            }
        }
    }

    fn reject6(&mut self, packet: &Packet, how: Rejection, _site: &ChainCall<'_>) {
        let network = packet.network();
        let Some(h) = ipv6::Header::new(network) else { return };
        let (saddr, daddr) = (u128::from(h.src()), u128::from(h.dst()));
        match how {
            Rejection::Icmpv6(code) => {
                if self.unreachable_ok6(network) {
                    self.icmp6_error(packet, icmpv6::DEST_UNREACHABLE, code, 0);
                }
            }
            Rejection::Icmp(_) => {}
            Rejection::TcpReset => {
                let unicast = |a: u128| a != 0 && a >> 120 != 0xff;
                if !unicast(saddr) || !unicast(daddr) {
                    return;
                }
                let Some(segment) = reset6(network) else { return };
                let mark = self.answer_mark(packet);
                let oif = if addresses::needs_device(saddr) { packet.meta.iif } else { 0 };
                let Some(way) = self.ip6_route_output(saddr, Some(daddr), mark, oif) else {
                    return;
                };
                let hop_limit = self.hop_limit6(&way);
                let mut bytes = self.bytes();
                bytes.extend_from_slice(&head6(&h, protocol::TCP, tcp::LEN, hop_limit));
                bytes.extend_from_slice(&segment);
                self.send_reset(Protocol::Ip6, packet, &bytes, mark, way);
                self.give_back(bytes);
            }
        }
    }

    /// A reset is a packet of the host's own; but where a packet came by a port of a bridge, it
    /// leaves there at once, from the address that the packet went to.
    fn send_reset(
        &mut self,
        protocol: Protocol,
        packet: &Packet,
        bytes: &[u8],
        mark: u32,
        way: Route,
    ) {
        self.state.conntrack.set_closing(&packet.meta.ct);
        let tx = TxMeta { time: packet.meta.time, mark, ct: answer_ct(packet) };
        let Some((to, from)) = ethernet_addresses(packet) else {
            return self.send_made(protocol, bytes, tx, way);
        };
        match self.net.link(packet.meta.bridged.arrived) {
            Some(port) if packet.meta.bridged.arrived != 0 => {
                let ethertype = packet.meta.protocol;
                self.nested(tx.time, |worker, answer| {
                    worker.state.counters.originated += 1;
                    answer.load_network(bytes);
                    answer.meta.time = tx.time;
                    answer.meta.mark = mark;
                    answer.meta.ct = tx.ct;
                    answer.meta.protocol = ethertype;
                    answer.meta.nftrace = worker.state.trace_all;
                    worker.send_on(answer, port, from, to, None);
                });
            }
            _ => self.send_made(protocol, bytes, tx, way),
        }
    }

    /// `reject6_csum_ok()`: no later fragment, and a right checksum where there is one.
    fn unreachable_ok6(&self, network: &[u8]) -> bool {
        let Some(h) = ipv6::Header::new(network) else { return false };
        let Some((proto, offset)) = transport6(network) else { return false };
        // Where nothing follows the headers, nothing is answered.
        let Some(payload) = network.get(offset..).filter(|p| !p.is_empty()) else { return false };
        checksum_ok(payload, proto, h.pseudo(proto, payload.len()))
    }

    /// As in the kernel, an error quotes the frame with its padding, and the checksum of a segment
    /// is wrong if padding follows it: such a segment is not answered.
    fn reject_on_link4(&mut self, packet: &Packet, how: Rejection, port: Option<&BridgePort>) {
        let padded = packet.network();
        // Where a checksum counts, that of the header does, too (`nf_reject_iphdr_validate()`).
        let Some(h) = ipv4::Header::new(padded) else { return };
        let (header_len, total) = (h.header_len(), usize::from(h.total_len()));
        if h.version() != 4 || header_len < ipv4::LEN || total < header_len {
            return;
        }
        let Some(network) = padded.get(..total) else { return };
        let Some(h) = ipv4::Header::new(network) else { return };
        let ttl = self.settings.ttl;
        let mut bytes = self.bytes();
        match how {
            Rejection::Icmp(code) => {
                if unreachable_ok4(&h, header4(network, &h)) && !is_unreachable4(&h) {
                    let quote = &padded[..padded.len().min(icmp::REJECT_QUOTE_MAX)];
                    bytes.extend_from_slice(&head4(
                        &h,
                        protocol::ICMP,
                        icmp::LEN + quote.len(),
                        ttl,
                    ));
                    bytes.extend_from_slice(&icmp::Repr::unreachable(code).bytes(quote));
                    bytes.extend_from_slice(quote);
                }
            }
            Rejection::Icmpv6(_) => {}
            Rejection::TcpReset => {
                let segment = padded.get(h.header_len()..).unwrap_or_default();
                if let Some(segment) = reset4(&h, header4(network, &h), segment) {
                    bytes.extend_from_slice(&head4(&h, protocol::TCP, tcp::LEN, ttl));
                    bytes.extend_from_slice(&segment);
                }
            }
        }
        self.send_back(packet, &bytes, port);
        self.give_back(bytes);
    }

    /// Padding is treated as in [`Worker::reject_on_link4`].
    fn reject_on_link6(&mut self, packet: &Packet, how: Rejection, port: Option<&BridgePort>) {
        let padded = packet.network();
        let Some(h) = ipv6::Header::new(padded) else { return };
        let total = ipv6::LEN + usize::from(h.payload_len());
        if h.version() != 6 || total > padded.len() {
            return;
        }
        // One that says no length ends with the frame.
        let network = if h.payload_len() == 0 { padded } else { &padded[..total] };
        let hop_limit = self.hop_limit6_of_all();
        let mut bytes = self.bytes();
        match how {
            Rejection::Icmpv6(code) => {
                if self.unreachable_ok6(network) && !is_unreachable6(padded) {
                    let quote = &padded[..padded.len().min(icmpv6::REJECT_QUOTE_MAX)];
                    bytes.extend_from_slice(&head6(
                        &h,
                        protocol::ICMPV6,
                        icmpv6::LEN + quote.len(),
                        hop_limit,
                    ));
                    let message =
                        icmpv6::Repr { kind: icmpv6::DEST_UNREACHABLE, code, rest_of_header: 0 };
                    let sum = pseudo(h.dst().into(), h.src().into(), quote.len());
                    bytes.extend_from_slice(&message.bytes(sum, quote));
                    bytes.extend_from_slice(quote);
                }
            }
            Rejection::Icmp(_) => {}
            Rejection::TcpReset => {
                if let Some(segment) = reset6(padded) {
                    bytes.extend_from_slice(&head6(&h, protocol::TCP, tcp::LEN, hop_limit));
                    bytes.extend_from_slice(&segment);
                }
            }
        }
        self.send_back(packet, &bytes, port);
        self.give_back(bytes);
    }

    /// An answer goes out of the device where the packet came in, addresses exchanged; from a rule
    /// of the bridge family as the host's own frame through that port
    /// (`nft_reject_br_push_etherhdr()`).
    fn send_back(&mut self, packet: &Packet, bytes: &[u8], port: Option<&BridgePort>) {
        let (Some(to), Some(from)) = (packet.link().get(6..12), packet.link().get(..6)) else {
            return;
        };
        if bytes.is_empty() {
            return;
        }
        let mac = |b: &[u8]| b.try_into().map_or(Mac::default(), Mac);
        let (to, from) = (mac(to), mac(from));
        let Some(link) = self.net.link(packet.meta.iif) else { return };
        let (time, protocol) = (packet.meta.time, packet.meta.protocol);
        let tag = packet.meta.vlan;
        self.nested(time, |worker, answer| {
            worker.state.counters.originated += 1;
            answer.load_network(bytes);
            answer.meta.time = time;
            answer.meta.protocol = protocol;
            answer.meta.nftrace = worker.state.trace_all;
            if port.is_some() {
                answer.meta.vlan = tag;
                put_ethernet(answer, to, from);
                answer.data_at_network();
                let mut course = Course::default();
                let next = worker.bridge_through(answer, &mut course, link.index, true);
                worker.run(next, answer, &mut course);
            } else {
                worker.send_on(answer, link, to, from, None);
            }
        });
    }
}

/// Whether a packet is itself an ICMP unreachable, which is not answered on the link
/// (`nf_skb_is_icmp_unreach()`).
fn is_unreachable4(h: &ipv4::Header<'_>) -> bool {
    h.protocol() == protocol::ICMP
        && h.payload().first().is_some_and(|k| *k == icmp::DEST_UNREACHABLE)
}

/// First fragments do not count.
fn is_unreachable6(network: &[u8]) -> bool {
    let found = network.get(6).and_then(|next| ipv6_ext::skip(network, ipv6::LEN, *next));
    found.is_some_and(|found| {
        found.protocol == protocol::ICMPV6
            && found.frag == 0
            && network.get(found.offset) == Some(&icmpv6::DEST_UNREACHABLE)
    })
}
