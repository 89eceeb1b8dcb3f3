// SPDX-License-Identifier: Apache-2.0

//! The header of virtio-net (`struct virtio_net_hdr`), which packet sockets and TAPs put before
//! frames: what is still to be done to them.

use penstock_packet::gso::Headers;
use penstock_packet::{Gso, GsoKind};
use penstock_wire::protocol;

/// Bytes of the header.
pub const LEN: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4`, `_TCPV6`, `_UDP_L4`; `_ECN` may be added.
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// TCP's congestion window reduced, which asks for `_ECN`.
const CWR: u8 = 0x80;

/// Does what the header before a received frame leaves to be done: an unfinished checksum is
/// finished, unless the frame is a super-packet, of which this tells.
pub fn received(header: &[u8; LEN], frame: &mut [u8]) -> Option<Gso> {
    let [flags, kind, _, _, size_low, size_high, ..] = *header;
    let size = u16::from_ne_bytes([size_low, size_high]);
    let kind = match kind & !GSO_ECN {
        GSO_TCP4 | GSO_TCP6 => Some(GsoKind::Tcp),
        GSO_UDP => Some(GsoKind::Udp),
        _ => None,
    };
    if let Some(kind) = kind
        && size > 0
    {
        return Some(Gso { size, kind });
    }
    if flags & NEEDS_CHECKSUM != 0 {
        finish(header, frame);
    }
    None
}

/// Finishes a checksum as the header says: the sum from `csum_start` to the end goes to
/// `csum_offset` after that.
fn finish(header: &[u8; LEN], frame: &mut [u8]) {
    if let Some(headers) = Headers::of_frame(frame) {
        return headers.finish_checksum(frame);
    }
    // Neither TCP nor UDP: only the range to sum is known.
    let [.., start_low, start_high, offset_low, offset_high] = *header;
    let start = usize::from(u16::from_ne_bytes([start_low, start_high]));
    let at = start + usize::from(u16::from_ne_bytes([offset_low, offset_high]));
    let Some(sum) = frame.get(start..).map(penstock_wire::checksum::of) else { return };
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Prepares a frame for a device that cuts it: gives the header, and begins the checksum. `None` if
/// it is no frame that can be cut; for a frame that is none to be cut the header says nothing.
pub fn prepare(gso: Option<Gso>, frame: &mut [u8]) -> Option<[u8; LEN]> {
    let Some(gso) = gso else { return Some([0; LEN]) };
    let headers = Headers::of_frame(frame)?;
    Some(prepare_headers(gso, headers, frame))
}

/// What precedes the payload of a frame sent in place: the header, and the changed part of the
/// frame.
#[derive(Debug)]
pub struct Head {
    bytes: [u8; LEN + Head::MOST],
    /// Bytes of the frame that are in it.
    taken: usize,
}

impl Head {
    /// Headers have fewer bytes.
    const MOST: usize = 256;

    /// [`prepare`] for a frame in place; `None` also if the headers are too long.
    pub fn of(gso: Option<Gso>, frame: &[u8]) -> Option<Head> {
        let mut head = Head { bytes: [0; LEN + Head::MOST], taken: 0 };
        let Some(gso) = gso else { return Some(head) };
        let headers = Headers::of_frame(frame)?;
        head.taken = headers.payload;
        let (header, rest) = head.bytes.split_at_mut(LEN);
        let copy = rest.get_mut(..headers.payload)?;
        copy.copy_from_slice(frame.get(..headers.payload)?);
        header.copy_from_slice(&prepare_headers(gso, headers, copy));
        Some(head)
    }

    /// Itself, and what of the frame follows.
    pub fn parts<'a>(&'a self, frame: &'a [u8]) -> [&'a [u8]; 2] {
        let own = self.bytes.get(..LEN + self.taken).unwrap_or_default();
        [own, frame.get(self.taken..).unwrap_or_default()]
    }
}

/// The header for a super-packet; `frame` has at least what is before the payload.
fn prepare_headers(gso: Gso, headers: Headers, frame: &mut [u8]) -> [u8; LEN] {
    headers.begin_checksum(frame);
    let is_tcp = headers.protocol == protocol::TCP;
    let mut kind = match (is_tcp, headers.v6) {
        (true, false) => GSO_TCP4,
        (true, true) => GSO_TCP6,
        (false, _) => GSO_UDP,
    };
    if is_tcp && frame.get(headers.transport + 13).is_some_and(|flags| flags & CWR != 0) {
        kind |= GSO_ECN;
    }
    let mut header = [0; LEN];
    let fields = [
        headers.payload as u16,
        gso.size,
        headers.transport as u16,
        headers.checksum_offset() as u16,
    ];
    let (head, rest) = header.split_at_mut(2);
    head.copy_from_slice(&[NEEDS_CHECKSUM, kind]);
    for (to, field) in rest.chunks_exact_mut(2).zip(fields) {
        to.copy_from_slice(&field.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use penstock_testkit::build::*;

    use super::*;

    fn frame(len: usize) -> Vec<u8> {
        (Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
            / Ipv4::new("198.18.0.1", "198.18.0.2")
            / Tcp::new(1, 2)
            / payload(vec![7; len]))
        .build()
    }

    #[test]
    fn a_super_packet_keeps_its_vnet_header() {
        let gso = Gso { size: 1000, kind: GsoKind::Tcp };
        let mut bytes = frame(3000);
        let header = prepare(Some(gso), &mut bytes).unwrap();
        assert_eq!(received(&header, &mut bytes), Some(gso));
        assert_ne!(bytes, frame(3000), "its checksum is left to be finished");
    }

    #[test]
    fn frames_sent_in_place_equal_copied_ones() {
        let short = Gso { size: 1000, kind: GsoKind::Tcp };
        for (gso, len) in [(Some(short), 3000), (None, 3000), (Some(short), 0), (None, 0)] {
            let mut copied = frame(len);
            let header = prepare(gso, &mut copied).unwrap();
            let whole = frame(len);
            let head = Head::of(gso, &whole).unwrap();
            assert_eq!(head.parts(&whole).concat(), [&header[..], &copied].concat());
            // One that cannot be cut is refused either way.
            assert!(Head::of(Some(short), &whole[..20]).is_none());
        }
    }

    #[test]
    fn an_unfinished_checksum_is_finished() {
        let mut bytes = frame(99);
        let mut header = prepare(Some(Gso { size: 1000, kind: GsoKind::Tcp }), &mut bytes).unwrap();
        header[1] = 0;
        assert_eq!(received(&header, &mut bytes), None);
        assert_eq!(bytes, frame(99));
    }

    #[test]
    fn nonsense_vnet_headers_do_no_harm() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut header = [0; LEN];
            random.fill(&mut header);
            let mut bytes = frame(random.usize(..200));
            bytes.truncate(random.usize(..bytes.len()));
            for _ in 0..random.usize(..8) {
                if let Some(byte) =
                    random.choice(0..bytes.len().max(1)).and_then(|i| bytes.get_mut(i))
                {
                    *byte = random.u8(..);
                }
            }
            received(&header, &mut bytes);
            let gso = Gso {
                size: random.u16(1..),
                kind: if random.bool() { GsoKind::Tcp } else { GsoKind::Udp },
            };
            Head::of(Some(gso), &bytes);
            prepare(Some(gso), &mut bytes);
        }
    }
}
