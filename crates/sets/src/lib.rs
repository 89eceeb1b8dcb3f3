// SPDX-License-Identifier: Apache-2.0

//! Sets and maps that choose their own data structure.
//!
//! A [`Set`] holds elements: a key (or an interval of keys, per field for concatenations) and a
//! value of the caller's. This crate knows keys as bytes in register layout; it knows no rule, no
//! verdict and no text. What the kernel's `nft_set_*.c` decide about overlaps, duplicates, sizes
//! and timeouts is decided here.
//!
//! An *index* finds the number of an element from its key; the elements lie in slots next to it.
//! Both are shared between clones and copied on the first change, so that a transaction works on a
//! clone, and a copy with other values ([`Set::map_values`]) has the same index.
//!
//! | structure | it is |
//! | --- | --- |
//! | [`Structure::Bitmap`] | one bit per possible key, ranks to the slots |
//! | [`Structure::WordHash`], [`Structure::Hash`] | open addressing on whole keys |
//! | [`Structure::IntervalArray`], [`Structure::IntervalIndex`] | sorted arrays of first and last keys |
//! | [`Structure::RangeList`], [`Structure::RangeGroups`], [`Structure::RangeTables`], [`Structure::RangeTrees`] | concatenations of ranges |
//!
//! [`Backend`] is what the kernel would take: it decides what such a set can do. The structure is
//! our choice, and another one where the set has grown.
//!
//! [`Dynamic`] is the exception: a table that packets change, shared by workers and generations as
//! it is.
//!
//! ```
//! use penstock_sets::{Description, Element, Set};
//!
//! let description = Description { key_len: 4, interval: true, ..Description::default() };
//! let mut nets = Set::new(description).unwrap();
//! let net = Element {
//!     key: [198, 18, 0, 0].into(),
//!     key_end: Some([198, 19, 255, 255].into()),
//!     value: "bench",
//!     expires_at: None,
//! };
//! nets.insert(net, 0).unwrap();
//! nets.commit();
//! assert_eq!(nets.lookup(&[198, 18, 7, 7], 0).map(|e| *e.value), Some("bench"));
//! assert!(nets.lookup(&[198, 20, 0, 1], 0).is_none());
//! ```

mod bitmap;
mod cells;
mod description;
mod dynamic;
mod element;
mod error;
mod hash;
mod intervals;
mod list;
mod load;
mod ranges;
mod rfc;
mod search;
mod select;
mod set;
mod slots;
mod sync;

pub use cells::{NOWHERE, WordCells};
pub use description::{Description, Policy};
pub use dynamic::{Dynamic, DynamicElement, NEVER};
pub use element::{Element, ElementRef};
pub use error::InsertError;
pub use list::ElementList;
pub use penstock_classify::Root;
pub use search::{ClassField, ClassTables, FieldClasses, Search, Searcher, Spans};
pub use select::{Backend, LookupClass, SpaceClass, Structure};
pub use set::Set;
pub use sync::zeros;
