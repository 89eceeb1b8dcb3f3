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
//! From the top down; a module depends only on those below it:
//!
//! | module | is |
//! | --- | --- |
//! | `daemon` | the beginning and the end: all the others are put together |
//! | `start` | devices become ports, and threads begin |
//! | `server` | the server on the control socket, and metrics over HTTP |
//! | `evaluator` | processes without rights, which read rule texts |
//! | `packet_listeners` | programs with netfilter sockets that packets of queues and logs go to |
//! | `connections` | connections of all workers, as ctnetlink reads and changes them |
//! | `failover` | the other firewall of a pair |
//! | `kernel_sync` | the thread that keeps the network in step with the kernel's |
//! | `guardian` | the process that gives the devices back when this one dies |
//! | `recovery` | what an earlier dataplane left is given back |
//! | `kernel_rules` | rules of the kernel's own that packets meet as well |
//! | `preflight` | what can be found wrong before a device is touched |
//! | `keep` | the persistent state |
//! | `queue_server` | programs that rules give packets to connect |
//! | `rules` | the ruleset, its generations, roll-back |
//! | `worker` | a thread that does packets |
//! | `on_disk` | who waits until the state file has the ruleset |
//! | `requests` | what threads ask of each other |
//! | `port_share` | what a worker has of a port |
//! | `offload` | flows and chains that devices do themselves |
//! | `attach` | a ruleset in the kernel, without ports |
//! | [`probe`], `queues`, `loggers`, `packet_line`, `broadcast`, `events`, `peer_watcher` | what leaves a worker for captures, programs, watchers, the other firewall |
//! | `devices` | devices are taken, opened, and given back |
//! | `namespace_lock` | one dataplane after the other in a network namespace |
//! | [`control`] | the control socket: addresses, messages, clients, rights |
//! | [`bpf`] | programs of other people: places, objects, elements of maps |
//! | [`proofs`] | what is proved of a ruleset before it is in force |
//! | `config` | what is asked for |
//! | `rundir` | the directory of lock, sockets and record |
//! | `rights`, `seccomp` | what the process may do once it runs |
//! | `channel` | messages between processes of this program |
//! | `pins` | what outlives the process in a file system of type bpf |
//! | `clock`, `signals`, [`console`], `lines`, `memory`, `systemd` | of the process |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod attach;
pub mod bpf;
mod broadcast;
mod channel;
mod clock;
mod config;
mod connections;
#[doc(hidden)]
pub mod console;
pub mod control;
mod daemon;
mod devices;
mod evaluator;
mod event;
mod events;
mod failover;
mod guardian;
mod host_sysctls;
mod keep;
mod kernel_rules;
mod kernel_sync;
mod lines;
mod loggers;
mod memory;
mod namespace_lock;
mod offload;
mod on_disk;
mod packet_line;
mod packet_listeners;
mod peer_watcher;
mod pins;
mod port_share;
mod preflight;
pub mod probe;
mod processor_time;
pub mod proofs;
mod queue_programs;
mod queue_server;
mod queues;
mod recovery;
mod requests;
mod rights;
mod rules;
mod rundir;
mod seccomp;
mod server;
mod services;
mod signals;
mod start;
mod sync;
mod systemd;
mod worker;

pub use clock::{now, wall_time};
pub use config::{
    AttachConfig, BatchLimits, Config, Driver, Ingress, KeepState, OnDeath, PortConfig,
    PortPattern, PortWishes, QueueConfig, Reread, RuleLog, Shared,
};
pub use daemon::run;
pub use offload::adopt_flows;
pub use queues::{queue_answer, queue_packet};
pub use recovery::{Recovered, finish, open_all, recover};
pub use seccomp::Violation;
pub use server::metrics::requested_path;

/// A line of the log, on standard error: systemd reads it there.
pub(crate) fn log(line: impl std::fmt::Display) {
    errln!("penstock: {line}");
}
