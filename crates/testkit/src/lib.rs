// SPDX-License-Identifier: Apache-2.0

//! What tests and benchmarks share: frames ([`build`]), rule lists and traffic ([`classbench`]),
//! seeds of random numbers ([`seed()`]), messages of netlink, SIP and PPTP ([`netfilter`], [`sip`],
//! [`pptp`]), and with the feature `program` what engines run on: an environment and images
//! ([`program`]).
//!
//! No other product crate than `penstock_bench` depends on it. The others have it as a
//! dev-dependency, also those that it depends on itself. Unit tests of those (`penstock_wire`,
//! `penstock_packet`, `penstock_program`) cannot mix their types with types of functions here: to
//! the compiler these are two crates. Their integration tests can.
//!
//! ```
//! use penstock_testkit::build::{Ipv4, Tcp, payload};
//!
//! // Lengths, protocols and checksums are filled in.
//! let packet = Ipv4::new("198.18.0.1", "198.18.0.2") / Tcp::new(1000, 80).syn() / payload(b"hi");
//! assert_eq!(packet.build().len(), 20 + 20 + 2);
//! ```

pub mod build;
pub mod classbench;
pub mod netfilter;
pub mod pptp;
#[cfg(feature = "program")]
pub mod program;
mod seed;
pub mod sip;

pub use seed::{Chance, number, rounds, seed};
