//! Sets and maps that choose their own data structure.
//!
//! A [`Set`] holds elements: a key (or an interval of keys, per field for concatenations) and a value of the
//! caller's. This crate knows keys as bytes in register layout; it knows no rule, no verdict and no text.
//! What the kernel's `nft_set_*.c` decide about overlaps, duplicates, sizes and timeouts is decided here.

mod description;
mod element;
mod set;

pub use description::{Description, Policy};
pub use element::Element;
pub use set::{InsertError, Set};
