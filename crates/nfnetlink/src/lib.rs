// SPDX-License-Identifier: Apache-2.0

//! NETLINK_NETFILTER in front of a ruleset: programs for the kernel's netfilter talk to this
//! instead.
//!
//! A [`Client`] is the kernel's side of one netlink socket. It takes the datagrams that a program
//! sends and gives the datagrams that the kernel would answer with. It does no I/O: the caller
//! moves the bytes. The trait [`Backend`] provides the ruleset to read and change.
//!
//! ```
//! use penstock_nfnetlink::{Client, Local, Process};
//!
//! let mut backend = Local::default();
//! let mut client = Client::new(4711);
//! let nft = Process { id: 4711, name: "nft".into(), may_change: true };
//! // NFT_MSG_GETGEN: length, type, flags, sequence, port, then family, version, resource.
//! let request = [20, 0, 0, 0, 0x10, 0x0a, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
//! let answers = client.receive(&request, &nft, &mut backend);
//! assert_eq!(answers.datagrams.len(), 1);
//! ```

mod accounts;
mod backend;
mod batch;
mod client;
mod compat;
mod connections;
mod ctnetlink;
mod expression;
mod fingerprints;
mod globals;
mod helpers;
mod hooks;
mod ipset;
pub mod kernel;
mod message;
mod nf_tables;
mod packets;
mod process;
mod socket;
mod timeouts;
mod uapi;
mod used_up;

pub use backend::{Backend, Local, Refused, Show};
pub use batch::{Teller, changes_between, close, owns};
pub use client::{Client, SocketOption, asks_for_packets, begins_batch, may_change, only_decides};
pub use connections::{
    ConnectionEvent, Connections, Expected, NewExpected, NewFlow, Wanted, expect, of_connection,
};
pub use ctnetlink::{
    VerdictChange, difference as connection_changes_between, notification, settable_status,
};
pub use ipset::{IpSetTable, looked_up as looked_up_ip_set, lookup as look_up_ip_set};
pub use nf_tables::GROUP;
pub use packets::{
    About, Bind, LogConfig, LogSettings, LoggedPacket, PacketListeners, QueueConfig, QueueVerdict,
    QueuedPacket, VerdictLink, end_of_logged, write_logged, write_queued,
};
pub use process::Process;
pub use socket::{Answers, Notification};
pub use used_up::{ACCOUNT_GROUP, used_up};
