// SPDX-License-Identifier: Apache-2.0

//! BPF programs for the kernel, generated without a compiler: the part of the packet path that XDP
//! can run.
//!
//! ```text
//! device -> XDP: flows ([`flow`]) -> chains ([`rules`]) -> AF_XDP socket or kernel
//!                  \-> another device
//! ```
//!
//! | module | it is |
//! | --- | --- |
//! | [`flow`] | established flows: maps, program |
//! | [`rules`] | chains of devices and netfilter hooks, from their linked programs |
//! | [`dispatch`] | gates, which exchange the programs of all places at once |
//!
//! Instructions, maps and loading are those of `penstock_bpf`.
//!
//! It knows no text of rulesets and no sockets. What rules mean is said by the interpreter
//! (`penstock_program::interp`); tests run random programs there and in the kernel
//! (`BPF_PROG_TEST_RUN`) and compare verdicts and counters.
//!
//! Loading takes `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`, without which the verifier lets
//! nobody compute addresses in packets. Programs need Linux 5.18, at tcx and where they are very
//! long 6.6.
//!
//! ```no_run
//! use penstock_bpf::{Mode, Next};
//! use penstock_ebpf::rules::{Device, Entry, Job, Place, compile};
//! use penstock_program::image::ChainIndex;
//! # fn device() -> Device { unimplemented!() }
//! # let image = penstock_program::Image::default();
//!
//! // A linked generation, the base chains of the device's ingress hook in order, the device.
//! let entries = [Entry::Netdev(ChainIndex(0))];
//! let device = device();
//! let place = Place::Xdp(&device);
//! let job = Job { image: &image, entries: &entries, place, next: &Next::Pass, shared: None, routes: None };
//! match compile(job) {
//!     Ok(compiled) => {
//!         let (program, mut counters) = compiled.load("ingress_wan")?;
//!         let _link = program.attach(3, Mode::Any)?;
//!         // From time to time, and before a rule's counter is read:
//!         counters.collect()?;
//!     }
//!     Err(refused) => eprintln!("{refused}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::indexing_slicing)]

pub mod dispatch;
pub mod flow;
pub mod rules;
