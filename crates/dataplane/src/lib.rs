// SPDX-License-Identifier: Apache-2.0

//! The packet's journey through one network namespace that forwards IPv4 and IPv6: hooks in the
//! kernel's order, routing, neighbours, the host's own answers.
//!
//! ```text
//! frame -> untag -> ingress -> VLAN device -> prerouting -> route -> input -> host
//!                                                              \-> forward -> postrouting -> egress -> wire
//! host packet -> route -> output -> postrouting -> egress -> wire          raw frame -> egress -> wire
//!
//! bridge port -> ingress -> bridge prerouting -+-> forward -> postrouting -> egress of a port -> wire
//!                                              \-> input -> ingress of the bridge device -> VLAN device -> …
//! ```
//!
//! A [`Dataplane`] holds a network, a linked ruleset and the state that outlives bursts. What comes
//! out goes to a [`Sink`]; packets that end do so with a [`DropReason`] that is counted. Time is
//! the time of the packets.
//!
//! ```
//! use std::sync::Arc;
//! use penstock_net::{Link, Network};
//! use penstock_packet::{Meta, Packet};
//! use penstock_dataplane::{Dataplane, Frame, Settings, Sink};
//! use penstock_ruleset::{Ruleset, link::Linked};
//!
//! #[derive(Default)]
//! struct Count { sent: usize, delivered: usize }
//!
//! impl Sink for Count {
//!     fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
//!         println!("{} {} sends {} bytes", meta.time, device.name, frame.len());
//!         self.sent += 1;
//!     }
//!     fn deliver(&mut self, _device: &Link, _packet: &Packet) {
//!         self.delivered += 1;
//!     }
//! }
//!
//! let net = Network::from_batch("net.ip", "
//!     link add wan address 02:00:00:00:00:01 type veth
//!     link add lan address 02:00:00:00:00:02 type veth
//!     link set wan up
//!     link set lan up
//!     addr add 198.18.0.1/24 dev wan
//!     addr add 198.18.1.1/24 dev lan
//!     neigh add 198.18.1.7 lladdr 02:00:00:00:01:07 dev lan
//! ").unwrap();
//! let ruleset = Ruleset::default();
//! let mut path = Dataplane::new(Arc::new(net), Settings::default());
//! path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap()));
//!
//! let mut sink = Count::default();
//! let wan = path.network().link_by_name("wan").unwrap().index;
//! let frame = Frame { device: wan, bytes: &[0; 60], time: 1_700_000_000_000_000_000 };
//! path.receive([frame], &mut sink);
//! assert_eq!((sink.sent, path.counters().dropped()), (0, 1));
//! for (reason, count) in path.counters().all_drops() {
//!     println!("{count} dropped: {reason}");
//! }
//! ```
//!
//! - Devices are named by their index in the [`Network`](penstock_net::Network).
//! - Everything that follows from a frame (answers, copies, fragments, packets through `lo`) is
//!   done before the next.
//! - The host has no sockets: what is delivered is given to [`Sink::deliver`] and not answered.
//!
//! What differs from the kernel on purpose is in `docs/differences.md`.

mod addresses;
mod adjacencies;
mod bpf;
mod bridge;
mod chain_offload;
mod code;
mod connections;
mod connlimit;
mod course;
mod dataplane;
pub mod fib;
mod flow;
mod hook_result;
mod hooks;
mod interface;
mod ip_ids;
mod ipsec;
mod limit;
mod link_header;
mod neigh_queue;
mod passage;
mod path_mtus;
mod pending_frames;
mod place;
mod plain_frame;
mod queues;
mod reason;
mod reassembled;
mod reassembly;
mod route;
mod settings;
mod shared;
mod sink;
mod sockets;
mod spare;
mod stages;
mod state;
mod sync;
mod synproxy;
mod sysctl;
mod taps;
mod tc;
mod tunnels;
mod ways;
mod worker;

pub use bpf::{
    BpfAttachError, BpfAttachment, BpfDifference, BpfFault, BpfHook, BpfPrograms, BpfRules,
};
pub use chain_offload::{OffloadedChain, can_run_chains};
pub use code::Engine;
pub use dataplane::Dataplane;
pub use flow::{
    FlowCounts, FlowEnd, FlowEntry, FlowEvent, FlowObserver, FlowSummary, ListedFlow, NotOffloaded,
    RefusedFlow, can_offload,
};
pub use interface::interface;
pub use passage::Passage;
pub use penstock_conntrack::SysctlError;
pub use penstock_flowtable::Offloader;
pub use penstock_jit::{CompileError, Options as CompileOptions, clock_ticks};
pub use penstock_packet::Frame;
pub use penstock_program::env::{LocalSocket, SocketKind, SocketQuery};
pub use penstock_program::osf::{BadFingerprint, Fingerprints};
pub use queues::{NewLink, NotQueued, QueueAnswer, QueueVerdict};
pub use reason::{Counters, DropEvent, DropReason, Place};
pub use settings::{BridgeSettings, FlowSettings, Settings};
pub use shared::Shared;
pub use sink::{LogRecord, QueueRecord, Queued, Sink, TraceEvent, TraceRecord, TraceVerdict};
pub use sockets::{ListedSocket, SocketList, Sockets};
pub use stages::burst::is_of_burst;
pub use sysctl::LIVE_SYSCTLS;
pub use ways::RememberedWays;
