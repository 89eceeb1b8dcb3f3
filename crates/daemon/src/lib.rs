// SPDX-License-Identifier: Apache-2.0

//! The live dataplane of a network namespace.
//!
//! ```text
//!   wire -- DEV.port --[ io ]--\                    /--[ TAP ]-- DEV -- the host's stack
//!                               +---- worker ------+
//!   wire -- DEV.port --[ io ]--/    (dataplane)     \--[ TAP ]-- DEV -- the host's stack
//!                                    ^   ^    ^
//!               networks -- follow --/   |    \-- requests, answers -- control -- clients
//!               (netlink)             rules
//! ```
//!
//! - [`takeover`]: a device becomes a port, and a TAP of the host takes its place; and back.
//! - [`rundir`]: the directory of lock, sockets and record.
//! - [`turn`]: one dataplane after the other.
//! - [`record`]: what is taken, written down.
//! - [`guardian`]: a process that gives the devices back when this one dies; [`heartbeat`]: how it
//!   knows that this one lives.
//! - [`on_death`]: what becomes of the ports then.
//! - [`probe`]: what captures see.
//! - [`queues`]: programs that rules give packets to.
//! - [`metrics`]: what is counted, over HTTP.
//! - [`ports`]: how frames come and go.
//! - [`host_side`]: which of the host's devices a frame on a TAP is of.
//! - [`console`]: words on standard output and standard error.
//! - [`memory`]: what the C library keeps of what was freed.
//! - [`rights`], [`seccomp`]: what the process may do once it runs.
//! - [`worker`]: a thread that does packets. Others leave it requests; between bursts it answers
//!   them.
//! - [`frames`]: what it has received, on its way into the path.
//! - [`crew`], [`ring`], [`datagrams`]: several workers: whose a frame is, and how it comes to that
//!   one.
//! - [`workers`]: all of them, for those who ask.
//! - [`offload`]: flows and chains that devices do themselves.
//! - [`evaluator`]: processes without rights, which read rule texts.
//! - [`follow`]: the thread that keeps the network in step with the kernel's.
//! - [`state`], [`keep`]: what outlives the process on request.
//! - [`control`]: the socket: the ruleset with its generations, what is shown, the end.
//!
//! What it prints is told by [`Printer`], so that this crate knows no formats.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod before;
mod bell;
mod clock;
#[doc(hidden)]
pub mod console;
pub mod control;
mod crew;
mod daemon;
mod datagrams;
mod dhcp;
mod evaluator;
mod event;
mod follow;
mod frames;
mod guardian;
mod handed;
mod heartbeat;
mod host_side;
mod inbox;
mod keep;
mod lines;
mod listing;
mod memory;
mod metrics;
mod offload;
mod on_death;
mod other_end;
mod ports;
pub mod probe;
mod queues;
mod record;
mod recovery;
mod rights;
mod ring;
mod rundir;
mod seccomp;
mod signals;
mod sink;
mod stages;
mod status;
mod sync;
mod systemd;
mod takeover;
mod talkers;
mod turn;
mod worker;
mod workers;

pub use clock::{now, wall_time};
pub use daemon::{Config, KeepState, PortConfig, Printer, TracePrinter, View, run};
pub use metrics::requested_path;
pub use offload::{Offloaded, adopt_flows};
pub use on_death::OnDeath;
pub use ports::Driver;
pub use queues::{QueueConfig, queue_answer, queue_packet};
pub use recovery::{Recovered, finish, open_all, recover};
pub use seccomp::Violation;
pub use sink::{PortTraffic, Traffic};
pub use status::{PortStatus, Status, WorkerStatus};
pub use talkers::Talker;

/// A line of the log, on standard error: systemd takes it from there.
pub(crate) fn log(line: impl std::fmt::Display) {
    errln!("penstock: {line}");
}
