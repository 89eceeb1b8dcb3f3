// SPDX-License-Identifier: Apache-2.0

//! Changes inside of a packet's data, as helpers make them (`net/netfilter/nf_nat_helper.c`):
//! addresses and ports in the text of FTP, SIP, IRC and their kin.

use penstock_packet::Packet;
use penstock_wire::checksum::Sum;
use penstock_wire::{ethernet, ipv4, ipv6, protocol, tcp, udp};

/// Longest IP packet.
const MAX_LEN: usize = 65535;

/// Replaces `len` bytes at `at` in the data of a TCP segment or UDP datagram by others, possibly
/// more or fewer: lengths and checksums of all headers follow (`nf_nat_mangle_tcp_packet()`,
/// `nf_nat_mangle_udp_packet()`). A UDP datagram without checksum stays without. `transport` is
/// where the transport header is, from the network header.
///
/// Sequence numbers are not changed. `false`, and nothing changes, if the packet would get too long
/// or the bytes are not there.
pub fn replace(
    packet: &mut Packet,
    transport: usize,
    protocol: u8,
    at: usize,
    len: usize,
    with: &[u8],
) -> bool {
    let Some(header) = packet.network().get(transport..) else { return false };
    let data = match protocol {
        protocol::TCP => {
            tcp::Header::new(header).map(|h| h.header_len()).filter(|len| *len >= tcp::LEN)
        }
        protocol::UDP => udp::Header::new(header).map(|_| udp::LEN),
        _ => None,
    };
    let Some(data) = data else { return false };
    if packet.network().len() + with.len() > MAX_LEN + len {
        return false;
    }
    if !packet.splice_network(transport + data + at, len, with) {
        return false;
    }
    let total = packet.network().len();
    let v6 = packet.meta.protocol == ethernet::IPV6;
    let upper = total - transport;
    if v6 {
        if let Some(mut h) = ipv6::HeaderMut::new(packet.network_mut()) {
            h.set_payload_len((total - ipv6::LEN) as u16);
        }
    } else if let Some(mut h) = ipv4::HeaderMut::new(packet.network_mut()) {
        h.set_total_len(total as u16);
        h.fill_checksum();
    }
    let pseudo = if v6 {
        ipv6::Header::new(packet.network()).map(|h| h.pseudo(protocol, upper))
    } else {
        ipv4::Header::new(packet.network()).map(|h| h.pseudo(upper))
    };
    // IPv4's pseudo header takes the protocol from the header, where it is the same.
    let pseudo = pseudo.unwrap_or(Sum::new());
    let segment = &mut packet.network_mut()[transport..];
    if protocol == protocol::UDP {
        let Some(mut h) = udp::HeaderMut::new(segment) else { return false };
        h.set_length(upper as u16);
        if udp::Header::new(segment).is_some_and(|h| h.checksum() == 0) {
            return true;
        }
    }
    let place = if protocol == protocol::UDP { 6 } else { 16 };
    segment[place..place + 2].fill(0);
    // skb_checksum_help() writes no zero for TCP either.
    let check = pseudo.bytes(segment).finish_udp();
    segment[place..place + 2].copy_from_slice(&check.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_testkit::build::*;

    fn loaded(bytes: &[u8]) -> Packet {
        let mut packet = Packet::new();
        packet.load(bytes, 0);
        packet.meta.protocol = if bytes[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
        packet
    }

    #[test]
    fn replaced_text_changes_lengths_in_headers() {
        let v4 = |upper: Frame| (Ipv4::new("198.18.0.1", "198.18.0.2") / upper).build();
        let v6 = |upper: Frame| (Ipv6::new("2001:db8::1", "2001:db8::2") / upper).build();
        let tcp = |text: &str| Tcp::new(1000, 21).ack(5).timestamp(1, 2) / payload(text);
        let udp = |text: &str| Udp::new(5060, 5060) / payload(text);
        let bare = |text: &str| Udp::new(5060, 5060).checksum(0) / payload(text);
        let before = "PORT 198,18,0,1,4,5\r\n";
        for (new, after) in [
            ("198,19,100,100,200,200", "PORT 198,19,100,100,200,200\r\n"),
            ("1", "PORT 1\r\n"),
            ("", "PORT \r\n"),
            ("198,18,0,1,4,6", "PORT 198,18,0,1,4,6\r\n"),
        ] {
            for (start, want, transport, protocol) in [
                (v4(tcp(before)), v4(tcp(after)), 20, protocol::TCP),
                (v4(udp(before)), v4(udp(after)), 20, protocol::UDP),
                (v4(bare(before)), v4(bare(after)), 20, protocol::UDP),
                (v6(tcp(before)), v6(tcp(after)), 40, protocol::TCP),
                (v6(udp(before)), v6(udp(after)), 40, protocol::UDP),
            ] {
                let mut packet = loaded(&start);
                assert!(replace(&mut packet, transport, protocol, 5, 14, new.as_bytes()));
                assert_eq!(packet.network(), want, "{after:?}");
            }
        }
    }

    #[test]
    fn a_replacement_that_does_not_fit_changes_nothing() {
        let start =
            (Ipv4::new("198.18.0.1", "198.18.0.2") / Tcp::new(1, 21) / payload("QUIT")).build();
        let mut packet = loaded(&start);
        for (transport, protocol, at, len, with) in [
            (20, protocol::TCP, 3, 2, &b"x"[..]),
            (20, protocol::TCP, 0, 4, &[7; 65500]),
            (21, protocol::TCP, 0, 20, b"x"),
            (60, protocol::TCP, 0, 1, b"x"),
            (20, protocol::SCTP, 0, 1, b"x"),
        ] {
            assert!(!replace(&mut packet, transport, protocol, at, len, with));
            assert_eq!(packet.network(), start);
        }
    }
}
