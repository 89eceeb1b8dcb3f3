// SPDX-License-Identifier: Apache-2.0

//! The last step before the neighbour: packets that are too long are cut, and packets that were put
//! together before routing become fragments again, no larger than they came (`ip_finish_output()`,
//! `ip_do_fragment()`, `ip6_fragment()`).

use penstock_packet::{Packet, gso};
use penstock_wire::{icmp, icmpv6, ipv4, ipv6_ext, protocol, tcp};

use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::worker::Worker;

/// Fragments in the making.
struct Pieces {
    bytes: Vec<u8>,
    /// Lengths, as native 16-bit numbers.
    lengths: Vec<u8>,
}

impl<S: Sink> Worker<'_, S> {
    /// Whether a packet with DF is too long for a way with this MTU (`ip_exceeds_mtu()`).
    pub(crate) fn ip4_too_big(&self, packet: &Packet, mtu: usize) -> bool {
        packet.sent_len() > mtu
            && self.state.fragments.reassembled.get(packet).is_none_or(|r| r.max_size > mtu)
    }

    /// Whether any IPv6 packet that is forwarded is too long for a way with this MTU
    /// (`ip6_pkt_too_big()`).
    pub(crate) fn ip6_too_big(&self, packet: &Packet, mtu: usize) -> bool {
        self.ip4_too_big(packet, mtu)
    }

    /// `ip_finish_output()`.
    pub(super) fn ip4_finish(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if course.on != 0 {
            packet.meta.iif = 0;
        }
        if self.state.ipsec.is_some()
            && let Some(next) = self.xfrm_output(Protocol::Ip, packet, course)
        {
            return next;
        }
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        let mtu = self.mtu(to);
        if packet.sent_len() <= mtu && !self.state.fragments.reassembled.limits(packet) {
            return Next::Neighbour(Protocol::Ip);
        }
        self.ip4_cut(packet, *to, mtu)
    }

    /// Sends a packet in pieces: its segments, or its fragments (`ip_fragment()`).
    #[inline(never)]
    fn ip4_cut(&mut self, packet: &mut Packet, to: Route, mtu: usize) -> Next {
        if packet.meta.gso.is_some() && !ipv4::Header::new(packet.network()).is_some_and(|h| h.df())
        {
            self.send_segments(packet, |worker, segment| {
                worker.run(Next::Ip4Finish, segment, &mut Course::to(to));
            });
            return Next::Done;
        }
        let came = self.state.fragments.reassembled.get(packet);
        let Some(h) = ipv4::Header::new(packet.network()) else {
            return self.end(DropReason::Ip4Header, packet);
        };
        if h.df() && came.is_none_or(|r| r.max_size > mtu) {
            let forwarded = packet.meta.iif != 0;
            self.icmp4_error(
                packet,
                Some(&to),
                icmp::Repr::frag_needed(mtu as u32),
                Options::read_if(forwarded),
            );
            return self.end(DropReason::TooBig, packet);
        }
        let mtu = came.and_then(|r| r.limit()).map_or(mtu, |size| size.min(mtu));
        let head = h.header_len();
        // When it looks for a host socket, the kernel linearizes the TCP header
        // (`tcp_v4_early_demux()`), which changes the sizes in which the packet came.
        let least =
            if h.protocol() == protocol::TCP && packet.meta.iif != 0 { tcp::LEN } else { 0 };
        let mut pieces = self.pieces();
        let mut scratch = self.bytes();
        let emit = |piece: &[u8]| pieces.push(piece);
        let sizes = came
            .and_then(|r| {
                r.sizes(&self.state.fragments.reassembled, packet, head, mtu.saturating_sub(head))
            })
            .filter(|sizes| sizes[0] >= least);
        let done = match sizes {
            Some(sizes) => {
                let mut sizes = sizes.iter();
                let next = |_| sizes.next().copied().unwrap_or(0);
                ipv4::cut(packet.network(), next, false, &mut scratch, emit)
            }
            None => {
                let df = came.is_some_and(|r| r.df);
                ipv4::fragment(packet.network(), mtu, df, &mut scratch, emit)
            }
        };
        self.give_back(scratch);
        self.send_pieces(packet, pieces, done, |w, piece| {
            w.send_to_neighbour(Protocol::Ip, piece, &to)
        });
        Next::Done
    }

    /// `ip6_finish_output()`. Only the host's own packets are cut, and what was put together before
    /// routing.
    pub(super) fn ip6_finish(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        if self.state.ipsec.is_some()
            && let Some(next) = self.xfrm_output(Protocol::Ip6, packet, course)
        {
            return next;
        }
        let Some(to) = &course.route else { return self.end(DropReason::NoRoute, packet) };
        let mtu = self.mtu6(to);
        let len = packet.sent_len();
        let came = self.state.fragments.reassembled.get(packet);
        if len <= mtu && came.and_then(|r| r.limit()).is_none_or(|size| len <= size) {
            return Next::Neighbour(Protocol::Ip6);
        }
        self.ip6_cut(packet, *to, mtu, course.whole)
    }

    /// Sends a packet in pieces: its segments, or its fragments (`ip6_fragment()`).
    #[inline(never)]
    fn ip6_cut(&mut self, packet: &mut Packet, to: Route, mtu: usize, whole: bool) -> Next {
        let came = self.state.fragments.reassembled.get(packet);
        if came.map_or(whole || packet.meta.iif != 0, |r| r.max_size > mtu) {
            self.icmp6_error(packet, icmpv6::PACKET_TOO_BIG, 0, mtu as u32);
            return self.end(DropReason::TooBig, packet);
        }
        if packet.meta.gso.is_some() {
            self.send_segments(packet, |worker, segment| {
                worker.run(Next::Ip6Finish, segment, &mut Course::to(to));
            });
            return Next::Done;
        }
        // No larger than they came, but IPv6's least MTU is never too large.
        let least = penstock_wire::ipv6::MIN_MTU;
        let mtu = came.and_then(|r| r.limit()).map_or(mtu, |size| size.max(least));
        let head = ipv6_ext::unfragmentable_len(packet.network()).unwrap_or(0);
        let room = mtu.saturating_sub(head + ipv6_ext::FRAGMENT_LEN);
        let id = self.state.numbers.random.nonzero_u32();
        let mut pieces = self.pieces();
        let mut scratch = self.bytes();
        let emit = |piece: &[u8]| pieces.push(piece);
        let sizes =
            came.and_then(|r| r.sizes(&self.state.fragments.reassembled, packet, head, room));
        let done = match sizes {
            Some(sizes) => {
                let mut sizes = sizes.iter();
                let next = |_| sizes.next().copied().unwrap_or(0);
                ipv6_ext::cut(packet.network(), next, id, &mut scratch, emit)
            }
            None => ipv6_ext::fragment(packet.network(), mtu, id, &mut scratch, emit),
        };
        self.give_back(scratch);
        self.send_pieces(packet, pieces, done, |w, piece| {
            w.send_to_neighbour(Protocol::Ip6, piece, &to)
        });
        Next::Done
    }

    /// What a bridge sends on that was put together before leaves it as fragments, no larger than
    /// they came (`nf_br_ip_fragment()`, `br_ip6_fragment()`).
    pub(crate) fn bridge_refragment(&mut self, packet: &mut Packet) {
        let Some(came) = self.state.fragments.reassembled.get(packet) else {
            return self.drop(DropReason::TooBig, packet);
        };
        let mtu = self.net.link(packet.meta.oif).map_or(0, |link| link.mtu as usize);
        let v6 = packet.meta.protocol == penstock_wire::ethernet::IPV6;
        // Fragments of less than IPv6's least MTU cannot be made again.
        if came.max_size > mtu || v6 && came.max_size < penstock_wire::ipv6::MIN_MTU {
            return self.drop(DropReason::TooBig, packet);
        }
        self.bridge_cut(packet, came.max_size);
    }

    /// Cuts a frame of a bridge into fragments of this size: as they came, if the packet is as it
    /// came.
    pub(crate) fn bridge_cut(&mut self, packet: &mut Packet, max_size: usize) {
        let came = self.state.fragments.reassembled.get(packet);
        let v6 = packet.meta.protocol == penstock_wire::ethernet::IPV6;
        let (head, more) = match ipv4::Header::new(packet.network()) {
            Some(h) if !v6 => (h.header_len(), 0),
            _ => (
                ipv6_ext::unfragmentable_len(packet.network()).unwrap_or(0),
                ipv6_ext::FRAGMENT_LEN,
            ),
        };
        let id = self.state.numbers.random.nonzero_u32();
        let mut pieces = self.pieces();
        let mut scratch = self.bytes();
        let emit = |piece: &[u8]| pieces.push(piece);
        let room = max_size.saturating_sub(head + more);
        let table = &self.state.fragments.reassembled;
        let sizes = came.and_then(|came| came.sizes(table, packet, head, room));
        let mut left = sizes.unwrap_or_default().iter();
        let next = |_| left.next().copied().unwrap_or(0);
        let (network, whole) = (packet.network(), sizes.is_some());
        let done = match (v6, whole) {
            (false, true) => ipv4::cut(network, next, false, &mut scratch, emit),
            (false, false) => ipv4::fragment(network, max_size, false, &mut scratch, emit),
            (true, true) => ipv6_ext::cut(network, next, id, &mut scratch, emit),
            (true, false) => ipv6_ext::fragment(network, max_size, id, &mut scratch, emit),
        };
        self.give_back(scratch);
        self.send_pieces(packet, pieces, done, |w, piece| {
            let link = packet.link();
            piece.put_link(link.len()).copy_from_slice(link);
            w.run(Next::BridgePush, piece, &mut Course::default())
        });
    }

    /// A super-packet that cannot continue whole: each segment goes its way alone
    /// (`ip_finish_output_gso()`).
    pub(crate) fn send_segments(
        &mut self,
        packet: &Packet,
        mut send: impl FnMut(&mut Self, &mut Packet),
    ) {
        let Some((headers, gso)) = packet.gso_headers().zip(packet.meta.gso) else {
            return self.drop(DropReason::TooBig, packet);
        };
        let (mut pieces, mut scratch) = (self.pieces(), self.bytes());
        gso::segments(packet.network(), headers, gso, &mut scratch, |segment| pieces.push(segment));
        self.give_back(scratch);
        self.send_pieces(packet, pieces, true, |worker, segment| {
            send(worker, segment);
            true
        });
    }

    fn pieces(&mut self) -> Pieces {
        Pieces { bytes: self.bytes(), lengths: self.bytes() }
    }

    /// Sends what a packet was cut into, with the packet's metadata, up to the first piece that
    /// egress drops; drops it if it could not be cut.
    fn send_pieces(
        &mut self,
        packet: &Packet,
        pieces: Pieces,
        whole: bool,
        mut send: impl FnMut(&mut Self, &mut Packet) -> bool,
    ) {
        if !whole {
            self.drop(DropReason::TooBig, packet);
        } else {
            self.state.counters.absorbed += 1;
        }
        let mut at = 0;
        for len in pieces.lengths.chunks_exact(2).filter(|_| whole) {
            let len = usize::from(u16::from_ne_bytes([len[0], len[1]]));
            let Some(piece) = pieces.bytes.get(at..at + len) else { break };
            at += len;
            let mut taken = false;
            self.nested(packet.meta.time, |worker, fragment| {
                worker.state.counters.originated += 1;
                fragment.load_network(piece);
                fragment.meta = packet.meta.clone();
                fragment.meta.reassembled = 0;
                fragment.meta.gso = None;
                taken = send(worker, fragment);
            });
            if !taken {
                break;
            }
        }
        self.give_back(pieces.bytes);
        self.give_back(pieces.lengths);
    }
}

impl Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.lengths.extend_from_slice(&(piece.len() as u16).to_ne_bytes());
    }
}
