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
    #[inline(always)]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Native words are summed and the folded result is swapped: the sum is independent of byte
        // order (RFC 1071, 2.B). A u64 takes 2^32 words of 32 bits without overflow.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum: u64 = words.iter().map(|w| u64::from(u32::from_ne_bytes(*w))).sum();
        let (halves, last) = rest.as_chunks::<2>();
        for h in halves {
            sum += u64::from(u16::from_ne_bytes(*h));
        }
        if let [b] = last {
            sum += u64::from(u16::from_ne_bytes([*b, 0]));
        }
        let folded = u16::from_be(fold(sum));
        Self(self.0 + u64::from(folded))
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

#[inline]
const fn fold(mut sum: u64) -> u16 {
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
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
