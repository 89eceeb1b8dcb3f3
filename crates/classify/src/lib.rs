// SPDX-License-Identifier: Apache-2.0

//! Finding the first of many rules that can match.
//!
//! A rule is a conjunction of intervals: of some *dimensions* (numbers of up to 16 bytes: an
//! address, a port, a mark), each lies between two bounds. [`Classifier::next`] returns the first
//! rule from a given number on of which all intervals hold. This crate knows numbers; it knows no
//! packet, no field and no verdict.
//!
//! ```text
//! value of each dimension -> rank -> for each tree: cut, cut, leaf -> first rule
//! ```
//!
//! - [`Ranks`] turn a value into the number of bounds that lie at or below it. In ranks, rules lie
//!   evenly however values cluster. Where all bounds of a dimension are single values, a hash finds
//!   the rank.
//! - Rules are sorted into a few trees by a dimension in which they are narrow, so that cutting it
//!   copies few of them: what CutSplit does with addresses, for any dimension.
//! - A node cuts its part of one dimension into equal parts of ranks; a leaf is a short list, four
//!   rules in a row compared at once.
//! - Several packets are searched for side by side ([`Classifier::next_batch`]). What a search
//!   costs is the mispredictions first and then the cache lines: so nothing branches on a packet
//!   that need not, leaves of a tree compare the same dimensions as far as that takes no room, and
//!   what four rules of them ask stands in one or two lines.
//!
//! ```
//! use penstock_classify::{Builder, Interval};
//!
//! let mut rules = Builder::new(&[4, 2]); // an address, a port
//! rules.add(0, &[Interval { dimension: 0, from: 10, to: 19 }, Interval { dimension: 1, from: 80, to: 80 }]);
//! rules.add(1, &[Interval { dimension: 1, from: 0, to: 1023 }]);
//! let classifier = rules.build().unwrap();
//! let at = classifier.locate(&[15, 80]);
//! assert_eq!(classifier.next(&at, 0), Some(0));
//! assert_eq!(classifier.next(&at, 1), Some(1));
//! assert_eq!(classifier.next(&at, 2), None);
//! ```

mod build;
mod classifier;
mod dimension;
mod lanes;
mod layout;
mod points;
mod ranks;

pub use build::{Builder, Interval};
pub use classifier::{Classifier, Location, MAX_DIMENSIONS, Size};
pub use layout::{Coordinate, Layout, LayoutBox, LayoutCell, LayoutTree};
pub use ranks::{Key, Ranks, Root};

/// Has the cache line of an element loaded, if there is one.
#[inline]
pub fn prefetch<T>(slice: &[T], index: usize) {
    if let Some(element) = slice.get(index) {
        prefetch_at(element);
    }
}

/// Has the cache line at an address loaded, if there is memory.
#[inline(always)]
fn prefetch_at<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing and faults never, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
