// SPDX-License-Identifier: Apache-2.0

//! A trie of prefixes (`kernel/bpf/lpm_trie.c`), as one table whose keys are masked.

use super::table::Table;
use super::{Errno, index, slot_for};

/// Prefixes of a trie: a table whose keys are masked, and how many there are of each length.
#[derive(Debug)]
pub(super) struct Prefixes {
    pub(super) table: Table,
    lengths: Vec<u32>,
    /// A bit for each length of which there are any.
    present: Vec<u64>,
    /// The keys as they were given, which listings show.
    given: Vec<u8>,
    /// Room for one key.
    masked: Vec<u8>,
}

/// Clears the bits of an address after the first `bits`.
fn mask(address: &mut [u8], bits: usize) {
    if let Ok(word) = <&mut [u8; 4]>::try_from(&mut *address) {
        let kept = u32::MAX.checked_shl(32 - bits.min(32) as u32).unwrap_or(0);
        *word = (u32::from_be_bytes(*word) & kept).to_be_bytes();
        return;
    }
    for (at, byte) in address.iter_mut().enumerate() {
        let kept = bits.saturating_sub(at * 8).min(8);
        *byte &= !(0xff_u16 >> kept) as u8;
    }
}

impl Prefixes {
    /// One for so many prefixes, with keys of `key` bytes.
    pub(super) fn new(key: usize, entries: u32) -> Prefixes {
        Prefixes {
            table: Table::new(key, entries, false),
            lengths: vec![0; (key - 4) * 8 + 1],
            present: vec![0; 33],
            given: vec![0; Table::slots(entries) * key],
            masked: vec![0; key],
        }
    }

    fn key_len(&self) -> usize {
        self.masked.len()
    }

    pub(super) fn given(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.key_len();
        self.given.get(at..at + self.key_len()).unwrap_or(&[])
    }

    /// Writes a key into `masked`, with this length.
    fn prepare(&mut self, key: &[u8], bits: usize) {
        self.masked.copy_from_slice(key);
        let (length, address) = self.masked.split_at_mut(4);
        length.copy_from_slice(&(bits as u32).to_le_bytes());
        mask(address, bits);
    }

    /// The length that a key says, if it is not too large.
    fn bits(&self, key: &[u8]) -> Option<usize> {
        let bits = index(key.get(..4)?)? as usize;
        (bits < self.lengths.len()).then_some(bits)
    }

    /// The slot of the longest prefix of an address, as long as the key says at most.
    pub(super) fn longest(&mut self, key: &[u8]) -> Option<u32> {
        let most = self.bits(key)?;
        if let Some(address) = key.get(4..).and_then(|address| address.try_into().ok()) {
            return self.longest4(u32::from_be_bytes(address), most);
        }
        let mut next = Some(most);
        while let Some(bits) = next.and_then(|from| self.present_from(from)) {
            next = bits.checked_sub(1);
            self.prepare(key, bits);
            if let Some(slot) = self.table.find(&self.masked) {
                return Some(slot);
            }
        }
        None
    }

    /// The longest prefix of an address of four bytes.
    fn longest4(&self, address: u32, most: usize) -> Option<u32> {
        // Bit `n` says whether there are prefixes of `n` bits: 33 lengths are in one word.
        let mut lengths = self.present.first()? & (u64::MAX >> (63 - most.min(63)));
        while lengths != 0 {
            let bits = lengths.ilog2();
            lengths ^= 1 << bits;
            let kept = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            let mut key = [0; 8];
            key[..4].copy_from_slice(&bits.to_le_bytes());
            key[4..].copy_from_slice(&(address & kept).to_be_bytes());
            if let Some(slot) = self.table.find(&key) {
                return Some(slot);
            }
        }
        None
    }

    /// The longest length up to this one of which there are prefixes.
    fn present_from(&self, bits: usize) -> Option<usize> {
        let mut word = bits / 64;
        let mut found = self.present.get(word)? << (63 - bits % 64) >> (63 - bits % 64);
        while found == 0 {
            word = word.checked_sub(1)?;
            found = *self.present.get(word)?;
        }
        Some(word * 64 + found.ilog2() as usize)
    }

    /// The number of prefixes of a length changed.
    fn note(&mut self, bits: usize) {
        let (there, bit) = (self.lengths[bits] != 0, 1 << (bits % 64));
        if let Some(word) = self.present.get_mut(bits / 64) {
            *word = if there { *word | bit } else { *word & !bit };
        }
    }

    pub(super) fn slot_for(&mut self, key: &[u8], flags: u64) -> Result<u32, Errno> {
        let bits = self.bits(key).ok_or(Errno::INVAL)?;
        self.prepare(key, bits);
        let before = self.table.len();
        let slot = slot_for(&mut self.table, &self.masked, flags, false, Errno::NOSPC)?;
        self.lengths[bits] += self.table.len() - before;
        self.note(bits);
        let at = slot as usize * key.len();
        self.given[at..at + key.len()].copy_from_slice(key);
        Ok(slot)
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<bool, Errno> {
        let bits = self.bits(key).ok_or(Errno::INVAL)?;
        self.prepare(key, bits);
        let removed = self.table.remove(&self.masked);
        self.lengths[bits] -= u32::from(removed);
        self.note(bits);
        Ok(removed)
    }
}
