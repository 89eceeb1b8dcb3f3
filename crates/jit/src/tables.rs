// SPDX-License-Identifier: Apache-2.0

//! Data that compiled code reads in addition to the image: made with the code, and kept as long.

/// Tables at addresses that do not change.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    words: Vec<Box<[u64]>>,
}

impl Tables {
    /// Keeps words; returns the address of the first one.
    pub(crate) fn keep(&mut self, words: Box<[u64]>) -> u64 {
        let address = words.as_ptr().addr() as u64;
        self.words.push(words);
        address
    }
}
