// SPDX-License-Identifier: Apache-2.0

//! The control socket: what client and server say to each other, and who may say what.
//!
//! It is a Unix socket in a directory that only root, or the user of the dataplane, enters; others
//! have one of their own, if they may look. Who connects is known by the kernel.
//!
//! | file | is |
//! | --- | --- |
//! | `address` | where the sockets are |
//! | [`protocol`] | the messages |
//! | [`bpf_call`] | what `penstock bpf` asks for |
//! | `capture_call`, `captured` | what `penstock capture` asks for, and frames |
//! | [`netfilter`] | messages about netfilter sockets |
//! | [`exec`] | the side of `penstock exec` |
//! | [`client`] | the side of `penstock nft`, `show`, `down` |
//! | `connection` | the server's side of a connection |
//! | [`not_now`] | refusals that say nothing of what is refused |
//! | `peer` | who is at the other end |
//! | `admission` | who is served at a time |
//! | `budget` | what a call may cost |

mod address;
mod admission;
pub mod bpf_call;
mod budget;
mod capture_call;
mod captured;
pub mod client;
mod connection;
pub mod exec;
pub mod netfilter;
pub mod not_now;
mod peer;
pub mod protocol;
mod read_ahead;
mod table_call;

use std::time::Duration;

use penstock_lang::session::Options;

pub(crate) use address::{
    Listeners, RUNS_ALREADY, is_served, listen, listen_for_readers, remove as remove_sockets,
    remove_public as remove_readers_socket,
};
pub(crate) use admission::{Admission, Rights, SHORT};
pub(crate) use budget::{Budget, Exceeded, Pace};
pub use capture_call::CaptureCall;
pub use captured::Captured;
pub(crate) use connection::{Client, ClientFiles, PATIENCE, Telling};
pub(crate) use peer::Peer;
pub(crate) use table_call::kinds;
pub use table_call::{ConnectionTable, TableAction, TableCall};

/// What `penstock nft` asks for, as its command line says it.
#[derive(Clone, Debug)]
pub struct NftCall {
    /// How.
    pub options: Options,
    /// What.
    pub source: Source,
    /// The change is taken back unless it is confirmed in that time.
    pub confirm: Option<Duration>,
    /// A file of the client with what the ruleset is to keep, besides what it keeps anyway.
    pub claims: Option<String>,
    /// What the change does to packets is printed.
    pub diff: bool,
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
