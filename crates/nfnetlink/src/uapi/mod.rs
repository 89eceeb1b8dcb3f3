// SPDX-License-Identifier: Apache-2.0

//! The kernel's numbers.

#[allow(dead_code, reason = "the enumerations are whole")]
pub mod nf_tables;
