// SPDX-License-Identifier: Apache-2.0

//! The keyed hash of keys.

use crate::key::{self, IPV4, Key, Key4};

/// Hashes with a secret, so that senders cannot choose flows that collide.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    keys: [u64; 6],
}

/// Product of two words folded to one: the step of wyhash and its kin.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    (wide as u64) ^ (wide >> 64) as u64
}

/// The protocols, where they change what is folded last.
#[inline(always)]
const fn kind(l3: u8, l4: u8) -> u64 {
    ((l4 as u64) << 8 | l3 as u64) << 40
}

/// 2^64 divided by the golden ratio, odd.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher {
    pub fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        Self { keys: std::array::from_fn(|_| rng.u64(..) | 1) }
    }

    #[inline(always)]
    pub fn key(&self, key: &Key) -> u64 {
        let k = &self.keys;
        if key.l3 == IPV4 {
            return self.key4(&Key4::of(key));
        }
        let where_to = key::place(key.ports, key.arrival);
        let kind = kind(key.l3, key.l4);
        let a = fold(key.src[0] ^ k[0], key.dst[0] ^ k[1]);
        let b = fold(key.src[1] ^ k[3], key.dst[1] ^ k[4]);
        let h = fold(a ^ b.rotate_left(32) ^ k[2], where_to ^ k[5]);
        fold(h ^ kind, MIX)
    }

    /// [`Hasher::key`] of a key over IPv4.
    #[inline(always)]
    pub fn key4(&self, key: &Key4) -> u64 {
        let k = &self.keys;
        let h = fold(key.addresses ^ k[0], key.place ^ k[1]);
        fold(h ^ k[2] ^ kind(IPV4, key.l4), MIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_little_spread_over_all_bits() {
        let hasher = Hasher::new(4);
        let mut counts = [[0u32; 256]; 3];
        for n in 0..65_536u32 {
            let key = Key::v4([10, 0, 0, (n % 7) as u8], [10, 0, 0, 9], [n as u16, 80], 6);
            let h = hasher.key(&key);
            for (count, shift) in counts.iter_mut().zip([0, 24, 56]) {
                count[(h >> shift) as usize & 255] += 1;
            }
        }
        for part in counts {
            assert!(part.iter().all(|&n| (128..=384).contains(&n)), "{part:?}");
        }
    }
}
