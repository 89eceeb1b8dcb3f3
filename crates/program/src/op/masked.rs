// SPDX-License-Identifier: Apache-2.0

//! Addresses under masks, which operations compare with.

/// An address and a mask, those of IPv4 in the first 4 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked {
    /// The address.
    pub address: [u8; 16],
    /// Its bits that count.
    pub mask: [u8; 16],
}
