// SPDX-License-Identifier: Apache-2.0

//! What stays of a packet when a router forwards and translates it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use penstock_wire::frame::{Around, ip_packet};
use penstock_wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use penstock_wire::{ipv4, ipv6};

/// Bytes after the IP header that are looked at. The length is compared, too.
const HASHED: usize = 128;

/// A packet, as far as copies of it are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Hash of what neither forwarding nor address translation changes: protocol, sequence numbers,
    /// payload.
    pub hash: u64,
    pub src: IpAddr,
    pub dst: IpAddr,
    /// Whether it is an ICMP error that a router sends of its own accord: all of them but
    /// unreachable ports, which hosts send, too.
    pub is_router_error: bool,
}

impl Fingerprint {
    /// Of the IP packet in a frame, after tags and a PPPoE header. `None` for other frames.
    pub fn of(frame: &[u8]) -> Option<Fingerprint> {
        Fingerprint::of_packet(packet_of(frame)?)
    }

    /// Of an IP packet, which may be cut.
    pub fn of_packet(packet: &[u8]) -> Option<Fingerprint> {
        let mut hash = DefaultHasher::new();
        let (src, dst, protocol, payload, len);
        let mut first = true;
        match packet.first()? >> 4 {
            4 => {
                let header = ipv4::Header::new(packet)?;
                (src, dst) = (IpAddr::V4(header.src()), IpAddr::V4(header.dst()));
                let own = header.header_len();
                len = usize::from(header.total_len()).checked_sub(own)?;
                (protocol, payload) = (header.protocol(), packet.get(own..)?);
                first = header.fragment_offset() == 0;
                (header.frag() & !(ipv4::DF | ipv4::RESERVED)).hash(&mut hash);
            }
            6 => {
                let header = ipv6::Header::new(packet)?;
                (src, dst) = (IpAddr::V6(header.src()), IpAddr::V6(header.dst()));
                len = usize::from(header.payload_len());
                (protocol, payload) = (header.next_header(), packet.get(ipv6::LEN..)?);
            }
            _ => return None,
        }
        let payload = payload.get(..len.min(HASHED)).unwrap_or(payload);
        (protocol, len).hash(&mut hash);
        let mut is_router_error = false;
        let kept: &[&[u8]] = match (protocol, payload) {
            _ if !first => &[payload],
            (TCP, [_, _, _, _, rest @ ..]) if rest.len() >= 16 => {
                let data = usize::from(rest[8] >> 4) * 4;
                &[&rest[..12], payload.get(data..).unwrap_or_default()]
            }
            (UDP, [_, _, _, _, _, _, _, _, data @ ..]) => &[data],
            (ICMP | ICMPV6, [kind, code, _, _, _, _, rest @ ..]) => {
                // The packet that an error is about begins after eight bytes. It is translated, too,
                // but not its identification, or the end of its flow label.
                let (errors, port, number): (&[u8], _, _) = match protocol {
                    ICMP => (&[3, 4, 5, 11, 12], (3, 3), 8 + 4..8 + 6),
                    _ => (&[1, 2, 3, 4], (1, 4), 8 + 2..8 + 4),
                };
                (kind, code).hash(&mut hash);
                match errors.contains(kind) {
                    true => {
                        is_router_error = (*kind, *code) != port;
                        &[payload.get(number).unwrap_or_default()]
                    }
                    false => &[rest],
                }
            }
            (_, payload) => &[payload],
        };
        kept.hash(&mut hash);
        Some(Fingerprint { hash: hash.finish(), src, dst, is_router_error })
    }

    /// Whether this packet can be a copy of the other with the same hash, and not an answer to it.
    pub fn is_copy_of(&self, other: &Fingerprint) -> bool {
        self.hash == other.hash && (self.src, self.dst) != (other.dst, other.src)
    }
}

/// Where the IP packet in a frame begins, after tags and a PPPoE header.
pub fn packet_start(frame: &[u8]) -> Option<usize> {
    Some(frame.len() - ip_packet(frame, Around { tags: 2, sessions: true })?.len())
}

/// The IP packet in a frame without what follows it.
pub fn packet_of(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(packet_start(frame)?..)?;
    let len = match packet.first()? >> 4 {
        4 => usize::from(ipv4::Header::new(packet)?.total_len()),
        6 => ipv6::LEN + usize::from(ipv6::Header::new(packet)?.payload_len()),
        _ => return None,
    };
    Some(packet.get(..len).unwrap_or(packet))
}
