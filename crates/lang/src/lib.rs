// SPDX-License-Identifier: Apache-2.0

//! What text of the nft language means for a ruleset: text to changes of a ruleset, and a ruleset
//! back to text. What text is, the crate `penstock-syntax` knows.
//!
//! ```text
//! text -> syntax::lex -> parse -> ast -> eval -> lower -> ruleset::Change
//! ruleset::Generation -> delinearize -> syntax::ast -> listing, syntax::print -> text
//! ```
//!
//! What each statement and each selector means in these stages is in `semantics`.
//!
//! The stages are nft's own, since what is accepted, how it is compiled and how it is listed follow
//! from them: one [`Expr`](penstock_syntax::ast::Expr) type serves all of them; [`eval`] annotates
//! it with data type, byte order and length. This crate knows no files (a [`source::Files`] gives
//! it those that `include` names), no kernel and no packet.

pub mod cache;
pub mod delinearize;
pub mod eval;
pub mod intervals;
pub mod key_type;
pub mod lint;
pub mod listing;
pub mod lower;
mod nft_typeof;
pub mod optimize;
mod plain;
pub mod reread;
mod selector;
mod semantics;
pub mod session;
mod tlv;
pub mod userdata;

/// What users of a [`session`] need of the language.
pub use penstock_syntax::{
    budget, datatype, diag, hooks, json, names, print, priority, release, scope, source,
};
