// SPDX-License-Identifier: Apache-2.0

//! Ethernet headers before packets that leave.

use penstock_net::Mac;
use penstock_packet::Packet;
use penstock_wire::ethernet;

/// The Ethernet header of packets to a link address.
#[inline(always)]
pub(crate) fn ethernet_header(to: Mac, from: Mac, ethertype: u16) -> [u8; ethernet::LEN] {
    let mut header = [0; ethernet::LEN];
    header[..6].copy_from_slice(&to.0);
    header[6..12].copy_from_slice(&from.0);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    header
}

/// Puts an Ethernet header before a packet, in place of the one that it has.
#[inline(always)]
pub(crate) fn put_ethernet(packet: &mut Packet, to: Mac, from: Mac) {
    let header = ethernet_header(to, from, packet.meta.protocol);
    packet.put_link(ethernet::LEN).copy_from_slice(&header);
}
