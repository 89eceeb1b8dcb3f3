// SPDX-License-Identifier: Apache-2.0

//! What is for the host: out of IPsec, out of a tunnel, or to the host itself.

use penstock_packet::Packet;
use penstock_wire::ethernet;

use crate::course::{Course, Next};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// A packet goes to the host, unless it is ESP, or policy says no, or it belongs to a tunnel of
    /// IPv4.
    pub(super) fn deliver(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if self.state.ipsec.is_some()
            && let Some(next) = self.xfrm_deliver(packet, course)
        {
            return next;
        }
        let tunnels = packet.meta.protocol == ethernet::IPV4 && self.net.has_tunnels(false);
        if tunnels && self.tunnel_receive4(packet) {
            return Next::Done;
        }
        self.give_to_host(packet)
    }

    /// Delivers an IPv6 packet after its extension headers to the host, unless it is ESP, or policy
    /// drops it, or it belongs to a tunnel: `payload` is the protocol after the extension headers,
    /// `at` its offset.
    pub(super) fn deliver6(
        &mut self,
        packet: &mut Packet,
        payload: u8,
        at: usize,
        course: &mut Course,
    ) -> Next {
        if self.state.ipsec.is_some()
            && let Some(next) = self.xfrm_deliver(packet, course)
        {
            return next;
        }
        if self.tunnel_receive6(packet, payload, at) {
            return Next::Done;
        }
        self.give_to_host(packet)
    }

    fn give_to_host(&mut self, packet: &Packet) -> Next {
        let Some(link) = self.net.link(packet.meta.iif) else {
            return self.end(DropReason::LinkDown, packet);
        };
        self.heed_error(packet);
        self.state.counters.delivered += 1;
        self.sink.deliver(link, packet);
        Next::Done
    }
}
