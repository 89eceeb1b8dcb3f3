// SPDX-License-Identifier: Apache-2.0

//! A Bloom filter (`kernel/bpf/bloom_filter.c`).

use super::Errno;
use super::hash::Hasher;

/// Bits of a value, as many as the kernel takes where an object does not say.
const HASHES: u64 = 5;

/// A bit for each hash of each value that was put.
#[derive(Debug)]
pub(super) struct Bloom {
    bits: Vec<u64>,
    hasher: Hasher,
}

/// How many bits there are, a power of two: enough that a value that was not put is rarely taken
/// for one that was.
fn bits(entries: u32) -> u64 {
    (u64::from(entries) * HASHES * 7 / 5).clamp(64, 1 << 32).next_power_of_two()
}

impl Bloom {
    pub(super) fn new(entries: u32) -> Bloom {
        Bloom { bits: vec![0; (bits(entries) / 64) as usize], hasher: Hasher::new() }
    }

    /// Bytes of the memory of one.
    pub(super) fn bytes(entries: u32) -> u64 {
        bits(entries) / 8
    }

    /// The bits of a value.
    fn places(&self, value: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let all = self.bits.len() as u64 * 64;
        let hash = self.hasher.of(value);
        // Two hashes make as many as are needed (Kirsch and Mitzenmacher, 2006).
        let step = hash.rotate_left(32) | 1;
        (0..HASHES)
            .map(move |n| (hash.wrapping_add(step.wrapping_mul(n)) >> 7 & (all - 1)) as usize)
    }

    pub(super) fn push(&mut self, value: &[u8], flags: u64) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno::INVAL);
        }
        for place in self.places(value) {
            if let Some(word) = self.bits.get_mut(place / 64) {
                *word |= 1 << (place % 64);
            }
        }
        Ok(())
    }

    pub(super) fn may_have(&self, value: &[u8]) -> bool {
        let is_set =
            |place: usize| self.bits.get(place / 64).is_some_and(|w| w >> (place % 64) & 1 != 0);
        self.places(value).all(is_set)
    }
}
