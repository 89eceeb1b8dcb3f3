// SPDX-License-Identifier: Apache-2.0

//! The headers of the frames of a burst, read before their turn.

use penstock_conntrack::{Conntrack, TupleLookup};
use penstock_packet::Frame;
use penstock_wire::checksum::is_right_in_header;
use penstock_wire::{ethernet, ipv6, protocol};

use crate::pending_frames::{BURST, PendingFrames};
use crate::plain_frame::PlainFrame;
use crate::stages::device_path::FastPath;

/// The headers of a frame that may take the fast path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ParsedHeaders {
    /// It is of IPv6.
    pub(crate) v6: bool,
    /// Addresses of IPv4.
    pub(crate) src: u32,
    pub(crate) dst: u32,
    /// Length of the packet.
    pub(crate) len: u16,
    protocol: u8,
    pub(crate) tos: u8,
}

impl ParsedHeaders {
    /// Reads a frame of IPv4. `false` if it is none for the fast path: addressed to another host,
    /// not plain ([`PlainFrame`]), or with a wrong checksum in its header.
    #[inline(always)]
    pub(crate) fn read(&mut self, frame: &Frame<'_>, fast_path: &FastPath<'_>) -> bool {
        let plain = PlainFrame::read(frame.bytes)
            .filter(|plain| frame.device == fast_path.device && plain.is_to(fast_path.receiver));
        let Some(plain) = plain else { return false };
        let header = frame.bytes.get(ethernet::LEN..).and_then(|h| h.first_chunk());
        let Some(header) = header.filter(|header| is_right_in_header(header)) else {
            return false;
        };
        // Field by field: what is put together elsewhere first is waited for when it is copied.
        (self.src, self.dst) = plain.addresses();
        self.len = plain.len;
        self.protocol = plain.protocol();
        self.tos = header[1];
        self.v6 = false;
        true
    }

    /// Reads a frame of IPv6: no extension headers, and addresses that need no second look.
    #[inline(never)]
    fn read6(&mut self, frame: &Frame<'_>, fast_path: &FastPath<'_>) -> bool {
        let Some(headers) = ParsedHeaders::of6(frame, fast_path) else { return false };
        *self = headers;
        true
    }

    fn of6(frame: &Frame<'_>, fast_path: &FastPath<'_>) -> Option<ParsedHeaders> {
        /// Ports, and what both protocols have after them.
        const TRANSPORT: usize = 8;
        let (link, network) = frame.bytes.split_first_chunk::<{ ethernet::LEN }>()?;
        let h: &[u8; ipv6::LEN] = network.first_chunk()?;
        let payload = u16::from_be_bytes([h[4], h[5]]);
        // Not unspecified, loopback, mapped, link-local, or a group.
        let headers = |first: u8| (1..0xfe).contains(&first);
        let plain = fast_path.v6.is_some()
            && frame.device == fast_path.device
            && link[..6] == fast_path.address.0
            && link[12..] == ethernet::IPV6.to_be_bytes()
            && h[0] >> 4 == 6
            && matches!(h[6], protocol::TCP | protocol::UDP)
            && h[7] > 1
            && headers(h[8])
            && headers(h[24])
            && usize::from(payload) >= TRANSPORT
            && usize::from(payload) <= network.len() - ipv6::LEN;
        let len = payload.checked_add(ipv6::LEN as u16).filter(|_| plain)?;
        Some(ParsedHeaders { v6: true, src: 0, dst: 0, len, protocol: h[6], tos: 0 })
    }

    /// The transport protocol.
    pub(crate) fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Finds out where the connection of a parsed frame is looked up, if that is its first step.
    #[inline(always)]
    pub(crate) fn seek(
        &self,
        frame: &Frame<'_>,
        fast_path: &FastPath<'_>,
        conntrack: &Conntrack,
        lookup: &mut TupleLookup,
    ) -> bool {
        let tracked = fast_path.hooks(self.v6).and_then(|hooks| hooks.tracked);
        let network = frame.bytes.get(ethernet::LEN..).filter(|_| tracked.is_some());
        let Some(network) = network else { return false };
        if self.v6 {
            network.first_chunk().map(|header| conntrack.seek_ports6(header, lookup)).is_some()
        } else {
            network.first_chunk().map(|header| conntrack.seek_ports4(header, lookup)).is_some()
        }
    }
}

/// The headers of the frames of a burst that may take the fast path, as far as they were read.
#[derive(Debug)]
pub(crate) struct HeadersAhead {
    headers: [ParsedHeaders; BURST],
    /// The destinations of those of IPv4, in a row for the search of their routes.
    destinations: [u32; BURST],
    /// The frames that were read, those of them that may take the fast path, and those of IPv6
    /// among these.
    read: PendingFrames,
    fast: PendingFrames,
    v6: PendingFrames,
}

impl HeadersAhead {
    /// Of no frames.
    pub(crate) fn new() -> Self {
        let [read, fast, v6] = [PendingFrames::NONE; 3];
        let headers = [ParsedHeaders::default(); BURST];
        HeadersAhead { headers, destinations: [0; BURST], read, fast, v6 }
    }

    /// Another burst begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        [self.read, self.fast, self.v6] = [PendingFrames::NONE; 3];
    }

    /// Reads a frame. `None` if it is not for the fast path.
    #[inline(always)]
    pub(crate) fn read_frame(
        &mut self,
        at: usize,
        frame: &Frame<'_>,
        fast_path: Option<&FastPath<'_>>,
    ) -> Option<&ParsedHeaders> {
        let headers = &mut self.headers[at % BURST];
        let fast = fast_path.is_some_and(|path| {
            headers.read(frame, path) || {
                let six = headers.read6(frame, path);
                self.v6 = self.v6.with_if(at, six);
                six
            }
        });
        self.read = self.read.with(at);
        self.fast = self.fast.with_if(at, fast);
        self.destinations[at % BURST] = headers.dst;
        fast.then_some(headers)
    }

    /// The frames that were read.
    #[inline(always)]
    pub(crate) fn read(&self) -> PendingFrames {
        self.read
    }

    /// Those of them that may take the fast path and are of IPv4.
    #[inline(always)]
    pub(crate) fn fast4(&self) -> PendingFrames {
        self.fast.without(self.v6)
    }

    /// Those of them that may take the fast path and are of IPv6.
    #[inline(always)]
    pub(crate) fn v6(&self) -> PendingFrames {
        self.v6
    }

    /// The destinations of frames of IPv4 that may take the fast path; of others, any.
    #[inline(always)]
    pub(crate) fn destinations(&self) -> &[u32; BURST] {
        &self.destinations
    }

    /// The headers of a frame that may take the fast path.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&ParsedHeaders> {
        self.fast.has(at).then(|| &self.headers[at % BURST])
    }
}
