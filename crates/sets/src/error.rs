// SPDX-License-Identifier: Apache-2.0

//! Why a set refuses an element.

/// Why an element was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The same key (or the very same interval) is there.
    Exists,
    /// It overlaps another interval.
    Overlap,
    /// The set has as many elements as its size allows.
    Full,
    /// The key has not the length of the set's keys, its end comes before its start, or it is an
    /// interval and the set has none.
    Invalid,
}
