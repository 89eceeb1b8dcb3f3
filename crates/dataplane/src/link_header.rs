// SPDX-License-Identifier: Apache-2.0

//! Ethernet headers before packets that leave.

use penstock_net::Mac;
use penstock_packet::Packet;
use penstock_wire::ethernet;

/// Puts an Ethernet header before a packet, in place of the one that it has.
#[inline(always)]
pub(crate) fn put_ethernet(packet: &mut Packet, to: Mac, from: Mac) {
    let protocol = packet.meta.protocol;
    let header = packet.put_link(ethernet::LEN);
    header[..6].copy_from_slice(&to.0);
    header[6..12].copy_from_slice(&from.0);
    header[12..].copy_from_slice(&protocol.to_be_bytes());
}
