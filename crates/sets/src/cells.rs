// SPDX-License-Identifier: Apache-2.0

//! Open addressing on numbers, as lookups from outside search it.

/// What a search gives where the key is not in the set: no number of a place.
pub const NOWHERE: u64 = u64::MAX;

/// An odd constant with well spread bits (the golden ratio).
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Open addressing on keys of four bytes: a cell has the key above the place, or is [`NOWHERE`]. A
/// key is in the first cell from its home on, around the end, that has it, and in none if one that
/// is [`NOWHERE`] comes before.
#[derive(Clone, Copy, Debug)]
pub struct WordCells<'a> {
    /// A power of two of them, at least one of which is [`NOWHERE`].
    pub cells: &'a [u64],
    /// See [`WordCells::FACTOR`].
    pub seed: u64,
}

impl WordCells<'_> {
    /// A key's home, modulo the number of cells: key xor seed, multiplied by this to 128 bits, both
    /// halves xored.
    pub const FACTOR: u64 = SPREAD;
}
