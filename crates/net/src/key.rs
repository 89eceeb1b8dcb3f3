// SPDX-License-Identifier: Apache-2.0

//! Addresses as keys of a forwarding table.

use std::fmt::Debug;
use std::hash::Hash;

/// An address as a number, in host order.
pub(crate) trait Key: Copy + Ord + Hash + Debug + Default {
    /// Bytes of an address.
    const BYTES: u8;

    /// The low bits of a number.
    fn from_number(number: u128) -> Self;

    fn number(self) -> u128;

    /// The byte number `at`, counted from the front.
    fn byte(self, at: u8) -> u8;

    /// The address with zeros after its first `len` bits.
    fn masked(self, len: u8) -> Self;

    /// How many bytes from the front are the same.
    fn shared_bytes(self, other: Self) -> u8;

    /// Whether the first `bytes` are the same, fewer than all.
    fn shares(self, other: Self, bytes: u8) -> bool;
}

macro_rules! key {
    ($number:ty) => {
        impl Key for $number {
            const BYTES: u8 = size_of::<$number>() as u8;

            fn from_number(number: u128) -> Self {
                number as $number
            }

            fn number(self) -> u128 {
                self.into()
            }

            #[inline]
            fn byte(self, at: u8) -> u8 {
                // Of the half that it is in: shifts of more than a word are slow.
                let up = 8 * u32::from(Self::BYTES - 1 - at);
                let half = if up < 64 { self as u64 } else { (u128::from(self) >> 64) as u64 };
                (half >> (up % 64)) as u8
            }

            fn masked(self, len: u8) -> Self {
                self & !<$number>::MAX.checked_shr(len.into()).unwrap_or(0)
            }

            fn shared_bytes(self, other: Self) -> u8 {
                ((self ^ other).leading_zeros() / 8) as u8
            }

            #[inline]
            fn shares(self, other: Self, bytes: u8) -> bool {
                // Two shifts: one by all bits would be none.
                let rest = 8 * u32::from(Self::BYTES - bytes) - 1;
                (self ^ other) >> rest >> 1 == 0
            }
        }
    };
}

key!(u32);
key!(u128);
