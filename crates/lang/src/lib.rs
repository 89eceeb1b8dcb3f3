// SPDX-License-Identifier: Apache-2.0

//! The nft language: text to changes of a ruleset, and a ruleset back to text.
//!
//! ```text
//! text -> lex -> parse -> ast -> eval -> linearize -> ruleset::Change
//! ruleset::Generation -> delinearize -> ast -> print -> text
//! ```
//!
//! The stages are nft's own, since what is accepted, how it is compiled and how it is listed follow
//! from them: one [`ast::Expr`] type serves all of them; [`eval`](crate) annotates it with data
//! type, byte order and length. This crate knows no files (a [`source::Files`] gives it those that
//! `include` names), no kernel and no packet.

pub mod ast;
pub mod bits;
pub mod budget;
pub mod cache;
pub mod ct_timeout;
pub mod datatype;
pub mod delinearize;
pub mod describe;
pub mod diag;
pub mod eval;
pub mod exthdr;
pub mod hooks;
pub mod intervals;
pub mod json;
pub mod key_type;
pub mod keys;
pub mod lex;
pub mod lint;
pub mod lower;
pub mod names;
pub mod objects;
pub mod optimize;
pub mod parse;
mod plain;
pub mod print;
pub mod proto;
pub mod reread;
pub mod scope;
mod selector;
pub mod session;
pub mod source;
mod units;
pub mod userdata;
