// SPDX-License-Identifier: Apache-2.0

//! The socket: other processes change and list the ruleset, watch, and end the dataplane.
//!
//! It is a Unix socket in a directory that only root, or the user of the dataplane, enters; others
//! have one of their own, if they may look. Who connects is known by the kernel.
//!
//! | file | is |
//! | --- | --- |
//! | `address` | where the sockets are |
//! | [`protocol`] | what is said |
//! | [`client`] | the side of `penstock nft`, `show`, `down` |
//! | `peer` | who is at the other end |
//! | `admission` | who is served at a time |
//! | `budget` | what a call may cost |
//! | `capture` | `penstock capture` |
//! | `connection` | one of them |
//! | `nft` | calls of `nft`, which a child of the evaluator serves |
//! | `server` | who connects, what they may, and what they ask |
//! | `rules` | the ruleset: sessions on it, generations, roll-back |
//! | `watchers` | who is told of changes and traces |

mod address;
mod admission;
mod budget;
mod capture;
mod capture_call;
pub mod client;
mod connection;
mod nft;
mod peer;
pub mod protocol;
mod rules;
mod server;
mod watchers;

use std::time::Duration;

use penstock_lang::session::Options;

pub(crate) use address::{Listeners, RUNS_ALREADY, is_served, listen, remove as remove_sockets};
pub(crate) use admission::Rights;
pub use capture::Captured;
pub use capture_call::CaptureCall;
pub(crate) use connection::{Client, ClientFiles, PATIENCE};
pub use rules::Took;
pub(crate) use rules::{Alone, Committed, Process, Rules, Submission};
pub(crate) use server::{Server, Serving};
pub(crate) use watchers::{Broadcast, Heard};

/// What `penstock nft` asks for, as its command line says it.
#[derive(Clone, Debug)]
pub struct NftCall {
    /// How.
    pub options: Options,
    /// What.
    pub source: Source,
    /// The change is taken back unless it is confirmed in that time.
    pub confirm: Option<Duration>,
}

/// How what there is to show is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowAs {
    /// For people.
    Words,
    /// JSON, with what most packets and bytes are of.
    Json,
    /// OpenMetrics.
    Metrics,
}

impl ShowAs {
    /// In the order of their numbers in messages.
    const ALL: [ShowAs; 3] = [ShowAs::Words, ShowAs::Json, ShowAs::Metrics];
}

/// Where commands come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file of the client, `-` for its standard input.
    File(String),
    /// Given on the command line.
    Commands(String),
    /// Line by line.
    Interactive,
}
