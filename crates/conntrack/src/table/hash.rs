// SPDX-License-Identifier: Apache-2.0

//! The keyed hash of tuples.

use crate::Tuple;
use crate::tuple::PortTuple4;

/// Hashes tuples with a secret, so that senders cannot choose flows that collide.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    keys: [u64; 7],
    /// What addresses of IPv4 give for the bytes that they do not have.
    none: u64,
}

/// Product of two words folded to one: the step of wyhash and its kin. Without the keys, which are
/// mixed in before, its zeros cannot be aimed at.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    (wide as u64) ^ (wide >> 64) as u64
}

/// An odd number with its bits spread: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// An address in two words.
#[inline(always)]
fn words(bytes: &[u8; 16]) -> [u64; 2] {
    let all = u128::from_le_bytes(*bytes);
    [all as u64, (all >> 64) as u64]
}

impl Hasher {
    pub fn new(rng: &mut fastrand::Rng) -> Self {
        let keys: [u64; 7] = std::array::from_fn(|_| rng.u64(..) | 1);
        Self { keys, none: fold(keys[2], keys[3]) }
    }

    /// Hash of a direction of a flow.
    #[inline(always)]
    pub fn tuple(&self, t: &Tuple) -> u64 {
        let k = &self.keys;
        let ([s0, s1], [d0, d1]) = (words(&t.src), words(&t.dst));
        let a = fold(s0 ^ k[0], d0 ^ k[1]);
        let b = fold(s1 ^ k[2], d1 ^ k[3]);
        self.finish(a, b, t.rest())
    }

    /// [`Hasher::tuple`] of a tuple with ports of IPv4.
    #[inline(always)]
    pub fn ports4(&self, t: &PortTuple4) -> u64 {
        let [src, dst, rest] = t.words();
        let k = &self.keys;
        self.finish(fold(src ^ k[0], dst ^ k[1]), self.none, rest)
    }

    #[inline(always)]
    fn finish(&self, a: u64, b: u64, rest: u64) -> u64 {
        let k = &self.keys;
        // Tuples of one host differ in few bits of one factor, so a product alone would run through
        // a lattice.
        let h = fold(a ^ b.rotate_left(32) ^ k[4], rest ^ k[5]);
        fold(h ^ k[6], MIX)
    }

    /// Hash of the source of a direction: address, identifier, protocol, family (`hash_by_src()`).
    pub fn source(&self, t: &Tuple) -> u64 {
        self.tuple(&Tuple { dst: [0; 16], dst_id: 0, ..*t })
    }

    /// Hash of a word, for identifiers.
    pub fn word(&self, a: u64, b: u64) -> u64 {
        fold(a ^ self.keys[0], b ^ self.keys[5])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_that_differ_in_little_spread_over_all_bits() {
        let hasher = Hasher::new(&mut fastrand::Rng::with_seed(4));
        let mut low = [0u32; 256];
        let mut high = [0u32; 256];
        for n in 0..65_536u32 {
            let mut t =
                Tuple { src_id: n as u16, dst_id: 80, l3: 2, protocol: 6, ..Tuple::default() };
            t.src[..4].copy_from_slice(&(0x0a00_0000 + n % 7).to_be_bytes());
            let h = hasher.tuple(&t);
            low[h as usize & 255] += 1;
            high[(h >> 56) as usize] += 1;
        }
        for part in [low, high] {
            assert!(part.iter().all(|&n| (128..=384).contains(&n)), "{part:?}");
        }
    }

    #[test]
    fn small_tuples_have_the_hash_of_others() {
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        let hasher = Hasher::new(&mut rng);
        for _ in 0..100 {
            let small = PortTuple4::of(&std::array::from_fn(|_| rng.u8(..)));
            assert_eq!(hasher.ports4(&small), hasher.tuple(&small.into()), "{small:?}");
        }
    }

    #[test]
    fn every_field_of_a_tuple_changes_its_hash() {
        let hasher = Hasher::new(&mut fastrand::Rng::with_seed(5));
        let zero = Tuple::default();
        let mut all = vec![zero];
        for n in 0..16 {
            let mut t = zero;
            t.src[n] = 1;
            all.push(t);
            let mut t = zero;
            t.dst[n] = 1;
            all.push(t);
        }
        all.push(Tuple { src_id: 1, ..zero });
        all.push(Tuple { dst_id: 1, ..zero });
        all.push(Tuple { zone: 1, ..zero });
        all.push(Tuple { l3: 1, ..zero });
        all.push(Tuple { protocol: 1, ..zero });
        let hashes: std::collections::HashSet<u64> = all.iter().map(|t| hasher.tuple(t)).collect();
        assert_eq!(hashes.len(), all.len());
    }
}
