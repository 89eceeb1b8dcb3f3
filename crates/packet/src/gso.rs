// SPDX-License-Identifier: Apache-2.0

//! Super-packets: many segments of a connection under one set of headers
//! (`skb_shared_info::gso_size`), as the host's stack and receive offload make them, and how they
//! are cut (`skb_gso_segment()`).
//!
//! The transport checksum of a super-packet is not there yet (`CHECKSUM_PARTIAL`): it is made when
//! the packet leaves, by the device or by [`segments`]. Until then nobody need look at it.

use std::net::Ipv4Addr;

use penstock_wire::{checksum, ethernet, ipv4, ipv6, protocol, tcp, udp, vlan};

/// What the segments of a super-packet are (`SKB_GSO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP, over the IP version that the packet has.
    Tcp,
    /// UDP datagrams of one size (`SKB_GSO_UDP_L4`).
    Udp,
}

/// How a super-packet is segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Bytes of payload in a segment, more than 0; the last one may have fewer.
    pub size: u16,
    /// What they are.
    pub kind: GsoKind,
}

/// Where the headers of a packet end that could be a super-packet, or has a checksum of TCP or UDP
/// to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Offset of the network header.
    pub network: usize,
    /// Offset of the transport header.
    pub transport: usize,
    /// Offset of the payload.
    pub payload: usize,
    /// Where the packet ends: padding may follow in a frame.
    pub end: usize,
    /// IPv6.
    pub v6: bool,
    /// `IPPROTO_TCP` or `IPPROTO_UDP`.
    pub protocol: u8,
}

impl Headers {
    /// Finds them in a frame that begins with an Ethernet header, tags included. `None` for what is
    /// not whole TCP or UDP over IP, fragments for instance.
    pub fn of_frame(frame: &[u8]) -> Option<Headers> {
        let mut at = ethernet::LEN;
        let mut kind = be16(frame, at - 2)?;
        while vlan::is_tag(kind) {
            at += vlan::LEN;
            kind = be16(frame, at - 2)?;
        }
        match kind {
            ethernet::IPV4 | ethernet::IPV6 => Headers::of_packet(frame, at),
            _ => None,
        }
    }

    /// Headers of a packet of which the network header is at `network`.
    pub fn of_packet(bytes: &[u8], network: usize) -> Option<Headers> {
        let ip = bytes.get(network..)?;
        let (v6, found) = match ip.first()? >> 4 {
            4 => (
                false,
                crate::ipv4_transport(ip).filter(|found| usize::from(found.offset) >= ipv4::LEN)?,
            ),
            6 => (true, crate::ipv6_transport(ip)?),
            _ => return None,
        };
        let more =
            if v6 { *ip.get(6)? == protocol::FRAGMENT } else { be16(ip, 6)? & ipv4::MF != 0 };
        if more || found.fragment_offset != 0 {
            return None;
        }
        let transport = network + usize::from(found.offset);
        let (before, said) = if v6 { (ipv6::LEN, be16(ip, 4)?) } else { (0, be16(ip, 2)?) };
        // Lengths beyond 16 bits are written as nothing.
        let end =
            network + if said == 0 { ip.len() } else { ip.len().min(before + usize::from(said)) };
        let rest = bytes.get(transport..end)?;
        let len = match found.protocol {
            protocol::TCP => {
                Some(tcp::Header::new(rest)?.header_len()).filter(|len| *len >= tcp::LEN)?
            }
            protocol::UDP => udp::LEN,
            _ => return None,
        };
        (len <= rest.len()).then_some(Headers {
            network,
            transport,
            payload: transport + len,
            end,
            v6,
            protocol: found.protocol,
        })
    }

    /// Offset of the checksum from the transport header.
    pub fn checksum_offset(&self) -> usize {
        checksum_offset(self.protocol)
    }

    /// Sum over the pseudo header for a transport header and data of `len` bytes.
    fn pseudo(&self, bytes: &[u8], len: usize) -> checksum::Sum {
        let addresses = if self.v6 {
            self.network + 8..self.network + 40
        } else {
            self.network + 12..self.network + 20
        };
        let addresses = bytes.get(addresses).unwrap_or_default();
        checksum::Sum::new().bytes(addresses).u16(u16::from(self.protocol)).u32(len as u32)
    }

    fn set_checksum(&self, bytes: &mut [u8], value: u16) {
        let at = self.transport + self.checksum_offset();
        if let Some(field) = bytes.get_mut(at..at + 2) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Makes the checksum what a device expects that is to finish it (`CHECKSUM_PARTIAL`): the sum
    /// over the pseudo header.
    pub fn begin_checksum(&self, bytes: &mut [u8]) {
        let sum = self.pseudo(bytes, self.end - self.transport).folded();
        self.set_checksum(bytes, sum);
    }

    /// Whether the checksum is as [`Headers::begin_checksum`] leaves it.
    pub fn is_begun(&self, bytes: &[u8]) -> bool {
        let at = self.transport + self.checksum_offset();
        be16(bytes, at) == Some(self.pseudo(bytes, self.end - self.transport).folded())
    }

    /// Makes the checksum whole, whatever stood there.
    pub fn finish_checksum(&self, bytes: &mut [u8]) {
        self.set_checksum(bytes, 0);
        let sum = self.pseudo(bytes, self.end - self.transport);
        let sum = sum.bytes(bytes.get(self.transport..self.end).unwrap_or_default());
        let value = if self.protocol == protocol::UDP { sum.finish_udp() } else { sum.finish() };
        self.set_checksum(bytes, value);
    }

    /// The longest packet, from the network header on, that a super-packet is cut into.
    pub fn segment_len(&self, gso: Gso) -> usize {
        self.payload - self.network + usize::from(gso.size)
    }
}

/// Finishes the checksum of a frame of TCP or UDP if it was only begun: then it is the sum over the
/// pseudo header. One valid checksum in 65,536 looks like that, too; recomputing it gives the same
/// value.
#[inline]
pub fn finish_begun(frame: &mut [u8]) {
    if !may_be_begun(frame) {
        return;
    }
    let Some(headers) = Headers::of_frame(frame) else { return };
    if headers.is_begun(frame) {
        headers.finish_checksum(frame);
    }
}

/// `false` for TCP and UDP over IPv4 without options, if that is whole and its checksum is not the
/// sum over the pseudo header: nearly all frames are that, and need not be looked at further.
#[inline]
fn may_be_begun(frame: &[u8]) -> bool {
    const NETWORK: usize = ethernet::LEN;
    const TRANSPORT: usize = NETWORK + ipv4::LEN;
    let Some(head) = frame.first_chunk::<{ TRANSPORT + udp::LEN }>() else { return true };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    if word(NETWORK - 2) != ethernet::IPV4 || head[NETWORK] != 0x45 {
        return true;
    }
    let len = usize::from(word(NETWORK + 2));
    let protocol = head[NETWORK + 9];
    let header = match protocol {
        protocol::UDP => udp::LEN,
        protocol::TCP => tcp::LEN,
        _ => return true,
    };
    if len < ipv4::LEN + header || NETWORK + len > frame.len() {
        return true;
    }
    let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
    let (src, dst) = (address(NETWORK + 12), address(NETWORK + 16));
    let sum = checksum::pseudo_v4(src, dst, protocol, (len - ipv4::LEN) as u32);
    be16(frame, TRANSPORT + checksum_offset(protocol)) == Some(sum.folded())
}

/// Offset of the checksum of TCP or UDP from the transport header.
#[inline]
fn checksum_offset(protocol: u8) -> usize {
    if protocol == protocol::TCP { 16 } else { 6 }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Cuts a super-packet (a frame, or a packet from its network header on) into segments with whole
/// checksums, each built in `scratch` and given to `emit`. `headers` are the packet's.
///
/// As `tcp_gso_segment()` does: sequence numbers continue, `FIN` and `PSH` are in the last segment
/// only, `CWR` in the first only, and IPv4 identifications are counted up.
pub fn segments(
    packet: &[u8],
    headers: Headers,
    gso: Gso,
    scratch: &mut Vec<u8>,
    mut emit: impl FnMut(&[u8]),
) {
    let (Some(head), Some(payload)) =
        (packet.get(..headers.payload), packet.get(headers.payload..headers.end))
    else {
        return;
    };
    let size = usize::from(gso.size.max(1));
    let count = payload.len().div_ceil(size).max(1);
    for i in 0..count {
        let from = i * size;
        let part = payload.get(from..(from + size).min(payload.len())).unwrap_or_default();
        scratch.clear();
        scratch.extend_from_slice(head);
        scratch.extend_from_slice(part);
        let len = scratch.len();
        if headers.v6 {
            let value = (len - headers.network - ipv6::LEN) as u16;
            put16(scratch, headers.network + 4, value);
        } else if let Some(mut h) =
            scratch.get_mut(headers.network..).and_then(ipv4::HeaderMut::new)
        {
            let id = h.read().id().wrapping_add(i as u16);
            h.set_id(id);
            h.set_total_len((len - headers.network) as u16);
            h.fill_checksum();
        }
        // What the packet is, whatever was said of it.
        match headers.protocol {
            protocol::TCP => {
                if let Some(seq) = scratch.get_mut(headers.transport + 4..headers.transport + 8)
                    && let Some(now) = seq.first_chunk_mut::<4>()
                {
                    *now = u32::from_be_bytes(*now).wrapping_add(from as u32).to_be_bytes();
                }
                if let Some(flags) = scratch.get_mut(headers.transport + 13) {
                    if i + 1 < count {
                        *flags &= !FIN_PSH;
                    }
                    if i > 0 {
                        *flags &= !CWR;
                    }
                }
            }
            _ => put16(scratch, headers.transport + 4, (len - headers.transport) as u16),
        }
        Headers { end: len, ..headers }.finish_checksum(scratch);
        emit(scratch);
    }
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use penstock_testkit::build::{Ethernet, Frame, Ipv4, Ipv6, Tcp, Udp, Vlan, payload};

    use super::*;

    /// Whether the transport checksum of a frame is right.
    fn right(frame: &[u8]) -> bool {
        let h = Headers::of_frame(frame).unwrap();
        h.pseudo(frame, h.end - h.transport).bytes(&frame[h.transport..h.end]).is_valid()
    }

    fn ethernet() -> Ethernet {
        Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
    }

    fn frames(data: &[u8]) -> Vec<(Frame, GsoKind)> {
        let (v4, v6) =
            (Ipv4::new("198.18.0.1", "198.18.0.2"), Ipv6::new("2001:db8::1", "2001:db8::2"));
        vec![
            (ethernet() / v4.clone() / Tcp::new(1, 2).seq(7) / payload(data), GsoKind::Tcp),
            (
                ethernet() / Vlan::new(5) / v6.clone() / Tcp::new(1, 2).seq(7) / payload(data),
                GsoKind::Tcp,
            ),
            (ethernet() / v4 / Udp::new(1, 2) / payload(data), GsoKind::Udp),
            (ethernet() / v6 / Udp::new(1, 2) / payload(data), GsoKind::Udp),
        ]
    }

    #[test]
    fn segments_are_whole_packets_and_their_payloads_the_packets() {
        let data: Vec<u8> = (0..3001u32).map(|i| (i * 7) as u8).collect();
        for (packet, kind) in frames(&data) {
            let frame = packet.build();
            let headers = Headers::of_frame(&frame).unwrap();
            let (mut got, mut sizes, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
            segments(&frame, headers, Gso { size: 1400, kind }, &mut scratch, |segment| {
                assert!(right(segment), "{kind:?}");
                let h = Headers::of_frame(segment).unwrap();
                assert_eq!(h.end, segment.len());
                if kind == GsoKind::Tcp {
                    let seq = tcp::Header::new(&segment[h.transport..]).unwrap().seq();
                    assert_eq!(seq as usize, 7 + got.len());
                }
                sizes.push(segment.len() - h.payload);
                got.extend_from_slice(&segment[h.payload..]);
            });
            assert_eq!((got, sizes), (data.clone(), vec![1400, 1400, 201]));
        }
    }

    #[test]
    fn a_partial_checksum_is_restored_and_finished() {
        for data in [&b""[..], b"a", b"some bytes", &[0xff; 700]] {
            for (packet, _) in frames(data) {
                let mut frame = packet.build();
                let whole = frame.clone();
                // Padding counts for nothing.
                frame.extend([9; 7]);
                let h = Headers::of_frame(&frame).unwrap();
                h.begin_checksum(&mut frame);
                assert!(!right(&frame) || frame.starts_with(&whole));
                let mut begun = frame.clone();
                h.finish_checksum(&mut frame);
                assert_eq!(frame[..whole.len()], whole[..], "{h:?} {}", data.len());
                finish_begun(&mut begun);
                assert_eq!(begun, frame, "{h:?} {}", data.len());
                finish_begun(&mut frame);
                assert_eq!(frame[..whole.len()], whole[..], "{h:?} {}", data.len());
            }
        }
    }
}
