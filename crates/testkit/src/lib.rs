// SPDX-License-Identifier: Apache-2.0

//! What tests and benchmarks share: frames ([`build`]), rule lists and traffic ([`classbench`]),
//! and seeds of random numbers ([`seed()`]).
//!
//! No other product crate than `penstock_bench` depends on it. The others have it as a
//! dev-dependency, also those that it depends on. Unit tests of `penstock_wire` therefore cannot
//! mix its types with those of frames built here: to the compiler these are two crates.

pub mod build;
pub mod classbench;
mod seed;

pub use seed::{Chance, number, rounds, seed};
