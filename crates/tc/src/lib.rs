// SPDX-License-Identifier: Apache-2.0

//! Traffic control (`net/sched/`): what stands between the hooks of netfilter and a device.
//!
//! A [`Config`] comes from the lines of a `tc -batch` file. At ingress and egress of a device its
//! filters classify packets ([`Config::classify`]); after egress, the root queueing discipline of
//! the device decides when a frame leaves ([`Queues`]). What filters and queues remember is apart
//! from the configuration, and the clock is that of the packets.
//!
//! ```
//! use penstock_packet::Packet;
//! use penstock_tc::{Config, Cursor, Hook, State, Step};
//!
//! let text = "
//!     qdisc add dev wan clsact
//!     filter add dev wan egress protocol ip flower ip_proto udp dst_port 9 action drop
//! ";
//! let config = Config::from_batch("tc", text, |name| (name == "wan").then_some(2)).unwrap();
//! let mut state = State::new(&config);
//! let mut packet = Packet::new();
//! let step = config.classify(Hook::Egress, 2, &mut Cursor::default(), &mut packet, &mut state);
//! assert_eq!(step, Step::Pass);
//! ```
//!
//! This crate knows packets. It knows no hook of netfilter, no route and no rule.

mod action;
mod classify;
mod config;
mod flower;
mod parse;
mod qdisc;
mod rate;
mod u32_match;

pub use classify::{Cursor, State, Step};
pub use config::{Config, Hook};
pub use penstock_iproute2::Error;
pub use qdisc::Queues;
