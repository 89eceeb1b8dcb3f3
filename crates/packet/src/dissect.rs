//! Finding the headers of a packet as the kernel does on reception and at the entry of each hook, and putting tags
//! back for transmission.

use crate::{Packet, PacketType, Transport, VlanTag};
use penstock_wire::ethernet::{self, Mac};
use penstock_wire::ipv6_ext::{self, Walk};
use penstock_wire::{ipv4, ipv6, protocol, tcp, vlan};

/// A tag's bytes, or the two bytes behind it, are not all there: the frame is dropped (`skb_vlan_untag()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedTag;

/// Where the transport header of an IPv4 packet is whose header was checked by IP input (`nft_set_pktinfo_ipv4()`).
/// `None` only if the header's 20 bytes are not there, which IP input excludes.
#[inline]
pub fn ipv4_transport(network: &[u8]) -> Option<Transport> {
    let h = ipv4::Header::new(network)?;
    Some(Transport {
        protocol: h.protocol(),
        offset: h.header_len() as u16,
        fragment_offset: h.fragment_offset(),
    })
}

/// The same for a packet that no IP layer has checked: version, header length and total length must fit what is there
/// (`nft_set_pktinfo_ipv4_validate()`). The header checksum is not looked at.
#[inline]
pub fn ipv4_transport_checked(network: &[u8]) -> Option<Transport> {
    let h = ipv4::Header::new(network)?;
    let (header_len, total) = (h.header_len(), usize::from(h.total_len()));
    if h.version() != 4 || header_len < ipv4::LEN || network.len() < total || total < header_len {
        return None;
    }
    ipv4_transport(network)
}

/// Where the transport header of an IPv6 packet is (`nft_set_pktinfo_ipv6()`): behind all extension headers; an
/// authentication header counts as transport and so do ESP and mobility headers. A later fragment has the protocol of its
/// fragment header, unless that is again an extension header: then, as in a packet whose chain of headers is cut, there
/// is no transport.
#[inline]
pub fn ipv6_transport(network: &[u8]) -> Option<Transport> {
    const WALK: Walk = Walk { stop_at_ah: true, skip_done_routing: false };
    let found = ipv6_ext::find(network, None, WALK).ok()?;
    Some(Transport {
        protocol: found.protocol,
        offset: u16::try_from(found.offset).ok()?,
        fragment_offset: found.fragment_offset,
    })
}

/// The same for a packet that no IP layer has checked: version and payload length must fit what is there
/// (`nft_set_pktinfo_ipv6_validate()`).
#[inline]
pub fn ipv6_transport_checked(network: &[u8]) -> Option<Transport> {
    let h = ipv6::Header::new(network)?;
    if h.version() != 6 || ipv6::LEN + usize::from(h.payload_len()) > network.len() {
        return None;
    }
    ipv6_transport(network)
}

impl Packet {
    /// Takes in a frame received on an Ethernet device with address `device`: [`Packet::load`], then protocol and
    /// packet type as `eth_type_trans()` finds them. `false` if the frame is shorter than its header; it is then loaded
    /// as far as it goes.
    #[inline]
    pub fn receive_ethernet(&mut self, frame: &[u8], device: Mac) -> bool {
        self.load(frame, ethernet::LEN);
        let Some(h) = ethernet::Header::new(frame) else { return false };
        self.meta.protocol = h.protocol();
        self.meta.packet_type = packet_type(h.dst(), device);
        true
    }

    /// Takes one VLAN tag out of the frame into [`crate::Meta::vlan`] if [`crate::Meta::protocol`] announces one and none
    /// is held already (`skb_vlan_untag()`); the protocol becomes that behind the tag. Gives whether a tag was taken.
    ///
    /// # Errors
    /// The frame ends before the second byte behind the tag; it is to be dropped.
    #[inline]
    pub fn untag(&mut self) -> Result<bool, TruncatedTag> {
        if self.meta.vlan.is_some() || !vlan::is_tag(self.meta.protocol) {
            return Ok(false);
        }
        self.untag_present()
    }

    fn untag_present(&mut self) -> Result<bool, TruncatedTag> {
        let tag = vlan::Header::new(self.network()).filter(|t| t.payload().len() >= 2).ok_or(TruncatedTag)?;
        let protocol = ethernet::protocol_of(tag.ethertype(), tag.payload());
        self.meta.vlan = Some(VlanTag { protocol: self.meta.protocol, tci: tag.tci() });
        self.meta.protocol = protocol;
        self.advance_network(vlan::LEN, true);
        // Now the link header is addresses, tag, type: the tag stands four bytes before the type that ends it.
        if let Some(at) = self.link().len().checked_sub(vlan::LEN + 2) {
            self.remove_from_link(at, vlan::LEN);
        }
        Ok(true)
    }

    /// Gives the packet a tag (`skb_vlan_push()`): one that it already holds goes into the frame first.
    /// [`crate::Meta::protocol`] is then the tag protocol of that one.
    pub fn push_tag(&mut self, tag: VlanTag) {
        if let Some(inner) = self.meta.vlan.replace(tag) {
            self.insert_tag(inner);
            self.meta.protocol = inner.protocol;
        }
    }

    /// Puts the tag that the packet holds into the frame, as it goes to the wire (`validate_xmit_vlan()`). Does nothing
    /// without tag or without an Ethernet header.
    #[inline]
    pub fn put_tag_into_frame(&mut self) {
        if let Some(tag) = self.meta.vlan.take() {
            self.insert_tag(tag);
        }
    }

    /// Inserts a tag between the addresses and the type.
    fn insert_tag(&mut self, tag: VlanTag) {
        const AT: usize = 12;
        if self.link().len() < ethernet::LEN {
            return;
        }
        if let Some(space) = self.insert_into_link(AT, vlan::LEN).first_chunk_mut::<{ vlan::LEN }>() {
            let [p0, p1] = tag.protocol.to_be_bytes();
            let [t0, t1] = tag.tci.to_be_bytes();
            *space = [p0, p1, t0, t1];
        }
    }

    /// Finds the transport header for the hooks of the IP families, where IP input has checked the packet: by
    /// [`crate::Meta::protocol`], none for other protocols.
    #[inline]
    pub fn find_transport(&mut self) {
        let t = match self.meta.protocol {
            ethernet::IPV4 => ipv4_transport(self.network()),
            ethernet::IPV6 => ipv6_transport(self.network()),
            _ => None,
        };
        self.set_transport(t);
    }

    /// Finds the transport header for netdev, bridge and inet ingress chains, which see packets that nothing has checked:
    /// by [`crate::Meta::protocol`], none for other protocols. `false` if the packet claims to be IPv4 or IPv6 and is
    /// malformed: netdev and bridge chains go on without transport, inet ingress drops (`nft_do_chain_inet_ingress()`).
    #[inline]
    pub fn find_transport_checked(&mut self) -> bool {
        let t = match self.meta.protocol {
            ethernet::IPV4 => ipv4_transport_checked(self.network()),
            ethernet::IPV6 => ipv6_transport_checked(self.network()),
            _ => {
                self.set_transport(None);
                return true;
            }
        };
        self.set_transport(t);
        t.is_some()
    }

    /// Offset from the start of the network header of what the transport header carries, for `@ih`
    /// (`__nft_payload_inner_offset()`): data of TCP and UDP, what GRE version 0 without routing and IPIP carry. `None`
    /// for other protocols, later fragments, and headers that are cut.
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
