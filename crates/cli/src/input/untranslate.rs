// SPDX-License-Identifier: Apache-2.0

//! Packets as they came in, before address translation changed them.

use penstock_conntrack::{Conntrack, Direction, Tuple};
use penstock_wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use penstock_wire::{ipv4, ipv6};

use super::complete::fill_checksums;

/// Where the addresses and ports of a packet are.
struct Places {
    tuple: Tuple,
    /// Offset of the source address, which the destination address follows.
    addresses: usize,
    /// Length of an address.
    len: usize,
    /// Offset of the transport header.
    transport: usize,
}

/// The packet as it came in, by the connection that it belongs to. `None` if there is none in zone
/// 0, or if nothing is translated.
pub fn untranslated(conntrack: &Conntrack, packet: &[u8]) -> Option<Vec<u8>> {
    let places = Places::of(packet)?;
    let answer = places.tuple.invert()?;
    let connection = conntrack.connection_at(conntrack.find_flow(&answer, &answer)?)?;
    let arrived = match connection.tuple(Direction::Original) == &answer {
        true => connection.tuple(Direction::Reply),
        false => connection.tuple(Direction::Original),
    };
    if *arrived == places.tuple {
        return None;
    }
    let mut packet = packet.to_vec();
    let Places { addresses, len, transport, .. } = places;
    packet[addresses..addresses + len].copy_from_slice(&arrived.src[..len]);
    packet[addresses + len..addresses + 2 * len].copy_from_slice(&arrived.dst[..len]);
    match places.tuple.protocol {
        TCP | UDP => {
            packet[transport..transport + 2].copy_from_slice(&arrived.src_id.to_be_bytes());
            packet[transport + 2..transport + 4].copy_from_slice(&arrived.dst_id.to_be_bytes());
        }
        _ => packet[transport + 4..transport + 6].copy_from_slice(&arrived.src_id.to_be_bytes()),
    }
    fill_checksums(&mut packet);
    Some(packet)
}

/// The tuple of a TCP, UDP or ICMP packet in zone 0.
pub fn tuple_of(packet: &[u8]) -> Option<Tuple> {
    Places::of(packet).map(|places| places.tuple)
}

impl Places {
    /// Of TCP, UDP and ICMP without fragments.
    fn of(packet: &[u8]) -> Option<Places> {
        let (protocol, addresses, len, transport, l3);
        if let Some(header) = ipv4::Header::new(packet).filter(|h| h.version() == 4) {
            if header.is_fragment() {
                return None;
            }
            (protocol, addresses, len, l3) = (header.protocol(), 12, 4, 2);
            transport = header.header_len();
        } else {
            let header = ipv6::Header::new(packet).filter(|h| h.version() == 6)?;
            (protocol, addresses, len, l3) = (header.next_header(), 8, 16, 10);
            transport = ipv6::LEN;
        }
        let header: &[u8; 8] = packet.get(transport..)?.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (src_id, dst_id) = match protocol {
            TCP | UDP => (half(0), half(2)),
            ICMP | ICMPV6 => (half(4), half(0)),
            _ => return None,
        };
        let mut tuple = Tuple { src_id, dst_id, l3, protocol, ..Tuple::ZERO };
        tuple.src[..len].copy_from_slice(&packet[addresses..addresses + len]);
        tuple.dst[..len].copy_from_slice(&packet[addresses + len..addresses + 2 * len]);
        Some(Places { tuple, addresses, len, transport })
    }
}
