// SPDX-License-Identifier: Apache-2.0

//! Network address translation (`net/netfilter/nf_nat_*.c`): which tuple a connection gets, and
//! headers that follow it.
//!
//! - [`bind`](mod@bind): the translation of a connection, decided once per direction, and applied
//!   on its packets;
//! - [`choose`]: the tuple for a connection within a [`Range`] that a rule gives;
//! - [`header`]: addresses, ports and checksums of a packet follow its connection;
//! - [`icmp`]: so does the packet inside of an ICMP error;
//! - [`text`]: what helpers change inside of a packet's data.
//!
//! This crate knows tuples and bytes. It knows no rule, no device and no route: who has an address
//! is told by the caller.
//!
//! ```
//! use penstock_nat::header::translate;
//! use penstock_nat::{Manip, Target};
//! use penstock_testkit::build::{Ipv4, Udp};
//!
//! // The source of a datagram from 198.18.0.1:1000 becomes 198.18.1.1:2000, checksums included.
//! let mut packet = (Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1000, 53)).build();
//! let mut address = [0; 16];
//! address[..4].copy_from_slice(&[198, 18, 1, 1]);
//! let target = Target { manip: Manip::Source, address, id: 2000, protocol: 17, l3: 2 };
//! assert!(translate(&mut packet, 0, &target));
//! assert_eq!(packet, (Ipv4::new("198.18.1.1", "198.18.0.2") / Udp::new(2000, 53)).build());
//! ```

pub mod bind;
pub mod choose;
pub mod header;
pub mod icmp;
pub mod range;
pub mod text;

pub use header::Target;
pub use range::{Manip, Range};
