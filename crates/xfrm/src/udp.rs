// SPDX-License-Identifier: Apache-2.0

//! ESP within UDP (RFC 3948): what a datagram to such a port is (`xfrm4_udp_encap_rcv()`),
//! and its checksum.

use penstock_wire::{checksum, ipv4, ipv6, protocol, udp};

/// What a datagram holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulated {
    /// One byte 0xff that keeps a mapping alive; it is discarded.
    KeepAlive,
    /// ESP, which begins with an SPI that is not zero.
    Esp,
    /// After a marker of four zero bytes, or too short for ESP: for the key daemon.
    Other,
}

/// Sets the checksum of the datagram at `at` in an IPv6 packet, which every receiver wants; without
/// one over IPv4 (`esp_output_encap_csum()`). `None` if there is none.
pub(crate) fn fill_checksum(packet: &mut [u8], at: usize) -> Option<()> {
    let header = ipv6::Header::new(packet)?;
    let (src, dst) = (header.src(), header.dst());
    let datagram = packet.get_mut(at..)?;
    let pseudo = checksum::pseudo_v6(src, dst, protocol::UDP, datagram.len() as u32);
    datagram.get_mut(6..8)?.fill(0);
    let sum = match pseudo.bytes(datagram).finish() {
        0 => 0xffff,
        sum => sum,
    };
    udp::HeaderMut::new(datagram)?.set_checksum(sum);
    Some(())
}

/// Whether a datagram may be ESP by its checksum, which only IPv4 can do without
/// (`udp_lib_checksum_complete()`, `udp6_csum_init()`). `network` is the packet, with the datagram
/// at `at`.
pub fn checksum_ok(network: &[u8], at: usize) -> bool {
    let Some(datagram) = network.get(at..) else { return false };
    let Some(header) = udp::Header::new(datagram) else { return false };
    let Some(datagram) = datagram.get(..usize::from(header.length())) else { return false };
    let len = datagram.len() as u32;
    let pseudo = match network.first().map(|b| b >> 4) {
        Some(6) => ipv6::Header::new(network)
            .filter(|_| header.checksum() != 0)
            .map(|h| checksum::pseudo_v6(h.src(), h.dst(), protocol::UDP, len)),
        _ if header.checksum() == 0 => return true,
        _ => ipv4::Header::new(network)
            .map(|h| checksum::pseudo_v4(h.src(), h.dst(), protocol::UDP, len)),
    };
    pseudo.is_some_and(|pseudo| pseudo.bytes(datagram).finish() == 0)
}

/// Tells by what follows the UDP header.
pub fn classify(payload: &[u8]) -> Encapsulated {
    match payload {
        [0xff] => Encapsulated::KeepAlive,
        [a, b, c, d, _, _, _, _, _, ..] if [*a, *b, *c, *d] != [0; 4] => Encapsulated::Esp,
        _ => Encapsulated::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalives_esp_and_the_rest_are_told_apart() {
        for (payload, what) in [
            (&[0xff][..], Encapsulated::KeepAlive),
            (&[0xfe], Encapsulated::Other),
            (&[], Encapsulated::Other),
            (&[0xff; 8], Encapsulated::Other),
            (&[0xff; 9], Encapsulated::Esp),
            (&[0, 0, 0, 0, 1, 2, 3, 4, 5], Encapsulated::Other),
            (&[0, 0, 0, 1, 1, 2, 3, 4, 5], Encapsulated::Esp),
        ] {
            assert_eq!(classify(payload), what, "{payload:?}");
        }
    }
}
