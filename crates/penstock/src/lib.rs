// SPDX-License-Identifier: Apache-2.0

//! The packet path of nftables as a library: rulesets, connection tracking, NAT and routing for the
//! packets of a program, without the kernel.
//!
//! A program gives frames and gets frames. Nothing here opens a device, a socket or a thread unless
//! it is asked to (the thread that makes machine code is [`Engine::Jit`]'s).
//!
//! ```
//! use penstock::{Dataplane, DropReason, Fate, Network, Ruleset};
//!
//! let network = Network::from_text("
//!     link add wan address 02:00:00:00:00:01 type veth
//!     link add lan address 02:00:00:00:00:02 type veth
//!     link set wan up
//!     link set lan up
//!     addr add 198.18.0.1/24 dev wan
//!     addr add 198.18.1.1/24 dev lan
//!     neigh add 198.18.1.7 lladdr 02:00:00:00:01:07 dev lan
//! ")?;
//! let ruleset = Ruleset::from_text(&network, "
//!     table inet filter {
//!         chain forward {
//!             type filter hook forward priority filter; policy drop;
//!             udp dport 53 counter accept
//!         }
//!     }
//! ")?;
//! let mut dataplane = Dataplane::new(&network, &ruleset)?;
//! let wan = network.device("wan")?;
//!
//! // A DNS query from 198.18.0.9 to 198.18.1.7, with a checksum of 0: none.
//! let mut frame = [
//!     0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 9, 0x08, 0x00, // Ethernet
//!     0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0xed, 0x9c, 198, 18, 0, 9, 198, 18, 1, 7, // IPv4
//!     0x30, 0x39, 0, 53, 0, 8, 0, 0, // UDP
//! ];
//! let now = 1_700_000_000_000_000_000;
//! let outcome = dataplane.process(wan, &frame, now);
//! assert_eq!(outcome.fate(), Fate::Sent(network.device("lan")?));
//!
//! frame[37] = 54;
//! let outcome = dataplane.process(wan, &frame, now);
//! assert_eq!(outcome.fate(), Fate::Dropped(DropReason::Policy));
//! assert_eq!(ruleset.counters()[0].packets, 1);
//! # Ok::<(), penstock::Error>(())
//! ```
//!
//! | type | it is |
//! | --- | --- |
//! | [`Network`] | devices, addresses, routes, neighbours: from lines for `ip -batch`, or built in code |
//! | [`Ruleset`] | a ruleset: from text, JSON, or a state file; listings and counters |
//! | [`Session`] | changes a ruleset by commands of nft, each text one transaction |
//! | [`Rules`] | a ruleset made ready to run, to be handed to a dataplane on another thread |
//! | [`Dataplane`] | what packets pass through, with its connections and counters |
//! | [`Sink`] | takes what happens to packets; [`Outcome`] is one that collects |
//!
//! # Units
//!
//! Times are nanoseconds since the epoch and belong to the caller: nothing here looks at a clock
//! while packets pass. They should not go backwards. Lengths are bytes, marks and priorities
//! numbers in host byte order, frames as they are on a wire (network byte order, without a frame
//! check sequence).
//!
//! # Threads
//!
//! A [`Dataplane`] is one worker: it may move between threads and is used by one at a time.
//! [`Ruleset`], [`Rules`] and [`Network`] are cheap to clone and may be used from several threads.
//! Several dataplanes may run the same [`Rules`]; they have the same counters and sets, and each
//! has connections of its own.
//!
//! # Limits
//!
//! - Frames are at most [`MAX_FRAME`] bytes; longer ones are dropped and counted.
//! - A text of rules is at most 1 GiB with all that it includes ([`Loader::limits`]).
//! - Super-packets (GSO, GRO) are not taken: frames are as they are on a wire.
//! - A device has an index of at most [`MAX_DEVICE_INDEX`].
//! - Memory for connections is bounded by `net.netfilter.nf_conntrack_max`
//!   ([`DataplaneBuilder::sysctl`]).
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `jit` (default) | machine code for rules, by Cranelift |
//! | `ebpf` | the module `ebpf`: stateless ingress chains as programs for XDP |
//! | `live` | the module `live`: TAP devices, and commands for a running `penstock up` |
//!
//! What differs from the kernel and from nft on purpose is in `docs/differences.md`.

mod counter;
mod dataplane;
#[cfg(feature = "ebpf")]
pub mod ebpf;
mod error;
mod event;
#[cfg(feature = "live")]
pub mod live;
mod loader;
mod names;
mod network;
mod outcome;
mod ruleset;
mod session;
mod sink;

pub use counter::{Counted, Counter};
pub use dataplane::{Dataplane, DataplaneBuilder, Frame, MAX_FRAME};
pub use error::{Error, RulesetError};
pub use event::{
    Captured, Delivered, Dropped, Logged, QueueId, Queued, RulePlace, Sent, Traced, Unresolved,
};
pub use loader::Loader;
pub use network::{Device, MAX_DEVICE_INDEX, Network, NetworkBuilder};
pub use outcome::{Event, Fate, Outcome};
pub use penstock_dataplane::{
    Counters, DropReason, Engine, NewLink, QueueAnswer, QueueVerdict, Queued as QueueReply,
    Settings,
};
pub use penstock_lang::budget::Limits;
pub use penstock_lang::diag::{Message, Position, Severity};
pub use penstock_packet::gso::finish_begun as finish_checksum;
pub use penstock_ruleset::Family;
pub use ruleset::{Rules, Ruleset};
pub use session::{Answer, Session};
pub use sink::Sink;
