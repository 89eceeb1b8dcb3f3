// SPDX-License-Identifier: Apache-2.0

//! Where the words of a set's map are, of each of the two generations for which it has room.

use std::sync::atomic::Ordering::Relaxed;

use penstock_bpf::SharedWords;

use super::super::pieces::MOST_MASKS;
use super::form::{Form, Structure};

/// Parities of generations.
pub(super) const PARITIES: usize = 2;

/// Rows of a block of intervals.
pub(in super::super) const BLOCK: usize = 128;

/// A form with room for so many elements.
#[derive(Debug)]
pub(in super::super) struct Layout {
    pub(in super::super) form: Form,
    /// Slots, or intervals.
    pub(in super::super) room: usize,
}

impl Layout {
    /// Blocks of intervals: each of them may be half full.
    pub(in super::super) fn blocks(&self) -> usize {
        self.room.div_ceil(BLOCK / 2) + 1
    }

    /// Words of an entry of the index of blocks: a key before which none of the block begins, and
    /// the number of the block with that of its rows in the upper half.
    pub(in super::super) fn entry_words(&self) -> usize {
        self.form.key_words() + 1
    }

    /// Words of a row of a block: first key, last key, slot.
    pub(in super::super) fn row_words(&self) -> usize {
        self.form.key_words() * 2 + self.form.slot_words()
    }

    /// The first word after the number of blocks or masks and the slot for all other keys: the index
    /// of blocks, or masks.
    pub(in super::super) fn head_words(&self) -> usize {
        1 + self.form.slot_words()
    }

    /// The first word of rows in blocks, or of slots.
    pub(in super::super) fn first_row(&self) -> usize {
        match self.form.structure {
            Structure::Bits | Structure::HashedBits | Structure::Hash => 0,
            Structure::Blocks => self.head_words() + self.blocks() * self.entry_words(),
            Structure::Masked => self.head_words() + MOST_MASKS * self.form.key_words(),
        }
    }

    /// Words for one parity.
    pub(in super::super) fn words(&self) -> usize {
        match self.form.structure {
            Structure::Bits => (1_usize << (u32::from(self.form.key_len) * 8)).div_ceil(64),
            Structure::HashedBits => self.room.div_ceil(64),
            Structure::Hash | Structure::Masked => {
                self.first_row() + self.room * self.form.slot_words()
            }
            Structure::Blocks => self.first_row() + self.blocks() * BLOCK * self.row_words(),
        }
    }
}

/// The map of a set.
pub(super) struct Memory<'a> {
    pub(super) layout: &'a Layout,
    pub(super) words: &'a SharedWords,
    /// At which no packet looks.
    pub(super) parity: usize,
}

impl Memory<'_> {
    pub(super) fn store_at(&self, parity: usize, word: usize, value: u64) {
        let at = parity * self.layout.words() + word;
        if let Some(word) = self.words.get(at as u32) {
            word.store(value, Relaxed);
        }
    }

    pub(super) fn store(&self, word: usize, value: u64) {
        self.store_at(self.parity, word, value);
    }

    pub(super) fn store_all(&self, word: usize, values: &[u64]) {
        values.iter().enumerate().for_each(|(n, value)| self.store(word + n, *value));
    }

    pub(super) fn load(&self, word: usize) -> u64 {
        let at = self.parity * self.layout.words() + word;
        self.words.get(at as u32).map_or(0, |word| word.load(Relaxed))
    }

    /// What is at a slot.
    pub(super) fn put(&self, parity: usize, slot: u32, words: &[u64]) {
        let slot = slot as usize;
        if self.layout.form.structure == Structure::HashedBits {
            let at = parity * self.layout.words() + slot / 64;
            if let Some(word) = self.words.get(at as u32) {
                let bit = 1 << (slot % 64);
                match words {
                    [0, ..] => word.fetch_and(!bit, Relaxed),
                    _ => word.fetch_or(bit, Relaxed),
                };
            }
            return;
        }
        let first = self.layout.first_row() + slot * self.layout.form.slot_words();
        words.iter().enumerate().for_each(|(n, word)| self.store_at(parity, first + n, *word));
    }
}
