// SPDX-License-Identifier: Apache-2.0

//! A published ruleset as a node has it, for who publishes it and for who follows.
//!
//! | file | is |
//! | --- | --- |
//! | [`evaluate`] | what it comes to on a node |
//! | [`tests`] | its tests |
//! | [`claims`] | its claims |

pub mod claims;
pub mod evaluate;
pub mod tests;
