// SPDX-License-Identifier: Apache-2.0

//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and CRC32c (RFC 9260
//! appendix A).
//!
//! Checksum values are in host order here, as all integers of this crate. The results for the two
//! representations of zero are those of the kernel's `csum_fold()`, `csum_replace2()`,
//! `csum_replace4()`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What UDP writes for a computed checksum of zero, since zero says "none" (`CSUM_MANGLED_0`).
pub const MANGLED_ZERO: u16 = 0xffff;

/// A running one's complement sum.
///
/// Pieces are added in any order; each piece must start at an even offset of the summed data (only
/// the last one may have odd length).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    #[inline]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes as big-endian 16-bit words, an odd last byte padded with zero.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        /// From so many bytes on vectors pay.
        const MANY: usize = 128;
        // The sum of little-endian words is that of big-endian ones, swapped (RFC 1071, 2.B).
        let sum = if bytes.len() < MANY { sum_of_few(bytes) } else { sum_of_many(bytes) };
        Self(self.0 + u64::from(fold(sum).swap_bytes()))
    }

    /// Adds one 16-bit word.
    #[inline]
    #[must_use]
    pub const fn u16(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds one 32-bit word, as two of 16 bits.
    #[inline]
    #[must_use]
    pub const fn u32(self, word: u32) -> Self {
        Self(self.0 + word as u64)
    }

    /// The sum folded to 16 bits, not complemented. 0 only if everything added was zero.
    #[inline]
    pub const fn folded(self) -> u16 {
        fold(self.0)
    }

    /// The checksum: complement of the folded sum (`csum_fold()`).
    #[inline]
    pub const fn finish(self) -> u16 {
        !fold(self.0)
    }

    /// The checksum as UDP writes it: never zero.
    #[inline]
    pub const fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => MANGLED_ZERO,
            c => c,
        }
    }

    /// Whether data that includes its checksum is right.
    #[inline]
    pub const fn is_valid(self) -> bool {
        fold(self.0) == 0xffff
    }
}

/// The sum of both halves with its carry, of the whole and then of its half.
#[inline]
const fn fold(sum: u64) -> u16 {
    let half = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
}

/// One's complement sum of two words.
#[inline(always)]
const fn add64(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// The sum of little-endian words.
#[inline(always)]
fn sum_of_few(bytes: &[u8]) -> u64 {
    const WORD: usize = size_of::<u64>();
    let (words, rest) = bytes.as_chunks::<WORD>();
    let sum = words.iter().fold(0, |sum, word| add64(sum, u64::from_le_bytes(*word)));
    match (rest.len(), bytes.last_chunk::<WORD>()) {
        (0, _) => sum,
        // The last bytes of a word that begins before them.
        (len, Some(word)) => add64(sum, u64::from_le_bytes(*word) >> (8 * (WORD - len))),
        (_, None) => rest.iter().rev().fold(sum, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// [`sum_of_few`] of more.
#[inline(never)]
fn sum_of_many(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    // It takes 2^32 of them without overflow.
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    add64(sum, sum_of_few(rest))
}

/// Whether an IPv4 header without options has the right checksum.
#[inline(always)]
pub fn is_right_in_header(header: &[u8; 20]) -> bool {
    // The sum that is right is the same in both byte orders.
    fold(sum_of_few(header)) == 0xffff
}

/// Checksum of one piece of data.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).finish()
}

/// Sum over the pseudo header of IPv4 (RFC 793, RFC 768). `len` is the length of the transport
/// header and data.
#[inline]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u32) -> Sum {
    Sum::new().u32(src.to_bits()).u32(dst.to_bits()).u16(u16::from(protocol)).u32(len)
}

/// Sum over the pseudo header of IPv6 (RFC 8200, 8.1). `len` is the length of the upper-layer
/// header and data.
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Sum {
    Sum::new().bytes(&src.octets()).bytes(&dst.octets()).u16(u16::from(protocol)).u32(len)
}

/// New checksum after a 16-bit word changed (`csum_replace2()`, RFC 1624 equation 3).
#[inline]
pub const fn replace2(check: u16, old: u16, new: u16) -> u16 {
    !add16(add16(!check, !old), new)
}

/// New checksum after a 32-bit word changed (`csum_replace4()`).
#[inline]
pub const fn replace4(check: u16, old: u32, new: u32) -> u16 {
    // The kernel complements the 16-bit value after extending it to 32 bits, so the sum is never
    // zero and 0xffff is never the result.
    !fold(!(check as u32) as u64 + !old as u64 + new as u64)
}

/// New checksum after 16 bytes changed (`inet_proto_csum_replace16()`).
#[inline]
pub fn replace16(check: u16, old: [u8; 16], new: [u8; 16]) -> u16 {
    replace(check, Sum::new().bytes(&old), Sum::new().bytes(&new))
}

/// New checksum after the data summed by `old` was replaced by that summed by `new`:
/// `nft_csum_replace()` without its treatment of zero. Both must start at an even offset of the
/// checksummed data.
#[inline]
pub const fn replace(check: u16, old: Sum, new: Sum) -> u16 {
    replace4(check, old.folded() as u32, new.folded() as u32)
}

/// [`replace`] for a UDP checksum: none (zero) stays none, and a result of zero is written as
/// 0xffff.
#[inline]
pub const fn replace_udp(check: u16, old: Sum, new: Sum) -> u16 {
    if check == 0 {
        return 0;
    }
    match replace(check, old, new) {
        0 => MANGLED_ZERO,
        c => c,
    }
}

/// How data changes that checksums are over, for their update (RFC 1624, equation 3). Words are in
/// native order, and each begins at an even offset of that data. By default nothing changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Difference(u64);

impl Difference {
    /// And one word becomes another.
    #[inline(always)]
    #[must_use]
    pub const fn and(self, old: u64, new: u64) -> Self {
        Self(add64(self.0, add64(!old, new)))
    }

    /// A checksum afterwards, as it stands in the data: that of [`replace`].
    #[inline(always)]
    pub const fn update(self, check: [u8; 2]) -> [u8; 2] {
        let check = u16::from_ne_bytes(check);
        (!fold(add64(self.0, !(check as u64)))).to_ne_bytes()
    }

    /// A UDP checksum afterwards: that of [`replace_udp`].
    #[inline(always)]
    pub const fn update_udp(self, check: [u8; 2]) -> [u8; 2] {
        match (check, self.update(check)) {
            ([0, 0], _) => [0, 0],
            (_, [0, 0]) => MANGLED_ZERO.to_ne_bytes(),
            (_, updated) => updated,
        }
    }
}

/// IPv4 header checksum after the TTL was decremented by one (`ip_decrease_ttl()`).
#[inline]
pub const fn after_ttl_decrement(check: u16) -> u16 {
    let sum = check as u32 + 0x0100;
    (sum + (sum >= 0xffff) as u32) as u16
}

#[inline]
const fn add16(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

const CRC32C_TABLES: [[u32; 256]; 8] = crc32c_tables();

const fn crc32c_tables() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 != 0 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 };
            bit += 1;
        }
        t[0][i] = c;
        i += 1;
    }
    let mut i = 0;
    while i < 256 {
        let mut k = 1;
        while k < 8 {
            let c = t[k - 1][i];
            t[k][i] = (c >> 8) ^ t[0][(c & 0xff) as usize];
            k += 1;
        }
        i += 1;
    }
    t
}

/// A running CRC32c (Castagnoli).
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(u32);

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32c {
    /// The CRC of nothing.
    pub const fn new() -> Self {
        Self(!0)
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let t = &CRC32C_TABLES;
        let mut crc = self.0;
        let (words, rest) = bytes.as_chunks::<8>();
        for w in words {
            let lo = u32::from_le_bytes([w[0], w[1], w[2], w[3]]) ^ crc;
            crc = t[7][(lo & 0xff) as usize]
                ^ t[6][(lo >> 8 & 0xff) as usize]
                ^ t[5][(lo >> 16 & 0xff) as usize]
                ^ t[4][(lo >> 24) as usize]
                ^ t[3][usize::from(w[4])]
                ^ t[2][usize::from(w[5])]
                ^ t[1][usize::from(w[6])]
                ^ t[0][usize::from(w[7])];
        }
        for &b in rest {
            crc = (crc >> 8) ^ t[0][usize::from(crc as u8 ^ b)];
        }
        Self(crc)
    }

    /// The CRC. SCTP writes it into its header in little-endian order.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            let w = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            sum += u32::from(w);
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn seeded() -> fastrand::Rng {
        let seed = penstock_testkit::seed();
        fastrand::Rng::with_seed(seed)
    }

    #[test]
    fn the_fast_sum_equals_the_slow_one() {
        let mut rng = seeded();
        for len in 0..200 {
            let data: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            assert_eq!(of(&data), slow(&data), "{data:?}");
            let ones = vec![0xff; len];
            assert_eq!(of(&ones), slow(&ones));
        }
    }

    #[test]
    fn sums_fold_to_zero_only_where_all_was_zero() {
        let slow = |sum: u64| if sum == 0 { 0 } else { ((sum - 1) % 0xffff + 1) as u16 };
        let mut rng = seeded();
        for _ in 0..100_000 {
            let sum = match rng.u32(..3) {
                0 => rng.u64(..),
                1 => u64::MAX << rng.u32(..64) >> rng.u32(..64),
                _ => u64::from(rng.u32(..)).wrapping_mul(0xffff).wrapping_add(rng.u64(..3)),
            };
            assert_eq!(fold(sum), slow(sum), "{sum:#x}");
        }
        assert_eq!(fold(0), 0);
    }

    #[test]
    fn a_header_is_right_with_its_own_checksum_only() {
        let mut rng = seeded();
        for n in 0..20_000u32 {
            let mut header: [u8; 20] = std::array::from_fn(|_| match n % 3 {
                0 => rng.u8(..),
                1 => 0xff,
                _ => [0, 0xff][rng.usize(..2)],
            });
            header[10..12].fill(0);
            let right = of(&header);
            let check = if rng.bool() { right } else { rng.u16(..) };
            header[10..12].copy_from_slice(&check.to_be_bytes());
            assert_eq!(is_right_in_header(&header), Sum::new().bytes(&header).is_valid());
            assert_eq!(is_right_in_header(&header), slow(&header) == 0, "{header:?}");
        }
        assert!(!is_right_in_header(&[0; 20]));
    }

    #[test]
    fn a_difference_updates_as_its_sums_do() {
        let mut rng = seeded();
        for n in 0..20_000u32 {
            let mut some = || match n % 3 {
                0 => rng.u64(..),
                1 => [0, u64::MAX][rng.usize(..2)],
                _ => u64::MAX << rng.u32(..64),
            };
            let (old, new) = ([some(), some()], [some(), some()]);
            let check = some() as u16;
            let sum =
                |words: [u64; 2]| Sum::new().bytes(words.map(u64::to_ne_bytes).as_flattened());
            let difference = Difference::default().and(old[0], new[0]).and(old[1], new[1]);
            let bytes = check.to_be_bytes();
            let updated = u16::from_be_bytes(difference.update(bytes));
            assert_eq!(updated, replace(check, sum(old), sum(new)), "{check:#x} {old:x?} {new:x?}");
            let updated = u16::from_be_bytes(difference.update_udp(bytes));
            assert_eq!(updated, replace_udp(check, sum(old), sum(new)));
        }
    }

    #[test]
    fn rfc_1071_example() {
        assert_eq!(Sum::new().bytes(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]).folded(), 0xddf2);
    }

    #[test]
    fn incremental_updates_equal_recomputation() {
        let mut rng = seeded();
        for _ in 0..2000 {
            let mut data: Vec<u8> = (0..40)
                .map(|_| if rng.bool() { rng.u8(..) } else { [0, 0xff][rng.usize(..2)] })
                .collect();
            data[0] |= 1; // data that sums to zero has two right checksums
            let old = of(&data);
            let n = [2, 4, 16][rng.usize(..3)];
            let at = 2 + 2 * rng.usize(..(38 - n) / 2);
            let before = data[at..at + n].to_vec();
            let after: Vec<u8> = (0..n).map(|_| rng.u8(..)).collect();
            data[at..at + n].copy_from_slice(&after);
            let right = of(&data);
            let word = |b: &[u8]| b.iter().fold(0u32, |a, &b| a << 8 | u32::from(b));
            let by_sum = replace(old, Sum::new().bytes(&before), Sum::new().bytes(&after));
            assert_eq!(by_sum, right);
            match n {
                2 => assert_eq!(replace2(old, word(&before) as u16, word(&after) as u16), right),
                4 => assert_eq!(replace4(old, word(&before), word(&after)), right),
                _ => {
                    let a16 = |b: &[u8]| <[u8; 16]>::try_from(b).unwrap();
                    assert_eq!(replace16(old, a16(&before), a16(&after)), right);
                }
            }
        }
    }

    #[test]
    fn udp_keeps_no_checksum_and_never_writes_zero() {
        let s = |w| Sum::new().u16(w);
        assert_eq!(replace_udp(0, s(1), s(2)), 0);
        let check = !0x0005u16;
        assert_eq!(replace(check, s(5), s(0xffff)), 0);
        assert_eq!(replace_udp(check, s(5), s(0xffff)), 0xffff);
    }

    #[test]
    fn a_ttl_step_equals_the_general_update() {
        for check in 0..=0xffffu16 {
            let general = replace2(check, 0x4011, 0x3f11);
            let step = after_ttl_decrement(check);
            assert!(
                step == general || (step, general) == (0, 0xffff) || (step, general) == (0xffff, 0),
                "{check:x}"
            );
        }
        assert_eq!(after_ttl_decrement(0xfeff), 0, "as the kernel: never 0xffff");
    }

    #[test]
    fn crc32c_of_known_strings() {
        for (data, crc) in [
            (&b"123456789"[..], 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (b"", 0),
        ] {
            assert_eq!(Crc32c::new().bytes(data).finish(), crc);
        }
        let (a, b) = b"123456789".split_at(3);
        assert_eq!(Crc32c::new().bytes(a).bytes(b).finish(), 0xe306_9283);
    }
}
