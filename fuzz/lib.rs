// SPDX-License-Identifier: Apache-2.0

//! The targets of `tests/fuzz`, for cargo-fuzz.

#[path = "../tests/fuzz/datagrams.rs"]
mod datagrams;
#[path = "../tests/fuzz/describe.rs"]
#[allow(dead_code)]
mod describe;
#[path = "../tests/filetests/format.rs"]
#[allow(dead_code)]
mod format;
#[path = "../tests/fuzz/generate.rs"]
mod generate;
#[path = "../tests/filetests/language.rs"]
mod language;
#[path = "../tests/fuzz/mutate.rs"]
mod mutate;
#[path = "../tests/fuzz/network.rs"]
mod network;
#[path = "../tests/filetests/packet.rs"]
#[allow(dead_code)]
mod packet;
#[path = "../tests/fuzz/seeds.rs"]
#[allow(dead_code)]
mod seeds;
#[path = "../tests/fuzz/send.rs"]
mod send;
#[path = "../tests/fuzz/targets/mod.rs"]
pub mod targets;
