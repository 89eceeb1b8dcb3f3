// SPDX-License-Identifier: Apache-2.0

//! Bits of numbers.

/// Lowest `bits` bits set.
pub fn bitmask(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

/// Highest `prefix` of `bits` bits set.
pub fn prefixmask(bits: u32, prefix: u32) -> u128 {
    bitmask(bits) & !bitmask(bits.saturating_sub(prefix))
}

/// Reverses the bytes of a number of so many bits.
pub fn swap_bytes(value: u128, len: u32) -> u128 {
    match len.div_ceil(8).min(16) {
        0 => value,
        bytes => value.swap_bytes() >> (128 - 8 * bytes),
    }
}
