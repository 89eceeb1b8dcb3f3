// SPDX-License-Identifier: Apache-2.0

//! Tables, chains, rules, sets, objects, flowtables, and the transactions that change them.
//!
//! The model is the kernel's (`net/netfilter/nf_tables_api.c`): a [`Transaction`] takes
//! [`Change`]s, each the equivalent of one netlink message, and commits them whole as the next
//! immutable [`Generation`], or not at all. This crate knows VM programs and sets; it knows no
//! text: names of types, comments and the like that only the language understands are opaque here
//! ([`model::UserData`]).
//!
//! What packets change (counters, quotas, limits) is live state: a rule, element or object holds it
//! in an `Arc`, which all generations that have the rule share. Everything else of a generation
//! never changes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use penstock_ruleset::change::{Mode, NewChain};
//! use penstock_ruleset::{Blame, Change, Errno, Family, Ruleset};
//!
//! let mut ruleset = Ruleset::default();
//! let (family, name) = (Family::Inet, Arc::from("filter"));
//! let mut batch = ruleset.begin();
//! batch.apply(Change::AddTable { family, name, mode: Mode::Add, flags: 0, userdata: Arc::new([]) }).unwrap();
//! ruleset.commit(batch).unwrap();
//! assert_eq!(ruleset.generation().tables.len(), 1);
//!
//! let name = Arc::from("input");
//! let chain = NewChain { name, base: None, policy_accept: None, counter: None, anonymous: false, offload: false, program: None, userdata: Arc::new([]) };
//! let refused = ruleset.begin().apply(Change::AddChain { family, table: "nat".into(), mode: Mode::Add, chain });
//! assert_eq!(refused.map_err(|e| (e.errno, e.blame)), Err((Errno::Enoent, Blame::Table)));
//! ```

mod chain_program;
pub mod change;
pub mod content;
pub mod ct_helper;
mod element;
pub mod error;
pub mod globals;
pub mod link;
mod live;
pub mod model;
mod named;
pub mod needs;
pub mod received;
mod references;
pub mod reset;
pub mod saved;
mod set;
mod shared;
pub mod transaction;
pub mod tunnel;
mod userdata;

pub use chain_program::{ChainProgram, LoadedProgram};
pub use change::Change;
pub use error::{Blame, Errno, Error};
pub use model::{Chain, Family, Flowtable, Generation, Object, Rule, Set, Table};
pub use needs::Needs;
pub use transaction::{Applied, Ruleset, Transaction};
