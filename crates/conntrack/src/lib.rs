// SPDX-License-Identifier: Apache-2.0

//! Connection tracking (`net/netfilter/nf_conntrack_*.c`): flows and their states.
//!
//! A [`Tuple`] names one direction of a flow. [`Conntrack`] is the table of one worker:
//! [`Conntrack::track`] gives a packet its connection before rules see it, [`Conntrack::confirm`]
//! enters new ones when the packet leaves. A packet holds its connection by number and serial
//! ([`penstock_packet::Ct`]), so one that ended is noticed. The clock is the time of the packets.
//! Several workers have a table each, and know of each other's by [`Shared`]. This crate knows
//! neither rules nor devices.
//!
//! ```
//! use penstock_conntrack::{Conntrack, Hook, Settings, Verdict};
//! use penstock_packet::Packet;
//! use penstock_wire::build::*;
//!
//! let mut conntrack = Conntrack::new(Settings::default());
//! let mut packet = Packet::new();
//! packet.load(&(Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1000, 53)).build(), 0);
//! assert_eq!(conntrack.track(&mut packet, Hook::Prerouting), Verdict::Accept);
//! // … rules …
//! assert_eq!(conntrack.confirm(&mut packet), Verdict::Accept);
//! assert_eq!(conntrack.count(), 1);
//! ```

pub mod status;
pub mod tuple;

mod attach;
mod confirm;
mod conntrack;
mod date;
mod dccp;
mod directory;
mod dissect;
mod dump;
mod entry;
mod events;
mod expect;
mod filter;
mod generic;
mod gre;
mod hash;
mod helper;
mod icmp;
mod icmp_error;
mod index;
mod listing;
mod offload;
mod pressure;
mod sctp;
mod seqadj;
mod settings;
mod shared;
mod source;
mod store;
mod sync;
mod tcp;
mod template;
mod track;
mod udp;
mod view;

pub use conntrack::{Conntrack, Hook, Statistics, Verdict};
pub use dump::LoadError;
pub use entry::{Counter, Ref};
pub use events::{EventKind, EventLine, Observer, event};
pub use expect::{CLASSES, ExpectError, Expectation, Follow, expect_flag};
pub use filter::Filter;
pub use helper::{Class, HELPERS, Helper, Replace, Surroundings, helper_number};
pub use listing::{ExpectationLine, Line, Style};
pub use offload::Return;
pub use seqadj::SeqAdjust;
pub use settings::{Settings, SysctlError, Timeout, Timeouts, Tracker};
pub use shared::{Datagram, Shared, SoughtOwner, Span, Whose};
pub use template::{PolicyError, Template};
pub use track::Sought;
pub use tuple::{Direction, Tuple};
pub use view::Connection;
