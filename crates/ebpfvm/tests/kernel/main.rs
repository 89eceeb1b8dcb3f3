// SPDX-License-Identifier: Apache-2.0

//! The same instructions here and in the kernel of this machine, by `BPF_PROG_TEST_RUN`: the same
//! results, packets and maps. Nothing is attached anywhere. Without the right to load programs the
//! tests are skipped, with a message.

mod compile;
mod features;
mod frames;
mod generate;
mod instruction;
mod loader;
mod netfilter;
mod objects;
mod random;
mod sys;
mod world;
