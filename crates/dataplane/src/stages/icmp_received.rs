// SPDX-License-Identifier: Apache-2.0

//! ICMP errors that come to this host (`icmp_unreach()`, `icmpv6_notify()`): what they say of paths
//! and tunnels counts for packets. The host's stack gets the messages, too.

use std::net::IpAddr;

use penstock_net::{Flow4, Flow6, LOOPBACK};
use penstock_packet::Packet;
use penstock_wire::checksum;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, ipv6_ext, protocol};

use crate::addresses;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::path_mtu::Learner;
use crate::worker::Worker;

/// Bytes after the quoted IP header that must be there (`icmp_socket_deliver()`).
const QUOTED: usize = 8;

/// An ICMP error, and the packet that it is about.
#[derive(Clone, Copy)]
pub(crate) struct Told4<'a> {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// The four bytes that depend on the type.
    pub(crate) rest: u32,
    /// The packet, as far as it is quoted.
    pub(crate) quoted: &'a [u8],
    pub(crate) header: ipv4::Header<'a>,
}

impl<'a> Told4<'a> {
    fn of(network: &'a [u8]) -> Option<Self> {
        let h = ipv4::Header::new(network).filter(|h| h.protocol() == protocol::ICMP)?;
        let message = network.get(h.header_len()..).and_then(icmp::Header::new)?;
        let (kind, code) = (message.kind(), message.code());
        let counts = match kind {
            icmp::DEST_UNREACHABLE => code <= UNREACHABLE_MAX,
            icmp::TIME_EXCEEDED => code != icmp::time_exceeded::REASSEMBLY,
            _ => false,
        };
        let quoted = message.payload();
        let header = ipv4::Header::new(quoted).filter(|_| counts)?;
        let len = header.header_len();
        let whole = len >= ipv4::LEN && quoted.len() >= len + QUOTED && message.checksum_ok();
        whole.then(|| Told4 { kind, code, rest: message.rest_of_header(), quoted, header })
    }

    /// Whether a packet was too long for its path.
    fn is_about_mtu(&self) -> bool {
        self.kind == icmp::DEST_UNREACHABLE && self.code == icmp::unreachable::FRAG_NEEDED
    }

    /// What follows the quoted IP header.
    fn payload(&self) -> &'a [u8] {
        self.quoted.get(self.header.header_len()..).unwrap_or(&[])
    }
}

/// `NR_ICMP_UNREACH`.
const UNREACHABLE_MAX: u8 = 15;

/// An ICMPv6 error, and the packet that it is about.
#[derive(Clone, Copy)]
pub(crate) struct Told6<'a> {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// The four bytes that depend on the type.
    pub(crate) info: u32,
    /// The packet, as far as it is quoted.
    pub(crate) quoted: &'a [u8],
    pub(crate) header: ipv6::Header<'a>,
    /// Protocol after the quoted packet's extension headers, and where that begins.
    pub(crate) payload: (u8, usize),
}

impl<'a> Told6<'a> {
    fn of(network: &'a [u8]) -> Option<Self> {
        let h = ipv6::Header::new(network)?;
        let at = ipv6_ext::skip(network, ipv6::LEN, h.next_header())?;
        if at.protocol != protocol::ICMPV6 || at.frag != 0 {
            return None;
        }
        let bytes = network.get(at.offset..)?;
        let message = icmpv6::Header::new(bytes).filter(|m| icmpv6::is_error(m.kind()))?;
        let pseudo = checksum::pseudo_v6(h.src(), h.dst(), protocol::ICMPV6, bytes.len() as u32);
        if !message.checksum_ok(pseudo) {
            return None;
        }
        let quoted = message.payload();
        let header = ipv6::Header::new(quoted)?;
        let found = ipv6_ext::skip(quoted, ipv6::LEN, header.next_header())?;
        let whole = found.frag == 0 && quoted.len() >= found.offset + QUOTED;
        whole.then(|| Told6 {
            kind: message.kind(),
            code: message.code(),
            info: message.rest_of_header(),
            quoted,
            header,
            payload: (found.protocol, found.offset),
        })
    }

    /// What follows the quoted packet's headers of IPv6.
    pub(crate) fn inner(&self) -> &'a [u8] {
        self.quoted.get(self.payload.1..).unwrap_or(&[])
    }
}

impl<S: Sink> Worker<'_, S> {
    /// A packet goes to the host: if it is an ICMP error, the host's side of the path heeds it.
    pub(crate) fn heed_error(&mut self, packet: &Packet) {
        match packet.meta.protocol {
            ethernet::IPV4 => {
                if let Some(told) = Told4::of(packet.network()) {
                    self.heed_error4(packet, &told);
                }
            }
            ethernet::IPV6 => {
                if let Some(told) = Told6::of(packet.network()) {
                    self.heed_error6(packet, &told);
                }
            }
            _ => {}
        }
    }

    fn heed_error4(&mut self, packet: &Packet, told: &Told4<'_>) {
        let mtu = match (told.is_about_mtu(), self.settings.ip_no_pmtu_disc) {
            (false, _) => None,
            (true, 0) => Some(told.rest & 0xffff),
            (true, 1) => Some(0),
            (true, _) => return,
        };
        match (told.header.protocol(), mtu) {
            (protocol::IPIP | protocol::IPV6, _) => self.tunnel_error4(packet, told, mtu),
            // Of what the host sends itself only answers to pings have no socket (icmp_err()).
            (protocol::ICMP, Some(mtu)) if told.payload().first() == Some(&icmp::ECHO_REPLY) => {
                self.heard_mtu4(packet, told, 0, mtu, Learner::Icmp);
            }
            (protocol::ESP, Some(mtu))
                if self.is_of_state(packet, told.header.dst().into(), told.payload()) =>
            {
                self.heard_mtu4(packet, told, 0, mtu, Learner::IcmpOfFlows);
            }
            _ => {}
        }
    }

    fn heed_error6(&mut self, packet: &Packet, told: &Told6<'_>) {
        let too_big = told.kind == icmpv6::PACKET_TOO_BIG;
        match told.payload.0 {
            protocol::IPIP | protocol::IPV6 => self.tunnel_error6(packet, told),
            protocol::ICMPV6 if too_big => {
                self.heard_mtu6(packet, told, packet.meta.iif, Learner::Icmp);
            }
            protocol::ESP
                if too_big && self.is_of_state(packet, told.header.dst().into(), told.inner()) =>
            {
                self.heard_mtu6(packet, told, 0, Learner::IcmpOfFlows);
            }
            _ => {}
        }
    }

    /// Whether there is an IPsec state for ESP to a destination (`esp4_err()`, `esp6_err()`).
    fn is_of_state(&mut self, packet: &Packet, destination: IpAddr, esp: &[u8]) -> bool {
        let (mark, now) = (packet.meta.mark, packet.meta.time);
        let Some(spi) = esp.first_chunk().copied().map(u32::from_be_bytes) else { return false };
        let ipsec = self.state.ipsec.as_deref_mut();
        ipsec.is_some_and(|ipsec| ipsec.xfrm.has_state(destination, spi, mark, now))
    }

    /// The path of a quoted packet, which left by the device `oif` if that is not 0, takes packets
    /// of `mtu` bytes (`ipv4_update_pmtu()`).
    pub(crate) fn heard_mtu4(
        &mut self,
        packet: &Packet,
        told: &Told4<'_>,
        oif: u32,
        mtu: u32,
        learner: Learner,
    ) {
        let h = &told.header;
        let flow = Flow4 {
            daddr: h.dst().into(),
            saddr: h.src().into(),
            tos: h.tos() & 0x1c,
            mark: self.answer_mark(packet),
            iif: LOOPBACK,
            oif,
            protocol: h.protocol(),
            ..Flow4::default()
        };
        if let Some((to, _)) = self.ip4_route_output_by(flow, false) {
            self.learn_mtu4(learner, &to, &flow, mtu, packet.meta.time);
        }
    }

    /// The path of a quoted packet, which left by the device `oif` if that is not 0, takes packets
    /// of so many bytes (`ip6_update_pmtu()`).
    pub(crate) fn heard_mtu6(
        &mut self,
        packet: &Packet,
        told: &Told6<'_>,
        oif: u32,
        learner: Learner,
    ) {
        let (saddr, daddr) = (u128::from(told.header.src()), u128::from(told.header.dst()));
        let flow = Flow6 {
            daddr,
            saddr: Some(saddr),
            mark: self.answer_mark(packet),
            iif: LOOPBACK,
            oif,
            strict: addresses::needs_device(daddr),
            ..Flow6::default()
        };
        let net = self.net;
        if let Ok(hit) = net.route6(&flow) {
            let to = Route::of(&hit, 0);
            self.learn_mtu6(learner, &to, daddr, told.info, packet.meta.time);
        }
    }
}
