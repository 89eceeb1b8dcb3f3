// SPDX-License-Identifier: Apache-2.0

//! What answers the programs that `penstock exec` runs: a [`Service`](penstock_launcher::Service)
//! of the launcher over a ruleset that is kept in a state file, or over the dataplane of the network
//! namespace.
//!
//! Of a state file: a batch holds the file's lock from reading to replacing, as `penstock nft
//! --state` does, and its answers come after the file is written. Of connections that change in a
//! row the first one is written before it is answered, the others together a little later.
//! Everything else is answered from the newest file, without its lock.
//!
//! | module | is |
//! | --- | --- |
//! | `stored` | the state file as what requests read and change |
//! | `connections` | its connections as a table |
//! | `service` | one client for each socket |
//! | `ip_sets` | sets of ipset that are looked for with getsockopt(2) |
//! | `live` | requests for the dataplane |
//! | `watch` | hears of changes that other processes make |
//!
//! ```no_run
//! use penstock_exec::{StateService, Stored};
//!
//! // `nft list ruleset` of the file, in place of this process.
//! let stored = Stored::open("ruleset.state".as_ref())?;
//! let command = ["nft", "list", "ruleset"].map(Into::into);
//! let Err(why) = penstock_launcher::launch(&command, Box::new(StateService::new(stored)));
//! eprintln!("not started: {why}");
//! # Ok::<(), penstock_exec::CannotOpen>(())
//! ```

mod connections;
mod ip_sets;
mod live;
mod service;
mod stored;
mod watch;

pub use live::LiveService;
pub use service::StateService;
pub use stored::{CannotOpen, Stored};
