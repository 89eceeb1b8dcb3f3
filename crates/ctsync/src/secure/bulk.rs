// SPDX-License-Identifier: Apache-2.0

//! All that there is, told at once: what begins it has a mark, and what ends it has that mark, how
//! many records there were in between, and a digest over them. What the receiver has, and was not
//! told since the beginning, is no more.

/// A sum over records, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many records there were.
    pub count: u64,
    /// The sum of their hashes (64-bit FNV-1a), modulo 2^64.
    pub sum: u64,
}

impl Digest {
    /// Adds a record, by what it says.
    pub fn add(&mut self, body: &[u8]) {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let hash =
            body.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}
