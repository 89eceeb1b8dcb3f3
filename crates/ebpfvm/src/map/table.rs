// SPDX-License-Identifier: Apache-2.0

//! Keys of a fixed length, each with the number of a slot. All memory is there from the beginning.

use super::hash::Hasher;

/// A hash table with chains. Slots are numbered from 0; the links between them have 0 for none and
/// a slot's number plus one otherwise, so that memory which was never used costs nothing.
#[derive(Debug)]
pub(super) struct Table {
    key: usize,
    entries: u32,
    /// One key per slot.
    keys: Vec<u8>,
    /// The first slot of each chain.
    buckets: Vec<u32>,
    /// The slot that follows in the chain, or in the list of free ones.
    next: Vec<u32>,
    /// Whether the slot has a key.
    used: Vec<bool>,
    free: u32,
    /// Slots from this one on were never used.
    untouched: u32,
    count: u32,
    /// A slot apart, which takes the new value of a key that has one already.
    spare: u32,
    order: Option<Order>,
    hasher: Hasher,
}

/// Which slot was used last: a list in both directions.
#[derive(Debug)]
struct Order {
    before: Vec<u32>,
    after: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Table {
    /// Bytes that a table needs per entry, apart from keys.
    pub(super) const OVERHEAD: u64 = 24;

    /// For so many keys, of so many bytes. `replaces`: a full table drops what was used least
    /// recently.
    pub(super) fn new(key: usize, entries: u32, replaces: bool) -> Table {
        let slots = entries as usize + 1;
        let order = replaces.then(|| Order {
            before: vec![0; slots],
            after: vec![0; slots],
            newest: 0,
            oldest: 0,
        });
        Table {
            key,
            entries,
            keys: vec![0; slots * key],
            buckets: vec![0; (entries as usize).next_power_of_two()],
            next: vec![0; slots],
            used: vec![false; slots],
            free: 0,
            untouched: 1,
            count: 0,
            spare: 0,
            order,
            hasher: Hasher::new(),
        }
    }

    /// How many slots there are.
    pub(super) fn slots(entries: u32) -> usize {
        entries as usize + 1
    }

    #[inline]
    fn bucket(&self, key: &[u8]) -> usize {
        self.hasher.of(key) as usize & (self.buckets.len() - 1)
    }

    pub(super) fn key(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.key;
        &self.keys[at..at + self.key]
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        // Keys of a length that the compiler knows are compared without a call.
        match key.len() {
            4 => self.find_of::<4>(key),
            8 => self.find_of::<8>(key),
            16 => self.find_of::<16>(key),
            _ => self.find_in_chain(self.bucket(key), |slot| self.key(slot) == key),
        }
    }

    #[inline]
    fn find_of<const N: usize>(&self, key: &[u8]) -> Option<u32> {
        let key: &[u8; N] = key.try_into().ok()?;
        let (keys, _) = self.keys.as_chunks::<N>();
        self.find_in_chain(self.bucket(key), |slot| keys.get(slot as usize) == Some(key))
    }

    #[inline]
    fn find_in_chain(&self, bucket: usize, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut link = self.buckets[bucket];
        while let Some(slot) = link.checked_sub(1) {
            if is(slot) {
                return Some(slot);
            }
            link = self.next[slot as usize];
        }
        None
    }

    /// Says that a slot is used, where that matters.
    pub(super) fn touch(&mut self, slot: u32) {
        let Some(order) = &mut self.order else { return };
        order.remove(slot);
        order.add(slot);
    }

    /// Gives a slot to a key that has none. `None`: the table is full.
    pub(super) fn insert(&mut self, key: &[u8]) -> Option<u32> {
        if self.count == self.entries {
            let oldest = self.order.as_ref()?.oldest.checked_sub(1)?;
            self.remove_slot(oldest);
        }
        let slot = match self.free.checked_sub(1) {
            Some(slot) => {
                self.free = self.next[slot as usize];
                slot
            }
            None => {
                self.untouched += 1;
                self.untouched - 1
            }
        };
        self.enter(slot, key);
        Some(slot)
    }

    /// Gives another slot to a key that has this one, so that what points to the old value still
    /// finds it.
    pub(super) fn replace(&mut self, old: u32) -> u32 {
        let slot = self.spare;
        let from = old as usize * self.key;
        let key = self.key;
        self.keys.copy_within(from..from + key, slot as usize * key);
        self.unlink(old);
        self.spare = old;
        let at = slot as usize * key;
        let bucket = self.bucket(&self.keys[at..at + key]);
        self.link(slot, bucket);
        slot
    }

    fn enter(&mut self, slot: u32, key: &[u8]) {
        let at = slot as usize * self.key;
        self.keys[at..at + self.key].copy_from_slice(key);
        let bucket = self.bucket(key);
        self.link(slot, bucket);
    }

    fn link(&mut self, slot: u32, bucket: usize) {
        self.next[slot as usize] = std::mem::replace(&mut self.buckets[bucket], slot + 1);
        self.used[slot as usize] = true;
        self.count += 1;
        if let Some(order) = &mut self.order {
            order.add(slot);
        }
    }

    /// Takes a slot out of its chain.
    fn unlink(&mut self, slot: u32) {
        let bucket = self.bucket(self.key(slot));
        let next = self.next[slot as usize];
        let mut link = self.buckets[bucket];
        if link == slot + 1 {
            self.buckets[bucket] = next;
        } else {
            while let Some(before) = link.checked_sub(1) {
                link = self.next[before as usize];
                if link == slot + 1 {
                    self.next[before as usize] = next;
                    break;
                }
            }
        }
        self.used[slot as usize] = false;
        self.count -= 1;
        if let Some(order) = &mut self.order {
            order.remove(slot);
        }
    }

    fn remove_slot(&mut self, slot: u32) {
        self.unlink(slot);
        self.next[slot as usize] = self.free;
        self.free = slot + 1;
    }

    /// Whether there was such a key.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let found = self.find(key);
        if let Some(slot) = found {
            self.remove_slot(slot);
        }
        found.is_some()
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// The first slot with a key, from this one on.
    pub(super) fn used_from(&self, slot: u32) -> Option<u32> {
        let used = self.used.get(slot as usize..)?;
        used.iter().position(|used| *used).map(|more| slot + more as u32)
    }
}

impl Order {
    fn add(&mut self, slot: u32) {
        self.before[slot as usize] = 0;
        self.after[slot as usize] = self.newest;
        match self.newest.checked_sub(1) {
            Some(newest) => self.before[newest as usize] = slot + 1,
            None => self.oldest = slot + 1,
        }
        self.newest = slot + 1;
    }

    fn remove(&mut self, slot: u32) {
        let (before, after) = (self.before[slot as usize], self.after[slot as usize]);
        match before.checked_sub(1) {
            Some(before) => self.after[before as usize] = after,
            None => self.newest = after,
        }
        match after.checked_sub(1) {
            Some(after) => self.before[after as usize] = before,
            None => self.oldest = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(table: &Table) -> Vec<u8> {
        let mut at = 0;
        let mut keys = Vec::new();
        while let Some(slot) = table.used_from(at) {
            keys.push(table.key(slot)[0]);
            at = slot + 1;
        }
        keys.sort();
        keys
    }

    #[test]
    fn full_table_refuses_until_a_key_is_removed() {
        let mut table = Table::new(1, 2, false);
        assert!(table.insert(&[1]).is_some() && table.insert(&[2]).is_some());
        assert_eq!(table.insert(&[3]), None);
        assert!(table.remove(&[1]) && !table.remove(&[1]));
        assert!(table.insert(&[3]).is_some());
        assert_eq!(keys(&table), [2, 3]);
    }

    #[test]
    fn table_that_replaces_drops_what_was_used_least_recently() {
        let mut table = Table::new(1, 3, true);
        let first = table.insert(&[1]).unwrap();
        table.insert(&[2]);
        table.insert(&[3]);
        table.touch(first);
        table.insert(&[4]);
        assert_eq!(keys(&table), [1, 3, 4]);
        table.insert(&[5]);
        assert_eq!(keys(&table), [1, 4, 5]);
    }

    #[test]
    fn random_operations_agree_with_a_map_of_the_standard_library() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut table = Table::new(1, 100, false);
        let mut model = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let key = rng.u8(..);
            match rng.u8(..4) {
                0 => assert_eq!(table.remove(&[key]), model.remove(&key).is_some()),
                1 => assert_eq!(table.find(&[key]), model.get(&key).copied()),
                _ => match table.find(&[key]) {
                    Some(slot) => {
                        model.insert(key, table.replace(slot));
                    }
                    None => match table.insert(&[key]) {
                        Some(slot) => assert_eq!(model.insert(key, slot), None),
                        None => assert_eq!(model.len(), 100),
                    },
                },
            }
            assert_eq!(table.len() as usize, model.len());
        }
        assert_eq!(keys(&table), model.keys().copied().collect::<Vec<_>>());
    }
}
