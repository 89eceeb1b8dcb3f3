// SPDX-License-Identifier: Apache-2.0

//! The protocol by which conntrackd(8) of conntrack-tools keeps the connections of firewalls in
//! step, version 1.
//!
//! This crate knows neither sockets nor a clock: datagrams and the time (nanoseconds of a clock
//! that only goes forward) are arguments. From the bottom up:
//!
//! | module | is |
//! | --- | --- |
//! | `message` | datagrams are cut into messages with their headers (`network.h`) |
//! | `attribute` | attributes of messages, both ways |
//! | `connection`, `expectation` | what messages say of them (`build.c`, `parse.c`) |
//! | `outgoing` | messages that wait to be sent, and their sequence numbers |
//! | `received` | what becomes of a message |
//! | `sequence` | which messages of the peer are missing |
//! | `resend` | messages that the peer has not acknowledged |
//! | `ftfw`, `alarm`, `notrack` | the modes (`sync-ftfw.c` and so on) |
//! | `mode` | one of them |
//! | `cache` | what the peer has told: the external cache |
//! | [`secure`] | the protocol of Penstock between firewalls, over TCP |
//! | [`cluster`] | messages of Penstock between the nodes of a cluster, by way of a log |
//! | [`config`] | conntrackd.conf(5) |

mod alarm;
mod attribute;
mod cache;
pub mod cluster;
pub mod config;
mod connection;
mod expectation;
mod ftfw;
mod message;
mod mode;
mod node_name;
mod notrack;
mod outgoing;
mod received;
mod resend;
pub mod secure;
mod sequence;

pub use cache::{Cache, Cached, ExpectationCache, ExternalCache, State};
pub use connection::{ConnectionState, Scales, Tcp, write_connection};
pub use expectation::{ExpectationState, Nat, write_expectation};
pub use message::{Change, Kind, Malformed, Message, split};
pub use mode::Mode;
pub use outgoing::{Encoded, Key};
pub use received::Received;
pub use sequence::Tracked;
