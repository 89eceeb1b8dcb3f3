// SPDX-License-Identifier: Apache-2.0

//! The kernel's numbers.

pub mod nf_tables;
