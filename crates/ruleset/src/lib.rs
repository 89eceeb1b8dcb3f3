//! Tables, chains, rules, sets, objects, flowtables, and the transactions that change them.
//!
//! The model is the kernel's (`net/netfilter/nf_tables_api.c`): a [`Transaction`](transaction::Transaction)
//! takes [`Change`]s, each the equivalent of one netlink message, and commits them whole as the next immutable
//! [`Generation`], or not at all. This crate knows VM programs and sets; it knows no text: names of types,
//! comments and the like that only the language understands are opaque here ([`model::UserData`]).

pub mod change;
pub mod error;
pub mod link;
mod live;
pub mod model;
mod places;
mod references;
pub mod transaction;

pub use change::Change;
pub use error::{Blame, Errno, Error};
pub use model::{Chain, Family, Flowtable, Generation, Object, Rule, Set, Table};
pub use transaction::{Applied, Ruleset, Transaction};
