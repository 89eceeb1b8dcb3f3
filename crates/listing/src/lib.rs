// SPDX-License-Identifier: Apache-2.0

//! Sets and elements as nft prints and takes them, taken apart by their text: for programs that keep
//! the elements of sets, and ask nft for what is there.
//!
//! | file | is |
//! | --- | --- |
//! | [`element`] | one element: its key, its timeout, and what of it lasts |
//! | [`set`] | the listing of a set |
//!
//! This crate does not know what keys and data mean.

pub mod element;
pub mod set;

pub use set::Listing;
