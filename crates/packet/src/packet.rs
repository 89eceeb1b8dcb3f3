// SPDX-License-Identifier: Apache-2.0

//! The frame's bytes and the offsets into them.

use crate::buffer::Buffer;
use crate::meta::Meta;
use crate::transport::Transport;

/// Bytes kept free in front of a received frame, so headers can be put before it without a copy.
pub const HEADROOM: usize = 128;

/// One packet: bytes, header offsets, metadata. Reused from frame to frame ([`Packet::load`]), so
/// the path allocates nothing once buffers have grown to the largest frame.
#[derive(Debug, Default)]
pub struct Packet {
    pub(crate) buffer: Buffer,
    /// First byte of the link header, equal to `network` if there is none.
    pub(crate) link: usize,
    /// First byte of the network header.
    pub(crate) network: usize,
    /// Where `skb->data` would point: lengths count from here.
    pub(crate) data: usize,
    /// One past the last byte.
    pub(crate) end: usize,
    pub(crate) has_link: bool,
    /// Whether there is a [`Transport`]. A field of its own and not an `Option`, so that engines
    /// know where both are.
    pub(crate) has_transport: bool,
    pub(crate) transport: Transport,
    /// Everything but the bytes.
    pub meta: Meta,
}

/// Copies all of a frame. Small ones, which are the most, go in a few moves of a fixed size that
/// may overlap.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = 32;
    if from.len() <= 2 * HALF
        && let (Some(first), Some(last)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>())
        && to.len() == from.len()
    {
        if let Some(to) = to.first_chunk_mut() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = *last;
        }
        return;
    }
    to.copy_from_slice(from);
}

/// Copies all of an Ethernet frame of which the headers are read soon: no field of an IPv4 header
/// without options, and none of the ports after it, is written in two pieces.
#[inline(always)]
fn copy_frame(to: &mut [u8], from: &[u8]) {
    const PIECE: usize = 16;
    const LINK: usize = 14;
    const LEAST: usize = LINK + 2 * PIECE;
    if to.len() != from.len() || from.len() > LEAST + PIECE {
        return copy(to, from);
    }
    let (Some(start), Some(end)) = (from.first_chunk::<LEAST>(), from.last_chunk::<PIECE>()) else {
        return copy(to, from);
    };
    if let Some(to) = to.first_chunk_mut::<LEAST>() {
        for at in [0, LINK, LINK + PIECE] {
            if let (Some(to), Some(from)) =
                (to[at..].first_chunk_mut::<PIECE>(), start[at..].first_chunk())
            {
                *to = *from;
            }
        }
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = *end;
    }
}

impl Clone for Packet {
    fn clone(&self) -> Self {
        let mut copy = Packet::default();
        copy.clone_from(self);
        copy
    }

    /// Keeps the buffer, so that copies into packets that are reused allocate nothing once their
    /// buffers have grown.
    fn clone_from(&mut self, source: &Self) {
        let Packet { buffer, link, network, data, end, has_link, has_transport, transport, meta } =
            source;
        let used = *link.min(data)..*end;
        self.buffer.grow(*end);
        self.buffer[used.clone()].copy_from_slice(&buffer[used]);
        (self.link, self.network, self.data, self.end) = (*link, *network, *data, *end);
        (self.has_link, self.has_transport, self.transport) =
            (*has_link, *has_transport, *transport);
        self.meta.clone_from(meta);
    }
}

impl Packet {
    /// An empty packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory that its buffer has.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Takes a frame in: copies it after [`HEADROOM`], clears metadata. `link_len` bytes of it are
    /// the link header (14 on Ethernet, 0 for bare IP packets); the data pointer is put at the
    /// network header. A frame shorter than `link_len` counts as having no bytes after its link
    /// header.
    #[inline]
    pub fn load(&mut self, frame: &[u8], link_len: usize) {
        let need = HEADROOM + frame.len();
        self.buffer.grow(need);
        copy(&mut self.buffer[HEADROOM..need], frame);
        self.link = HEADROOM;
        self.end = need;
        self.network = (HEADROOM + link_len).min(need);
        self.data = self.network;
        self.has_link = link_len > 0;
        self.has_transport = false;
        self.meta = Meta::EMPTY;
    }

    /// Takes in the first `len` bytes of an Ethernet frame without tag, of which the caller has
    /// read what it is: a packet to this host, `transport` after its network header. The frame
    /// must have that many, and at least its link header.
    #[inline(always)]
    pub fn receive_known(&mut self, frame: &[u8], len: usize, protocol: u16, transport: Transport) {
        const LINK: usize = 14;
        let need = HEADROOM + len;
        self.buffer.grow(need);
        copy_frame(&mut self.buffer[HEADROOM..need], &frame[..len]);
        self.link = HEADROOM;
        self.end = need;
        self.network = HEADROOM + LINK;
        self.data = self.network;
        self.has_link = true;
        self.has_transport = true;
        self.transport = transport;
        // One after the other: a copy of what was just put together waits for its parts.
        self.meta = Meta::EMPTY;
        self.meta.protocol = protocol;
    }

    /// Takes in an Ethernet frame without tag that leaves again at once, with another link header.
    /// The metadata stays as it is. The frame must have at least a link header.
    #[inline(always)]
    pub fn forward(&mut self, frame: &[u8], header: &[u8; 14]) {
        const LINK: usize = 14;
        let need = HEADROOM + frame.len();
        self.buffer.grow(need);
        let buffer = &mut self.buffer[HEADROOM..need];
        copy_frame(buffer, frame);
        if let Some(link) = buffer.first_chunk_mut() {
            *link = *header;
        }
        self.link = HEADROOM;
        self.data = HEADROOM;
        self.network = HEADROOM + LINK;
        self.end = need;
        self.has_link = true;
    }

    /// The whole frame from the link header on, without a tag held in [`Meta::vlan`].
    #[inline]
    pub fn frame(&self) -> &[u8] {
        &self.buffer[self.link..self.end]
    }

    /// Like [`Packet::frame`], for writing.
    pub fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.link..self.end]
    }

    /// Link header bytes (empty if there is none).
    pub fn link(&self) -> &[u8] {
        &self.buffer[self.link..self.network]
    }

    /// Link header bytes for writing.
    pub fn link_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.link..self.network]
    }

    /// From the network header to the end.
    #[inline]
    pub fn network(&self) -> &[u8] {
        &self.buffer[self.network..self.end]
    }

    /// From the network header to the end, for writing.
    #[inline]
    pub fn network_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.network..self.end]
    }

    /// From the transport header to the end; `None` where the hook's parser found none or the
    /// packet is a later fragment.
    #[inline]
    pub fn transport_bytes(&self) -> Option<&[u8]> {
        let t = self.transport()?;
        if t.fragment_offset != 0 {
            return None;
        }
        self.buffer[..self.end].get(self.network + usize::from(t.offset)..)
    }

    /// From where the transport header would be to the end, in later fragments, too: in one of IPv4
    /// its data, in one of IPv6, where the walk over extension headers leaves the offset at zero,
    /// what the data pointer points to (`nft_thoff()`, observed on Linux 6.18).
    #[inline]
    pub fn transport_bytes_of_fragment(&self) -> Option<&[u8]> {
        let t = self.transport()?;
        let start = if t.fragment_offset != 0 && t.offset == 0 {
            self.data
        } else {
            self.network + usize::from(t.offset)
        };
        self.buffer[..self.end].get(start..)
    }

    /// What a load of `len` bytes at `offset` from the transport header sees. Loads of 1, 2 or 4
    /// bytes at a multiple of their length do not ask for fragments (`nft_payload_fast_eval()`,
    /// observed on Linux 6.18): they see what [`Packet::transport_bytes_of_fragment`] gives, all
    /// others what [`Packet::transport_bytes`] gives.
    #[inline]
    pub fn transport_bytes_for_load(&self, len: u8, offset: u16) -> Option<&[u8]> {
        if matches!(len, 1 | 2 | 4) && offset.is_multiple_of(u16::from(len)) {
            self.transport_bytes_of_fragment()
        } else {
            self.transport_bytes()
        }
    }

    /// Like [`Packet::transport_bytes`], for writing.
    pub fn transport_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let t = self.transport()?;
        if t.fragment_offset != 0 {
            return None;
        }
        self.buffer[..self.end].get_mut(self.network + usize::from(t.offset)..)
    }

    /// Where the transport header is, as found for the present hook.
    #[inline]
    pub fn transport(&self) -> Option<Transport> {
        self.has_transport.then_some(self.transport)
    }

    /// Notes where the transport header is (`nft_set_pktinfo_*`).
    #[inline]
    pub fn set_transport(&mut self, transport: Option<Transport>) {
        self.has_transport = transport.is_some();
        self.transport = transport.unwrap_or_default();
    }

    /// Whether a link header is present (`skb_mac_header_was_set`).
    #[inline]
    pub fn has_link(&self) -> bool {
        self.has_link
    }

    /// Length from the data pointer to the end (`skb->len`): what counters, quotas and
    /// `meta length` see.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.data
    }

    /// Whether nothing follows the data pointer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the data pointer at the network header, as on the receive side and in all IP hooks.
    pub fn data_at_network(&mut self) {
        self.data = self.network;
    }

    /// Puts the data pointer at the link header, as at netdev egress.
    #[inline]
    pub fn data_at_link(&mut self) {
        self.data = self.link;
    }

    /// Offset of the data pointer from the network header: 0, or minus the link header's length.
    pub fn data_start(&self) -> isize {
        self.data as isize - self.network as isize
    }

    /// Moves the start of the network header `n` bytes further into the packet; the bytes skipped
    /// become link header if `keep` is set, and are dropped from the packet otherwise (the link
    /// header is then gone). Moves at most to the end.
    pub fn advance_network(&mut self, n: usize, keep: bool) {
        self.network = (self.network + n).min(self.end);
        self.data = self.network;
        self.has_transport = false;
        if !keep {
            self.link = self.network;
            self.has_link = false;
        }
    }

    /// Puts `len` bytes before the network header, which the caller fills in. The packet begins
    /// there now, and no longer has a link header.
    #[inline]
    pub fn push_network(&mut self, len: usize) {
        if len > self.network {
            self.grow_headroom(len - self.network + HEADROOM);
        }
        self.network -= len;
        (self.link, self.data) = (self.network, self.network);
        (self.has_link, self.has_transport) = (false, false);
    }

    /// Puts these bytes before the network header. The packet begins with them now, and no longer
    /// has a link header.
    #[inline]
    pub fn push_header(&mut self, header: &[u8]) {
        self.push_network(header.len());
        self.buffer[self.network..self.network + header.len()].copy_from_slice(header);
    }

    /// Takes `len` bytes off the beginning of the packet; its link header, if there is one, moves
    /// to the new beginning (`skb_mac_header_rebuild()`). Takes at most all.
    #[inline]
    pub fn pull_network(&mut self, len: usize) {
        let len = len.min(self.end - self.network);
        if self.has_link {
            self.buffer.copy_within(self.link..self.network, self.link + len);
        }
        (self.link, self.network) = (self.link + len, self.network + len);
        self.data = self.network;
        self.has_transport = false;
    }

    /// Makes the packet `len` bytes longer; the caller fills them in.
    #[inline]
    pub fn extend(&mut self, len: usize) {
        self.end += len;
        self.buffer.grow(self.end);
    }

    /// Takes an outer header of `n` bytes away: what follows it is the network header then. The
    /// outer header becomes the link header if `keep` is set (`skb->mac_header` of `sit` devices);
    /// otherwise there is none. Moves at most to the end.
    #[inline]
    pub fn decapsulate(&mut self, n: usize, keep: bool) {
        let outer = self.network;
        self.network = (outer + n).min(self.end);
        self.link = if keep { outer } else { self.network };
        self.data = self.network;
        self.has_link = keep;
        self.has_transport = false;
    }

    /// Cuts the packet to `len` bytes after the network header; longer than it is changes nothing.
    #[inline]
    pub fn trim_network(&mut self, len: usize) {
        self.end = self.end.min(self.network + len);
    }

    /// Makes the transport checksum of a super-packet whole, for a reader that checks it.
    pub fn finish_checksum(&mut self) {
        if self.meta.gso.is_some()
            && let Some(headers) = self.gso_headers()
        {
            headers.finish_checksum(self.network_mut());
        }
    }

    /// Where the headers of a super-packet are, from the network header on.
    pub fn gso_headers(&self) -> Option<crate::gso::Headers> {
        crate::gso::Headers::of_packet(self.network(), 0)
    }

    /// Length of the longest packet, from the network header on, that leaves in place of this one:
    /// its own, unless it is a super-packet (`skb_gso_network_seglen()`).
    #[inline]
    pub fn sent_len(&self) -> usize {
        match self.meta.gso {
            None => self.network().len(),
            Some(gso) => self.gso_headers().map_or(self.network().len(), |h| h.segment_len(gso)),
        }
    }

    /// Replaces `len` bytes at `at` from the network header by others; what follows them
    /// moves. `false`, and nothing changes, if they are not all there. Offsets and lengths in
    /// headers are the caller's to change.
    pub fn splice_network(&mut self, at: usize, len: usize, with: &[u8]) -> bool {
        let Some(tail) = self.network().len().checked_sub(at + len) else { return false };
        let start = self.network + at;
        let end = start + with.len() + tail;
        self.buffer.grow(end);
        self.buffer.copy_within(self.end - tail..self.end, start + with.len());
        self.buffer[start..start + with.len()].copy_from_slice(with);
        self.end = end;
        true
    }

    /// Replaces the link header by `len` bytes, which the caller fills in.
    #[inline]
    pub fn put_link(&mut self, len: usize) -> &mut [u8] {
        if len > self.network {
            self.grow_headroom(len - self.network + HEADROOM);
        }
        self.link = self.network - len;
        self.has_link = len > 0;
        if self.data < self.network {
            self.data = self.link;
        }
        &mut self.buffer[self.link..self.network]
    }

    /// Takes `len` bytes out of the link header at `at`, moving what stands before them
    /// (`skb_reorder_vlan_header`). Does nothing if they are not all there.
    pub fn remove_from_link(&mut self, at: usize, len: usize) {
        let start = self.link;
        if start + at + len > self.network {
            return;
        }
        self.buffer.copy_within(start..start + at, start + len);
        self.link += len;
        self.data = self.data.max(self.link);
    }

    /// Makes room for `len` bytes in the link header at `at`, moving what stands before them
    /// (`skb_vlan_push`), and returns that room with undefined contents. An offset past the link
    /// header's end means its end.
    pub fn insert_into_link(&mut self, at: usize, len: usize) -> &mut [u8] {
        let at = at.min(self.network - self.link);
        if len > self.link {
            self.grow_headroom(len - self.link + HEADROOM);
        }
        let (old, at_link) = (self.link, self.data == self.link && self.link < self.network);
        self.link -= len;
        if at_link {
            self.data = self.link;
        }
        self.buffer.copy_within(old..old + at, self.link);
        &mut self.buffer[self.link + at..old + at]
    }

    fn grow_headroom(&mut self, by: usize) {
        self.buffer.grow_front(by);
        self.link += by;
        self.network += by;
        self.data += by;
        self.end += by;
    }

    /// Puts other bytes from the network header on in the place of those that are there; the link
    /// header stays.
    pub fn replace_network(&mut self, bytes: &[u8]) {
        let end = self.network + bytes.len();
        self.buffer.grow(end);
        self.buffer[self.network..end].copy_from_slice(bytes);
        self.end = end;
        self.set_transport(None);
    }

    /// Replaces everything from the network header on, for packets that the host itself makes.
    pub fn load_network(&mut self, bytes: &[u8]) {
        self.load(bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_tag_is_not_part_of_the_length() {
        let mut frame = vec![1u8; 6];
        frame.extend([2; 6]);
        frame.extend([0x81, 0, 0, 5, 0x08, 0]);
        frame.extend([9; 20]);
        let mut p = Packet::new();
        p.load(&frame, 18);
        p.remove_from_link(12, 4);
        assert_eq!(p.link(), [&[1u8; 6][..], &[2; 6], &[8, 0]].concat());
        assert_eq!(p.len(), 20);
        p.data_at_link();
        assert_eq!(p.len(), 34);
    }

    #[test]
    fn a_copy_into_a_used_packet_has_the_same_bytes_at_the_same_places() {
        let mut used = Packet::new();
        used.load(&[9; 90], 14);
        for (len, link) in [(60, 14), (20, 0), (200, 18), (3, 14)] {
            let mut p = Packet::new();
            p.load(&vec![7; len], link);
            p.meta.mark = 5;
            p.put_link(link + 1).fill(3);
            used.clone_from(&p);
            assert_eq!(
                (used.frame(), used.link(), used.network()),
                (p.frame(), p.link(), p.network())
            );
            assert_eq!((used.len(), used.meta.mark, used.has_link()), (p.len(), 5, p.has_link()));
        }
    }

    #[test]
    fn outer_headers_are_pushed_and_pulled() {
        for len in [3, 20, HEADROOM + 50] {
            let mut p = Packet::new();
            p.load(b"link header...inner", 14);
            p.push_network(len);
            p.network_mut()[..len].fill(7);
            assert_eq!((p.network().len(), p.link(), p.has_link()), (len + 5, &[][..], false));
            assert_eq!(
                (&p.network()[..len], &p.network()[len..], p.len()),
                (&*vec![7; len], &b"inner"[..], len + 5)
            );
            p.decapsulate(len, true);
            assert_eq!((p.network(), p.link().len(), p.has_link()), (&b"inner"[..], len, true));
            p.decapsulate(2, false);
            assert_eq!((p.network(), p.link(), p.len()), (&b"ner"[..], &[][..], 3));
        }
    }

    #[test]
    fn bytes_are_replaced_by_fewer_or_more() {
        for (at, len, with, want) in [
            (3, 2, &b"abcdef"[..], &b"012abcdef56789"[..]),
            (3, 2, b"", b"01256789"),
            (10, 0, b"ab", b"0123456789ab"),
            (0, 10, b"x", b"x"),
        ] {
            let mut p = Packet::new();
            p.load(b"0123456789", 0);
            assert!(p.splice_network(at, len, with));
            assert_eq!((p.network(), p.len()), (want, want.len()));
            assert!(!p.splice_network(want.len(), 1, b""));
            assert_eq!(p.network(), want);
        }
    }

    #[test]
    fn bytes_are_pushed_and_pulled_at_both_ends() {
        let mut p = Packet::new();
        p.load(b"linkheader", 4);
        p.pull_network(2);
        assert_eq!(
            (p.link(), p.network(), p.frame()),
            (&b"link"[..], &b"ader"[..], &b"linkader"[..])
        );
        for len in [3, HEADROOM + 50] {
            p.push_network(len);
            p.extend(len);
            assert_eq!((p.has_link(), p.link(), p.network().len()), (false, &b""[..], 4 + 2 * len));
            p.network_mut()[..len].fill(b'<');
            let end = p.network().len();
            p.network_mut()[end - len..].fill(b'>');
            assert_eq!(p.network()[len..end - len], *b"ader");
            p.pull_network(len);
            p.trim_network(4);
            assert_eq!(p.network(), b"ader");
        }
        p.pull_network(9);
        assert_eq!(p.network(), b"");
    }

    #[test]
    fn frames_of_all_lengths_are_copied() {
        let frame: Vec<u8> = (0..200).collect();
        let mut p = Packet::new();
        for len in (0..frame.len()).chain((0..frame.len()).rev()) {
            p.load(&frame[..len], 14);
            assert_eq!(p.frame(), &frame[..len]);
        }
    }

    #[test]
    fn a_link_header_larger_than_the_headroom_still_fits() {
        let mut p = Packet::new();
        p.load(&[7; 40], 0);
        p.put_link(HEADROOM + 72).fill(3);
        assert_eq!(p.network(), [7; 40]);
        assert_eq!(p.link(), [3; HEADROOM + 72]);
    }
}
