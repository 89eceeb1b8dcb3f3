// SPDX-License-Identifier: Apache-2.0

//! Which backend a set gets: the kernel's choice (`nft_select_set_ops` in
//! `net/netfilter/nf_tables_api.c`), which tells what such a set can do, and the structure that
//! holds it here, which is better where it can.

use std::fmt;

use crate::{Description, Policy};

/// A kind of backend, in the order in which the kernel tries its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Hash of known size on keys of four bytes (`hash_fast`).
    HashFast,
    /// Hash of known size on keys of any other length (`hash`).
    Hash,
    /// Hash that grows, takes timeouts and changes from the packet path (`rhash`).
    ResizableHash,
    /// One bit per possible key (`bitmap`).
    Bitmap,
    /// Intervals of one field (`rbtree`).
    Intervals,
    /// Intervals of several fields (`pipapo`).
    ConcatenatedRanges,
}

/// How a lookup's cost grows with the number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LookupClass {
    /// O(1).
    Constant,
    /// O(log n).
    Logarithmic,
    /// O(n).
    Linear,
}

/// How memory grows with the number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceClass {
    /// O(1).
    Constant,
    /// O(n).
    Linear,
}

impl fmt::Display for LookupClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LookupClass::Constant => "O(1)",
            LookupClass::Logarithmic => "O(log n)",
            LookupClass::Linear => "O(n)",
        })
    }
}

impl fmt::Display for SpaceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpaceClass::Constant => "O(1)",
            SpaceClass::Linear => "O(n)",
        })
    }
}

/// The structure that holds a set here. All of them take maps, timeouts and statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// One bit per possible key, ranks to the elements: keys of one or two bytes.
    Bitmap,
    /// Open addressing on keys of four bytes.
    WordHash,
    /// Open addressing on keys of any other length.
    Hash,
    /// Sorted intervals, bisected.
    IntervalArray,
    /// Sorted intervals, searched by parts of equal size; up to 16 compared at once; for keys of 16
    /// bits also by a bit per key.
    IntervalIndex,
    /// A few concatenations of ranges, compared one after the other.
    RangeList,
    /// Concatenations of ranges by their exact fields, bisected by another one.
    RangeGroups,
    /// Concatenations of ranges by tables over the classes of their fields.
    RangeTables,
    /// Concatenations of ranges in trees that cut one field after the other.
    RangeTrees,
    /// A hash that packets change.
    DynamicHash,
}

/// Elements from which on a bitmap is no larger than a hash of short keys.
const BITMAP_PAYS: usize = 512;

impl Structure {
    /// The structure for keys that are no intervals, for so many elements.
    pub(crate) fn of_exact(description: &Description, len: usize) -> Structure {
        let small = description.policy == Policy::Memory && len < BITMAP_PAYS;
        match description.key_len {
            1 | 2 if !small => Structure::Bitmap,
            4 => Structure::WordHash,
            _ => Structure::Hash,
        }
    }

    /// What listings call it.
    pub fn name(self) -> &'static str {
        match self {
            Structure::Bitmap => "bitmap",
            Structure::WordHash => "hash_word",
            Structure::Hash => "hash",
            Structure::IntervalArray => "interval_array",
            Structure::IntervalIndex => "interval_index",
            Structure::RangeList => "range_list",
            Structure::RangeGroups => "range_groups",
            Structure::RangeTables => "range_tables",
            Structure::RangeTrees => "range_trees",
            Structure::DynamicHash => "dynamic_hash",
        }
    }

    /// Cost class of a lookup.
    pub fn lookup_class(self) -> LookupClass {
        match self {
            Structure::Bitmap | Structure::WordHash | Structure::Hash | Structure::DynamicHash => {
                LookupClass::Constant
            }
            Structure::IntervalArray
            | Structure::IntervalIndex
            | Structure::RangeGroups
            | Structure::RangeTables
            | Structure::RangeTrees => LookupClass::Logarithmic,
            Structure::RangeList => LookupClass::Linear,
        }
    }

    /// Cost class of its memory, elements aside.
    pub fn space_class(self) -> SpaceClass {
        match self {
            Structure::Bitmap => SpaceClass::Constant,
            Structure::WordHash
            | Structure::Hash
            | Structure::IntervalArray
            | Structure::IntervalIndex
            | Structure::RangeList
            | Structure::RangeGroups
            | Structure::RangeTables
            | Structure::RangeTrees
            | Structure::DynamicHash => SpaceClass::Linear,
        }
    }
}

/// What a backend would cost: `struct nft_set_estimate`.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    backend: Backend,
    /// Bytes; `u64::MAX` if unknown.
    size: u64,
}

/// Sizes of the kernel's structures on 64-bit machines, in bytes; only their order matters for the
/// choice.
const HASH_HEADER: u64 = 16;
const HASH_ELEMENT: u64 = 32;
const TREE_HEADER: u64 = 48;
const TREE_ELEMENT: u64 = 56;
const BITMAP_HEADER: u64 = 18;

impl Backend {
    const ALL: [Backend; 6] = [
        Backend::HashFast,
        Backend::Hash,
        Backend::ResizableHash,
        Backend::Bitmap,
        Backend::Intervals,
        Backend::ConcatenatedRanges,
    ];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::HashFast => "hash_fast",
            Backend::Hash => "hash",
            Backend::ResizableHash => "rhash",
            Backend::Bitmap => "bitmap",
            Backend::Intervals => "rbtree",
            Backend::ConcatenatedRanges => "pipapo",
        }
    }

    /// Cost class of a lookup.
    pub fn lookup_class(self) -> LookupClass {
        match self {
            Backend::HashFast | Backend::Hash | Backend::ResizableHash | Backend::Bitmap => {
                LookupClass::Constant
            }
            Backend::Intervals | Backend::ConcatenatedRanges => LookupClass::Logarithmic,
        }
    }

    /// Cost class of its memory.
    pub fn space_class(self) -> SpaceClass {
        match self {
            Backend::Bitmap => SpaceClass::Constant,
            Backend::HashFast
            | Backend::Hash
            | Backend::ResizableHash
            | Backend::Intervals
            | Backend::ConcatenatedRanges => SpaceClass::Linear,
        }
    }

    /// The backend the kernel would choose; `None` where it answers `EOPNOTSUPP`.
    pub fn select(description: &Description) -> Option<Backend> {
        let mut best: Option<Estimate> = None;
        for candidate in Backend::ALL.into_iter().filter_map(|b| b.estimate(description)) {
            let better = match &best {
                None => true,
                Some(best) => candidate.beats(best, description),
            };
            if better {
                best = Some(candidate);
            }
        }
        best.map(|e| e.backend)
    }

    /// Whether this backend can hold such a set at all, whatever is the better choice.
    pub fn suits(self, description: &Description) -> bool {
        self.estimate(description).is_some()
    }

    fn estimate(self, d: &Description) -> Option<Estimate> {
        let features = match self {
            Backend::HashFast | Backend::Hash => !d.interval && !d.timeout && !d.dynamic,
            Backend::ResizableHash => !d.interval,
            Backend::Bitmap => !d.interval && !d.map && !d.timeout && !d.dynamic,
            Backend::Intervals | Backend::ConcatenatedRanges => !d.dynamic,
        };
        if !features {
            return None;
        }
        let count = d.size.map(u64::from).filter(|&n| n > 0);
        let size = match self {
            Backend::HashFast | Backend::Hash => {
                if (self == Backend::HashFast) != (d.key_len == 4) {
                    return None;
                }
                let count = count?;
                HASH_HEADER + (count * 4 / 3).next_power_of_two() * 8 + count * HASH_ELEMENT
            }
            Backend::ResizableHash => u64::MAX,
            Backend::Bitmap => match d.key_len {
                1 | 2 => BITMAP_HEADER + (1u64 << (8 * d.key_len)) * 2 / 8,
                _ => return None,
            },
            Backend::Intervals => {
                if d.fields.len() > 1 {
                    return None;
                }
                count.map_or(u64::MAX, |n| TREE_HEADER + n * TREE_ELEMENT)
            }
            Backend::ConcatenatedRanges => {
                if !d.interval || d.fields.len() < 2 {
                    return None;
                }
                u64::MAX
            }
        };
        Some(Estimate { backend: self, size })
    }
}

impl Estimate {
    fn beats(&self, other: &Estimate, description: &Description) -> bool {
        let (lookup, space) = (self.backend.lookup_class(), self.backend.space_class());
        let (other_lookup, other_space) =
            (other.backend.lookup_class(), other.backend.space_class());
        match (description.policy, description.size.filter(|&n| n > 0)) {
            (Policy::Performance, _) => (lookup, space) < (other_lookup, other_space),
            (Policy::Memory, None) => (space, lookup) < (other_space, other_lookup),
            (Policy::Memory, Some(_)) => self.size < other.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_is_the_one_the_kernel_selects() {
        let d = Description::default;
        let cases = [
            (Description { key_len: 2, size: Some(3), ..d() }, Some(Backend::Bitmap)),
            (Description { key_len: 1, ..d() }, Some(Backend::Bitmap)),
            (Description { key_len: 2, map: true, size: Some(3), ..d() }, Some(Backend::Hash)),
            (Description { key_len: 2, map: true, ..d() }, Some(Backend::ResizableHash)),
            (Description { key_len: 4, size: Some(3), ..d() }, Some(Backend::HashFast)),
            (Description { key_len: 16, size: Some(3), ..d() }, Some(Backend::Hash)),
            (Description { key_len: 4, ..d() }, Some(Backend::ResizableHash)),
            (
                Description { key_len: 4, size: Some(9), timeout: true, ..d() },
                Some(Backend::ResizableHash),
            ),
            (
                Description { key_len: 2, size: Some(9), dynamic: true, ..d() },
                Some(Backend::ResizableHash),
            ),
            (Description { key_len: 4, interval: true, ..d() }, Some(Backend::Intervals)),
            (
                Description { key_len: 2, interval: true, map: true, timeout: true, ..d() },
                Some(Backend::Intervals),
            ),
            (Description { key_len: 8, fields: vec![4, 2], ..d() }, Some(Backend::ResizableHash)),
            (
                Description { key_len: 8, fields: vec![4, 2], size: Some(2), ..d() },
                Some(Backend::Hash),
            ),
            (
                Description { key_len: 8, fields: vec![4, 2], interval: true, ..d() },
                Some(Backend::ConcatenatedRanges),
            ),
            (Description { key_len: 4, interval: true, dynamic: true, ..d() }, None),
            (
                Description { key_len: 2, size: Some(4), policy: Policy::Memory, ..d() },
                Some(Backend::Hash),
            ),
            (
                Description { key_len: 2, size: Some(4000), policy: Policy::Memory, ..d() },
                Some(Backend::Bitmap),
            ),
            (
                Description { key_len: 4, size: Some(4), policy: Policy::Memory, ..d() },
                Some(Backend::HashFast),
            ),
        ];
        for (description, expected) in cases {
            assert_eq!(Backend::select(&description), expected, "{description:?}");
        }
    }
}
