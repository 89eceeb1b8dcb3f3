// SPDX-License-Identifier: Apache-2.0

//! The hash of keys: products of words with secret numbers, so that who sends packets cannot make
//! many keys fall into one chain. It is faster than the hash of the standard library, which every
//! lookup of a program would wait for.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A hash with secrets of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hasher {
    secrets: [u64; 3],
}

/// The halves of a product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher {
    pub(super) fn new() -> Hasher {
        let random = RandomState::new();
        Hasher { secrets: [1_u8, 2, 3].map(|number| random.hash_one(number) | 1) }
    }

    /// The hash of a key.
    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> u64 {
        let [first, second, third] = self.secrets;
        if let Ok(word) = <[u8; 4]>::try_from(key) {
            return fold(u64::from(u32::from_ne_bytes(word)) ^ first, second);
        }
        if let Ok(word) = <[u8; 8]>::try_from(key) {
            return fold(u64::from_ne_bytes(word) ^ first, second);
        }
        let (words, rest) = key.as_chunks::<8>();
        let mut hash = third ^ key.len() as u64;
        for word in words {
            hash = fold(u64::from_ne_bytes(*word) ^ first ^ hash, second);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            if let Some(place) = last.get_mut(..rest.len()) {
                place.copy_from_slice(rest);
            }
            hash = fold(u64::from_ne_bytes(last) ^ first ^ hash, second);
        }
        fold(hash, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_spread_over_buckets() {
        for len in [1, 2, 4, 6, 8, 12, 16, 20] {
            let hasher = Hasher::new();
            let mut buckets = [0_u32; 64];
            let keys = if len == 1 { 256 } else { 6400 };
            for number in 0_u64..keys {
                let mut key = vec![0; len];
                let bytes = number.to_be_bytes();
                for (place, byte) in key.iter_mut().rev().zip(bytes.iter().rev()) {
                    *place = *byte;
                }
                buckets[hasher.of(&key) as usize % 64] += 1;
            }
            let fair = keys as u32 / 64;
            let most = buckets.iter().max().unwrap();
            assert!(*most < 4 * fair + 16, "{most} of {fair} keys of {len} bytes in one bucket");
        }
    }
}
