// SPDX-License-Identifier: Apache-2.0

//! Runs programs, static ones included, with their sockets of `NETLINK_NETFILTER` answered by a
//! [`Service`] instead of the kernel.
//!
//! A filter of system calls (seccomp_unotify(2)) reports the socket's creation to a supervisor,
//! which gives the program one end of a pair of unix(7) sockets, at a number of a range that the
//! filter knows. Calls that send, receive, or ask what the socket is are reported, too, by that
//! number. `poll(2)`, `select(2)`, `epoll(7)` and buffer options work on the pair itself. Which
//! socket a number is, the inode says that the program has there, so children and `dup2(2)` within
//! the range need nothing of their own. A copy under another number still works, but its receives
//! say nothing about the sender, and answers may come after its sends return.
//!
//! | module | is about |
//! | --- | --- |
//! | `launch` | start of the command and of the supervisor, also for a container |
//! | `filter` | the filter |
//! | `supervisor` | the loop, and what holds it up |
//! | `calls` | what each call does |
//! | `sockets` | the supervisor's end of sockets |
//! | `task`, `notify` | memory and descriptors of a program; notifications |
//! | `rights` | who may administer a network namespace |
//!
//! ```no_run
//! use penstock_launcher::{Service, launch};
//!
//! /// Replaces this process by a command that the service answers.
//! fn run(service: impl Service + 'static) -> String {
//!     let command = ["nft", "list", "ruleset"].map(Into::into);
//!     let Err(why) = launch(&command, Box::new(service));
//!     format!("not started: {why}")
//! }
//! ```

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter of system calls is written for x86_64 and aarch64");

mod address;
mod calls;
mod context;
mod datagram;
mod filter;
mod launch;
mod notify;
mod rights;
mod service;
mod socket;
mod sockets;
mod supervisor;
mod sys;
mod task;

pub use launch::{Error, adopt, launch};
pub use service::{
    Answers, FoundIpSet, IpSetKey, Notification, Request, Sender, Service, SocketId,
};
