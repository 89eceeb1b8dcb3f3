// SPDX-License-Identifier: Apache-2.0

//! ICMP errors that the host sends about packets (`icmp_send()`).

use penstock_net::RouteType;
use penstock_packet::{Packet, PacketType};
use penstock_wire::ipv4_options::{BadOption, Echo};
use penstock_wire::{icmp, ipv4, ipv4_options, protocol};

use crate::addresses::ip4;
use crate::connections::answer_ct;
use crate::hooks::Protocol;
use crate::route::Route;
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::stages::icmp6::TxMeta;
use crate::worker::Worker;

/// Source where the host has no address at all (RFC 7600).
const DUMMY: u32 = 0xc000_0008;

/// How far the host has read the options of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Options {
    Unread,
    Read,
    /// Up to a byte that is wrong.
    Wrong(BadOption),
}

impl Options {
    /// Those of a packet that came in have been read, where they have been.
    pub(crate) const fn read_if(read: bool) -> Self {
        if read { Options::Read } else { Options::Unread }
    }

    /// Those of an answer. `None` if they have no room for what they ask for.
    fn echo(self, h: &ipv4::Header<'_>) -> Option<Echo> {
        match self {
            Options::Unread => ipv4_options::echo(&[], h.src(), None),
            Options::Read => ipv4_options::echo(h.options(), h.src(), None),
            Options::Wrong(wrong) => ipv4_options::echo(h.options(), h.src(), Some(wrong)),
        }
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Sends an error about `packet` to its source, unless that would be wrong or too often. `to`
    /// is where the packet was going; without it nothing is sent. Options of the packet are echoed
    /// if the host has read them: that is between routing of what came in and sending.
    pub(crate) fn icmp4_error(
        &mut self,
        packet: &Packet,
        to: Option<&Route>,
        error: icmp::Repr,
        options: Options,
    ) {
        let icmp::Repr { kind, code, .. } = error;
        let Some(to) = to else { return };
        if packet.meta.packet_type != PacketType::Host {
            return;
        }
        if matches!(to.kind, RouteType::Broadcast | RouteType::Multicast) {
            return;
        }
        let network = packet.network();
        let Some(h) = ipv4::Header::new(network) else { return };
        if h.fragment_offset() != 0 {
            return;
        }
        if h.protocol() == protocol::ICMP {
            let about = network.get(h.header_len());
            if about.is_none_or(|&t| !icmp::may_be_answered(t)) {
                return;
            }
        }
        let time = packet.meta.time;
        let limited = self.settings.icmp_ratemask >> kind & 1 != 0
            && !(kind == icmp::DEST_UNREACHABLE && code == icmp::unreachable::FRAG_NEEDED);
        let from_loopback = packet.meta.iif == penstock_net::LOOPBACK;
        if limited
            && !from_loopback
            && !self.state.icmp_limits.v4.lock().global_allows(time, self.settings)
        {
            return;
        }
        let source = u32::from(h.src());
        let Some(mut echoed) = options.echo(&h) else { return };
        // Back along a source route.
        let daddr = echoed.first_hop().map_or(source, u32::from);
        let own = if to.kind == RouteType::Local { u32::from(h.dst()) } else { 0 };
        let tos = h.tos() & 0x1e | 0xc0;
        let mark = self.answer_mark(packet);
        let Some((way, saddr)) = self.ip4_route_output(daddr, own, tos & 0x1c, mark, false) else {
            return;
        };
        let peer = u128::from(ip4(daddr).to_ipv6_mapped());
        let free = way.oif == penstock_net::LOOPBACK;
        if limited
            && !free
            && !self.state.icmp_limits.v4.lock().peer_allows(
                peer,
                time,
                self.settings.icmp_ratelimit,
            )
        {
            return;
        }
        let over = ipv4::LEN + echoed.len() + icmp::LEN;
        let room = self.mtu(&way).min(icmp::ERROR_MAX).saturating_sub(over);
        if room <= ipv4::LEN {
            return;
        }
        let quote = &network[..network.len().min(room)];
        let saddr = if saddr == 0 { DUMMY } else { saddr };
        let ttl = if way.hop_limit != 0 { way.hop_limit } else { self.settings.ttl };
        let options_len = echoed.len();
        let head = ipv4::Repr {
            tos,
            payload_len: (options_len + icmp::LEN + quote.len()) as u16,
            id: self.state.numbers.ip_ids.next(saddr, daddr, protocol::ICMP),
            frag: 0,
            ttl,
            protocol: protocol::ICMP,
            src: ip4(saddr),
            dst: ip4(daddr),
        }
        .bytes();
        let message = error.bytes(quote);
        let mut bytes = self.bytes();
        bytes.extend_from_slice(&head);
        if !echoed.is_empty() {
            bytes.extend_from_slice(echoed.filled(
                ip4(saddr),
                ip4(source),
                (time / (SECOND / 1000) % 86_400_000) as u32,
            ));
            bytes[0] += (options_len / 4) as u8;
            if let Some(mut header) = ipv4::HeaderMut::new(&mut bytes) {
                header.fill_checksum();
            }
        }
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(quote);
        self.send_made(Protocol::Ip, &bytes, TxMeta { time, mark, ct: answer_ct(packet) }, way);
        self.give_back(bytes);
    }
}
