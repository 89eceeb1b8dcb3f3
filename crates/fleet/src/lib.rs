// SPDX-License-Identifier: Apache-2.0

//! Rulesets that are published for many nodes.
//!
//! A publication is a tree of blobs, each named by its SHA-256 digest. A [`Manifest`] names all
//! files and sets of a ruleset. A [`Head`] says which manifest is in force, and carries a signature;
//! it is the only thing in a store that changes. So a node needs to trust one public key, and
//! neither the store nor the way to it.
//!
//! | file | is |
//! | --- | --- |
//! | [`digest`] | names of blobs |
//! | [`key`] | keys that heads are signed with |
//! | [`head`] | what is in force, signed |
//! | [`canary`] | which nodes get another tree than the rest |
//! | [`manifest`] | files, sets and nodes of a ruleset |
//! | [`path`] | names of files inside a tree |
//! | [`pieces`] | files as blobs of a bounded size |
//! | [`elements`] | sets as data: their texts, chunks and deltas |
//! | [`listed`] | sets as they are in force |
//! | [`change`] | what leads from one manifest to the next |
//! | [`blobs`] | blobs of a store, kept on disk, each checked against its name |
//! | [`tree`] | the files of a manifest, read within limits |
//! | [`draft`] | what a publication is made of, before it is in a store |
//! | [`publish`] | putting a head into a store |
//! | [`prune`] | removing what no head names any more |
//! | [`report`] | what a node says of itself |
//! | [`store`] | where all this is kept: a directory, a web server, etcd |
//! | [`limits`] | the most that is read |
//!
//! This crate knows neither the dataplane nor the language of rules.

pub mod blobs;
pub mod canary;
pub mod change;
pub mod digest;
pub mod draft;
pub mod elements;
pub mod head;
pub mod key;
pub mod limits;
pub mod listed;
pub mod manifest;
pub mod path;
pub mod pieces;
pub mod prune;
pub mod publish;
pub mod report;
pub mod store;
pub mod tree;

pub use digest::Digest;
pub use head::{Canary, Head, SignedHead};
pub use manifest::Manifest;
pub use report::Report;
pub use store::{Store, open};
