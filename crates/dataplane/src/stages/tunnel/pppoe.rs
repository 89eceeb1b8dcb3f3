// SPDX-License-Identifier: Apache-2.0

//! PPPoE sessions (`drivers/net/ppp/pppoe.c`, `ppp_generic.c`): what is neither IPv4 nor IPv6 is
//! for pppd, of which there is none here.

use penstock_net::{Mac, Pppoe};
use penstock_packet::{Packet, PacketType};
use penstock_wire::{ethernet, pppoe};

use super::scrub;
use crate::link_header::put_ethernet;
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// A packet leaves by a session, after egress of its device (`ppp_start_xmit()`,
    /// `__pppoe_xmit()`).
    pub(crate) fn pppoe_transmit(&mut self, packet: &mut Packet, session: &Pppoe) {
        let protocol = match packet.meta.protocol {
            ethernet::IPV4 => pppoe::IPV4,
            ethernet::IPV6 => pppoe::IPV6,
            _ => return self.drop(DropReason::PppProtocol, packet),
        };
        if packet.meta.gso.is_some() {
            return self
                .send_segments(packet, |worker, segment| worker.pppoe_transmit(segment, session));
        }
        let Some(lower) = self.net.link(session.lower) else {
            return self.drop(DropReason::LinkDown, packet);
        };
        scrub(packet);
        let payload_len = packet.network().len() as u16;
        packet
            .push_header(&pppoe::Repr { session: session.session, protocol, payload_len }.bytes());
        packet.meta.protocol = ethernet::PPPOE_SESSION;
        put_ethernet(packet, session.peer, lower.mac);
        self.transmit(packet, lower.index, None);
    }

    /// A frame of the session stage (`pppoe_rcv()`, `ppp_receive_nonmp_frame()`).
    pub(crate) fn pppoe_receive(&mut self, packet: &mut Packet) {
        if packet.meta.packet_type == PacketType::OtherHost {
            return self.drop(DropReason::OtherHost, packet);
        }
        let Some(h) = pppoe::Header::new(packet.network()) else {
            return self.drop(DropReason::Pppoe, packet);
        };
        let (session, len) = (h.session(), usize::from(h.length()));
        let Some((protocol, protocol_len)) = h.protocol() else {
            return self.drop(DropReason::Pppoe, packet);
        };
        let source = packet.link().get(6..12).and_then(|b| b.first_chunk::<6>());
        let device = source.and_then(|peer| self.net.pppoe(packet.meta.iif, session, Mac(*peer)));
        let Some(device) = device else { return self.drop(DropReason::PppoeSession, packet) };
        let protocol = match protocol {
            pppoe::IPV4 => ethernet::IPV4,
            pppoe::IPV6 => ethernet::IPV6,
            _ => return self.drop(DropReason::PppProtocol, packet),
        };
        if !self.net.link(device).is_some_and(|l| l.up) {
            return self.drop(DropReason::LinkDown, packet);
        }
        packet.trim_network(pppoe::HEADER_LEN + len);
        packet.decapsulate(pppoe::HEADER_LEN + protocol_len, false);
        packet.meta.protocol = protocol;
        scrub(packet);
        self.receive_later(packet, device);
    }
}
