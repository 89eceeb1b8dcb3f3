// SPDX-License-Identifier: Apache-2.0

//! One bit per possible key, for keys of one or two bytes; the rank of a key's bit leads to its
//! slot. Membership is one load, what an element holds two more.

/// Index on keys of up to 16 bits.
#[derive(Clone, Debug)]
pub(crate) struct Bitmap {
    key_len: usize,
    words: Box<[u64]>,
    /// Number of keys in all words before this one.
    ranks: Box<[u32]>,
    /// In order of the keys.
    slots: Vec<u32>,
}

impl Bitmap {
    pub fn new(key_len: usize) -> Self {
        let words = (1usize << (8 * key_len.min(2))) / 64;
        Bitmap {
            key_len,
            words: vec![0; words].into_boxed_slice(),
            ranks: vec![0; words].into_boxed_slice(),
            slots: Vec::new(),
        }
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    #[inline]
    fn number(&self, key: &[u8]) -> Option<usize> {
        match *key {
            [a] if self.key_len == 1 => Some(usize::from(a)),
            [a, b] if self.key_len == 2 => Some(usize::from(u16::from_be_bytes([a, b]))),
            _ => None,
        }
    }

    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.number(key).is_some_and(|k| self.words[k / 64] >> (k % 64) & 1 != 0)
    }

    /// Number of keys before this one.
    fn rank(&self, k: usize) -> usize {
        let before = self.words[k / 64] & ((1u64 << (k % 64)) - 1);
        self.ranks[k / 64] as usize + before.count_ones() as usize
    }

    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        if !self.contains(key) {
            return None;
        }
        self.slots.get(self.rank(self.number(key)?)).copied()
    }

    pub fn insert(&mut self, key: &[u8], slot: u32) {
        let Some(k) = self.number(key) else { return };
        let rank = self.rank(k);
        self.slots.insert(rank, slot);
        self.words[k / 64] |= 1 << (k % 64);
        self.ranks[k / 64 + 1..].iter_mut().for_each(|r| *r += 1);
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<u32> {
        if !self.contains(key) {
            return None;
        }
        let k = self.number(key)?;
        let rank = self.rank(k);
        self.words[k / 64] &= !(1 << (k % 64));
        self.ranks[k / 64 + 1..].iter_mut().for_each(|r| *r -= 1);
        Some(self.slots.remove(rank))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.words.len() * 12 + self.slots.len() * 4
    }

    pub fn ascending(&self) -> Vec<u32> {
        self.slots.clone()
    }
}
