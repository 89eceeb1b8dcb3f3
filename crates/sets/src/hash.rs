// SPDX-License-Identifier: Apache-2.0

//! Open addressing on whole keys: one variant for keys of four bytes, one for any other length.
//!
//! Cells are 64 bits: the key itself (or 32 bits of its hash) above the slot, probed linearly; at
//! most half of them are taken. Hashes are seeded per process, as the kernel's are per set: keys
//! can come from packets.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

pub(crate) use crate::cells::SPREAD;
use crate::cells::{NOWHERE, WordCells};

const EMPTY: u64 = NOWHERE;
const FIRST_CELLS: usize = 8;

pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0u64))
}

/// 64 x 64 to 128 bits, both halves folded to one.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ (wide >> 64) as u64
}

#[inline]
fn cell(upper: u32, slot: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(slot)
}

/// Index on keys of exactly four bytes.
#[derive(Clone, Debug)]
pub(crate) struct HashWords {
    cells: Vec<u64>,
    len: usize,
    seed: u64,
}

impl HashWords {
    pub fn new() -> Self {
        HashWords { cells: vec![EMPTY; FIRST_CELLS], len: 0, seed: seed() }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.cells.len() * 8
    }

    /// All of it, for generated code.
    pub fn word_cells(&self) -> WordCells<'_> {
        WordCells { cells: &self.cells, seed: self.seed }
    }

    #[inline]
    fn home(&self, key: u32) -> usize {
        fold(u64::from(key) ^ self.seed, SPREAD) as usize & (self.cells.len() - 1)
    }

    /// Has the cell loaded that [`HashWords::find`] begins with.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        if let Ok(key) = key.try_into() {
            penstock_classify::prefetch(&self.cells, self.home(u32::from_ne_bytes(key)));
        }
    }

    /// Where the key is, or the empty cell where it would be.
    #[inline]
    fn probe(&self, key: u32) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = self.home(key);
        loop {
            let c = self.cells[at];
            if c == EMPTY || (c >> 32) as u32 == key {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let key = u32::from_ne_bytes(key.try_into().ok()?);
        match self.cells[self.probe(key)] {
            EMPTY => None,
            c => Some(c as u32),
        }
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, more: usize) {
        let needed = (self.len + more) * 2;
        if needed <= self.cells.len() {
            return;
        }
        let old = std::mem::take(&mut self.cells);
        self.cells = vec![EMPTY; needed.next_power_of_two()];
        for c in old.into_iter().filter(|&c| c != EMPTY) {
            let at = self.probe((c >> 32) as u32);
            self.cells[at] = c;
        }
    }

    /// The key must not be there.
    pub fn insert(&mut self, key: &[u8], slot: u32) {
        let Ok(key) = key.try_into().map(u32::from_ne_bytes) else { return };
        self.reserve(1);
        let at = self.probe(key);
        self.cells[at] = cell(key, slot);
        self.len += 1;
    }

    /// Inserts a key that may be there: `false` then. Room was made.
    pub fn insert_new(&mut self, key: &[u8], slot: u32) -> bool {
        let Ok(key) = key.try_into().map(u32::from_ne_bytes) else { return false };
        let at = self.probe(key);
        let new = self.cells[at] == EMPTY;
        if new {
            self.cells[at] = cell(key, slot);
            self.len += 1;
        }
        new
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key)?;
        let mut hole = self.probe(u32::from_ne_bytes(key.try_into().ok()?));
        let mask = self.cells.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let c = self.cells[at];
            if c == EMPTY {
                break;
            }
            let home = self.home((c >> 32) as u32);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.cells[hole] = c;
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
        self.len -= 1;
        Some(slot)
    }
}

/// Index on keys of any one length.
#[derive(Clone, Debug)]
pub(crate) struct HashBytes {
    key_len: usize,
    cells: Vec<u64>,
    /// Keys by slot.
    keys: Vec<u8>,
    len: usize,
    seed: u64,
}

impl HashBytes {
    pub fn new(key_len: usize) -> Self {
        HashBytes {
            key_len,
            cells: vec![EMPTY; FIRST_CELLS],
            keys: Vec::new(),
            len: 0,
            seed: seed(),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.cells.len() * 8 + self.keys.len()
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u32 {
        let mut h = self.seed ^ key.len() as u64;
        let mut words = key.chunks_exact(8);
        for w in &mut words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(w);
            h = fold(h ^ u64::from_ne_bytes(bytes), SPREAD);
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            h = fold(h ^ u64::from_ne_bytes(bytes), SPREAD);
        }
        (h ^ h >> 32) as u32
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// [`HashBytes::find`] of a key of up to 8 bytes as a number: its bytes from the lowest on,
    /// zeros above.
    #[inline]
    pub fn find_short(&self, key: u64) -> Option<u32> {
        let hash = fold(self.seed ^ self.key_len as u64 ^ key, SPREAD);
        let hash = (hash ^ hash >> 32) as u32;
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        let bytes = key.to_ne_bytes();
        let bytes = bytes.get(..self.key_len)?;
        loop {
            let c = self.cells[at];
            if c == EMPTY {
                return None;
            }
            if (c >> 32) as u32 == hash && self.key_at(c as u32) == bytes {
                return Some(c as u32);
            }
            at = (at + 1) & mask;
        }
    }

    /// Has the cell loaded that [`HashBytes::find`] begins with.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        penstock_classify::prefetch(&self.cells, self.hash(key) as usize & (self.cells.len() - 1));
    }

    #[inline]
    pub fn key_at(&self, slot: u32) -> &[u8] {
        let from = slot as usize * self.key_len;
        self.keys.get(from..from + self.key_len).unwrap_or_default()
    }

    #[inline]
    fn probe(&self, hash: u32, key: &[u8]) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let c = self.cells[at];
            if c == EMPTY || (c >> 32) as u32 == hash && self.key_at(c as u32) == key {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        if key.len() != self.key_len {
            return None;
        }
        match self.cells[self.probe(self.hash(key), key)] {
            EMPTY => None,
            c => Some(c as u32),
        }
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, more: usize) {
        let needed = (self.len + more) * 2;
        if needed <= self.cells.len() {
            return;
        }
        let old = std::mem::take(&mut self.cells);
        self.cells = vec![EMPTY; needed.next_power_of_two()];
        self.keys.reserve(more * self.key_len);
        let mask = self.cells.len() - 1;
        for c in old.into_iter().filter(|&c| c != EMPTY) {
            let mut at = (c >> 32) as usize & mask;
            while self.cells[at] != EMPTY {
                at = (at + 1) & mask;
            }
            self.cells[at] = c;
        }
    }

    /// The key must not be there.
    pub fn insert(&mut self, key: &[u8], slot: u32) {
        if key.len() != self.key_len {
            return;
        }
        self.reserve(1);
        let from = slot as usize * self.key_len;
        if self.keys.len() < from + self.key_len {
            self.keys.resize(from + self.key_len, 0);
        }
        self.keys[from..from + self.key_len].copy_from_slice(key);
        let hash = self.hash(key);
        let at = self.probe(hash, key);
        self.cells[at] = cell(hash, slot);
        self.len += 1;
    }

    /// Inserts a key that may be there: `false` then. Room was made, and slots come in order.
    pub fn insert_new(&mut self, key: &[u8], slot: u32) -> bool {
        if key.len() != self.key_len || self.keys.len() != slot as usize * self.key_len {
            return false;
        }
        let hash = self.hash(key);
        let at = self.probe(hash, key);
        let new = self.cells[at] == EMPTY;
        if new {
            self.keys.extend_from_slice(key);
            self.cells[at] = cell(hash, slot);
            self.len += 1;
        }
        new
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key)?;
        let mut hole = self.probe(self.hash(key), key);
        let mask = self.cells.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let c = self.cells[at];
            if c == EMPTY {
                break;
            }
            let home = (c >> 32) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.cells[hole] = c;
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
        self.len -= 1;
        Some(slot)
    }
}
