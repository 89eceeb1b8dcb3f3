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
    if let Some(error) = untranslated_error(conntrack, packet) {
        return Some(error);
    }
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

/// The ICMP error as it came in, by the connection of the packet that it quotes. `None` if it is
/// none, or if nothing is translated.
fn untranslated_error(conntrack: &Conntrack, packet: &[u8]) -> Option<Vec<u8>> {
    /// Bytes of an ICMP header, before the quoted packet.
    const HEADER: usize = 8;
    let (addresses, len, transport, errors): (_, _, _, &[u8]) = match ipv4::Header::new(packet)
        .filter(|h| h.version() == 4)
    {
        Some(h) if h.protocol() == ICMP && !h.is_fragment() => {
            (12, 4, h.header_len(), &[3, 4, 5, 11, 12])
        }
        Some(_) => return None,
        None => {
            let header = ipv6::Header::new(packet).filter(|h| h.version() == 6)?;
            (header.next_header() == ICMPV6).then_some((8, 16, ipv6::LEN, &[1u8, 2, 3, 4][..]))?
        }
    };
    if !errors.contains(packet.get(transport)?) {
        return None;
    }
    let start = transport + HEADER;
    let quoted = Places::of(packet.get(start..)?)?;
    let connection = conntrack.connection_at(conntrack.find_flow(&quoted.tuple, &quoted.tuple)?)?;
    let other = match connection.tuple(Direction::Original) == &quoted.tuple {
        true => connection.tuple(Direction::Reply),
        false => connection.tuple(Direction::Original),
    };
    // The packet that is quoted, as its receiver got it.
    let received = other.invert()?;
    if received == quoted.tuple {
        return None;
    }
    let outer = |at: usize| packet.get(addresses + at * len..addresses + (at + 1) * len);
    let is_of_receiver = outer(0) == Some(&quoted.tuple.dst[..len]);
    let mut packet = packet.to_vec();
    if is_of_receiver {
        packet[addresses..addresses + len].copy_from_slice(&received.dst[..len]);
    }
    packet[addresses + len..addresses + 2 * len].copy_from_slice(&received.src[..len]);
    let at = start + quoted.addresses;
    packet[at..at + len].copy_from_slice(&received.src[..len]);
    packet[at + len..at + 2 * len].copy_from_slice(&received.dst[..len]);
    let at = start + quoted.transport;
    match quoted.tuple.protocol {
        TCP | UDP => {
            packet[at..at + 2].copy_from_slice(&received.src_id.to_be_bytes());
            packet[at + 2..at + 4].copy_from_slice(&received.dst_id.to_be_bytes());
        }
        _ => packet[at + 4..at + 6].copy_from_slice(&received.src_id.to_be_bytes()),
    }
    if let Some(mut header) = ipv4::HeaderMut::new(&mut packet[start..]).filter(|_| len == 4) {
        header.fill_checksum();
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

#[cfg(test)]
mod tests {
    use penstock_conntrack::Settings;
    use penstock_testkit::build::*;

    use super::*;

    /// 198.18.0.2 is masqueraded as 198.18.1.1, and asks 198.18.1.2.
    const FLOW: &str = "penstock-conntrack 1\n\
        flow id=1 proto=17 orig=198.18.0.2,198.18.1.2,4000,53,0 reply=198.18.1.2,198.18.1.1,53,999,0 \
        status=398 left=5000000000 udp=0\n";

    fn error(from: &str, to: &str, inner: (&str, u16, &str, u16)) -> Vec<u8> {
        let quoted =
            (Ipv4::new(inner.0, inner.2) / Udp::new(inner.1, inner.3) / payload(b"x")).build();
        let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
        icmp.extend(quoted);
        let mut packet = (Ipv4::new(from, to).protocol(ICMP) / payload(icmp)).build();
        fill_checksums(&mut packet);
        packet
    }

    #[test]
    fn errors_about_translated_packets_are_read_as_they_came_in() {
        let mut conntrack = Conntrack::new(Settings::default());
        conntrack.load(FLOW, 1).expect("a connection");
        // The host behind the router has closed its port: captured on the way out.
        let sent = error("198.18.1.1", "198.18.1.2", ("198.18.1.2", 53, "198.18.1.1", 999));
        let came = error("198.18.0.2", "198.18.1.2", ("198.18.1.2", 53, "198.18.0.2", 4000));
        let back = untranslated(&conntrack, &sent).expect("it was translated");
        // Checksums of the quoted packet's transport are left as they are.
        let quoted_sum = 20 + 8 + 20 + 6;
        assert_eq!(back[..20], came[..20]);
        assert_eq!(back[28..quoted_sum], came[28..quoted_sum]);
        // About a packet that nothing translates.
        let other = error("198.18.1.1", "198.18.1.2", ("198.18.1.2", 53, "198.18.1.1", 998));
        assert_eq!(untranslated(&conntrack, &other), None);
        for cut in 0..sent.len() {
            let _ = untranslated(&conntrack, &sent[..cut]);
        }
    }
}
