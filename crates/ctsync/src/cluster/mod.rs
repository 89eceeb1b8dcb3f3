// SPDX-License-Identifier: Apache-2.0

//! Messages between the nodes of a cluster, by way of a log that all of them read (a stream of NATS
//! JetStream): records as [`crate::secure`] has them, in messages that say who sends them.
//!
//! | file | is |
//! | --- | --- |
//! | `message` | messages: their heads, and their authentication by a shared key |
//! | `order` | which messages of a sender are missing, or come twice |
//! | `shard` | which part of the log a record goes to |

mod message;
mod order;
mod shard;

pub use message::{Head, LONGEST_PLAIN, Refused, Sealing};
pub use order::{Order, Place};
pub use shard::shard_of;
