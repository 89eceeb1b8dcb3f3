// SPDX-License-Identifier: Apache-2.0

//! Unmodified clients of the kernel's netfilter under `penstock exec`: `cargo test -p penstock-cli
//! --test clients`.
//!
//! Most tests run a shell script twice: under `penstock exec` with a new state file, and in a
//! network namespace of its own, where the kernel answers. Both have to print the same and to end
//! the same. Where a program, or the right to make a namespace, is missing, the test is skipped and
//! says so.

mod commands;
mod conntrack;
mod containers;
mod go;
mod ipset;
mod iptables;
mod nft;
mod objects;
mod others;
mod side;
