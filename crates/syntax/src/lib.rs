// SPDX-License-Identifier: Apache-2.0

//! What text of the nft language is: its tree, and the tree from text and JSON and back.
//!
//! ```text
//! text -> lex -> parse -> ast -> print -> text
//! JSON -> json -> ast -> json -> JSON
//! ```
//!
//! Tables tell what the language knows by name: [`datatype`], headers ([`proto`], [`exthdr`]),
//! [`keys`] of the other selectors, [`hooks`], [`priority`], [`objects`]. How each statement is
//! written is in [`stmt`], each selector in `selector`. What the text means for a ruleset, the
//! crate `penstock-lang` knows.

pub mod ast;
pub mod bits;
pub mod budget;
pub mod ct_timeout;
pub mod datatype;
pub mod describe;
pub mod diag;
pub mod exthdr;
pub mod hooks;
pub mod json;
pub mod keys;
pub mod lex;
pub mod names;
pub mod objects;
pub mod parse;
pub mod print;
pub mod priority;
pub mod proto;
pub mod release;
pub mod scope;
mod selector;
pub mod source;
pub mod stmt;
pub mod units;

/// Whether the language has the word for itself, so that nothing can be called by it.
pub fn is_reserved(word: &str) -> bool {
    parse::words::is_reserved(word)
}
