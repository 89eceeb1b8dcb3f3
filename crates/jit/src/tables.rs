// SPDX-License-Identifier: Apache-2.0

//! Data that compiled code reads in addition to the image: made with the code, and kept as long.

/// Tables at addresses that do not change.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    bits: Vec<Box<[u64]>>,
}

impl Tables {
    /// Keeps bits; returns the address of the first word.
    pub(crate) fn keep_bits(&mut self, bits: Box<[u64]>) -> u64 {
        let address = bits.as_ptr().addr() as u64;
        self.bits.push(bits);
        address
    }
}
