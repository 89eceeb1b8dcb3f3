// SPDX-License-Identifier: Apache-2.0

//! A packet on its journey: the frame's bytes with headroom in front, where its headers start,
//! and the metadata that the kernel keeps in `struct sk_buff` and that rules can read and write.
//!
//! This crate knows bytes and offsets. It knows no hook, no rule and no device.
//!
//! The layout follows the kernel, since nftables semantics are defined on it:
//!
//! - a VLAN tag is taken out of the frame on reception and kept in [`Meta::vlan`]
//!   (`skb_vlan_untag`), so lengths and offsets never include it;
//! - the *data pointer* ([`Packet::data_start`]) is at the network header at all receive hooks and
//!   at the link header at netdev egress: `meta length`, counters, quotas and byte limits count
//!   from there;
//! - transport offsets are found once per hook family ([`Packet::find_transport`],
//!   [`Packet::find_transport_checked`]) as `nft_set_pktinfo_ipv4()` and its kin do, and kept in
//!   [`Transport`].
//!
//! ```
//! use penstock_packet::{Packet, PacketType};
//! use penstock_testkit::build::{Ethernet, Ipv4, Udp, Vlan, payload};
//!
//! let frame = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
//!     / Vlan::new(5)
//!     / Ipv4::new("198.18.0.1", "198.18.0.2")
//!     / Udp::new(1000, 53)
//!     / payload(b"hello");
//! let mut packet = Packet::new();
//! assert!(packet.receive_ethernet(&frame.build(), "02:00:00:00:00:02".parse().unwrap()));
//! packet.untag().unwrap();
//! packet.find_transport_checked();
//! assert_eq!(packet.meta.packet_type, PacketType::Host);
//! assert_eq!(packet.meta.vlan.unwrap().tci, 5);
//! assert!(packet.transport_bytes().unwrap().ends_with(b"hello"));
//! // Lengths begin at the network header, without the tag.
//! assert_eq!(packet.len(), 20 + 8 + 5);
//! ```

mod buffer;
mod dissect;
mod frame;
pub mod gso;
pub mod layout;
mod meta;
mod packet;
mod transport;

pub use dissect::{TruncatedTag, packet_type};
pub use frame::Frame;
pub use gso::{Gso, GsoKind};
pub use meta::{Bridged, Ct, CtInfo, Meta, PacketType, VlanTag};
pub use packet::{HEADROOM, Packet};
pub use transport::{
    Transport, ipv4_transport, ipv4_transport_checked, ipv6_transport, ipv6_transport_checked,
};
