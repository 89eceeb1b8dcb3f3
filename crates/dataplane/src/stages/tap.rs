// SPDX-License-Identifier: Apache-2.0

//! Taps: who listens to all frames of a device (`ptype_all`, `dev_queue_xmit_nit()`). Received
//! frames pass them before traffic control and rules, and after early ingress; frames that leave
//! pass them last.

use penstock_net::Link;
use penstock_packet::Packet;

use crate::sink::Sink;
use crate::worker::Worker;

impl<S: Sink> Worker<'_, S> {
    /// Shows a packet to the listeners of a device, with its tag back in its place.
    #[inline]
    pub(crate) fn tap(&mut self, packet: &Packet, link: &Link, outgoing: bool) {
        if self.state.taps.has(link.index) {
            self.show_to_tap(packet, link, outgoing);
        }
    }

    #[inline(never)]
    fn show_to_tap(&mut self, packet: &Packet, link: &Link, outgoing: bool) {
        const ADDRESSES: usize = 12;
        let mut bytes = self.bytes();
        let (addresses, rest) = packet.frame().split_at(packet.frame().len().min(ADDRESSES));
        bytes.extend_from_slice(addresses);
        if let Some(tag) = packet.meta.vlan {
            bytes.extend_from_slice(&tag.protocol.to_be_bytes());
            bytes.extend_from_slice(&tag.tci.to_be_bytes());
        }
        bytes.extend_from_slice(rest);
        self.sink.tap(link, &bytes, &packet.meta, outgoing);
        self.give_back(bytes);
    }
}
