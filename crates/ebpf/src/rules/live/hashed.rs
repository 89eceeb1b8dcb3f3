// SPDX-License-Identifier: Apache-2.0

//! Single keys: a hash from each to the number of its slot, which both generations share.

use std::collections::HashMap;
use std::io;

use penstock_bpf::Map;
use penstock_program::image::LinkedValue;
use penstock_sets::Set;

use super::super::clocks::Clocks;
use super::layout::Memory;
use super::{CATCH_ALL, Elements};

/// Whether a set of single keys has one, expired or not.
pub(super) fn has(set: &Set<LinkedValue>, key: &[u8]) -> bool {
    set.find(key, None, 0).is_some()
}

/// Which keys have which slots.
#[derive(Debug)]
pub(super) struct Slots {
    numbers: HashMap<Box<[u8]>, u32>,
    free: Vec<u32>,
    next: u32,
}

impl Default for Slots {
    fn default() -> Self {
        // The first slot is that for all other keys.
        Slots { numbers: HashMap::new(), free: Vec::new(), next: CATCH_ALL + 1 }
    }
}

impl Slots {
    /// The elements of a set are there at the memory's parity, after those that were, if they are
    /// known, and beside those of the other parity.
    pub(super) fn stage(
        &mut self,
        (keys, memory): (&Map, &Memory<'_>),
        set: &Set<LinkedValue>,
        (before, there): (Option<&Elements>, Option<&Elements>),
        clocks: Clocks,
    ) -> io::Result<()> {
        let nothing = vec![0; memory.layout.form.slot_words()];
        // All that is at this parity, also where the last attempt was not finished.
        let gone: Vec<Box<[u8]>> = match before {
            Some(before) => before.differing(set).map(|(_, e)| e.key.into()).collect(),
            None => self.numbers.keys().cloned().collect(),
        };
        let mut removed = Vec::new();
        for key in gone.into_iter().filter(|key| !has(set, key)) {
            let Some(slot) = self.numbers.get(&key).copied() else { continue };
            memory.put(memory.parity, slot, &nothing);
            if !there.is_some_and(|there| has(there, &key)) {
                removed.extend_from_slice(&key);
                self.numbers.remove(&key);
                // A packet that has found the slot by now finds nothing there, whose it ever is.
                self.free.push(slot);
            }
        }
        keys.remove_many(&removed)?;
        if set.catch_all(0).is_none() {
            memory.put(memory.parity, CATCH_ALL, &nothing);
        }
        let all: Vec<_> = match before {
            Some(before) => set.differing(before).map(|(_, element)| element).collect(),
            None => set.iter_unordered().collect(),
        };
        let (mut new_keys, mut new_slots) = (Vec::new(), Vec::new());
        for element in all {
            let words = memory.layout.form.slot(&element, clocks);
            if element.key.is_empty() {
                memory.put(memory.parity, CATCH_ALL, &words);
                continue;
            }
            if let Some(slot) = self.numbers.get(element.key) {
                memory.put(memory.parity, *slot, &words);
                continue;
            }
            let slot = self.free.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            memory.put(1 - memory.parity, slot, &nothing);
            memory.put(memory.parity, slot, &words);
            self.numbers.insert(element.key.into(), slot);
            new_keys.extend_from_slice(element.key);
            new_slots.extend_from_slice(&slot.to_ne_bytes());
        }
        keys.set_many(&new_keys, &new_slots)
    }
}
