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
//! # Layers
//!
//! Each uses those above it in this list, and none below it:
//!
//! - **Words**: tuples, status bits, settings, packets with their headers, expectations. Plain
//!   values that all layers speak in.
//! - **`tracker`**: one file per protocol. A function from the protocol's state and a packet to an
//!   outcome: a verdict, a timeout, status bits, events. It touches no table.
//! - **`helper`**: one file per protocol that announces further connections. A function from a
//!   message to actions: what to expect, what to write into the text. It touches no table.
//! - **`table`**: stores connections, finds them, ends them. It knows no protocol: what trackers
//!   and helpers remember of a connection it keeps without looking into it.
//! - **`operations`**: what packets pass through, and what programs do. [`Conntrack::track`],
//!   [`Conntrack::help`], [`Conntrack::confirm`] and others find the connection in the table, ask
//!   tracker or helper, and do to the table what they say.
//! - **`text`**: lines of `conntrack -L`, filters, dumps. It only reads, except for loading a dump.
//!
//! ```
//! use penstock_conntrack::{Conntrack, Hook, Settings, Verdict};
//! use penstock_packet::Packet;
//! use penstock_testkit::build::*;
//!
//! let mut conntrack = Conntrack::new(Settings::default());
//! let mut packet = Packet::new();
//! packet.load(&(Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1000, 53)).build(), 0);
//! assert_eq!(conntrack.track(&mut packet, Hook::Prerouting), Verdict::Accept);
//! // … rules …
//! assert_eq!(conntrack.confirm(&mut packet), Verdict::Accept);
//! assert_eq!(conntrack.count(), 1);
//! ```

// Words.
mod complaint;
mod dissect;
pub mod event;
mod expectation;
mod flow;
mod outline;
mod packet;
mod reference;
mod seqadj;
mod settings;
pub mod status;
mod sync;
pub mod tuple;

// Layers.
mod helper;
mod operations;
mod table;
mod text;
mod tracker;

pub use complaint::Complaint;
pub use expectation::{CLASSES, ExpectError, Expectation, Follow, expect_flag};
pub use flow::{Flow, FlowChange, NotInserted, ProtocolChange, ProtocolInfo};
pub use helper::{
    Class, DATA_MAX as HELPER_DATA_MAX, HELPERS, Helper, Helpers, ProgramHelper, Surroundings,
    helper_number,
};
pub use operations::{Helped, Replace, Sighting, TupleLookup};
pub use outline::Outline;
pub use packet::{Hook, Verdict};
pub use reference::Ref;
pub use seqadj::SeqAdjust;
pub use settings::{Settings, SysctlError, Timeout, Timeouts, Tracker};
pub use table::{
    Connection, Conntrack, Counter, Datagram, Ended, EventKind, Observer, OwnerLookup, PacketOwner,
    PolicyError, Return, Shared, Span, Statistics, Template,
};
pub use text::{EventLine, ExpectationLine, Filter, Line, LoadError, Style, protocol_name};
pub use tracker::tcp::TcpTable;
pub use tuple::{Direction, Tuple};
