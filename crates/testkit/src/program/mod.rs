// SPDX-License-Identifier: Apache-2.0

//! For tests of engines: an environment of programs, programs from their debug text, and images
//! made by hand.

#[cfg(feature = "jit")]
mod host;
mod mock_env;
pub mod parse;
mod table;

pub use mock_env::{Event, MockEnv};
pub use table::Table;
