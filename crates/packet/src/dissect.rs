// SPDX-License-Identifier: Apache-2.0

//! Finding the headers of a packet as the kernel does on reception and at the entry of each hook,
//! and putting tags back for transmission.

use crate::transport::{ipv4_transport, ipv6_transport, transport_checked};
use crate::{Packet, PacketType, VlanTag};
use penstock_wire::ethernet::{self, Mac};
use penstock_wire::{protocol, tcp, vlan};

/// A tag's bytes, or the two bytes after it, are not all there: the frame is dropped
/// (`skb_vlan_untag()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedTag;

impl Packet {
    /// Takes in a frame received on an Ethernet device with address `device`: [`Packet::load`],
    /// then protocol and packet type as `eth_type_trans()` finds them. `false` if the frame is
    /// shorter than its header; it is then loaded as far as it goes.
    #[inline]
    pub fn receive_ethernet(&mut self, frame: &[u8], device: Mac) -> bool {
        self.load(frame, ethernet::LEN);
        let Some(h) = ethernet::Header::new(frame) else { return false };
        self.meta.protocol = h.protocol();
        self.meta.packet_type = packet_type(h.dst(), device);
        true
    }

    /// [`Packet::receive_ethernet`], [`Packet::untag`] and [`Packet::find_transport_checked`] in
    /// one. `false` if the frame is shorter than its header or tag: the three functions then find
    /// its fate.
    #[inline]
    pub fn receive_dissected(&mut self, frame: &[u8], device: Mac) -> bool {
        if !self.receive_ethernet(frame, device) {
            return false;
        }
        if vlan::is_tag(self.meta.protocol) {
            let whole = self.untag_present().is_ok();
            self.find_transport_checked();
            return whole;
        }
        // What was just copied is better read where it came from.
        let network = frame.get(ethernet::LEN..).unwrap_or(&[]);
        self.set_transport(transport_checked(self.meta.protocol, network).0);
        true
    }

    /// Takes one VLAN tag out of the frame into [`crate::Meta::vlan`] if [`crate::Meta::protocol`]
    /// announces one and none is held already (`skb_vlan_untag()`); the protocol becomes that
    /// after the tag. Returns whether a tag was taken.
    ///
    /// # Errors
    /// The frame ends before the second byte after the tag; it is to be dropped.
    #[inline]
    pub fn untag(&mut self) -> Result<bool, TruncatedTag> {
        if self.meta.vlan.is_some() || !vlan::is_tag(self.meta.protocol) {
            return Ok(false);
        }
        self.untag_present()
    }

    fn untag_present(&mut self) -> Result<bool, TruncatedTag> {
        let tag = vlan::Header::new(self.network())
            .filter(|t| t.payload().len() >= 2)
            .ok_or(TruncatedTag)?;
        let protocol = ethernet::protocol_of(tag.ethertype(), tag.payload());
        self.meta.vlan = Some(VlanTag { protocol: self.meta.protocol, tci: tag.tci() });
        self.meta.protocol = protocol;
        self.advance_network(vlan::LEN, true);
        // Now the link header is addresses, tag, type: the tag stands four bytes before the type
        // that ends it.
        if let Some(at) = self.link().len().checked_sub(vlan::LEN + 2) {
            self.remove_from_link(at, vlan::LEN);
        }
        Ok(true)
    }

    /// Gives the packet a tag (`skb_vlan_push()`): one that it already holds goes into the frame
    /// first. [`crate::Meta::protocol`] is then the tag protocol of that one.
    pub fn push_tag(&mut self, tag: VlanTag) {
        if let Some(inner) = self.meta.vlan.replace(tag) {
            self.insert_tag(inner);
            self.meta.protocol = inner.protocol;
        }
    }

    /// Puts the tag that the packet holds into the frame, as it goes to the wire
    /// (`validate_xmit_vlan()`). Does nothing without tag or without an Ethernet header.
    #[inline]
    pub fn put_tag_into_frame(&mut self) {
        if let Some(tag) = self.meta.vlan.take() {
            self.insert_tag(tag);
        }
    }

    /// Puts the tag that the packet holds back into the frame as if it had never been taken out: it
    /// is payload, and its protocol that of the packet (`vlan_insert_tag_set_proto()`).
    pub fn restore_tag(&mut self) {
        let Some(tag) = self.meta.vlan.take() else { return };
        self.insert_tag(tag);
        if self.link().len() >= ethernet::LEN + vlan::LEN {
            self.network -= vlan::LEN;
            self.data = self.network;
            self.meta.protocol = tag.protocol;
            self.set_transport(None);
        }
    }

    /// Inserts a tag between the addresses and the type.
    fn insert_tag(&mut self, tag: VlanTag) {
        const AT: usize = 12;
        if self.link().len() < ethernet::LEN {
            return;
        }
        if let Some(space) = self.insert_into_link(AT, vlan::LEN).first_chunk_mut::<{ vlan::LEN }>()
        {
            let [p0, p1] = tag.protocol.to_be_bytes();
            let [t0, t1] = tag.tci.to_be_bytes();
            *space = [p0, p1, t0, t1];
        }
    }

    /// Finds the transport header for the hooks of the IP families, where IP input has checked the
    /// packet: by [`crate::Meta::protocol`], none for other protocols.
    #[inline]
    pub fn find_transport(&mut self) {
        let t = match self.meta.protocol {
            ethernet::IPV4 => ipv4_transport(self.network()),
            ethernet::IPV6 => ipv6_transport(self.network()),
            _ => None,
        };
        self.set_transport(t);
    }

    /// Finds the transport header for netdev, bridge and inet ingress chains, which see packets
    /// that nothing has checked: by [`crate::Meta::protocol`], none for other protocols. `false` if
    /// the packet claims to be IPv4 or IPv6 and is malformed: netdev and bridge chains continue
    /// without transport, inet ingress drops (`nft_do_chain_inet_ingress()`).
    #[inline]
    pub fn find_transport_checked(&mut self) -> bool {
        let (t, ok) = transport_checked(self.meta.protocol, self.network());
        self.set_transport(t);
        ok
    }

    /// Offset from the start of the network header of what the transport header carries, for `@ih`
    /// (`__nft_payload_inner_offset()`): data of TCP and UDP, what GRE version 0 without routing
    /// and IPIP carry. `None` for other protocols, later fragments, and headers that are cut.
    #[inline]
    pub fn inner_offset(&self) -> Option<usize> {
        let t = self.transport().filter(|t| t.fragment_offset == 0)?;
        let offset = usize::from(t.offset);
        match t.protocol {
            protocol::UDP => Some(offset + penstock_wire::udp::LEN),
            protocol::TCP => Some(offset + tcp::Header::new(self.transport_bytes()?)?.header_len()),
            protocol::GRE => {
                let h = penstock_wire::gre::Header::new(self.transport_bytes()?)?;
                (h.version() == 0 && !h.has_routing()).then(|| offset + h.header_len())
            }
            protocol::IPIP => Some(offset),
            _ => None,
        }
    }
}

/// How a frame to `dst` counts on a device with address `device` (`eth_type_trans()`).
#[inline]
pub fn packet_type(dst: Mac, device: Mac) -> PacketType {
    if dst == device {
        PacketType::Host
    } else if !dst.is_group() {
        PacketType::OtherHost
    } else if dst.is_broadcast() {
        PacketType::Broadcast
    } else {
        PacketType::Multicast
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_testkit::build::*;
    use std::time::Instant;

    const A4: &str = "198.18.0.1";
    const B4: &str = "198.18.0.2";
    const A6: &str = "2001:db8::1";
    const B6: &str = "2001:db8::2";
    const DEVICE: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn link() -> Ethernet {
        Ethernet::new("02:00:00:00:00:01", DEVICE)
    }

    fn received(frame: impl Into<Frame>) -> Packet {
        let mut p = Packet::new();
        assert!(p.receive_ethernet(&frame.into().build(), DEVICE));
        p
    }

    #[test]
    fn transport_is_found_in_unchecked_packets_as_in_netdev_chains() {
        let v4 = || link() / Ipv4::new(A4, B4);
        let v6 = || link() / Ipv6::new(A6, B6);
        let udp = || Udp::new(1, 2) / payload(b"data");
        let ip4 = |ip: Ipv4| link() / ip / udp();
        let ip6 = |ip: Ipv6| link() / ip / udp();
        let at = |protocol, offset, fragment_offset| Some((protocol, offset, fragment_offset));
        for (n, (frame, transport)) in [
            (v4() / udp(), at(17, 20, 0)),
            (ip4(Ipv4::new(A4, B4).options(&[1, 1, 1, 0])), at(17, 24, 0)),
            (ip4(Ipv4::new(A4, B4).fragment(0, true)), at(17, 20, 0)),
            (ip4(Ipv4::new(A4, B4).fragment(3, true)), at(17, 20, 3)),
            (ip4(Ipv4::new(A4, B4).checksum(1)), at(17, 20, 0)),
            (ip4(Ipv4::new(A4, B4).version(5)), None),
            (ip4(Ipv4::new(A4, B4).header_len(16)), None),
            (ip4(Ipv4::new(A4, B4).header_len(36)), None),
            (ip4(Ipv4::new(A4, B4).total_len(33)), None),
            (ip4(Ipv4::new(A4, B4).total_len(32)), at(17, 20, 0)),
            (ip4(Ipv4::new(A4, B4).total_len(20)), at(17, 20, 0)),
            (ip4(Ipv4::new(A4, B4).total_len(19)), None),
            ((v4() / udp()).truncate(33), None),
            (v4(), at(253, 20, 0)),
            (v6() / udp(), at(17, 40, 0)),
            (ip6(Ipv6::new(A6, B6).version(4)), None),
            (ip6(Ipv6::new(A6, B6).payload_len(13)), None),
            (ip6(Ipv6::new(A6, B6).payload_len(0)), at(17, 40, 0)),
            (v6() / HopByHop::new() / DestOptions::new() / udp(), at(17, 56, 0)),
            (v6() / Routing::new(0, 0).via(A6) / udp(), at(17, 64, 0)),
            (v6() / Ah::new(1, 1) / udp(), at(51, 40, 0)),
            (v6() / Esp::new(1, 1) / udp(), at(50, 40, 0)),
            (v6() / Mobility::new(1) / udp(), at(135, 40, 0)),
            (v6() / Fragment::new(0, true, 1) / udp(), at(17, 48, 0)),
            (v6() / Fragment::new(2, true, 1).next_header(17) / payload(b"rest"), at(17, 0, 2)),
            (v6() / Fragment::new(2, true, 1) / DestOptions::new() / udp(), None),
            (v6() / DestOptions::new() / Fragment::new(2, false, 1).next_header(6), at(6, 0, 2)),
            (v6() / Extension::raw(60, 9, &[0; 6]) / DestOptions::new(), None),
            (v6() / Extension::raw(60, 9, &[0; 6]) / udp(), at(17, 120, 0)),
            (v6(), at(59, 40, 0)),
            (link() / Arp::request(DEVICE, A4, B4), None),
        ]
        .into_iter()
        .enumerate()
        {
            let mut p = received(frame);
            let ok = p.find_transport_checked();
            let found = p.transport().map(|t| (t.protocol, t.offset, t.fragment_offset));
            assert_eq!(found, transport, "case {n}");
            assert_eq!(ok, found.is_some() || p.meta.protocol == ethernet::ARP, "case {n}");
            if found.is_some() {
                p.find_transport();
                assert_eq!(
                    p.transport().map(|t| (t.protocol, t.offset, t.fragment_offset)),
                    transport
                );
            }
        }
    }

    #[test]
    fn short_loads_see_into_later_fragments() {
        let v4 = link() / Ipv4::new(A4, B4).fragment(3, true) / Udp::new(0x1234, 2);
        let v6 = link()
            / Ipv6::new(A6, B6)
            / Fragment::new(2, false, 1).next_header(17)
            / payload(b"rest of it");
        for (frame, len, offset, at_network, at_link) in [
            (&v4, 2, 0, Some(0x12), Some(0x12)),
            (&v4, 4, 4, Some(0x12), Some(0x12)),
            (&v4, 2, 1, None, None),
            (&v4, 4, 2, None, None),
            (&v4, 3, 0, None, None),
            (&v4, 8, 0, None, None),
            (&v6, 1, 3, Some(0x60), Some(0x02)),
            (&v6, 16, 0, None, None),
        ] {
            let mut p = received(frame.clone());
            p.find_transport_checked();
            assert_eq!(p.transport_bytes(), None);
            let first = |p: &Packet| p.transport_bytes_for_load(len, offset).map(|b| b[0]);
            assert_eq!(first(&p), at_network, "{len} bytes at {offset}");
            p.data_at_link();
            assert_eq!(first(&p), at_link, "{len} bytes at {offset}");
        }
        let mut whole = received(link() / Ipv4::new(A4, B4) / Udp::new(0x1234, 2));
        whole.find_transport();
        assert_eq!(whole.transport_bytes_for_load(3, 1), whole.transport_bytes());
    }

    #[test]
    fn inner_data_starts_after_the_transport_header() {
        let v4 = || link() / Ipv4::new(A4, B4);
        let fragment = || link() / Ipv4::new(A4, B4).fragment(1, false);
        for (n, (frame, inner)) in [
            (v4() / Udp::new(1, 2) / payload(b"x"), Some(28)),
            (v4() / Tcp::new(1, 2).mss(1) / payload(b"x"), Some(44)),
            (v4() / Tcp::new(1, 2).header_len(0), Some(20)),
            (v4() / Gre::new() / Ipv4::new(A4, B4), Some(24)),
            (v4() / Gre::new().with_checksum().key(1).sequence(2) / Ipv4::new(A4, B4), Some(36)),
            (link() / Ipv4::new(A4, B4).protocol(47) / payload([0x40, 0, 8, 0]), None),
            (link() / Ipv4::new(A4, B4).protocol(47) / payload([0x00, 1, 8, 0]), None),
            (v4() / Ipv4::new(A4, B4), Some(20)),
            (v4() / Ipv6::new(A6, B6), None),
            (v4() / Icmp::new(8, 0), None),
            (fragment() / Udp::new(1, 2), None),
            ((link() / Ipv4::new(A4, B4).total_len(39) / Tcp::new(1, 2)).truncate(53), None),
        ]
        .into_iter()
        .enumerate()
        {
            let mut p = received(frame);
            p.find_transport_checked();
            assert_eq!(p.inner_offset(), inner, "case {n}");
        }
    }

    #[test]
    fn one_tag_is_removed_and_restored() {
        let frame = (link()
            / Vlan::new(7).service()
            / Vlan::new(9).priority(3)
            / Ipv4::new(A4, B4)
            / Udp::new(1, 2))
        .build();
        let mut p = Packet::new();
        assert!(p.receive_ethernet(&frame, DEVICE));
        assert_eq!((p.meta.protocol, p.len()), (0x88a8, 36));
        assert_eq!(p.untag(), Ok(true));
        assert_eq!((p.meta.protocol, p.link().len(), p.len()), (0x8100, 14, 32));
        assert_eq!(p.meta.vlan, Some(VlanTag { protocol: 0x88a8, tci: 7 }));
        assert_eq!(p.frame()[..16], [&frame[..12], &frame[16..20]].concat());
        assert_eq!(p.untag(), Ok(false), "one tag is held");
        // As a VLAN device does: the tag is consumed, the next one is taken out.
        let outer = p.meta.vlan.take().unwrap();
        assert_eq!(p.untag(), Ok(true));
        assert_eq!((p.meta.protocol, p.len()), (0x0800, 28));
        assert_eq!(p.meta.vlan.map(|v| v.tci), Some(9 | 3 << 13));
        p.data_at_link();
        p.push_tag(outer);
        assert_eq!((p.meta.protocol, p.link().len(), p.len()), (0x8100, 18, 46));
        p.put_tag_into_frame();
        assert_eq!(p.frame(), frame);
        assert_eq!((p.meta.vlan, p.network().len(), p.len()), (None, 28, 50));
    }

    #[test]
    fn a_tag_needs_the_two_bytes_after_it() {
        let frame = (link() / Vlan::new(7) / payload([1, 2, 3])).build();
        for len in 14..frame.len() {
            let mut p = Packet::new();
            p.receive_ethernet(&frame[..len], DEVICE);
            let want = if len < 20 { Err(TruncatedTag) } else { Ok(true) };
            assert_eq!(p.untag(), want, "{len}");
        }
        let length_inside = (link() / Vlan::new(7).ethertype(3) / payload([0xff, 0xff, 0])).build();
        let mut p = Packet::new();
        p.receive_ethernet(&length_inside, DEVICE);
        assert_eq!((p.untag(), p.meta.protocol), (Ok(true), ethernet::RAW_802_3));
    }

    #[test]
    fn the_packet_type_follows_from_the_destination() {
        for (dst, kind) in [
            ("02:00:00:00:00:02", PacketType::Host),
            ("02:00:00:00:00:03", PacketType::OtherHost),
            ("33:33:00:00:00:01", PacketType::Multicast),
            ("ff:ff:ff:ff:ff:ff", PacketType::Broadcast),
        ] {
            let p = received(Ethernet::new(DEVICE, dst) / payload(b""));
            assert_eq!(p.meta.packet_type, kind);
        }
    }

    #[test]
    fn no_frame_makes_reception_panic() {
        let seed = penstock_testkit::seed();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut p = Packet::new();
        let types = [0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x0806, 3];
        for _ in 0..if cfg!(miri) { 30 } else { 20_000 } {
            let mut frame: Vec<u8> = (0..rng.usize(..100))
                .map(|_| [0, 4, 6, 17, 44, 60, 0x45, 0x60][rng.usize(..8)])
                .collect();
            for at in [12, 16] {
                if let Some(t) = frame.get_mut(at..at + 2) {
                    t.copy_from_slice(&types[rng.usize(..types.len())].to_be_bytes());
                }
            }
            p.receive_ethernet(&frame, DEVICE);
            let _ = p.untag();
            p.find_transport_checked();
            p.inner_offset();
            p.find_transport();
            p.inner_offset();
            if p.meta.vlan.is_some() {
                p.put_tag_into_frame();
                assert_eq!(p.frame(), frame);
            }
        }
    }

    /// Prints what dissection costs:
    /// `cargo test --release -p penstock-packet cost -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints figures"]
    fn prints_nanoseconds_per_packet() {
        for (name, frame) in [
            ("ipv4 udp", (link() / Ipv4::new(A4, B4) / Udp::new(1, 2)).build()),
            ("ipv6 tcp", (link() / Ipv6::new(A6, B6) / Tcp::new(1, 2)).build()),
            (
                "ipv6 two extensions",
                (link()
                    / Ipv6::new(A6, B6)
                    / HopByHop::new()
                    / DestOptions::new()
                    / Tcp::new(1, 2))
                .build(),
            ),
            ("vlan ipv4 udp", (link() / Vlan::new(5) / Ipv4::new(A4, B4) / Udp::new(1, 2)).build()),
        ] {
            let mut p = Packet::new();
            const N: u32 = 5_000_000;
            let mut time = |dissect: bool| {
                let start = Instant::now();
                for _ in 0..N {
                    p.receive_ethernet(std::hint::black_box(&frame), DEVICE);
                    if dissect {
                        let _ = p.untag();
                        p.find_transport_checked();
                    }
                    std::hint::black_box(&mut p);
                }
                start.elapsed().as_secs_f64() * 1e9 / f64::from(N)
            };
            let (load, all) = (time(false), time(true));
            println!("{name}: load {load:.1} ns, untag and transport {:.1} ns", all - load);
        }
    }
}
