// SPDX-License-Identifier: Apache-2.0

//! Protocol headers as bytes: reading, writing, checksums. One file per protocol, all with one
//! skeleton.
//!
//! In each file stand, in this order: constants and field offsets, a checked read view (`Header`),
//! setters (`HeaderMut`) where the packet path writes, a small valid representation (`Repr`) that
//! becomes bytes, and tests.
//!
//! What holds for all of them:
//!
//! - `Header::new` looks once whether all bytes that the fixed accessors touch are there, and
//!   returns `None` otherwise. After that no accessor panics, whatever the bytes are; parts of
//!   variable length come as slices that are clipped to what is there, or as `Option`.
//! - Integers are in host order on the Rust side and in network order in the bytes.
//! - A `Repr` may describe nonsense on purpose (wrong length, wrong checksum), since tests need
//!   such frames; the doc comment says which fields are filled in and which are taken as given.
//! - Where the meaning of malformed bytes matters (extension header walks, option walks), it is
//!   that of the Linux kernel, and the comment names the function there.
//!
//! IP in IP has no header of its own: the inner header follows at once, announced by
//! [`protocol::IPIP`] or [`protocol::IPV6`].
//!
//! There are two hash functions, too: the kernel's ([`jhash`]), and one for tables with keys that no
//! packet chooses ([`quick`]), the bucket of hash tables that packets are looked up in ([`bucket`]),
//! and what tells the processor of memory that will be needed ([`cache`]).
//!
//! This crate keeps no state and knows no packet buffer, hook or rule.
//!
//! ```
//! use penstock_testkit::build::{Ethernet, Ipv4, Udp, payload};
//! use penstock_wire::{ethernet, ipv4};
//!
//! let frame = (Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
//!     / Ipv4::new("198.18.0.1", "198.18.0.2").ttl(3)
//!     / Udp::new(1000, 53)
//!     / payload(b"hello"))
//! .build();
//! let link = ethernet::Header::new(&frame).unwrap();
//! assert_eq!(link.ethertype(), ethernet::IPV4);
//! let ip = ipv4::Header::new(link.payload()).unwrap();
//! assert_eq!((ip.ttl(), ip.checksum_ok()), (3, true));
//! ```

mod field;

pub mod ah;
pub mod arp;
pub mod bucket;
pub mod cache;
pub mod checksum;
pub mod dccp;
pub mod ecn;
pub mod esp;
pub mod ethernet;
pub mod frame;
pub mod geneve;
pub mod gre;
pub mod group_record;
pub mod icmp;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod ipv6_ext;
pub mod jhash;
pub mod pppoe;
pub mod protocol;
pub mod quick;
pub mod sctp;
pub mod source_route;
pub mod tcp;
pub mod udp;
pub mod udplite;
pub mod vlan;
pub mod vxlan;
