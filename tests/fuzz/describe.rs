// SPDX-License-Identifier: Apache-2.0

//! Packets as `penstock trace` makes them from what a match says: the files of the program itself.

#[path = "../../crates/cli/src/trace/fields.rs"]
pub mod fields;
#[path = "../../crates/cli/src/trace/frame.rs"]
pub mod frame;
