// SPDX-License-Identifier: Apache-2.0

//! Intervals in order: an index of blocks, each of which has some rows in order. A change of one
//! interval moves rows of its block, and entries of the index where the block is full or empty.

use penstock_program::image::LinkedValue;
use penstock_sets::{ElementRef, Set};

use super::super::clocks::Clocks;
use super::super::search::eight;
use super::Elements;
use super::layout::{BLOCK, Memory};

/// Rows of a block that is made anew: others have room.
const FILLED: usize = BLOCK * 3 / 4;

/// Blocks that have no rows.
#[derive(Debug, Default)]
pub(super) struct FreeBlocks(Vec<u32>);

/// An entry of the index.
#[derive(Clone, Copy)]
struct Entry {
    block: usize,
    rows: usize,
}

/// Intervals of one generation in a map.
pub(super) struct Blocks<'a> {
    pub(super) memory: Memory<'a>,
    pub(super) free: &'a mut FreeBlocks,
    pub(super) clocks: Clocks,
}

impl Blocks<'_> {
    /// Has the elements of a set, after those of another, if they are known.
    pub(super) fn stage(&mut self, set: &Set<LinkedValue>, before: Option<&Elements>) {
        let slot_words = self.memory.layout.form.slot_words();
        let catch_all = match set.catch_all(0) {
            Some(element) => self.memory.layout.form.slot(&element, self.clocks),
            None => vec![0; slot_words],
        };
        self.memory.store_all(1, &catch_all);
        let changed = before.is_some_and(|before| self.change(set, before));
        if !changed {
            self.fill(set);
        }
    }

    /// Changes what differs; whether there was room for it.
    fn change(&mut self, set: &Set<LinkedValue>, before: &Elements) -> bool {
        for (_, gone) in before.differing(set).filter(|(_, e)| !e.key.is_empty()) {
            if set.find(gone.key, gone.key_end, 0).is_none() {
                self.remove(gone.key);
            }
        }
        let mut new = set.differing(before).filter(|(_, element)| !element.key.is_empty());
        new.all(|(_, element)| self.put(&element))
    }

    /// All elements, in blocks that are not full.
    fn fill(&mut self, set: &Set<LinkedValue>) {
        let mut all: Vec<_> = set.iter_unordered().filter(|e| !e.key.is_empty()).collect();
        all.sort_by(|a, b| a.key.cmp(b.key));
        let mut block = 0;
        for rows in all.chunks(FILLED) {
            for (n, element) in rows.iter().enumerate() {
                let row = self.row(element);
                self.memory.store_all(self.row_at(block, n), &row);
            }
            let first = rows.first().map_or(&[][..], |element| element.key);
            self.set_key(block, &self.key(first));
            self.set_entry(block, Entry { block, rows: rows.len() });
            block += 1;
        }
        self.memory.store(0, block as u64);
        self.free.0 = (block as u32..self.memory.layout.blocks() as u32).rev().collect();
    }

    fn count(&self) -> usize {
        self.memory.load(0) as usize
    }

    fn key(&self, key: &[u8]) -> Vec<u64> {
        (0..self.memory.layout.form.key_words() as u8).map(|n| eight(key, n)).collect()
    }

    fn row(&self, element: &ElementRef<'_, LinkedValue>) -> Vec<u64> {
        let mut row = self.key(element.key);
        row.extend(self.key(element.key_end.unwrap_or(element.key)));
        row.extend(self.memory.layout.form.slot(element, self.clocks));
        row
    }

    fn entry_at(&self, n: usize) -> usize {
        self.memory.layout.head_words() + n * self.memory.layout.entry_words()
    }

    fn row_at(&self, block: usize, n: usize) -> usize {
        self.memory.layout.first_row() + (block * BLOCK + n) * self.memory.layout.row_words()
    }

    fn set_key(&self, n: usize, key: &[u64]) {
        self.memory.store_all(self.entry_at(n), key);
    }

    fn set_entry(&self, n: usize, entry: Entry) {
        let at = self.entry_at(n) + self.memory.layout.form.key_words();
        self.memory.store(at, entry.block as u64 | (entry.rows as u64) << 32);
    }

    fn entry(&self, n: usize) -> Entry {
        let word = self.memory.load(self.entry_at(n) + self.memory.layout.form.key_words());
        Entry { block: word as u32 as usize, rows: (word >> 32) as usize }
    }

    /// How many of `count` keys, the `n`th of which is `at(n)`, are not greater than this one.
    fn rank(&self, key: &[u64], count: usize, at: impl Fn(usize) -> usize) -> usize {
        let is_less = |n: usize| {
            let words = (0..key.len()).map(|word| self.memory.load(at(n) + word));
            words.cmp(key.iter().copied()).is_le()
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_less(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Moves words, maybe onto some of themselves.
    fn shift(&self, from: usize, to: usize, len: usize) {
        let words: Vec<u64> = (from..from + len).map(|word| self.memory.load(word)).collect();
        self.memory.store_all(to, &words);
    }

    /// Where in the index and in its block a key is, or the one before it.
    fn find(&self, key: &[u64]) -> (usize, Entry, usize) {
        let n = self.rank(key, self.count(), |n| self.entry_at(n)).saturating_sub(1);
        let entry = self.entry(n);
        (n, entry, self.rank(key, entry.rows, |row| self.row_at(entry.block, row)))
    }

    /// Whether the row at a place begins with a key.
    fn is_at(&self, key: &[u64], at: usize) -> bool {
        key.iter().enumerate().all(|(n, word)| self.memory.load(at + n) == *word)
    }

    fn remove(&mut self, key: &[u8]) {
        let key = self.key(key);
        if self.count() == 0 {
            return;
        }
        let (n, mut entry, rank) = self.find(&key);
        let Some(place) = rank.checked_sub(1) else { return };
        let at = self.row_at(entry.block, place);
        if !self.is_at(&key, at) {
            return;
        }
        let row = self.memory.layout.row_words();
        self.shift(at + row, at, (entry.rows - rank) * row);
        entry.rows -= 1;
        self.set_entry(n, entry);
        if entry.rows == 0 {
            let words = self.memory.layout.entry_words();
            let count = self.count();
            self.shift(self.entry_at(n + 1), self.entry_at(n), (count - n - 1) * words);
            self.memory.store(0, count as u64 - 1);
            self.free.0.push(entry.block as u32);
        }
    }

    /// Puts an element in place, or in the place of the one with the same first key; whether there
    /// was room.
    fn put(&mut self, element: &ElementRef<'_, LinkedValue>) -> bool {
        let (key, row) = (self.key(element.key), self.row(element));
        if self.count() == 0 {
            let Some(block) = self.free.0.pop() else { return false };
            self.memory.store(0, 1);
            self.set_key(0, &key);
            self.set_entry(0, Entry { block: block as usize, rows: 0 });
        }
        let (n, entry, rank) = self.find(&key);
        if let Some(place) = rank.checked_sub(1) {
            let at = self.row_at(entry.block, place);
            if self.is_at(&key, at) {
                self.memory.store_all(at, &row);
                return true;
            }
        }
        if entry.rows == BLOCK {
            return self.split(n, entry) && self.put(element);
        }
        let (at, words) = (self.row_at(entry.block, rank), row.len());
        self.shift(at, at + words, (entry.rows - rank) * words);
        self.memory.store_all(at, &row);
        self.set_entry(n, Entry { rows: entry.rows + 1, ..entry });
        if rank == 0 && n == 0 {
            self.set_key(0, &key);
        }
        true
    }

    /// Puts the upper half of a full block into another; whether there was one.
    fn split(&mut self, n: usize, entry: Entry) -> bool {
        let Some(block) = self.free.0.pop() else { return false };
        let (block, half, count) = (block as usize, BLOCK / 2, self.count());
        let row = self.memory.layout.row_words();
        self.shift(self.row_at(entry.block, half), self.row_at(block, 0), (BLOCK - half) * row);
        let words = self.memory.layout.entry_words();
        self.shift(self.entry_at(n + 1), self.entry_at(n + 2), (count - n - 1) * words);
        self.shift(
            self.row_at(block, 0),
            self.entry_at(n + 1),
            self.memory.layout.form.key_words(),
        );
        self.set_entry(n + 1, Entry { block, rows: BLOCK - half });
        self.set_entry(n, Entry { rows: half, ..entry });
        self.memory.store(0, count as u64 + 1);
        true
    }
}
