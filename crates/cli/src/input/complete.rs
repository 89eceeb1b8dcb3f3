// SPDX-License-Identifier: Apache-2.0

//! Frames as they were on the wire, where a capture has less: bytes that were cut off, and
//! checksums that the sender left to its device.

use penstock_wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use penstock_wire::{checksum, ipv4, ipv6};

use super::fingerprint::packet_start;

/// Shorter frames are padded to this length on an Ethernet.
const MIN_FRAME: usize = 60;

/// What was missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Bytes at the end, which are zeros now.
    pub length: bool,
    /// The checksum of TCP or UDP.
    pub checksum: bool,
}

/// Where the transport header of an IP packet begins in a frame or packet.
struct Transport {
    protocol: u8,
    /// Offset of the header.
    at: usize,
    /// Length of header and data, as the IP header says.
    len: usize,
    /// The sum of the pseudo header.
    pseudo: checksum::Sum,
    /// Offset of the checksum in the header.
    check: usize,
    /// Bytes of header that must be there.
    header: usize,
}

/// Completes a frame, or an IP packet if `is_ip`, into `out`. `wire_len` is its length on the wire.
/// `None`, and nothing written, if nothing is missing, or the header of its transport.
pub fn complete(
    bytes: &[u8],
    wire_len: usize,
    is_ip: bool,
    out: &mut Vec<u8>,
) -> Option<Completed> {
    let start = if is_ip { 0 } else { packet_start(bytes)? };
    let packet = &bytes[start..];
    let transport = transport(packet)?;
    let field = transport.at + transport.check;
    let said = packet.get(field..field + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))?;
    if packet.len() < transport.at + transport.header {
        return None;
    }
    let whole = start + transport.at + transport.len;
    let length = bytes.len() < wire_len && bytes.len() < whole;
    let partial = matches!(transport.protocol, TCP | UDP) && said == transport.pseudo.folded();
    if !length && !partial {
        return None;
    }
    out.clear();
    out.extend(bytes);
    if length {
        out.resize(whole.max(wire_len.min(MIN_FRAME)), 0);
    }
    // A sender of UDP over IPv4 may leave the checksum out.
    if said != 0 || transport.protocol != UDP {
        transport.write_checksum(&mut out[start..]);
    }
    Some(Completed { length, checksum: partial })
}

/// Writes the checksums of an IP packet that is whole.
pub fn fill_checksums(packet: &mut [u8]) {
    if packet.first().is_some_and(|byte| byte >> 4 == 4)
        && let Some(mut header) = ipv4::HeaderMut::new(packet)
    {
        header.fill_checksum();
    }
    if let Some(transport) = transport(packet)
        && packet.len() >= transport.at + transport.len
    {
        transport.write_checksum(packet);
    }
}

impl Transport {
    /// Writes the checksum of header and data, as far as the packet has them.
    fn write_checksum(&self, packet: &mut [u8]) {
        let (field, end) = (self.at + self.check, self.at + self.len);
        packet[field..field + 2].fill(0);
        let sum = self.pseudo.bytes(&packet[self.at..end.min(packet.len())]);
        let sum = if self.protocol == UDP { sum.finish_udp() } else { sum.finish() };
        packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The transport header of a packet that is no later fragment.
fn transport(packet: &[u8]) -> Option<Transport> {
    let (protocol, at, len, pseudo) = match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Header::new(packet)?;
            let len = usize::from(header.total_len()).checked_sub(header.header_len())?;
            if header.is_fragment() {
                return None;
            }
            let pseudo = match header.protocol() {
                ICMP => checksum::Sum::new(),
                _ => header.pseudo(len),
            };
            (header.protocol(), header.header_len(), len, pseudo)
        }
        6 => {
            let header = ipv6::Header::new(packet)?;
            let len = usize::from(header.payload_len());
            (header.next_header(), ipv6::LEN, len, header.pseudo(header.next_header(), len))
        }
        _ => return None,
    };
    let (check, header) = match protocol {
        TCP => (16, 20),
        UDP => (6, 8),
        ICMP | ICMPV6 => (2, 8),
        _ => return None,
    };
    (len >= header).then_some(Transport { protocol, at, len, pseudo, check, header })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet with eight bytes of data, after a VLAN tag.
    fn frame() -> Vec<u8> {
        let header = ipv4::Repr {
            src: "198.18.0.1".parse().expect("an address"),
            dst: "198.18.0.2".parse().expect("an address"),
            protocol: UDP,
            tos: 0,
            ttl: 64,
            id: 1,
            frag: 0,
            payload_len: 16,
        };
        let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 0];
        let mut frame = [&ethernet[..], &header.bytes()].concat();
        frame.extend([0, 53, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
        let sum = ipv4::Header::new(&frame[18..]).expect("whole").pseudo(16).bytes(&frame[38..]);
        frame[44..46].copy_from_slice(&sum.finish_udp().to_be_bytes());
        frame
    }

    #[test]
    fn what_was_left_out_is_completed() {
        let whole = frame();
        let pseudo = ipv4::Header::new(&whole[18..]).expect("whole").pseudo(16).folded();
        let mut partial = whole.clone();
        partial[44..46].copy_from_slice(&pseudo.to_be_bytes());
        let mut wrong = whole.clone();
        wrong[44] ^= 1;
        let mut none = whole.clone();
        none[44..46].fill(0);
        for (what, bytes, wire_len, expected, result) in [
            ("nothing is missing", &whole[..], 54, None, &whole),
            ("a checksum that is wrong stays", &wrong, 54, None, &wrong),
            ("a checksum that is left out stays out", &none, 54, None, &none),
            ("the checksum", &partial, 54, Some((false, true)), &whole),
            ("zeros at the end", &whole[..50], 54, Some((true, false)), &whole),
            ("both", &partial[..50], 54, Some((true, true)), &whole),
            ("a header that is cut", &whole[..45], 54, None, &whole),
        ] {
            let mut out = Vec::new();
            let done = complete(bytes, wire_len, false, &mut out).map(|c| (c.length, c.checksum));
            assert_eq!(done, expected, "{what}");
            if done.is_some() {
                assert_eq!(out, *result, "{what}");
            }
            out.clear();
            let done = complete(bytes.get(18..).unwrap_or_default(), wire_len - 18, true, &mut out);
            assert_eq!(done.map(|c| (c.length, c.checksum)), expected, "{what}, the packet alone");
        }
    }

    #[test]
    fn any_bytes_are_taken() {
        let mut rng = fastrand::Rng::with_seed(5);
        let whole = frame();
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            bytes.truncate(rng.usize(..=whole.len()));
            let mut out = Vec::new();
            let wire_len = bytes.len() + rng.usize(..60);
            complete(&bytes, wire_len, rng.bool(), &mut out);
        }
    }
}
