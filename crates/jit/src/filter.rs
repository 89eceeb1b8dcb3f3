// SPDX-License-Identifier: Apache-2.0

//! Telling that a word is none of many constants, before it is searched for among them.
//!
//! Of the rules of a long list most packets meet none. A search has to be guessed right at each of
//! its steps; here one bit is looked at, which is set for the hash of each constant. Where it is
//! not set the word is none of them; where it is, it may be one, which the search tells.

use crate::asm::{Asm, Block, Value, Width};
use crate::tables::Tables;

/// Fewer constants are searched for without it.
pub(crate) const WORTHWHILE: usize = 64;
/// Bits for each constant, at least: so one word in eight is searched for in vain at worst.
const BITS: usize = 8;
/// An odd constant with well spread bits (the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bit for each hash.
struct Filter {
    bits: Box<[u64]>,
    /// Bits of a product that are no part of the hash.
    shift: u8,
}

impl Filter {
    fn new(constants: impl ExactSizeIterator<Item = u32>) -> Filter {
        let size = (constants.len() * BITS).next_power_of_two().max(64);
        let shift = 64 - size.ilog2() as u8;
        let mut filter = Filter { bits: vec![0; size / 64].into_boxed_slice(), shift };
        for constant in constants {
            let hash = hash(constant, shift);
            if let Some(word) = filter.bits.get_mut(hash / 64) {
                *word |= 1 << (hash % 64);
            }
        }
        filter
    }
}

/// The hash of a word, of so many bits less than 64.
pub(crate) fn hash(word: u32, shift: u8) -> usize {
    let product = u64::from(word).wrapping_mul(SPREAD);
    ((product ^ product >> 32).wrapping_mul(SPREAD) >> shift) as usize
}

/// [`hash`] of a word that is known when the code runs.
pub(crate) fn hash_in_code(asm: &mut Asm<'_>, word: Value, shift: u8) -> Value {
    let wide = asm.widen(word, Width::Long);
    let spread = asm.long(SPREAD);
    let product = asm.multiply(wide, spread);
    let upper = asm.shift_right(product, 32);
    let product = asm.xor(product, upper);
    let product = asm.multiply(product, spread);
    asm.shift_right(product, shift)
}

/// Leaves if a word is none of the constants; but for some that are none, too.
pub(crate) fn leave_if_none(
    asm: &mut Asm<'_>,
    tables: &mut Tables,
    word: Value,
    constants: impl ExactSizeIterator<Item = u32>,
    none: Block,
) {
    let Filter { bits, shift } = Filter::new(constants);
    let table = asm.long(tables.keep(bits));
    let hash = hash_in_code(asm, word, shift);
    // Bytes in memory are those of words from the lowest on.
    let byte = asm.shift_right(hash, 3);
    let address = asm.add(table, byte);
    let byte = asm.load(Width::Byte, address, 0);
    let byte = asm.widen(byte, Width::Long);
    let bit = asm.and_number(hash, 7);
    let bit = asm.shift_right_by(byte, bit);
    let bit = asm.and_number(bit, 1);
    asm.leave_unless(bit, none);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_constants_and_few_patterns_pass_the_filter() {
        for count in [64, 100, 1000, 10_000] {
            let constants: Vec<u32> =
                (0..count).map(|n: u32| (10 << 24 | n).swap_bytes()).collect();
            let filter = Filter::new(constants.iter().copied());
            let passes = |word: u32| {
                let hash = hash(word, filter.shift);
                filter.bits[hash / 64] >> (hash % 64) & 1 != 0
            };
            assert!(constants.iter().all(|c| passes(*c)));
            let others =
                (0..10_000u32).filter(|n| passes((198 << 24 | 18 << 16 | n).swap_bytes())).count();
            assert!(others < 1600, "{others} of {count}");
        }
    }
}
