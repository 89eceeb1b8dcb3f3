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

pub mod bind;
pub mod choose;
pub mod header;
pub mod icmp;
pub mod range;
pub mod text;

pub use header::Target;
pub use range::{Manip, Range};
